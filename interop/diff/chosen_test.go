package diff

import (
	"regexp"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/interop/kafka"
)

// chosen is a step that no seed makes, because what follows would differ or because it is too rare, and what each broker
// has to answer; "" is the same as Apache Kafka.
type chosen struct {
	step          Step
	kafka, moldau string
}

// chosenSteps are few and in order: they share one topic.
func chosenSteps() []chosen {
	g := &gen{seqs: map[string]int32{}}
	topic, producer := g.goodTopic(), g.goodProducer()
	produce := func(b batch) Step {
		b.first, b.max, b.count, b.magic = stamp(0), stamp(0), 1, 2
		b.records = record(nil, 0, 0, nil, []byte("v"))
		req := kmsg.NewPtrProduceRequest()
		req.SetVersion(9)
		req.Acks, req.TimeoutMillis = -1, 5000
		t, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
		t.Topic = "t0"
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return built("", req, func(w *World) { req.Topics[0].Partitions[0].Records = b.build(w) })
	}
	fetch := func(isolation int8, offset int64, lastEpoch int32) Step {
		req := kmsg.NewPtrFetchRequest()
		req.SetVersion(12)
		req.MaxBytes, req.IsolationLevel, req.SessionEpoch = 1<<20, isolation, -1
		t, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
		t.Topic = "t0"
		p.FetchOffset, p.LastFetchedEpoch, p.PartitionMaxBytes = offset, lastEpoch, 1<<20
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return fixed("", req, false)
	}
	return []chosen{
		{topic, `ErrorCode":"NONE"`, ""},
		{producer, `ErrorCode":"NONE"`, ""},
		{produce(batch{producer: -1, sequence: -1}), `"BaseOffset":0,.*ErrorCode":"NONE"`, ""},
		// A producer without an epoch could never be fenced.
		{produce(batch{producer: 0, epochBy: -1}), `"BaseOffset":1,.*ErrorCode":"NONE"`,
			`"BaseOffset":-1,.*ErrorCode":"INVALID_PRODUCER_EPOCH"`},
		// Who reads on is told that there are no aborted transactions, who is only told where to cut is told nothing of them.
		{fetch(1, 0, 0), `AbortedTransactions":\[\],.*DivergingEpoch":{"EndOffset":-1,"Epoch":-1},"ErrorCode":"NONE"`, ""},
		{fetch(1, 50, 0), `AbortedTransactions":null,.*DivergingEpoch":{"EndOffset":2,"Epoch":0},"ErrorCode":"NONE"`,
			`AbortedTransactions":null,.*DivergingEpoch":{"EndOffset":1,"Epoch":0},"ErrorCode":"NONE"`},
		{fetch(0, 50, 0), `AbortedTransactions":null,.*DivergingEpoch":{"EndOffset":2,"Epoch":0},"ErrorCode":"NONE"`,
			`AbortedTransactions":null,.*DivergingEpoch":{"EndOffset":1,"Epoch":0},"ErrorCode":"NONE"`},
	}
}

// TestChosen asks Moldau.
func TestChosen(t *testing.T) { checkChosen(t, false) }

// TestChosenLive asks Apache Kafka whether it still answers as the table says.
func TestChosenLive(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	kafka.Libs(t)
	checkChosen(t, true)
}

func checkChosen(t *testing.T, oracle bool) {
	t.Helper()
	table := chosenSteps()
	var steps []Step
	for _, c := range table {
		steps = append(steps, c.step)
	}
	for i, a := range ask(t, oracle, func(addr string, settle time.Duration) ([]Answer, error) { return Run(addr, steps, settle) }) {
		want := table[i].kafka
		if !oracle && table[i].moldau != "" {
			want = table[i].moldau
		}
		if got := compact(a.Text); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("step %s: %s, want %s", a.Step, got, want)
		}
	}
}
