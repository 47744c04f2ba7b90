package api

import (
	"slices"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
)

// fetchResult is the answer for one partition.
type fetchResult struct {
	replica.ReadResult
	entry *fetchEntry
	code  kafka.Code
	// unread says that the partition was not even asked: Kafka does not end a wait for such errors, and
	// sends an empty list of aborted transactions instead of none.
	unread    bool
	throttled bool // what followers are given of the partition counts against the quota
	// preferred is the replica that the consumer is sent to, NoNode for none.
	preferred kafka.NodeID
	// mayHaveMore says that there is more to read than was given.
	mayHaveMore bool
}

// Size is the length of the records.
func (r *fetchResult) Size() int { return r.Extents.Size() }

// collect looks at the partitions and makes the answer, if it is final, if there is enough, or if something
// is wrong. The caller holds the set's session lock, and runs the set's effects afterwards.
func (op *fetchOp) collect(final bool) (server.Reply, bool) {
	s, image := op.set, op.h.b.Image()
	if op.session != nil && op.session.epoch != op.epoch {
		return op.topLevel(kafka.InvalidFetchSessionEpoch), true // a later request of the session has come
	}
	entries := s.take()
	if op.full {
		entries = s.entries
	}
	reply := op.h.replies.get()
	bytes, unread, urgent := 0, 0, false
	for _, e := range entries {
		reply.results = append(reply.results, fetchResult{entry: e, preferred: kafka.NoNode})
		r := &reply.results[len(reply.results)-1]
		op.look(image, r, op.maxBytes-bytes, bytes == 0)
		bytes += r.Size()
		urgent = urgent || r.urgent()
		if r.unread {
			unread++
		}
	}
	done := final || urgent || bytes >= op.minBytes || unread == s.size()
	if s.kept() {
		op.keep(reply, done)
	}
	if !done {
		op.h.replies.put(reply)
		return server.Reply{}, false
	}
	op.count(reply)
	return op.encode(image, reply), true
}

// count counts what is given to consumers, and to followers of throttled partitions.
func (op *fetchOp) count(reply *fetchReply) {
	quota := op.h.b.LeaderQuota
	for i := range reply.results {
		r := &reply.results[i]
		if op.replica == kafka.NoNode {
			op.h.b.Metrics.fetched(r.entry.topic, r.Size())
			continue
		}
		op.h.b.Metrics.ReplicaBytes.Add(r.Size())
		if quota != nil && r.Size() > 0 && r.throttled {
			quota.Record(op.h.b.Now(), int64(r.Size()))
		}
	}
}

// throttled says whether a follower gets no records of a partition for now: its replica is throttled and not in sync, and
// throttled followers were given more than the quota allows (KIP-73). It is asked again when its wait is over, at the
// latest, and what it has counts as always.
func (op *fetchOp) throttled(part *replica.Partition) bool {
	quota := op.h.b.LeaderQuota
	return op.replica != kafka.NoNode && quota != nil && isThrottled(part) && !part.InSync(op.replica) &&
		quota.Exceeded(op.h.b.Now())
}

// tellsWatermark says whether a follower that consumers read from is behind in what it may show them. Elsewhere the high
// watermark rides on the next answer.
func (op *fetchOp) tellsWatermark(part *replica.Partition, e *fetchEntry) bool {
	return op.set.watcher.Watermark && op.session != nil && part.HighWatermark() != e.sentHighWatermark
}

func isThrottled(part *replica.Partition) bool {
	c := part.Config()
	return c != nil && c.LeaderThrottled.Has(part.TopicPartition().Partition)
}

// urgent says that the reader must hear of this at once.
func (r *fetchResult) urgent() bool {
	return !r.unread && (r.code != 0 || r.DivergingEpoch != kafka.NoEpoch || r.preferred != kafka.NoNode)
}

// nothingRead is what is told with an error.
var nothingRead = replica.ReadResult{HighWatermark: kafka.NoOffset, LastStable: kafka.NoOffset,
	LogStart: kafka.NoOffset, DivergingEpoch: kafka.NoEpoch, DivergingEnd: kafka.NoOffset}

// look reads one partition.
func (op *fetchOp) look(image *metadata.Image, r *fetchResult, room int, whole bool) {
	e := r.entry
	r.ReadResult = nothingRead
	part, err := op.set.resolve(op.h.b, image, e)
	if err != nil {
		op.set.unwatch(e)
		r.code, r.unread = kafka.CodeOf(err), err != kafka.NotLeaderOrFollower
		return
	}
	if op.set.kept() {
		op.set.watch(e, part) // before it is read: what moves from here on is not missed
	}
	if r.code = op.refuseFollower(image, part, e); r.code != 0 {
		return
	}
	if op.redirect(image, part, r) {
		return
	}
	if op.throttled(part) {
		room, whole = 0, false
	}
	read := part.Read(op.spec(e, room, whole))
	if read.Err != nil {
		r.code = kafka.CodeOf(read.Err)
		return
	}
	r.ReadResult = read
	r.throttled = op.replica != kafka.NoNode && isThrottled(part)
	limit := read.HighWatermark
	if op.readCommitted {
		limit = read.LastStable
	}
	r.mayHaveMore = e.offset < limit && r.Size() == 0
	// What a parked fetch finds when it is woken is for the reader; its position was told when it came.
	if op.replica != kafka.NoNode && op.wait.later == nil && !r.diverges() {
		op.progress(image, part, e, read.LeaderEpoch)
	}
}

