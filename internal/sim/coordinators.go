package sim

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/coordinator"
	"moldau/internal/coordinator/group"
	"moldau/internal/coordinator/txn"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
)

const (
	// callTimeout is how long a broker or a client waits for an answer of a coordinator.
	callTimeout = 5 * time.Second
	// parkTime is moldau.transaction.wait.ms.
	parkTime = time.Second
	// markerRetry is how long a marker that was refused waits before it is tried again.
	markerRetry = 50 * time.Millisecond
)

// coordinators are a broker's coordinators of groups and transactions.
type coordinators struct {
	b            *broker
	groups, txns *coordinator.Runtime
}

func newCoordinators(b *broker) *coordinators {
	c := &coordinators{b: b}
	o := coordinator.Options{Self: b.m.id, Partitions: b.manager, Host: b, Now: b.m.time, After: b.later, Go: b.background,
		Rand: b.m.random, CommitTimeout: func() time.Duration { return callTimeout }, LoadBytes: 2000,
		KeepBytes: func() int { return 1 << 16 }, Work: c.work, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	o.Topic = kafka.TransactionsTopic
	machine := txn.Options{MaxTimeout: time.Hour, Expiration: 7 * 24 * time.Hour, ExpirationCheck: time.Hour,
		ParkTime: parkTime, OffsetsPartition: func(_ *metadata.Image, id string) (kafka.TopicPartition, bool) {
			partition, ok := c.groups.PartitionFor(id)
			return kafka.TopicPartition{Topic: kafka.OffsetsTopic, Partition: partition}, ok
		}}
	o.NewMachine = func(_ int32, i *metadata.Image) coordinator.Machine { return txn.New(machine, i) }
	c.txns = coordinator.New(o)
	o.Topic = kafka.OffsetsTopic
	settings := group.Settings{MinSession: time.Second, MaxSession: time.Minute, MaxSize: 100, ConsumerMaxSize: 100,
		OffsetMetadataMaxBytes: 4096, OffsetsRetention: 7 * 24 * time.Hour, OffsetsCheckInterval: time.Hour,
		Assignors: []string{"uniform"}, ConsumerProtocol: true, RegexRefresh: time.Hour}
	groups := group.Options{Settings: func() group.Settings { return settings },
		Consumer: func(*metadata.Image, string) group.ConsumerSettings {
			return group.ConsumerSettings{Session: 5 * time.Second, Heartbeat: time.Second}
		}}
	o.NewMachine = func(_ int32, i *metadata.Image) coordinator.Machine { return group.New(groups, i) }
	c.groups = coordinator.New(o)
	return c
}

// changed brings an image that the partitions have followed.
func (c *coordinators) changed(image *metadata.Image, diff *metadata.Diff) {
	c.groups.Changed(image, diff)
	c.txns.Changed(image, diff)
}

// later makes something happen to the process after a while of its own clock.
func (b *broker) later(d time.Duration, f func()) (cancel func()) {
	void := false
	now := b.m.time()
	b.m.after(b.m.clock.until(b.world.now, now.Add(d)), func() {
		if !void {
			f()
		}
	})
	return func() { void = true }
}

// background runs the steps of a load, between which anything can happen.
func (b *broker) background(again func() bool) {
	b.m.after(b.world.around(b.world.plan.sync/4), func() {
		if again() {
			b.background(again)
		}
	})
}

// work does what transaction coordinators ask for.
func (c *coordinators) work(w coordinator.Work, _ coordinator.ShardID, alive func() bool, done func(coordinator.Event)) {
	switch w := w.(type) {
	case txn.DrawProducerID:
		r := kmsg.NewPtrAllocateProducerIDsRequest()
		r.BrokerID, r.BrokerEpoch = int32(c.b.m.id), int64(c.b.epoch)
		c.b.ask(r, func(resp kmsg.Response, err error) {
			x, ok := resp.(*kmsg.AllocateProducerIDsResponse)
			if err == nil && (!ok || x.ErrorCode != 0) {
				err = kafka.CoordinatorLoadInProgress
			}
			if err != nil {
				done(w.Drawn(kafka.NoProducer, kafka.CoordinatorLoadInProgress))
				return
			}
			done(w.Drawn(kafka.ProducerID(x.ProducerIDStart), nil)) // the rest of the block is not used
		})
	case txn.WriteMarkers:
		(&marking{c: c, work: w, alive: alive, done: done, left: w.Partitions}).write()
	}
}

// marking is one transaction whose markers are written.
type marking struct {
	c     *coordinators
	work  txn.WriteMarkers
	alive func() bool
	done  func(coordinator.Event)
	left  []kafka.TopicPartition
	again []kafka.TopicPartition
	wait  int
}

func (x *marking) write() {
	if !x.alive() {
		return
	}
	left := x.left
	x.again, x.wait = nil, len(left)+1
	for _, tp := range left {
		marker := coordinator.Marker{Partition: tp.Partition, Producer: x.work.Producer, Commit: x.work.Commit,
			CoordinatorEpoch: x.work.CoordinatorEpoch, TransactionVersion: x.work.TransactionVersion}
		b := x.c.b
		part, _ := b.published.Partition(tp)
		leader := kafka.NoNode
		if part != nil {
			leader = part.Leader
		}
		call(b.m, leader, func(to *broker, answer func(error)) { to.mark(tp, marker, answer) }, func(err error) { x.told(tp, err) })
	}
	x.answered()
}

func (x *marking) told(tp kafka.TopicPartition, err error) {
	exists := func() bool {
		_, ok := x.c.b.published.Partition(tp)
		return ok
	}
	if x.work.Owes(err, exists) {
		x.again = append(x.again, tp)
	}
	x.answered()
}

func (x *marking) answered() {
	if x.wait--; x.wait > 0 {
		return
	}
	if x.left = x.again; len(x.left) == 0 {
		x.done(x.work.Done)
		return
	}
	x.c.b.later(markerRetry, x.write)
}

// mark ends a producer's transaction on a partition that this broker leads.
func (b *broker) mark(tp kafka.TopicPartition, m coordinator.Marker, answer func(error)) {
	if tp.Topic == kafka.OffsetsTopic {
		b.coordinators.groups.EndTransaction(m).OnDone(answer)
		return
	}
	p, err := b.manager.Get(tp)
	if err != nil {
		answer(err)
		return
	}
	now := b.m.time()
	batch, err := record.MarkerBatch(m.Producer.ID, m.Producer.Epoch,
		record.EndTxnMarker{Commit: m.Commit, CoordinatorEpoch: m.CoordinatorEpoch}, now.UnixMilli())
	if err != nil {
		b.m.fail("marker: %v", err)
		return
	}
	w := &replica.AppendWaiter{Done: func(w *replica.AppendWaiter) { answer(w.Result.Err) }}
	e, err := p.Append(now, replica.AppendRequest{Batch: batch, Acks: replica.AcksAll, LeaderEpoch: kafka.NoEpoch,
		Producer: log.ProducerCheck{Origin: log.FromCoordinator, TransactionVersion: m.TransactionVersion}}, w)
	e.Run(b)
	if err != nil {
		answer(err)
	}
}

// Verify asks the coordinator of a producer's transaction whether a partition is in it, or to add it (KIP-890).
func (b *broker) Verify(p *replica.Partition, c replica.TxnCheck) {
	b.verify(c, func(err error) {
		e := p.Verified(b.m.time(), c, err)
		e.Run(b)
	})
}

func (b *broker) verify(c replica.TxnCheck, answer func(error)) {
	r := kmsg.NewPtrAddPartitionsToTxnRequest()
	r.Version = 5
	t := kmsg.NewAddPartitionsToTxnRequestTransaction()
	t.TransactionalID, t.VerifyOnly = c.TransactionalID, !c.Add
	t.ProducerID, t.ProducerEpoch = int64(c.Producer), int16(c.Epoch)
	t.Topics = []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: c.Partition.Topic,
		Partitions: []int32{c.Partition.Partition}}}
	r.Transactions = append(r.Transactions, t)
	leader := kafka.NoNode
	if at, ok := b.coordinators.txns.PartitionFor(c.TransactionalID); ok {
		if part, ok := b.published.Partition(kafka.TopicPartition{Topic: kafka.TransactionsTopic, Partition: at}); ok {
			leader = part.Leader
		}
	}
	call(b.m, leader, func(to *broker, answer func(error)) {
		to.coordinators.txns.Do(c.TransactionalID, coordinator.NewPending(coordinator.Call{Principal: kafka.Anonymous}, r)).OnDone(
			func(a coordinator.Answer) {
				x, ok := a.Body.(*kmsg.AddPartitionsToTxnResponse)
				switch {
				case a.Err != nil:
					answer(a.Err)
				case ok && x.ErrorCode == 0:
					answer(orNil(kafka.Code(x.Transactions[0].Topics[0].Partitions[0].ErrorCode)))
				default:
					answer(kafka.UnknownServerError)
				}
			})
	}, answer)
}

