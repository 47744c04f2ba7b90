package sim

import (
	"fmt"
	"hash/fnv"
	"slices"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// partitionTruth is what the brokers have ever promised about their partitions.
type partitionTruth struct {
	w       *World
	logs    map[kafka.TopicPartition]*committedLog
	leaders map[leaderTerm]kafka.NodeID
	// newest is the metadata that the most advanced replica of its log has applied.
	newest *metadata.Image
	// durable is how far each replica's disk was when it was heard of the last time.
	durable map[replicaID]kafka.Offset
}

type leaderTerm struct {
	tp    kafka.TopicPartition
	epoch kafka.LeaderEpoch
}

type replicaID struct {
	tp   kafka.TopicPartition
	node kafka.NodeID
}

// committedLog is the one history of a partition, record by record.
type committedLog struct {
	entries []committedRecord
	places  map[uint64]int // of each value
}

type committedRecord struct {
	value uint64
	epoch kafka.LeaderEpoch // in which it was written
	by    kafka.LeaderEpoch // of the leader that committed it
}

// partitionSeen is how a replica looked after the last event.
type partitionSeen struct {
	checked   kafka.Offset // up to where the log was held against the history
	watermark kafka.Offset
	epoch     kafka.LeaderEpoch
	role      replica.Role
	end       kafka.Offset
}

func (t *partitionTruth) begin(w *World) {
	t.w, t.logs, t.leaders = w, map[kafka.TopicPartition]*committedLog{}, map[leaderTerm]kafka.NodeID{}
	t.durable = map[replicaID]kafka.Offset{}
	t.newest = metadata.New()
}

func (t *partitionTruth) log(tp kafka.TopicPartition) *committedLog {
	l := t.logs[tp]
	if l == nil {
		l = &committedLog{places: map[uint64]int{}}
		t.logs[tp] = l
	}
	return l
}

func hashOf(value []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(value)
	return h.Sum64()
}

// acknowledged checks that a batch is committed where the leader says.
func (t *partitionTruth) acknowledged(p *producer, at kafka.Offset) {
	w := t.w
	w.stats.Acknowledged++
	w.note("acknowledged", uint64(p.id), uint64(at))
	l := t.log(p.tp)
	for i, v := range p.values {
		o := int(at) + i
		if o < 0 || o >= len(l.entries) || l.entries[o].value != hashOf([]byte(v)) {
			w.fail("%q was acknowledged at offset %d of %s, where it is not committed", v, o, p.tp)
			return
		}
	}
}

// check looks at a node after an event.
func (t *partitionTruth) check(b *broker) {
	t.learn(b)
	for _, p := range b.manager.All() {
		if p.Role() == replica.Leader || p.Role() == replica.Follower {
			t.checkReplica(b, p)
		}
	}
}

// learn takes over what a node's image says if it is the newest.
func (t *partitionTruth) learn(b *broker) {
	if b.image.Offset() > t.newest.Offset() {
		t.newest = b.image
		t.checkImage()
	}
}

// checkMembers wants all that is visible on the disk of everybody in sync.
func (t *partitionTruth) checkMembers(tp kafka.TopicPartition, p *metadata.Partition) {
	visible := kafka.Offset(len(t.log(tp).entries))
	for _, id := range p.ISR {
		if have := t.durable[replicaID{tp, id}]; have < visible {
			t.w.fail("%s: visible up to %d, but %d, which has come in sync, has only %d on its disk", tp, visible, id, have)
		}
	}
}

// checkImage wants every leader to be in sync, and everybody in sync to have all that is visible.
func (t *partitionTruth) checkImage() {
	for topic := range t.newest.TopicsByID() {
		for i, p := range topic.Partitions() {
			if p.HasLeader() && !slices.Contains(p.ISR, p.Leader) {
				t.w.fail("%s-%d is led by %d, which is not in its in-sync set %v", topic.Name, i, p.Leader, p.ISR)
			}
			t.checkMembers(kafka.TopicPartition{Topic: topic.Name, Partition: i}, p)
		}
	}
}

func (t *partitionTruth) checkReplica(b *broker, p *replica.Partition) {
	t.learn(b)
	tp := p.TopicPartition()
	v := p.Log().View()
	watermark := p.HighWatermark()
	_, epoch := p.Leadership()
	role := p.Role()
	t.durable[replicaID{tp, b.m.id}] = v.Durable
	seen := b.seen[tp]
	if seen == nil {
		seen = &partitionSeen{epoch: kafka.NoEpoch, end: v.End}
		b.seen[tp] = seen
	}
	if v.End < seen.end {
		t.w.stats.PartitionCuts++
		seen.checked = min(seen.checked, v.End)
	}
	newTerm := seen.epoch != epoch || seen.role != role
	switch {
	case watermark > v.End:
		b.m.fail("%s: high watermark %d above the end %d", tp, watermark, v.End)
	case epoch < seen.epoch:
		b.m.fail("%s: from leader epoch %d back to %d", tp, seen.epoch, epoch)
	case watermark < seen.watermark && !newTerm && role == replica.Leader:
		b.m.fail("%s: the leader's high watermark fell from %d to %d", tp, seen.watermark, watermark)
	}
	if newTerm && role == replica.Leader {
		t.checkLeader(b, tp, epoch, v.End)
		seen.checked = 0
	}
	if watermark > seen.checked {
		t.compare(b, p, seen.checked, watermark, epoch)
		seen.checked = watermark
		if role == replica.Leader {
			t.checkInSync(b, tp, watermark, epoch)
		}
	}
	seen.epoch, seen.role, seen.watermark, seen.end = epoch, role, watermark, v.End
}

// checkLeader wants one leader for each epoch, who has all that was committed in earlier ones.
func (t *partitionTruth) checkLeader(b *broker, tp kafka.TopicPartition, epoch kafka.LeaderEpoch, end kafka.Offset) {
	at := leaderTerm{tp, epoch}
	if other, known := t.leaders[at]; known && other != b.m.id {
		b.m.fail("%s: %d leads epoch %d as well", tp, other, epoch)
		return
	} else if known {
		return
	}
	t.leaders[at] = b.m.id
	t.w.stats.LeaderChanges++
	t.w.logf("%d leads %s in epoch %d, from offset %d", b.m.id, tp, epoch, end)
	for i, e := range slices.Backward(t.log(tp).entries) {
		if i < int(end) {
			break
		}
		if e.by < epoch {
			b.m.fail("%s: it leads epoch %d with a log that ends at %d; offset %d was committed in epoch %d", tp, epoch, end, i,
				e.by)
			return
		}
	}
}

// compare holds the part of a log that has become visible against the history, or adds it to that.
func (t *partitionTruth) compare(b *broker, p *replica.Partition, from, to kafka.Offset, epoch kafka.LeaderEpoch) {
	tp, l := p.TopicPartition(), t.log(p.TopicPartition())
	x, err := p.Log().View().Read(from, to, 1<<30, true)
	if err != nil {
		b.m.fail("%s cannot be read from %d: %v", tp, from, err)
		return
	}
	defer x.Release()
	raw, err := x.ReadAll()
	if err != nil {
		b.m.fail("%s cannot be read from %d: %v", tp, from, err)
		return
	}
	for len(raw) > 0 {
		batch, rest, err := record.Split(raw)
		if err != nil {
			b.m.fail("%s: %v", tp, err)
			return
		}
		raw = rest
		for r, err := range batch.Records(record.Limits{}) {
			if err != nil {
				b.m.fail("%s: %v", tp, err)
				return
			}
			o := int(r.Offset)
			if o < int(from) || o >= int(to) {
				continue
			}
			value := hashOf(r.Value)
			if tp.Topic != topicName || batch.IsControl() {
				value = hashOf(fmt.Appendf(nil, "%d %q %q", o, r.Key, r.Value)) // the same may come again
			}
			if o == len(l.entries) {
				t.w.transactions.visible(tp, batch, r)
			}
			t.compareRecord(b, tp, l, o, committedRecord{value, batch.LeaderEpoch(), epoch})
		}
	}
}

func (t *partitionTruth) compareRecord(b *broker, tp kafka.TopicPartition, l *committedLog, at int, got committedRecord) {
	switch {
	case at > len(l.entries):
		b.m.fail("%s: offset %d is visible, and nothing between it and %d", tp, at, len(l.entries))
	case at < len(l.entries):
		if was := l.entries[at]; was.value != got.value || was.epoch != got.epoch {
			b.m.fail("%s: offset %d has another record (of epoch %d) than was committed (of epoch %d)", tp, at, got.epoch,
				was.epoch)
		}
	default:
		if other, known := l.places[got.value]; known {
			b.m.fail("%s: offset %d repeats the record of offset %d", tp, at, other)
			return
		}
		l.places[got.value] = at
		l.entries = append(l.entries, got)
		t.w.note("visible", uint64(at), got.value)
	}
}

// checkInSync wants all that is visible on the disk of everybody who is truly in sync: any of them may lead next.
func (t *partitionTruth) checkInSync(b *broker, tp kafka.TopicPartition, watermark kafka.Offset, epoch kafka.LeaderEpoch) {
	p, ok := t.newest.Partition(tp)
	if !ok || p.LeaderEpoch != epoch {
		return // a leader that was replaced and has not heard of it
	}
	for _, id := range p.ISR {
		if have := t.durable[replicaID{tp, id}]; have < watermark {
			b.m.fail("%s: visible up to %d, but %d, which is in sync, has only %d on its disk", tp, watermark, id, have)
		}
	}
}

// spares says whether every partition can be led and written to without a node.
func (t *partitionTruth) spares(id kafka.NodeID) bool {
	switch {
	case t.newest == nil:
		return true // no brokers
	case t.newest.Feature(metadata.ElrVersionFeature) == 0:
		return false // who falls out of sync while another one is down may be the last who has everything
	}
	for name := range t.w.topics() { // the order does not show
		if _, ok := t.newest.Topic(name); !ok {
			return false // it takes everybody to make it
		}
	}
	gone := func(x kafka.NodeID) bool { return x == id || t.w.machineOf(x).frozen }
	for topic := range t.newest.TopicsByID() {
		for _, p := range topic.Partitions() {
			certain := func(x kafka.NodeID) bool { return !gone(x) && t.registered(x) }
			left := func(without []kafka.NodeID) int { // after a move that is under way, or without it
				return len(slices.DeleteFunc(slices.Clone(p.Replicas),
					func(x kafka.NodeID) bool { return gone(x) || slices.Contains(without, x) }))
			}
			if left(p.Adding) < 2 || left(p.Removing) < 2 || !slices.ContainsFunc(slices.Concat(p.ISR, p.ELR), certain) {
				return false
			}
		}
	}
	return true
}

// registered says whether a node's broker lives and the controller knows it: without a crash it keeps what it may lead.
func (t *partitionTruth) registered(id kafka.NodeID) bool {
	m := t.w.machineOf(id)
	known, ok := t.newest.Broker(id)
	return ok && m.up() && known.Epoch == m.process.(*broker).epoch
}
