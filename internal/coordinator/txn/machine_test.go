package txn

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// bench carries out what a machine wants, as the runtime does: records are applied at once and kept as the log.
type bench struct {
	t       *testing.T
	m       *Machine
	now     time.Time
	times   []time.Time // when the records of the log are written, if that is given
	image   *metadata.Image
	log     []coordinator.Record
	timers  map[coordinator.TimerKey]time.Time
	markers []WriteMarkers // not written yet
	nextID  kafka.ProducerID
	ids     []kafka.ProducerID // to be drawn, if they are given
	fail    error              // of appends
}

func options() Options {
	return Options{MaxTimeout: 15 * time.Minute, Expiration: 7 * 24 * time.Hour, ExpirationCheck: time.Hour,
		ParkTime: 5 * time.Second,
		OffsetsPartition: func(_ *metadata.Image, group string) (kafka.TopicPartition, bool) {
			return kafka.TopicPartition{Topic: "__consumer_offsets", Partition: int32(len(group))}, true
		}}
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, now: time.UnixMilli(1_000_000), nextID: 100}
	b.image = b.withLevel(2)
	b.restart()
	return b
}

// withLevel gives metadata in which transaction.version is finalized.
func (b *bench) withLevel(level int16) *metadata.Image {
	image, _, err := metadata.New().Apply([]metadata.Record{
		&metadata.FeatureLevelRecord{Name: metadata.MetadataVersionFeature, Level: metadata.LatestMetadataVersion},
		&metadata.FeatureLevelRecord{Name: metadata.TransactionVersionFeature, Level: level}})
	if err != nil {
		b.t.Fatal(err)
	}
	return image
}

// restart loads a new machine from the log.
func (b *bench) restart() {
	b.m = New(options(), b.image)
	b.timers, b.markers = map[coordinator.TimerKey]time.Time{}, nil
	for _, r := range b.log {
		if err := b.m.Apply(r, coordinator.Origin{Producer: coordinator.NoStamp}); err != nil {
			b.t.Fatal(err)
		}
	}
	b.handle(coordinator.Loaded{Image: b.image, LeaderEpoch: 7})
}

func (b *bench) handle(e coordinator.Event) {
	if n := len(b.log); n < len(b.times) {
		b.now = b.times[n]
	}
	b.run(b.m.Handle(b.now, e, rand.New(rand.NewPCG(1, 2))))
}

func (b *bench) run(r coordinator.Result) {
	err := b.fail
	if len(r.Records) == 0 {
		err = nil
	}
	if err == nil {
		b.log = append(b.log, r.Records...)
		for _, x := range r.Records {
			if err := b.m.Apply(x, coordinator.Origin{Producer: coordinator.NoStamp}); err != nil {
				b.t.Fatal(err)
			}
		}
		for _, x := range r.Timers {
			if x.At.IsZero() {
				delete(b.timers, x.Key)
			} else {
				b.timers[x.Key] = x.At
			}
		}
	}
	for _, x := range r.Replies {
		if err != nil {
			x.Answer = coordinator.Answer{Err: err}
		}
		if !x.To.Answer().Set(x.Answer) {
			b.t.Fatal("answered twice")
		}
	}
	if r.Then != nil {
		b.run(r.Then(b.now, err))
	}
	if err != nil {
		return
	}
	for _, w := range r.Outgoing {
		switch w := w.(type) {
		case DrawProducerID:
			b.nextID++
			if len(b.ids) > 0 {
				b.nextID, b.ids = b.ids[0], b.ids[1:]
			}
			b.handle(w.Drawn(b.nextID, nil))
		case WriteMarkers:
			b.markers = append(b.markers, w)
		}
	}
	for _, e := range r.Next {
		b.handle(e)
	}
}

// write writes the markers that are out.
func (b *bench) write() {
	for len(b.markers) > 0 {
		w := b.markers[0]
		b.markers = b.markers[1:]
		b.handle(w.Done)
	}
}

// pass lets time go by, and timers fire.
func (b *bench) pass(d time.Duration) {
	end := b.now.Add(d)
	for {
		var first coordinator.TimerKey
		at := end.Add(1)
		for k, t := range b.timers {
			if t.Before(at) {
				first, at = k, t
			}
		}
		if at.After(end) {
			b.now = end
			return
		}
		delete(b.timers, first)
		b.now = at
		b.handle(coordinator.TimerFired{Key: first})
	}
}

func (b *bench) ask(r kmsg.Request) *coordinator.Pending {
	p := coordinator.NewPending(coordinator.Call{}, r)
	b.handle(p)
	return p
}

// got is the outcome of a request: the code, producer id and epoch that came back.
type got struct {
	Code  kafka.Code
	ID    int64
	Epoch int16
}

