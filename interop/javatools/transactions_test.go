package javatools

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/interop/broker"
	"moldau/interop/kafka"
	"moldau/interop/process"
)

// TestTransactionTools runs the Java client in transactions and the tools that look at them, in order.
func TestTransactionTools(t *testing.T) {
	kafka.Libs(t)
	n := broker.Start(t, "transaction.state.log.num.partitions=2")
	s := &transactionSuite{suite: suite{n: n}}
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"copy", s.copy}, {"copy in a group", s.copyGroup}, {"open", s.open}, {"list", s.list}, {"describe", s.describe},
		{"describe producers", s.describeProducers}, {"find hanging", s.findHanging}, {"abort", s.abort},
		{"force terminate", s.forceTerminate},
	} {
		t.Run(step.name, step.run)
	}
	if s.client != nil {
		s.client.Close()
	}
	n.Stop(t)
	t.Run("dump", func(t *testing.T) { dumpTransactions(t, n) })
}

type transactionSuite struct {
	suite
	client *kgo.Client // has a transaction open
}

const copied = 3000

// write fills both partitions of the input.
func (s *transactionSuite) write(t *testing.T, topic string) {
	t.Helper()
	s.tool(t, "topics", "--create", "--topic", topic, "--partitions", "1")
	s.tool(t, "topics", "--create", "--topic", topic+"-copy", "--partitions", "3")
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.n.Addr), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for i := range copied {
		cl.Produce(t.Context(), kgo.StringRecord(fmt.Sprint(i)), nil)
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// once checks that a topic has each number once, for readers of committed records.
func (s *transactionSuite) once(t *testing.T, topic string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.n.Addr), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ends := settled(t, ctx, kadm.NewClient(cl), topic)
	at, seen := map[int32]int64{}, map[string]int{}
	for {
		missing := false
		ends.Each(func(o kadm.ListedOffset) { missing = missing || at[o.Partition] < o.Offset })
		if !missing {
			break
		}
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			at[r.Partition] = r.Offset + 1
			if !r.Attrs.IsControl() {
				seen[string(r.Value)]++
			}
		})
	}
	for i := range copied {
		if n := seen[fmt.Sprint(i)]; n != 1 {
			t.Fatalf("%d is there %d times", i, n)
		}
	}
}

