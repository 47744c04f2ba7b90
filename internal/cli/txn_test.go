package cli

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// opens ID TOPIC:PARTITION... writes a record to each in a transaction and leaves that open.
func opens(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(ts.Getenv("MOLDAU_BROKERS")), kgo.TransactionalID(args[0]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	ts.Check(err)
	defer cl.Close()
	ts.Check(cl.BeginTransaction())
	for _, tp := range args[1:] {
		topic, text, _ := strings.Cut(tp, ":")
		partition, err := strconv.Atoi(text)
		ts.Check(err)
		ts.Check(cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: int32(partition), Value: []byte("open")}).FirstErr())
	}
}

// settled ID waits until the markers of an id's last transaction are written: a commit is answered before.
func settled(ts *testscript.TestScript, _ bool, args []string) {
	for range 200 {
		if ts.Exec("moldau", "txn", "describe", args[0]) == nil && !strings.Contains(ts.ReadFile("stdout"), "state Prepare") {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("the transaction of %s is not complete", args[0])
}

// hangs TOPIC:PARTITION writes a batch of a transaction that no coordinator has heard of, as clients could before brokers
// verified transactions. TOPIC must be taken at its word: transaction.partition.verification.enable=false.
func hangs(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(kmsg.Produce.Int16(), 11)
	cl, err := kgo.NewClient(kgo.SeedBrokers(ts.Getenv("MOLDAU_BROKERS")), kgo.MaxVersions(versions))
	ts.Check(err)
	defer cl.Close()
	init := kmsg.NewPtrInitProducerIDRequest()
	init.ProducerID, init.ProducerEpoch = -1, -1
	id, err := init.RequestWith(ctx, cl)
	ts.Check(err)
	ts.Check(kerr.ErrorForCode(id.ErrorCode))
	b := record.NewBuilder(record.Options{Transactional: true,
		Producer: &record.Producer{ID: kafka.ProducerID(id.ProducerID), Epoch: kafka.ProducerEpoch(id.ProducerEpoch)}})
	b.Append(time.Now().Add(-time.Hour).UnixMilli(), nil, []byte("hangs"), nil)
	batch, err := b.Build()
	ts.Check(err)
	topic, text, _ := strings.Cut(args[0], ":")
	partition, err := strconv.Atoi(text)
	ts.Check(err)
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis, req.TransactionID = -1, 10000, kmsg.StringPtr("gone")
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{
		{Partition: int32(partition), Records: batch}}}}
	resp, err := req.RequestWith(ctx, cl)
	ts.Check(err)
	ts.Check(kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode))
}

// TestInterruptAborts: an interrupt ends produce with an abort of the open transaction.
func TestInterruptAborts(t *testing.T) {
	n := startNode(t, t.TempDir())
	broker := n.Addresses()[0].String()
	run := func(ctx context.Context, in io.Reader, args ...string) (string, string, error) {
		var out, errs strings.Builder
		root := newRoot(streams{in, &out, &errs})
		root.SetArgs(append(args, "--brokers", broker))
		err := root.ExecuteContext(ctx)
		return out.String(), errs.String(), err
	}
	in, lines := io.Pipe()
	defer lines.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	var said string
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, said, err = run(ctx, in, "produce", "t", "--transactional-id", "x")
	}()
	if _, err := io.WriteString(lines, "a\nb\n"); err != nil {
		t.Fatal(err)
	}
	state := ""
	for range 200 {
		if state, _, _ = run(t.Context(), nil, "txn", "list"); strings.Contains(state, "Ongoing") {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	interrupt()
	<-done
	if !strings.Contains(state, "Ongoing") || !errors.Is(err, context.Canceled) ||
		!strings.Contains(said, "the transaction of ") || !strings.Contains(said, " was aborted\n0 records written to t\n") {
		t.Errorf("%q, %v, %q", state, err, said)
	}
	if state, _, _ = run(t.Context(), nil, "txn", "list"); !strings.Contains(state, "Abort") {
		t.Errorf("%q", state)
	}
}
