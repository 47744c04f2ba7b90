package txn

import (
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/flaw"
	"moldau/internal/kafka"
)

// endTxn decides the outcome of a transaction. The answer leaves when the decision is committed; the markers follow.
//
// From version 5 on the client speaks transactions v2: each end bumps the epoch, and a retry is known by naming the epoch
// before it (KIP-890).
func (m *Machine) endTxn(now time.Time, p *coordinator.Pending, r *kmsg.EndTxnRequest, spare kafka.ProducerID) coordinator.Result {
	e := m.ids[r.TransactionalID]
	producer := coordinator.Stamp{ID: kafka.ProducerID(r.ProducerID), Epoch: kafka.ProducerEpoch(r.ProducerEpoch)}
	switch {
	case r.TransactionalID == "":
		return answer(p, r.TransactionalID, kafka.InvalidRequest)
	case e == nil:
		return answer(p, r.TransactionalID, kafka.InvalidProducerIDMapping)
	case r.Version >= 5:
		return m.endV2(now, p, r, e, producer, spare)
	case producer.ID != e.producer.ID && e.awaits(producer):
		return m.park(now, e, p)
	case producer.ID != e.producer.ID:
		return answer(p, e.id, kafka.InvalidProducerIDMapping)
	case producer.Epoch != e.producer.Epoch:
		return answer(p, e.id, fencedCode(r.Version, 2))
	}
	switch {
	case e.state == Ongoing:
		return m.decide(now, p, r.Commit, e, 0, kafka.NoProducer)
	case e.state == Empty || e.committed() != r.Commit:
		return answer(p, e.id, kafka.InvalidTxnState)
	case e.state.preparing():
		return m.park(now, e, p)
	}
	return reply(p, e.id, ended(coordinator.NoStamp))
}

// committed says which way a decided transaction went.
func (t *transaction) committed() bool { return t.state == PrepareCommit || t.state == CompleteCommit }

// endV2 is endTxn for clients of transactions v2.
func (m *Machine) endV2(now time.Time, p *coordinator.Pending, r *kmsg.EndTxnRequest, e *entry, producer coordinator.Stamp,
	spare kafka.ProducerID) coordinator.Result {
	rotated := e.version >= 2 && producer == coordinator.Stamp{ID: e.previousID, Epoch: lastEpoch} && e.producer.Epoch == 0
	retry := rotated || e.version >= 2 && producer.ID == e.producer.ID && producer.Epoch+1 == e.producer.Epoch
	switch {
	case e.awaits(producer):
		return m.park(now, e, p) // the end of its next transaction, and this one is not complete
	case producer.ID != e.producer.ID && !rotated:
		return answer(p, e.id, kafka.InvalidProducerIDMapping)
	case producer.Epoch != e.producer.Epoch && !retry:
		return answer(p, e.id, kafka.ProducerFenced)
	case e.state.preparing() && e.committed() == r.Commit:
		return m.park(now, e, p)
	case e.state.preparing():
		return answer(p, e.id, kafka.InvalidTxnState)
	case retry && (e.state == Ongoing || e.state == Empty):
		// Not the end of the last transaction asked for again, but of one before: its producer has been replaced.
		return answer(p, e.id, kafka.ProducerFenced)
	case retry && e.committed() == r.Commit:
		return reply(p, e.id, ended(e.successor()))
	case retry, r.Commit && e.state != Ongoing:
		return answer(p, e.id, kafka.InvalidTxnState)
	case e.exhausted() && spare == kafka.NoProducer:
		return draw(p)
	}
	if !e.exhausted() {
		spare = kafka.NoProducer // drawn for a state that has passed
	}
	return m.decide(now, p, r.Commit, e, 2, spare)
}

// decide records the outcome and answers.
func (m *Machine) decide(now time.Time, p *coordinator.Pending, commit bool, e *entry, version int16, nextID kafka.ProducerID) coordinator.Result {
	before := e.producer.Epoch
	t := e.prepared(commit, version, nextID, now.UnixMilli())
	out := m.write(t)
	next := coordinator.NoStamp
	if version >= 2 {
		next = t.successor()
	}
	out.Replies = []coordinator.Reply{{To: p, Answer: coordinator.Answer{Body: ended(next)}}}
	out.Then = func(_ time.Time, err error) coordinator.Result {
		if err == nil {
			e.ended = endedByProducer
		}
		if err == nil && version >= 2 {
			e.lastEpoch = before
		}
		return coordinator.Result{}
	}
	return out
}

func ended(next coordinator.Stamp) *kmsg.EndTxnResponse {
	resp := kmsg.NewPtrEndTxnResponse()
	resp.ProducerID, resp.ProducerEpoch = int64(next.ID), int16(next.Epoch)
	return resp
}

// marked tells that the markers of a transaction are written.
func (m *Machine) marked(now time.Time, d marked) coordinator.Result {
	e := m.ids[d.id]
	if e == nil || e.producer != d.producer {
		return coordinator.Result{}
	}
	return m.complete(now, d.id)
}

// complete records that a transaction has ended everywhere, and lets go who waited for that.
func (m *Machine) complete(now time.Time, id string) coordinator.Result {
	e := m.ids[id]
	if e == nil || !e.state.preparing() {
		return coordinator.Result{}
	}
	out := m.write(e.completed(now.UnixMilli()))
	out.Then = func(now time.Time, err error) coordinator.Result {
		if err == nil {
			return m.unpark(id, nil)
		}
		return coordinator.Result{Scope: id, Timers: []coordinator.Timer{{
			Key: coordinator.TimerKey{Kind: timerComplete, Scope: id}, At: now.Add(retryAppend)}}}
	}
	return out
}

// loaded takes up what the coordinator before left: markers that may be missing, and the timeouts of open transactions.
func (m *Machine) loaded(now time.Time) coordinator.Result {
	out := coordinator.Result{WholeShard: true}
	for _, id := range slices.Sorted(maps.Keys(m.ids)) {
		switch e := m.ids[id]; {
		case e.state.preparing() && flaw.In(flaw.MarkersForgotten):
		case e.state.preparing():
			out.Outgoing = append(out.Outgoing, m.markers(e.transaction))
		case e.state == Ongoing:
			out.Timers = append(out.Timers, coordinator.Timer{Key: timeoutTimer(id),
				At: time.UnixMilli(e.startMs + int64(e.timeoutMs))})
		}
	}
	out.Timers = append(out.Timers, m.expirationTimer(now))
	return out
}

func (m *Machine) expirationTimer(now time.Time) coordinator.Timer {
	return coordinator.Timer{Key: coordinator.TimerKey{Kind: timerExpiration}, At: now.Add(m.o.ExpirationCheck)}
}

// expire forgets the ids that nobody has used for long. Whoever comes back with one is told
// INVALID_PRODUCER_ID_MAPPING and has to begin anew.
func (m *Machine) expire(now time.Time) coordinator.Result {
	out := coordinator.Result{Split: true, Timers: []coordinator.Timer{m.expirationTimer(now)}}
	oldest := now.Add(-m.o.Expiration).UnixMilli()
	for _, id := range slices.Sorted(maps.Keys(m.ids)) {
		if e := m.ids[id]; e.state.idle() && e.updateMs <= oldest {
			out.Records = append(out.Records, coordinator.Record{Key: key(id)})
		}
	}
	out.Then = func(now time.Time, err error) coordinator.Result {
		if err == nil {
			return coordinator.Result{}
		}
		return coordinator.Result{Timers: []coordinator.Timer{m.expirationTimer(now)}}
	}
	return out
}
