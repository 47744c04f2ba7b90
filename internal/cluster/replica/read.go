package replica

import (
	"errors"
	"syscall"

	"moldau/internal/flaw"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
)

// ReadSpec is one partition of a Fetch request.
type ReadSpec struct {
	// Replica is the fetching broker, NoNode for a consumer: brokers see the whole log.
	Replica kafka.NodeID
	Offset  kafka.Offset
	// MaxBytes bounds the answer; the last batch may be cut. WholeBatch lets the first batch exceed it.
	MaxBytes   int
	WholeBatch bool
	// LeaderEpoch fences (KIP-320); LastEpoch is the epoch of the fetcher's last record, which finds divergence (KIP-595).
	// NoEpoch skips either.
	LeaderEpoch, LastEpoch kafka.LeaderEpoch
	ReadCommitted          bool
	// FromFollower allows an answer by a replica that does not lead (KIP-392).
	FromFollower bool
}

// ReadResult is the answer to a ReadSpec. With Err set only the offsets that were known are filled in.
type ReadResult struct {
	Err           error
	LeaderEpoch   kafka.LeaderEpoch // of the term that was read from
	HighWatermark kafka.Offset
	LastStable    kafka.Offset
	LogStart      kafka.Offset
	Extents       log.Extents // Release it
	Aborted       []log.AbortedTxn
	// DivergingEpoch and DivergingEnd say where the fetcher's log parts from this one; NoEpoch when it does not.
	DivergingEpoch kafka.LeaderEpoch
	DivergingEnd   kafka.Offset
}

// Read answers a fetch from the published state, without the append lock.
//
// Errors: KafkaStorageError; NotLeaderOrFollower; FencedLeaderEpoch, UnknownLeaderEpoch; OffsetOutOfRange below the log
// start, beyond the log end, or after an epoch that this log never had.
func (p *Partition) Read(r ReadSpec) ReadResult {
	for {
		s := p.published.Load()
		out := p.readFrom(s, r)
		if !s.replaced(p.published.Load()) {
			return out
		}
		out.Extents.Release() // of a log that may be gone by now, with what it knew of transactions
	}
}

// replaced says that the log which s shows has been moved to another directory.
func (s *state) replaced(now *state) bool {
	return s.view != nil && now.view != nil && s.view.Log() != now.view.Log()
}

func (p *Partition) readFrom(s *state, r ReadSpec) ReadResult {
	out := ReadResult{LeaderEpoch: s.leaderEpoch, HighWatermark: kafka.NoOffset, LastStable: kafka.NoOffset, LogStart: kafka.NoOffset,
		DivergingEpoch: kafka.NoEpoch, DivergingEnd: kafka.NoOffset}
	if out.Err = s.readable(r.LeaderEpoch, r.FromFollower); out.Err != nil {
		return out
	}
	v := s.view
	out.HighWatermark, out.LastStable, out.LogStart = s.highWatermark, s.lastStable, v.Start
	if r.Offset < v.Start {
		out.Err = kafka.OffsetOutOfRange
		return out
	}
	// Divergence comes before the upper bound: a fetcher that is too far ahead must learn where to cut.
	if r.LastEpoch != kafka.NoEpoch && !flaw.In(flaw.IgnoreDivergence) && out.diverges(v, r) {
		return out
	}
	if r.Offset > v.End {
		out.Err = kafka.OffsetOutOfRange
		return out
	}
	limit := s.limit(r.Replica, r.ReadCommitted)
	if r.Offset >= limit {
		return out
	}
	out.Extents, out.Err = v.Read(r.Offset, limit, r.MaxBytes, r.WholeBatch)
	if out.Err != nil {
		p.reads.failed(r.Offset, out.Err)
		if p.limits.ReadFailed != nil && errors.Is(out.Err, syscall.EIO) {
			p.limits.ReadFailed(v.Log().Dir(), out.Err)
		}
		return out
	}
	if r.ReadCommitted && r.Replica == kafka.NoNode {
		out.abort(r.Offset)
	}
	if p.reads.suspect(r, out.Extents.Size()) {
		p.reads.verify(r.Offset, &out.Extents)
	}
	return out
}

// readable says why nothing is served.
func (s *state) readable(epoch kafka.LeaderEpoch, fromFollower bool) error {
	switch s.role {
	case Offline:
		return kafka.KafkaStorageError
	case Leader:
	case Follower:
		// A client that knows of another epoch is told so first: it may be this node that is behind.
		if err := compareEpoch(epoch, s.leaderEpoch); err != nil || fromFollower {
			return err
		}
		return kafka.NotLeaderOrFollower
	default:
		return kafka.NotLeaderOrFollower
	}
	return compareEpoch(epoch, s.leaderEpoch)
}

// limit is the first offset that the reader may not see.
func (s *state) limit(replica kafka.NodeID, readCommitted bool) kafka.Offset {
	switch {
	case replica != kafka.NoNode:
		return s.view.End
	case readCommitted:
		return s.lastStable
	}
	return s.highWatermark
}

// diverges checks the fetcher's history against this log's (KIP-320, KIP-595). It reports whether the answer is complete.
func (out *ReadResult) diverges(v *log.View, r ReadSpec) bool {
	epoch, end := v.EndOffsetFor(r.LastEpoch)
	switch {
	case epoch == kafka.NoEpoch:
		out.Err = kafka.OffsetOutOfRange
		return true
	case epoch < r.LastEpoch || end < r.Offset:
		out.DivergingEpoch, out.DivergingEnd = epoch, end
		return true
	}
	return false
}

// abort lists the aborted transactions that the reader must skip in what it was given.
func (out *ReadResult) abort(from kafka.Offset) {
	if out.Extents.Size() == 0 {
		return
	}
	v := out.Extents.View() // the log may have been compacted since the state was published
	upper, err := v.UpperBound(&out.Extents)
	if err == nil {
		out.Aborted, err = v.Aborted(from, upper)
	}
	if err != nil {
		out.Extents.Release()
		out.Err = err
	}
}

// Available gives how many bytes a reader at offset could get now, up to enough: what a parked fetch compares with its
// minimum. An error means that the fetch should be answered at once.
func (p *Partition) Available(r ReadSpec, enough int) (int, error) {
	for {
		s := p.published.Load()
		n, err := s.available(r, enough)
		if err == nil || !s.replaced(p.published.Load()) {
			return n, err
		}
	}
}

func (s *state) available(r ReadSpec, enough int) (int, error) {
	if err := s.readable(r.LeaderEpoch, r.FromFollower); err != nil {
		return 0, err
	}
	if r.Offset < s.view.Start || r.Offset > s.view.End {
		return 0, kafka.OffsetOutOfRange
	}
	limit := s.limit(r.Replica, r.ReadCommitted)
	if r.Offset >= limit {
		return 0, nil
	}
	x, err := s.view.Read(r.Offset, limit, enough, true)
	if err != nil {
		return 0, err
	}
	defer x.Release()
	return x.Size(), nil
}