func (b *bench) outcome(p *coordinator.Pending) got {
	b.t.Helper()
	a, ok := p.Answer().Get()
	if !ok {
		b.t.Fatal("no answer yet")
	}
	if a.Err != nil {
		return got{Code: kafka.CodeOf(a.Err)}
	}
	switch r := a.Body.(type) {
	case *kmsg.InitProducerIDResponse:
		return got{kafka.Code(r.ErrorCode), r.ProducerID, r.ProducerEpoch}
	case *kmsg.EndTxnResponse:
		return got{kafka.Code(r.ErrorCode), r.ProducerID, r.ProducerEpoch}
	case *kmsg.AddPartitionsToTxnResponse:
		if len(r.Transactions) > 0 {
			return got{Code: kafka.Code(r.Transactions[0].Topics[0].Partitions[0].ErrorCode)}
		}
		return got{Code: kafka.Code(r.Topics[0].Partitions[0].ErrorCode)}
	case *kmsg.AddOffsetsToTxnResponse:
		return got{Code: kafka.Code(r.ErrorCode)}
	}
	b.t.Fatalf("a %T", a.Body)
	return got{}
}

func initRequest(version int16, id string, producer int64, epoch int16) *kmsg.InitProducerIDRequest {
	r := kmsg.NewPtrInitProducerIDRequest()
	r.Version, r.TransactionalID, r.TransactionTimeoutMillis = version, &id, 60000
	r.ProducerID, r.ProducerEpoch = producer, epoch
	return r
}

func addRequest(version int16, id string, producer int64, epoch int16, verify bool, partitions ...int32) *kmsg.AddPartitionsToTxnRequest {
	r := kmsg.NewPtrAddPartitionsToTxnRequest()
	r.Version = version
	if version < 4 {
		r.TransactionalID, r.ProducerID, r.ProducerEpoch = id, producer, epoch
		t := kmsg.NewAddPartitionsToTxnRequestTopic()
		t.Topic, t.Partitions = "t", partitions
		r.Topics = append(r.Topics, t)
		return r
	}
	x := kmsg.NewAddPartitionsToTxnRequestTransaction()
	x.TransactionalID, x.ProducerID, x.ProducerEpoch, x.VerifyOnly = id, producer, epoch, verify
	t := kmsg.NewAddPartitionsToTxnRequestTransactionTopic()
	t.Topic, t.Partitions = "t", partitions
	x.Topics = append(x.Topics, t)
	r.Transactions = append(r.Transactions, x)
	return r
}

func endRequest(version int16, id string, producer int64, epoch int16, commit bool) *kmsg.EndTxnRequest {
	r := kmsg.NewPtrEndTxnRequest()
	r.Version, r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Commit = version, id, producer, epoch, commit
	return r
}

func (b *bench) expect(what string, want got, r kmsg.Request) {
	b.t.Helper()
	if d := cmp.Diff(want, b.outcome(b.ask(r))); d != "" {
		b.t.Fatalf("%s: %s", what, d)
	}
}

// TestClassicProtocol goes through a producer's life before transactions v2, with the answers of Apache Kafka 4.4.
func TestClassicProtocol(t *testing.T) {
	b := newBench(t)
	b.expect("half an expectation", got{Code: kafka.InvalidRequest}, initRequest(4, "t", 5, -1))
	b.expect("init", got{0, 101, 0}, initRequest(4, "t", -1, -1))
	b.expect("commit nothing", got{Code: kafka.InvalidTxnState}, endRequest(3, "t", 101, 0, true))
	b.expect("abort nothing", got{Code: kafka.InvalidTxnState}, endRequest(3, "t", 101, 0, false))
	b.expect("unknown id", got{Code: kafka.InvalidProducerIDMapping}, addRequest(3, "nobody", 101, 0, false, 0))
	b.expect("wrong producer", got{Code: kafka.InvalidProducerIDMapping}, addRequest(3, "t", 1100, 0, false, 0))
	b.expect("wrong epoch v1", got{Code: kafka.InvalidProducerEpoch}, addRequest(1, "t", 101, 5, false, 0))
	b.expect("wrong epoch v2", got{Code: kafka.ProducerFenced}, addRequest(2, "t", 101, 5, false, 0))
	b.expect("add", got{}, addRequest(3, "t", 101, 0, false, 0))
	b.expect("verify what is in", got{}, addRequest(5, "t", 101, 0, true, 0))
	b.expect("verify what is not", got{Code: kafka.TransactionAbortable}, addRequest(5, "t", 101, 0, true, 1))
	b.expect("end wrong epoch v1", got{Code: kafka.InvalidProducerEpoch}, endRequest(1, "t", 101, 1, true))
	b.expect("end wrong epoch v3", got{Code: kafka.ProducerFenced}, endRequest(3, "t", 101, 1, true))
	b.expect("commit", got{0, -1, -1}, endRequest(3, "t", 101, 0, true))
	waiting := b.ask(endRequest(3, "t", 101, 0, true))
	b.expect("abort while committing", got{Code: kafka.InvalidTxnState}, endRequest(3, "t", 101, 0, false))
	if w := b.markers[0]; !w.Commit || w.CoordinatorEpoch != 7 || w.Producer != (coordinator.Stamp{ID: 101}) {
		t.Fatalf("markers %+v", w)
	}
	b.write()
	if d := cmp.Diff(got{0, -1, -1}, b.outcome(waiting)); d != "" {
		t.Fatal("the parked commit", d)
	}
	b.expect("commit again", got{0, -1, -1}, endRequest(3, "t", 101, 0, true))
	b.expect("abort after commit", got{Code: kafka.InvalidTxnState}, endRequest(3, "t", 101, 0, false))
	b.expect("init again bumps", got{0, 101, 1}, initRequest(4, "t", -1, -1))
	b.expect("old epoch", got{Code: kafka.ProducerFenced}, endRequest(3, "t", 101, 0, true))
	b.expect("old epoch named v3", got{Code: kafka.InvalidProducerEpoch}, initRequest(3, "t", 101, 0))
	b.expect("current epoch named", got{0, 101, 2}, initRequest(4, "t", 101, 1))
	b.expect("named again", got{0, 101, 2}, initRequest(4, "t", 101, 1))
}

