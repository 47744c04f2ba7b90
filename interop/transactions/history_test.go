package transactions

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/interop/broker"
	"moldau/interop/kafka"
	"moldau/interop/process"
)

const (
	historySteps = 250
	historySeeds = 3 // recorded
)

// TestHistory plays random histories of several producers, some of which share a transactional id, and compares every answer
// and what lies in the partitions with what Apache Kafka gave to the same.
func TestHistory(t *testing.T) {
	for seed := range uint64(historySeeds) {
		n := broker.Start(t)
		got := history(t, n, seed)
		n.Stop(t)
		name := fmt.Sprintf("history-%d.txt", seed)
		if recording() {
			record(t, name, got)
			continue
		}
		want, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		compareHistories(t, seed, string(want), got)
	}
}

// TestHistoryLive compares with a real Apache Kafka, on a new seed each run unless TRANSACTIONS_SEED is set.
func TestHistoryLive(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	kafka.Libs(t)
	seed := uint64(time.Now().UnixNano() % 100000)
	if s := os.Getenv("TRANSACTIONS_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("TRANSACTIONS_SEED=%d", seed)
	theirs := kafka.Start(t, broker.Defaults())
	want := history(t, theirs, seed)
	theirs.Stop(t)
	ours := broker.Moldau(t, t.TempDir(), broker.Defaults())
	ours.Start(t)
	got := history(t, ours, seed)
	ours.Stop(t)
	compareHistories(t, seed, want, got)
}

func compareHistories(t *testing.T, seed uint64, want, got string) {
	t.Helper()
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		request, answer, _ := strings.Cut(b[i], ": ")
		if a[i] != b[i] && !deliberate(request, a[i], answer+" ") {
			t.Errorf("seed %d, line %d, after\n%s\nKafka %s\ngot   %s", seed, i+1, strings.Join(a[max(0, i-8):i], "\n"), a[i], b[i])
			return // what follows differs because of that
		}
	}
	if len(a) != len(b) {
		t.Errorf("seed %d: %d lines, want %d", seed, len(b), len(a))
	}
}

// instance is one producer of a history and how far it is in each partition.
type instance struct {
	producer
	next [2]int32
	open [2]bool // something was written in the transaction that is open
}

func history(t *testing.T, n *process.Node, seed uint64) string {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 9))
	createTopic(t, n, "t")
	c := dial(t, n.Addr, "history")
	findCoordinators(t, c)
	var all []*instance
	for i := range 5 { // two of them share an id
		all = append(all, &instance{producer: producer{c: c, id: fmt.Sprint("id-", i%4), timeoutMs: 60000, pid: -1, epoch: -1}})
	}
	var b strings.Builder
	for step := range historySteps {
		k := rnd.IntN(len(all))
		x := all[k]
		if x.pid < 0 {
			fmt.Fprintf(&b, "%d init/5-none: %s\n", k, x.step(t, "init/5-none"))
			continue
		}
		what, answer := x.random(t, rnd)
		fmt.Fprintf(&b, "%d %s: %s\n", k, what, answer)
		if step%10 == 9 {
			b.WriteString(contents(t, c))
		}
	}
	b.WriteString(contents(t, c))
	return b.String()
}

// random makes one step.
func (x *instance) random(t testing.TB, rnd *rand.Rand) (what, answer string) {
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	switch i := rnd.IntN(20); {
	case i < 3:
		what = pick("add/3", "add/3", "many/3", "add/1")
	case i < 6:
		what = pick("commit/3", "commit/5", "commit/5", "commit/5-prev")
	case i < 9:
		what = pick("abort/3", "abort/5", "abort/5", "abort/1-prev")
	case i < 10:
		what = pick("init/4", "init/5-none", "init/3", "init/5-prev")
	case i < 11:
		what = pick("offsets/3", "offsets/1-next")
	default:
		version, partition := []int16{9, 11, 12, 12, 12}[rnd.IntN(5)], int32(rnd.IntN(2))
		return x.produce(t, version, partition, pick("", "", "", "", "", "again", "gap", "plain"))
	}
	return what, x.step(t, what)
}

// step does one, after which sequences begin anew if the epoch changed.
func (x *instance) step(t testing.TB, what string) string {
	pid, epoch := x.pid, x.epoch
	answer := x.do(t, what)
	if !strings.HasPrefix(what, "add") && !strings.HasPrefix(what, "many") && !strings.HasPrefix(what, "offsets") {
		x.open = [2]bool{}
	}
	if x.pid != pid || x.epoch != epoch {
		x.next = [2]int32{}
	}
	return answer
}

