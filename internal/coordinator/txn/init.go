package txn

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// initProducer gives a transactional id its producer id and a new epoch, which fences whoever had the one before. An open
// transaction is aborted first (KIP-98). A producer that names what it has recovers without losing its place (KIP-360).
func (m *Machine) initProducer(now time.Time, p *coordinator.Pending, r *kmsg.InitProducerIDRequest,
	spare kafka.ProducerID) coordinator.Result {
	expected := coordinator.Stamp{ID: kafka.ProducerID(r.ProducerID), Epoch: kafka.ProducerEpoch(r.ProducerEpoch)}
	if r.Version < 3 {
		expected = coordinator.NoStamp
	}
	id := *r.TransactionalID
	switch timeout := time.Duration(r.TransactionTimeoutMillis) * time.Millisecond; {
	case id == "", (expected.ID == kafka.NoProducer) != (expected.Epoch == kafka.NoProducerEpoch):
		return answer(p, id, kafka.InvalidRequest)
	case timeout <= 0 || timeout > m.o.MaxTimeout:
		return answer(p, id, kafka.InvalidTransactionTimeout)
	}
	e := m.ids[id]
	switch {
	case e == nil:
		return m.newProducer(now, p, id, r.TransactionTimeoutMillis, spare)
	case e.awaits(expected):
		return m.park(now, e, p)
	case expected.ID != kafka.NoProducer && expected.ID != e.producer.ID &&
		(expected.ID != e.previousID || expected.Epoch < lastEpoch):
		return answer(p, id, m.fencedCode(r.Version))
	case e.state.preparing():
		return m.park(now, e, p)
	case e.state == Ongoing:
		return m.fence(now, e, p, spare)
	}
	return m.nextEpoch(now, p, r, e, expected, spare)
}

func (m *Machine) fencedCode(version int16) error {
	return fencedCode(version, 4)
}

// fencedCode is how a fenced producer is told: versions before first know INVALID_PRODUCER_EPOCH only.
func fencedCode(version, first int16) error {
	if version < first {
		return kafka.InvalidProducerEpoch
	}
	return kafka.ProducerFenced
}

// newProducer begins a transactional id.
func (m *Machine) newProducer(now time.Time, p *coordinator.Pending, id string, timeoutMs int32, spare kafka.ProducerID) coordinator.Result {
	if spare == kafka.NoProducer {
		return draw(p)
	}
	t := transaction{id: id, producer: coordinator.Stamp{ID: spare}, previousID: spare, nextID: kafka.NoProducer,
		timeoutMs: timeoutMs, startMs: -1, updateMs: now.UnixMilli()}
	return m.initialised(p, t, kafka.NoProducerEpoch)
}

// nextEpoch bumps the epoch of an idle id, or gives it a new producer id when its epochs are used up.
func (m *Machine) nextEpoch(now time.Time, p *coordinator.Pending, r *kmsg.InitProducerIDRequest, e *entry,
	expected coordinator.Stamp, spare kafka.ProducerID) coordinator.Result {
	known := expected.ID != kafka.NoProducer
	t := e.transaction
	t.state, t.partitions, t.startMs = Empty, nil, -1
	t.previousID, t.timeoutMs, t.updateMs = t.producer.ID, r.TransactionTimeoutMillis, now.UnixMilli()
	previous := kafka.NoProducerEpoch
	if known {
		previous = e.producer.Epoch
	}
	switch {
	case known && expected.Epoch != e.producer.Epoch:
		if expected.Epoch != e.lastEpoch {
			return answer(p, e.id, m.fencedCode(r.Version))
		}
		previous = e.lastEpoch // a retry: what it missed the answer of stands
	case e.exhausted():
		if spare == kafka.NoProducer {
			return draw(p)
		}
		t.producer = coordinator.Stamp{ID: spare}
	default:
		t.producer.Epoch++
	}
	return m.initialised(p, t, previous)
}

// initialised records an id that a producer starts from. Its epoch before is remembered for retries, once it is written.
func (m *Machine) initialised(p *coordinator.Pending, t transaction, previous kafka.ProducerEpoch) coordinator.Result {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = int64(t.producer.ID), int16(t.producer.Epoch)
	out := m.write(t)
	out.Replies = []coordinator.Reply{{To: p, Answer: coordinator.Answer{Body: resp}}}
	out.Then = func(_ time.Time, err error) coordinator.Result {
		if e := m.ids[t.id]; err == nil && e != nil {
			e.lastEpoch = previous
		}
		return coordinator.Result{}
	}
	return out
}

// fence aborts an open transaction and keeps the request until that is done.
func (m *Machine) fence(now time.Time, e *entry, p *coordinator.Pending, spare kafka.ProducerID) coordinator.Result {
	if m.rotates(e) && spare == kafka.NoProducer {
		return draw(p)
	}
	return m.abort(now, e, spare, func(now time.Time, err error) coordinator.Result {
		if err != nil {
			return answer(p, e.id, err)
		}
		e.ended = endedByFence
		return m.park(now, e, p)
	})
}

// rotates says whether the coordinator needs a new producer id to abort the transaction.
func (m *Machine) rotates(e *entry) bool { return m.version() >= 2 && e.exhausted() }

// version is the level of transaction.version that the cluster has finalized.
func (m *Machine) version() int16 { return m.image.Feature(metadata.TransactionVersionFeature) }

// abort ends an open transaction by the coordinator's own decision. The producer that had it may still recover by naming
// the epoch it had, if the cluster has transactions v2.
func (m *Machine) abort(now time.Time, e *entry, spare kafka.ProducerID,
	then func(time.Time, error) coordinator.Result) coordinator.Result {
	if !m.rotates(e) {
		spare = kafka.NoProducer
	}
	before := kafka.NoProducerEpoch
	if m.version() >= 2 {
		before = e.producer.Epoch
	}
	out := m.write(e.fenced(m.version(), spare, now.UnixMilli()))
	out.Then = func(now time.Time, err error) coordinator.Result {
		if err == nil {
			e.lastEpoch = before
		}
		return then(now, err)
	}
	return out
}

// timedOut aborts a transaction that was open for longer than its producer allowed.
func (m *Machine) timedOut(now time.Time, id string, spare kafka.ProducerID) coordinator.Result {
	e := m.ids[id]
	if e == nil || e.state != Ongoing {
		return coordinator.Result{}
	}
	if due := time.UnixMilli(e.startMs + int64(e.timeoutMs)); now.Before(due) {
		return coordinator.Result{Scope: id, Timers: []coordinator.Timer{{Key: timeoutTimer(id), At: due}}}
	}
	if m.rotates(e) && spare == kafka.NoProducer {
		return coordinator.Result{Outgoing: []coordinator.Work{DrawProducerID{
			Drawn: func(spare kafka.ProducerID, err error) coordinator.Event { return drawnForAbort{id, spare, err} }}}}
	}
	return m.abort(now, e, spare, func(now time.Time, err error) coordinator.Result {
		if err == nil {
			e.ended = endedByTimeout
			return coordinator.Result{}
		}
		return abortLater(now, id)
	})
}

func timeoutTimer(id string) coordinator.TimerKey {
	return coordinator.TimerKey{Kind: timerTimeout, Scope: id}
}

// abortLater tries again to abort a transaction whose time is up.
func abortLater(now time.Time, id string) coordinator.Result {
	return coordinator.Result{Scope: id, Timers: []coordinator.Timer{{Key: timeoutTimer(id), At: now.Add(retryAppend)}}}
}

// retryAppend is how long the coordinator waits after it could not append what nobody else will ask for again.
const retryAppend = time.Second