// settled waits until no transaction holds readers of committed records back, and gives the ends: a commit is answered
// before its markers are written, so what it wrote may come into sight a little later.
func settled(t *testing.T, ctx context.Context, admin *kadm.Client, topic string) kadm.ListedOffsets {
	t.Helper()
	for {
		stable, err := admin.ListCommittedOffsets(ctx, topic)
		if err != nil {
			t.Fatal(err)
		}
		ends, err := admin.ListEndOffsets(ctx, topic)
		if err != nil {
			t.Fatal(err)
		}
		open := false
		ends.Each(func(o kadm.ListedOffset) {
			s, ok := stable.Lookup(o.Topic, o.Partition)
			open = open || !ok || s.Offset < o.Offset
		})
		if !open {
			return stable
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// copier runs the Java program that copies a topic in transactions, some of which it aborts; it is killed before.
func (s *transactionSuite) copier(t *testing.T, topic string, args ...string) {
	t.Helper()
	args = append([]string{"--broker-list", s.n.Addr, "--input-topic", topic, "--input-partition", "0",
		"--output-topic", topic + "-copy", "--transactional-id", "copy-" + topic, "--consumer-group", "group-" + topic,
		"--transaction-size", "25", "--transaction-timeout", "60000", "--enable-random-aborts"}, args...)
	for _, kill := range []bool{true, false} {
		cmd := kafka.Java(t, "org.apache.kafka.tools.TransactionalMessageCopier", args...)
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if kill {
			after := 2*time.Second + rand.N(3*time.Second)
			t.Logf("killed after %v", after)
			time.Sleep(after)
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			continue
		}
		limit := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
		err = cmd.Wait()
		limit.Stop()
		if err != nil {
			text, _ := os.ReadFile(out.Name())
			t.Fatalf("%v\n%s", err, text[max(0, len(text)-4000):])
		}
	}
	s.once(t, topic+"-copy")
}

func (s *transactionSuite) copy(t *testing.T) {
	s.write(t, "plain")
	s.copier(t, "plain")
}

func (s *transactionSuite) copyGroup(t *testing.T) {
	s.write(t, "grouped")
	s.copier(t, "grouped", "--group-mode", "--use-group-metadata")
}

// open leaves a transaction open for the tools to look at.
func (s *transactionSuite) open(t *testing.T) {
	s.tool(t, "topics", "--create", "--topic", "open", "--partitions", "1")
	s.begin(t)
}

func (s *transactionSuite) begin(t *testing.T) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.n.Addr), kgo.DefaultProduceTopic("open"), kgo.TransactionalID("forgotten"),
		kgo.TransactionTimeout(10*time.Minute)) // whatever the tools take to start
	if err != nil {
		t.Fatal(err)
	}
	if s.client != nil {
		s.client.Close()
	}
	s.client = cl
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func (s *transactionSuite) list(t *testing.T) {
	// The copier's last run may have been killed once all was copied; the next one only announced itself.
	contains(t, s.tool(t, "transactions", "list"), `TransactionalId\s+Coordinator\s+ProducerId\s+TransactionState`,
		`copy-plain\s+1\s+\d+\s+(CompleteCommit|Empty)`, `forgotten\s+1\s+\d+\s+Ongoing`)
	out := s.tool(t, "transactions", "list", "--duration-filter", "1")
	contains(t, out, `forgotten\s`)
	out = s.tool(t, "transactions", "list", "--transactional-id-pattern", "copy-.*")
	if strings.Contains(out, "forgotten") || !strings.Contains(out, "copy-grouped") {
		t.Errorf("a pattern lists\n%s", out)
	}
}

func (s *transactionSuite) describe(t *testing.T) {
	contains(t, s.tool(t, "transactions", "describe", "--transactional-id", "forgotten"),
		`CoordinatorId\s+TransactionalId\s+ProducerId\s+ProducerEpoch\s+TransactionState`, `1\s+forgotten\s+\d+\s+\d+\s+Ongoing`, `open-0`)
}

func (s *transactionSuite) describeProducers(t *testing.T) {
	contains(t, s.tool(t, "transactions", "describe-producers", "--topic", "open", "--partition", "0"),
		`ProducerId\s+ProducerEpoch\s+LatestCoordinatorEpoch\s+LastSequence\s+LastTimestamp\s+CurrentTransactionStartOffset`,
		`\d+\s+\d+\s+-?\d+\s+0\s+\d+\s+0`)
	contains(t, s.tool(t, "transactions", "describe-producers", "--topic", "plain-copy", "--partition", "0", "--broker-id", "1"),
		`\s(None|-1)\s*\n`)
}

func (s *transactionSuite) findHanging(t *testing.T) {
	out := s.tool(t, "transactions", "find-hanging", "--broker-id", "1")
	if strings.Contains(out, "open") {
		t.Errorf("a transaction that its coordinator knows hangs:\n%s", out)
	}
}

func (s *transactionSuite) abort(t *testing.T) {
	s.tool(t, "transactions", "abort", "--topic", "open", "--partition", "0", "--start-offset", "0")
	contains(t, s.tool(t, "transactions", "describe-producers", "--topic", "open", "--partition", "0"), `\s(None|-1)\s*\n`)
}

func (s *transactionSuite) forceTerminate(t *testing.T) {
	s.begin(t)
	s.tool(t, "transactions", "forceTerminateTransaction", "--transactionalId", "forgotten")
	contains(t, s.tool(t, "transactions", "describe", "--transactional-id", "forgotten"), `CompleteAbort|Empty`)
}

// dumpTransactions has Apache Kafka's tool read the transactions of a stopped node.
func dumpTransactions(t *testing.T, n *process.Node) {
	files, err := filepath.Glob(filepath.Join(n.LogDir, "__transaction_state-*", "*.log"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	out := dump(t, files, "--transaction-log-decoder", "--deep-iteration")
	for _, want := range []string{
		`key: {"type":"0","data":{"transactionalId":"forgotten"}} payload: {"version":"1","data":{"producerId":`,
		`"transactionStatus":"Empty","transactionPartitions":null`, `"transactionStatus":"PrepareAbort"`,
		`"transactionStatus":"Ongoing","transactionPartitions":[{"topic":"open","partitionIds":[0]}]`,
		`"transactionStatus":"CompleteCommit","transactionPartitions":[]`, `"clientTransactionVersion":2`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the dump has no %s", want)
		}
	}
	data, err := filepath.Glob(filepath.Join(n.LogDir, "plain-copy-*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var logs []string
	for _, f := range data {
		if strings.HasSuffix(f, ".log") || strings.HasSuffix(f, ".txnindex") || strings.HasSuffix(f, ".snapshot") {
			logs = append(logs, f)
		}
	}
	contains(t, dump(t, logs, "--deep-iteration"), `endTxnMarker: COMMIT coordinatorEpoch: \d+`, `endTxnMarker: ABORT`,
		`isTransactional: true isControl: true`)
}