// produce writes one record, in its place, again, after a gap, or outside of transactions.
func (x *instance) produce(t testing.TB, version int16, partition int32, how string) (what, answer string) {
	sequence, attributes := x.next[partition], uint16(0x10)
	if !x.open[partition] {
		how = "" // what Apache Kafka remembers of a batch that it refused, or knew, can spoil the next one
	}
	switch how {
	case "again":
		sequence--
	case "gap":
		sequence += 2
	case "plain":
		attributes = 0
	}
	what = fmt.Sprintf("produce/%d to %d sequence %d %s", version, partition, sequence, how)
	r := kmsg.NewPtrProduceRequest()
	r.Version, r.Acks, r.TimeoutMillis, r.TransactionID = version, -1, 5000, &x.id
	topic, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, oneRecord(x.pid, x.epoch, sequence, attributes)
	topic.Topic, topic.Partitions = "t", append(topic.Partitions, p)
	r.Topics = append(r.Topics, topic)
	for range 200 {
		got := x.c.send(t, r).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		switch got.ErrorCode {
		case 0:
			if how != "again" {
				x.next[partition], x.open[partition] = sequence+1, true
			}
			return what, fmt.Sprint("offset ", got.BaseOffset)
		case kerr.NotEnoughReplicas.Code, kerr.ConcurrentTransactions.Code:
			time.Sleep(10 * time.Millisecond)
		default:
			return what, kerr.TypedErrorForCode(got.ErrorCode).Message
		}
	}
	return what, "never"
}

// oneRecord is a batch with one record.
func oneRecord(pid int64, epoch int16, sequence int32, attributes uint16) []byte {
	be := binary.BigEndian
	record := []byte{0, 0, 0, 1, 2, 'v', 0} // attributes, times, offset, no key, a value, no headers
	b := be.AppendUint32(make([]byte, 8), uint32(49+1+len(record)))
	b = append(be.AppendUint32(b, 0xffffffff), 2)
	b = be.AppendUint32(b, 0)
	b = be.AppendUint16(b, attributes)
	b = be.AppendUint32(b, 0)
	for range 2 {
		b = be.AppendUint64(b, uint64(time.Now().UnixMilli()))
	}
	b = be.AppendUint64(b, uint64(pid))
	b = be.AppendUint16(b, uint16(epoch))
	b = be.AppendUint32(b, uint32(sequence))
	b = be.AppendUint32(b, 1)
	b = append(append(b, byte(2*len(record))), record...)
	be.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// contents shows what readers of committed records are answered, and who writes.
func contents(t testing.TB, c *conn) string {
	t.Helper()
	var b strings.Builder
	var pids []int64
	name := func(pid int64) int {
		if i := slices.Index(pids, pid); i >= 0 {
			return i
		}
		pids = append(pids, pid)
		return len(pids) - 1
	}
	for i := range int32(2) {
		r := kmsg.NewPtrFetchRequest()
		r.Version, r.ReplicaID, r.MaxBytes, r.IsolationLevel, r.SessionEpoch = 12, -1, 1<<20, 1, -1
		topic, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.PartitionMaxBytes, p.CurrentLeaderEpoch = i, 1<<20, -1
		topic.Topic, topic.Partitions = "t", append(topic.Partitions, p)
		r.Topics = append(r.Topics, topic)
		got := c.send(t, r).(*kmsg.FetchResponse).Topics[0].Partitions[0]
		fmt.Fprintf(&b, "  t-%d high watermark %d, stable %d:", i, got.HighWatermark, got.LastStableOffset)
		end := int64(0)
		for x := got.RecordBatches; len(x) >= 61; {
			size := 12 + int(binary.BigEndian.Uint32(x[8:]))
			kind := ""
			if x[22]&0x20 != 0 {
				kind = "c"
			}
			fmt.Fprintf(&b, " %d=%s%d/%d/%d", binary.BigEndian.Uint64(x), kind, name(int64(binary.BigEndian.Uint64(x[43:]))),
				int16(binary.BigEndian.Uint16(x[51:])), int32(binary.BigEndian.Uint32(x[53:])))
			end = int64(binary.BigEndian.Uint64(x)) + 1
			x = x[size:]
		}
		b.WriteString("; aborted")
		slices.SortFunc(got.AbortedTransactions, func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
			return int(a.FirstOffset - b.FirstOffset)
		})
		for _, a := range got.AbortedTransactions {
			if a.FirstOffset >= end {
				break // Apache Kafka may list what lies behind what it returns
			}
			fmt.Fprintf(&b, " %d@%d", name(a.ProducerID), a.FirstOffset)
		}
		d := kmsg.NewPtrDescribeProducersRequest()
		dt := kmsg.NewDescribeProducersRequestTopic()
		dt.Topic, dt.Partitions = "t", []int32{i}
		d.Topics = append(d.Topics, dt)
		b.WriteString("; producers")
		var lines []string
		for _, a := range c.send(t, d).(*kmsg.DescribeProducersResponse).Topics[0].Partitions[0].ActiveProducers {
			at := slices.Index(pids, a.ProducerID)
			lines = append(lines, fmt.Sprintf(" %d/%d/%d@%d", at, a.ProducerEpoch, a.LastSequence, a.CurrentTxnStartOffset))
		}
		slices.Sort(lines)
		b.WriteString(strings.Join(lines, "") + "\n")
	}
	return b.String()
}