// refuseFollower says why a broker may not fetch as a follower: it is no replica as far as this node knows, and since the
// leader epochs are compared too it may know more; or it is an incarnation that another has replaced (KIP-903).
func (op *fetchOp) refuseFollower(image *metadata.Image, part *replica.Partition, e *fetchEntry) kafka.Code {
	if op.replica == kafka.NoNode || part.Role() != replica.Leader { // reading says the latter
		return 0
	}
	p, ok := image.Partition(part.TopicPartition())
	if !ok || !slices.Contains(p.Replicas, op.replica) {
		if e.leaderEpoch != kafka.NoEpoch {
			return kafka.UnknownLeaderEpoch
		}
		return kafka.NotLeaderOrFollower
	}
	if b, ok := image.Broker(op.replica); ok && op.replicaEpoch != -1 && op.replicaEpoch < b.Epoch {
		return kafka.NotLeaderOrFollower
	}
	return 0
}

// progress records what a follower has: what it asks for is on its disk.
func (op *fetchOp) progress(image *metadata.Image, part *replica.Partition, e *fetchEntry, term kafka.LeaderEpoch) {
	effects := part.Fetched(op.call.Now, replica.FollowerFetch{
		Replica: op.replica, Epoch: op.replicaEpoch, LeaderEpoch: term, Offset: e.offset, Start: e.logStart,
	}, func(id kafka.NodeID) (kafka.BrokerEpoch, bool) {
		b, ok := image.Broker(id)
		if !ok || !b.Active() {
			return -1, false
		}
		return b.Epoch, true
	})
	op.set.effects = append(op.set.effects, effects)
}

// keep decides what of a session stays on the ready list, and, when the answer goes out, notes what it
// tells and cuts an incremental one down to what changed (KIP-227). Partitions that gave records go to the
// end, so that all get their turn.
func (op *fetchOp) keep(reply *fetchReply, done bool) {
	var first, last []*fetchEntry
	told := reply.results[:0]
	for i := range reply.results {
		r := &reply.results[i]
		e := r.entry
		changed := r.Size() > 0 || r.code != 0 || r.DivergingEpoch != kafka.NoEpoch || r.preferred != kafka.NoNode ||
			r.HighWatermark != e.sentHighWatermark || r.LogStart != e.sentLogStart
		again := r.code != 0 || r.DivergingEpoch != kafka.NoEpoch || r.mayHaveMore || op.replica != kafka.NoNode ||
			r.preferred != kafka.NoNode
		switch {
		case done && r.Size() > 0:
			last = append(last, e)
		case again || !done && changed:
			first = append(first, e)
		}
		if done && changed {
			// With an error both are NoOffset, so that the partition is told of again when the error is gone.
			e.sentHighWatermark, e.sentLogStart = r.HighWatermark, r.LogStart
		}
		if done && (changed || op.full) {
			told = append(told, *r)
		}
	}
	if done {
		clear(reply.results[len(told):])
		reply.results = told
	}
	op.set.putBack(first, last)
}

// enough says, without making an answer, whether the entries that moved are worth one; those that cannot be
// read stay in the ready list, so that it shows when there is nothing left to wait for. The caller holds
// the set's session lock.
func (op *fetchOp) enough() bool {
	s, image := op.set, op.h.b.Image()
	var rest []*fetchEntry
	bytes, unread, urgent := 0, 0, false
	for _, e := range s.take() {
		part, err := s.resolve(op.h.b, image, e)
		n := 0
		switch {
		case err == kafka.NotLeaderOrFollower:
			urgent = true
		case err != nil:
			unread++
		default:
			s.watch(e, part) // before the look, so that nothing moves unseen
			if op.tellsWatermark(part, e) {
				urgent = true
				break
			}
			if op.throttled(part) {
				break
			}
			if n, err = part.Available(op.spec(e, op.minBytes, true), max(op.minBytes-bytes, 1)); err != nil {
				urgent = true
			}
		}
		bytes += n
		if n > 0 || err != nil || !op.full {
			rest = append(rest, e)
		}
	}
	s.putBack(rest, nil)
	return urgent || bytes >= op.minBytes || unread == s.size()
}
