package diff

import (
	"bufio"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"moldau/interop/broker"
	"moldau/interop/kafka"
)

var update = flag.Bool("update", false, "record Apache Kafka's answers into testdata")

const (
	recordedSeed  = 1
	recordedSteps = 500
	// reported differences per run: later ones are often consequences.
	reported    = 100
	kafkaSettle = 250 * time.Millisecond
)

// history is one kind of histories.
type history struct {
	run  func(addr string, seed uint64, n int, settle time.Duration) ([]Answer, error)
	file string // Apache Kafka's recorded answers
}

var (
	requests = history{func(addr string, seed uint64, n int, settle time.Duration) ([]Answer, error) {
		return Run(addr, Generate(seed, n), settle)
	}, filepath.Join("testdata", "kafka-"+kafka.DefaultVersion+".jsonl")}
	groups = history{RunGroups, filepath.Join("testdata", "kafka-"+kafka.DefaultVersion+"-groups.jsonl")}
)

// TestRecorded compares Moldau with the answers that Apache Kafka gave when they were recorded.
func TestRecorded(t *testing.T) { requests.recorded(t) }

// TestRecordedGroups does the same for histories of groups.
func TestRecordedGroups(t *testing.T) { groups.recorded(t) }

// TestLive compares with a real Apache Kafka, on a new seed each run unless DIFF_SEED is set.
func TestLive(t *testing.T) { requests.live(t) }

// TestLiveGroups does the same for histories of groups.
func TestLiveGroups(t *testing.T) { groups.live(t) }

func (h history) recorded(t *testing.T) {
	run := func(addr string, settle time.Duration) ([]Answer, error) {
		return h.run(addr, recordedSeed, recordedSteps, settle)
	}
	if *update {
		write(t, h.file, ask(t, true, run))
	}
	compare(t, recordedSeed, read(t, h.file), ask(t, false, run))
}

func (h history) live(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	kafka.Libs(t)
	seed, steps := uint64(time.Now().UnixNano()%100000), 600
	if s := os.Getenv("DIFF_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	if s := os.Getenv("DIFF_STEPS"); s != "" {
		steps, _ = strconv.Atoi(s)
	}
	t.Logf("DIFF_SEED=%d DIFF_STEPS=%d", seed, steps)
	run := func(addr string, settle time.Duration) ([]Answer, error) { return h.run(addr, seed, steps, settle) }
	compare(t, seed, ask(t, true, run), ask(t, false, run))
}

func ask(t *testing.T, oracle bool, run func(addr string, settle time.Duration) ([]Answer, error)) []Answer {
	t.Helper()
	config := map[string]string{
		"auto.create.topics.enable": "false",
		"log.retention.ms":          "-1", // the records are of 2023
		// Nothing but the requests decides when a group moves on.
		"group.initial.rebalance.delay.ms": "0", "group.consumer.assignment.interval.ms": "0", "offsets.topic.num.partitions": "1",
		"group.consumer.session.timeout.ms": "1800000", "group.consumer.max.session.timeout.ms": "1800000",
	}
	var settle time.Duration
	var addr string
	if oracle {
		n := kafka.Start(t, config)
		defer n.Stop(t)
		addr, settle = n.Addr, kafkaSettle
	} else {
		config["moldau.group.consumer.unsettled.heartbeat.interval.ms"] = "0" // Apache Kafka always answers the regular one
		n := broker.Moldau(t, t.TempDir(), config)
		n.Start(t)
		defer n.Stop(t)
		addr = n.Addr
	}
	out, err := run(addr, settle)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// compare reports where the answers differ.
func compare(t *testing.T, seed uint64, want, got []Answer) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%d answers, want %d: record again with -update", len(got), len(want))
	}
	bad := 0
	for i, w := range want {
		if w.Step != got[i].Step {
			t.Fatalf("step %q, recorded %q: record again with -update", got[i].Step, w.Step)
		}
		theirs := prune(plain(w.Text), plain(got[i].Text))
		where := unlike("", theirs, plain(got[i].Text), 5)
		if len(where) == 0 || deliberate(w.Step, compact(theirs), compact(plain(got[i].Text))) {
			continue
		}
		if bad++; bad <= reported {
			t.Errorf("seed %d, step %s\n  %s", seed, w.Step, strings.Join(where, "\n  "))
		}
	}
	if bad > 0 {
		t.Errorf("%d of %d answers differ", bad, len(want))
	}
}

// plain gives an answer the types that JSON has, as the recorded ones have them.
func plain(v any) (out any) {
	_ = json.Unmarshal([]byte(compact(v)), &out)
	return out
}

// prune leaves out of Apache Kafka's ApiVersions what Moldau does not offer: what is not built is not advertised.
func prune(kafka, moldau any) any {
	k, ok1 := kafka.(map[string]any)
	m, ok2 := moldau.(map[string]any)
	if !ok1 || !ok2 || k["ApiKeys"] == nil {
		return kafka
	}
	for _, list := range []struct{ field, id string }{{"ApiKeys", "ApiKey"}, {"SupportedFeatures", "Name"}, {"FinalizedFeatures", "Name"}} {
		mine := map[string]bool{}
		theirs, _ := k[list.field].([]any)
		ours, _ := m[list.field].([]any)
		for _, e := range ours {
			mine[compact(e.(map[string]any)[list.id])] = true
		}
		kept := []any{}
		for _, e := range theirs {
			if mine[compact(e.(map[string]any)[list.id])] {
				kept = append(kept, e)
			}
		}
		if theirs != nil {
			k[list.field] = kept
		}
	}
	return k
}

func write(t *testing.T, file string, answers []Answer) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	e := json.NewEncoder(f)
	e.SetEscapeHTML(false)
	for _, a := range answers {
		if err := e.Encode(a); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, file string) []Answer {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []Answer
	s := bufio.NewScanner(f)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		var a Answer
		if err := json.Unmarshal(s.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		out = append(out, a)
	}
	return out
}