// TestTransactionsV2 goes through a life with an epoch for each transaction.
func TestTransactionsV2(t *testing.T) {
	b := newBench(t)
	b.expect("init", got{0, 101, 0}, initRequest(5, "w", -1, -1))
	b.expect("commit nothing", got{Code: kafka.InvalidTxnState}, endRequest(5, "w", 101, 0, true))
	b.expect("abort nothing", got{0, 101, 1}, endRequest(5, "w", 101, 0, false))
	b.write()
	b.expect("implicit add", got{}, addRequest(5, "w", 101, 1, false, 1))
	b.expect("commit", got{0, 101, 2}, endRequest(5, "w", 101, 1, true))
	next := b.ask(addRequest(5, "w", 101, 2, false, 1)) // before the markers are written
	if _, ok := next.Answer().Get(); ok {
		t.Fatal("a request that meets a completing transaction must wait")
	}
	if b.markers[0].Producer.Epoch != 2 || b.markers[0].TransactionVersion != 2 {
		t.Fatalf("markers %+v", b.markers[0])
	}
	b.write()
	if o := b.outcome(next); o.Code != 0 {
		t.Fatal(o)
	}
	b.expect("an end of the transaction before", got{Code: kafka.ProducerFenced}, endRequest(5, "w", 101, 1, true))
	b.expect("commit", got{0, 101, 3}, endRequest(5, "w", 101, 2, true))
	b.write()
	b.expect("retried", got{0, 101, 3}, endRequest(5, "w", 101, 2, true))
	b.expect("retried otherwise", got{Code: kafka.InvalidTxnState}, endRequest(5, "w", 101, 2, false))
}

// TestFence: InitProducerId aborts what is open, waits for that, and only then answers.
func TestFence(t *testing.T) {
	for _, version := range []int16{3, 5} {
		b := newBench(t)
		b.expect("init", got{0, 101, 0}, initRequest(4, "t", -1, -1))
		b.expect("add", got{}, addRequest(version, "t", 101, 0, false, 0))
		p := b.ask(initRequest(4, "t", -1, -1))
		if _, ok := p.Answer().Get(); ok {
			t.Fatal("answered before the abort")
		}
		if w := b.markers[0]; w.Commit || w.Producer.Epoch != 1 {
			t.Fatalf("markers %+v", w)
		}
		b.write()
		if d := cmp.Diff(got{0, 101, 2}, b.outcome(p)); d != "" {
			t.Fatal(d)
		}
		b.expect("zombie", got{Code: kafka.ProducerFenced}, endRequest(3, "t", 101, 0, true))
	}
}

// TestTimeout: an open transaction is aborted when its time is up, also by a coordinator that took over.
func TestTimeout(t *testing.T) {
	b := newBench(t)
	b.expect("init", got{0, 101, 0}, initRequest(4, "t", -1, -1))
	b.expect("add", got{}, addRequest(3, "t", 101, 0, false, 0))
	b.pass(30 * time.Second)
	b.restart()
	b.fail = kafka.NotEnoughReplicas
	b.pass(30 * time.Second)
	if len(b.markers) != 0 {
		t.Fatal("markers of an abort that is not recorded")
	}
	b.fail = nil
	b.pass(2 * time.Second)
	if len(b.markers) != 1 || b.markers[0].Commit || b.markers[0].Producer.Epoch != 1 {
		t.Fatalf("markers %+v", b.markers)
	}
	b.restart()
	if len(b.markers) != 1 {
		t.Fatal("a new coordinator must write the markers again")
	}
	b.write()
	b.expect("the producer is told", got{Code: kafka.ProducerFenced}, endRequest(3, "t", 101, 0, true))
}

