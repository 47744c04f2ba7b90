package sim

import (
	"hash/fnv"
	"slices"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/quorum"
	"moldau/internal/kafka"
)

// quorumTruth is what a quorum has ever promised.
type quorumTruth struct {
	leaders map[kafka.LeaderEpoch]kafka.NodeID
	// committed is the one history that everybody must agree on.
	committed []committedBatch
	// durable is how far each replica's disk was when it was heard of the last time.
	durable map[quorum.ReplicaKey]kafka.Offset
}

// committedBatch is one batch that somebody was told to be committed.
type committedBatch struct {
	base, last kafka.Offset
	epoch      kafka.LeaderEpoch
	control    bool
	content    uint64
	// by is the epoch in which the first replica heard of it: leaders of later ones have it.
	by kafka.LeaderEpoch
}

// quorumSeen is how a replica looked after the last event.
type quorumSeen struct {
	end, start kafka.Offset
	watermark  kafka.Offset
	role       quorum.Role
}

func (t *quorumTruth) reset() {
	t.leaders = map[kafka.LeaderEpoch]kafka.NodeID{}
	t.durable = map[quorum.ReplicaKey]kafka.Offset{}
}

// end is where the committed history ends.
func (t *quorumTruth) end() kafka.Offset {
	if len(t.committed) == 0 {
		return 0
	}
	return t.committed[len(t.committed)-1].last + 1
}

// committedBatch holds a delivery against the history.
func (t *quorumTruth) committedBatch(v *voter, b quorum.Batch, values [][]byte) {
	w := v.m.world
	h := fnv.New64a()
	for _, value := range values {
		_, _ = h.Write(value)
	}
	got := committedBatch{base: b.Base, last: b.Last, epoch: b.Epoch, control: b.Control, content: h.Sum64(),
		by: v.pump.State().Epoch}
	w.note("committed", uint64(v.m.id), uint64(b.Base), got.content)
	i, known := slices.BinarySearchFunc(t.committed, b.Base,
		func(c committedBatch, o kafka.Offset) int { return int(c.base - o) })
	if !known {
		if b.Base != t.end() {
			v.m.fail("batch %d..%d was delivered between others (the history ends at %d)", b.Base, b.Last,
				t.end())
			return
		}
		t.committed = append(t.committed, got)
		w.stats.Committed++
		return
	}
	c := t.committed[i]
	c.by, got.by = 0, 0
	if c != got {
		v.m.fail("it was delivered %+v, where %+v is committed", got, c)
	}
}

// snapshotTaken checks that a snapshot stands for a part of the history that is committed.
func (t *quorumTruth) snapshotTaken(v *voter, id quorum.OffsetAndEpoch) {
	w := v.m.world
	w.note("snapshot", uint64(v.m.id), uint64(id.Offset))
	if id.Offset > t.end() {
		v.m.fail("takes snapshot %s, beyond the committed end %d", id, t.end())
	}
	if w.now > v.born {
		w.stats.Downloads++
	}
	if v.pump.State().Role == quorum.Leader && w.now > v.born {
		v.m.fail("leads and takes snapshot %s", id)
	}
}

// check looks at a replica after an event.
func (t *quorumTruth) check(v *voter) {
	w, s, seen := v.m.world, v.pump.State(), v.seen
	t.durable[v.config.Self] = s.Durable
	switch {
	case s.Epoch < v.m.epoch:
		v.m.fail("went from epoch %d back to %d", v.m.epoch, s.Epoch)
	case s.HighWatermark > s.LogEnd:
		v.m.fail("high watermark %d above the log's end %d", s.HighWatermark, s.LogEnd)
	case s.LogEnd < v.pump.Delivered().Offset:
		v.m.fail("the log ends at %d, applied is %d", s.LogEnd, v.pump.Delivered().Offset)
	case s.HighWatermark != kafka.NoOffset && s.HighWatermark < seen.watermark && s.Role == seen.role &&
		s.Epoch == v.m.epoch:
		v.m.fail("the high watermark fell from %d to %d", seen.watermark, s.HighWatermark)
	}
	v.m.epoch = s.Epoch
	if s.Role == quorum.Leader {
		t.checkLeader(v, s)
	}
	if s.LogEnd < seen.end {
		w.stats.Truncations++
	}
	if s.LogStart > seen.start {
		w.stats.Trims++
	}
	v.seen = quorumSeen{end: s.LogEnd, start: s.LogStart, watermark: s.HighWatermark, role: s.Role}
}

// checkLeader wants one leader for each epoch, who has all that earlier ones have committed, and who commits only what
// a majority has on its disks.
func (t *quorumTruth) checkLeader(v *voter, s quorum.State) {
	w := v.m.world
	other, known := t.leaders[s.Epoch]
	switch {
	case known && other != v.m.id:
		w.fail("epoch %d is led by %d and by %d", s.Epoch, other, v.m.id)
		return
	case !known:
		t.leaders[s.Epoch] = v.m.id
		w.stats.Elections++
		w.note("leader", uint64(v.m.id), uint64(s.Epoch))
		w.logf("%d leads epoch %d from offset %d", v.m.id, s.Epoch, s.EpochStart)
		for _, c := range slices.Backward(t.committed) {
			if c.by < s.Epoch && c.last >= s.LogEnd {
				w.fail("node %d leads epoch %d with a log that ends at %d; offset %d was committed in epoch %d", v.m.id,
					s.Epoch, s.LogEnd, c.last, c.by)
				return
			}
			if c.last < s.LogEnd {
				break
			}
		}
	}
	if s.HighWatermark <= v.seen.watermark {
		return
	}
	have := 0
	for _, member := range s.Voters {
		if t.durableOf(member.Key) >= s.HighWatermark {
			have++
		}
	}
	if have <= len(s.Voters)/2 {
		v.m.fail("commits up to %d, which %d of %d voters have on their disks", s.HighWatermark, have,
			len(s.Voters))
	}
}

// durableOf is how far a voter's disk is. Static voters have no directory id.
func (t *quorumTruth) durableOf(k quorum.ReplicaKey) kafka.Offset {
	if !k.Directory.IsZero() {
		return t.durable[k]
	}
	k.Directory = replicaOf(k.ID, 0).Key.Directory
	return t.durable[k]
}

// compareImages wants equal images at equal offsets.
func (w *World) compareImages() {
	byOffset := map[kafka.Offset]string{}
	for _, m := range w.machines {
		if !m.up() {
			continue
		}
		v := m.voter()
		at, text := v.pump.Delivered().Offset, imageText(v.image)
		if other, ok := byOffset[at]; ok && other != text {
			w.fail("images differ at offset %d", at)
		}
		byOffset[at] = text
	}
}

func imageText(image *metadata.Image) string {
	var out []byte
	for r := range image.Records(metadataVersion) {
		out = metadata.Encode(out, r, metadata.VersionFor(r, metadataVersion))
	}
	return string(out)
}