// orNil makes an error of a code.
func orNil(c kafka.Code) error {
	if c == kafka.None {
		return nil
	}
	return c
}

// call asks another broker, or the same one, and tells answer once: what it says, or why nothing is heard.
func call[T any](m *machine, to kafka.NodeID, ask func(to *broker, answer func(T)), answer func(T)) {
	w, life, over := m.world, m.life, false
	once := func(x T) {
		if !over {
			over = true
			answer(x)
		}
	}
	broken := func() { once(failure[T]()) }
	m.after(callTimeout, broken)
	other := w.machineOf(to)
	if other == nil {
		m.after(20*time.Millisecond, broken)
		return
	}
	w.send(m, other, 0, func() {
		serving := other.life
		ask(other.process.(*broker), func(x T) {
			if other.life == serving && !other.disk.Crashed() {
				w.send(other, m, life, func() { once(x) }, nil)
			}
		})
	}, broken)
}

// failure is the answer of a connection that broke.
func failure[T any]() (out T) {
	switch x := any(&out).(type) {
	case *error:
		*x = kafka.NetworkException
	case *coordinator.Answer:
		x.Err = kafka.NetworkException
	default:
		panic(fmt.Sprintf("no failure of %T", out))
	}
	return out
}

// commitOffsets stores offsets of a producer's transaction: its coordinator is asked first, as for a produce.
func (b *broker) commitOffsets(r *kmsg.TxnOffsetCommitRequest, answer func(coordinator.Answer)) {
	p := coordinator.NewPending(coordinator.Call{Principal: kafka.Anonymous}, r)
	p.Verify = replica.VerifyAndAdd
	index, _ := b.coordinators.groups.PartitionFor(r.Group)
	part, err := b.manager.Get(kafka.TopicPartition{Topic: kafka.OffsetsTopic, Partition: index})
	if err != nil {
		answer(coordinator.Answer{Err: kafka.NotCoordinator})
		return
	}
	check, needed, err := part.StartVerification(replica.TxnCheck{TransactionalID: r.TransactionalID,
		Producer: kafka.ProducerID(r.ProducerID), Epoch: kafka.ProducerEpoch(r.ProducerEpoch), Add: true})
	if err != nil || !needed {
		b.coordinators.groups.Do(r.Group, p).OnDone(answer)
		return
	}
	p.Guard = check.Guard
	b.verifyOffsets(check, index, func(err error) {
		if err != nil {
			part.StopVerification(check)
			answer(coordinator.Answer{Err: err})
			return
		}
		b.coordinators.groups.Do(r.Group, p).OnDone(func(a coordinator.Answer) {
			part.StopVerification(check)
			answer(a)
		})
	})
}

func (b *broker) verifyOffsets(c replica.TxnCheck, index int32, answer func(error)) {
	c.Partition = kafka.TopicPartition{Topic: kafka.OffsetsTopic, Partition: index}
	b.verify(c, answer)
}