// TestEpochExhaustion: the last epoch gives way to a new producer id, in both protocols.
func TestEpochExhaustion(t *testing.T) {
	b := newBench(t)
	b.expect("init", got{0, 101, 0}, initRequest(4, "a", -1, -1))
	b.m.ids["a"].producer.Epoch = lastEpoch - 1
	b.expect("last epoch", got{0, 101, 32766}, initRequest(4, "a", 101, 32765))
	b.expect("new id", got{0, 102, 0}, initRequest(4, "a", 101, 32766))
	b.expect("retried", got{0, 102, 0}, initRequest(4, "a", 101, 32766))

	b.expect("init", got{0, 103, 0}, initRequest(5, "b", -1, -1))
	b.m.ids["b"].producer.Epoch = lastEpoch
	b.expect("add", got{}, addRequest(5, "b", 103, 32766, false, 0))
	b.expect("commit", got{0, 104, 0}, endRequest(5, "b", 103, 32766, true))
	if w := b.markers[0]; w.Producer != (coordinator.Stamp{ID: 103, Epoch: 32767}) {
		t.Fatalf("markers %+v", w)
	}
	next := b.ask(addRequest(5, "b", 104, 0, false, 0))
	b.write()
	if o := b.outcome(next); o.Code != 0 {
		t.Fatal(o)
	}
	b.expect("commit", got{0, 104, 1}, endRequest(5, "b", 104, 0, true))
}

// TestParkedRequestsGoAway: a wait for markers that do not come ends.
func TestParkedRequestsGoAway(t *testing.T) {
	b := newBench(t)
	b.expect("init", got{0, 101, 0}, initRequest(4, "t", -1, -1))
	b.expect("add", got{}, addRequest(3, "t", 101, 0, false, 0))
	b.expect("commit", got{0, -1, -1}, endRequest(3, "t", 101, 0, true))
	var waiting []*coordinator.Pending
	for range maxParked {
		waiting = append(waiting, b.ask(initRequest(4, "t", -1, -1)))
	}
	b.expect("one too many", got{Code: kafka.ConcurrentTransactions}, initRequest(4, "t", -1, -1))
	b.pass(options().ParkTime)
	for _, p := range waiting {
		if o := b.outcome(p); o.Code != kafka.ConcurrentTransactions {
			t.Fatal(o)
		}
	}
}

// TestExpiration: idle ids are forgotten after their time, busy ones never.
func TestExpiration(t *testing.T) {
	b := newBench(t)
	b.expect("init", got{0, 101, 0}, initRequest(4, "idle", -1, -1))
	b.expect("init", got{0, 102, 0}, initRequest(4, "stuck", -1, -1))
	b.expect("add", got{}, addRequest(3, "stuck", 102, 0, false, 0))
	b.expect("commit", got{0, -1, -1}, endRequest(3, "stuck", 102, 0, true)) // its markers are never written
	b.pass(options().Expiration + time.Hour)
	b.expect("forgotten", got{Code: kafka.InvalidProducerIDMapping}, addRequest(3, "idle", 101, 0, false, 0))
	b.restart()
	b.expect("init anew", got{0, 103, 0}, initRequest(4, "idle", -1, -1))
	if b.m.ids["stuck"] == nil {
		t.Fatal("a transaction that has not ended was forgotten")
	}
}

// TestRecords: what is written is read as it was.
func TestRecords(t *testing.T) {
	for _, want := range []transaction{
		{id: "", producer: coordinator.Stamp{ID: 1, Epoch: 2}, previousID: -1, nextID: -1, timeoutMs: 3, startMs: -1, updateMs: 5},
		{id: "x", producer: coordinator.Stamp{ID: 1, Epoch: 32767}, previousID: 9, nextID: 10, timeoutMs: 3, state: PrepareCommit,
			partitions: []kafka.TopicPartition{{Topic: "a", Partition: 0}, {Topic: "a", Partition: 3}, {Topic: "b", Partition: 1}},
			startMs:    4, updateMs: 5, version: 2},
		{id: "y", producer: coordinator.Stamp{ID: 1}, previousID: -1, nextID: -1, state: CompleteAbort, version: 1},
	} {
		r := want.record(true)
		id, err := parseKey(r.Key)
		if err != nil || id != want.id {
			t.Fatal(id, err)
		}
		back, err := parseValue(id, r.Value)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, back, cmp.AllowUnexported(transaction{})); d != "" {
			t.Fatal(d)
		}
		for n := range r.Value {
			if _, err := parseValue(id, r.Value[:n]); err == nil {
				t.Fatalf("a record cut at %d was taken", n)
			}
		}
	}
}
