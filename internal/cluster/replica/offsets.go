package replica

import (
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
)

// The special timestamps of ListOffsets.
const (
	LatestOffset        int64 = -1
	EarliestOffset      int64 = -2
	MaxTimestampOffset  int64 = -3 // KIP-734
	EarliestLocal       int64 = -4 // KIP-405
	LatestTiered        int64 = -5 // KIP-1005
	EarliestPendingCopy int64 = -6 // KIP-1023
)

// OffsetSpec is one partition of a ListOffsets request.
type OffsetSpec struct {
	TimestampMs   int64 // or one of the special ones
	Replica       kafka.NodeID
	ReadCommitted bool
	LeaderEpoch   kafka.LeaderEpoch // fences; NoEpoch skips that
}

// OffsetAt is an offset that was looked up, with the timestamp of its record and the epoch it was written in; -1 what is
// not known or does not apply.
type OffsetAt struct {
	Offset      kafka.Offset
	TimestampMs int64
	Epoch       kafka.LeaderEpoch
}

var noOffset = OffsetAt{Offset: kafka.NoOffset, TimestampMs: -1, Epoch: kafka.NoEpoch}

// ListOffset looks an offset up by time. No record at or after the time is not an error: the offset is then -1.
//
// Errors: NotLeaderOrFollower, FencedLeaderEpoch, UnknownLeaderEpoch, KafkaStorageError; OffsetNotAvailable to consumers
// while a new leader does not know the high watermark of its own epoch yet (KIP-207).
func (p *Partition) ListOffset(r OffsetSpec) (OffsetAt, error) {
	for {
		s := p.published.Load()
		at, err := s.listOffset(r)
		if err == nil || !s.replaced(p.published.Load()) {
			return at, err
		}
	}
}

func (s *state) listOffset(r OffsetSpec) (OffsetAt, error) {
	if err := s.readable(r.LeaderEpoch, false); err != nil {
		return noOffset, err
	}
	v, limit := s.view, s.limit(r.Replica, r.ReadCommitted)
	switch r.TimestampMs {
	case EarliestOffset, EarliestLocal:
		return OffsetAt{Offset: v.Start, TimestampMs: -1, Epoch: epochOf(v, v.Start)}, nil
	case EarliestPendingCopy, LatestTiered:
		// Nothing is tiered, so nothing waits to be and nothing has been.
		return noOffset, nil
	}
	if r.Replica == kafka.NoNode && s.highWatermark < s.epochStart {
		return noOffset, kafka.OffsetNotAvailable
	}
	switch {
	case r.TimestampMs == LatestOffset:
		return OffsetAt{Offset: limit, TimestampMs: -1, Epoch: s.leaderEpoch}, nil
	case r.TimestampMs == MaxTimestampOffset:
		return found(limit)(v.MaxTimestamp(record.Limits{}))
	case r.TimestampMs < 0:
		return noOffset, kafka.UnsupportedVersion
	}
	return found(limit)(v.OffsetForTime(r.TimestampMs, record.Limits{}))
}

// found turns a look-up by time into an answer; what lies at or beyond limit is not visible yet.
func found(limit kafka.Offset) func(log.TimestampOffset, bool, error) (OffsetAt, error) {
	return func(at log.TimestampOffset, ok bool, err error) (OffsetAt, error) {
		if err != nil || !ok || at.Offset >= limit {
			return noOffset, err
		}
		return OffsetAt{Offset: at.Offset, TimestampMs: at.Timestamp, Epoch: at.LeaderEpoch}, nil
	}
}

// epochOf gives the epoch in which the record at offset was written, NoEpoch when the history does not say.
func epochOf(v *log.View, offset kafka.Offset) kafka.LeaderEpoch {
	epoch := kafka.NoEpoch
	for _, e := range v.Epochs() {
		if e.Start > offset {
			break
		}
		epoch = e.Epoch
	}
	return epoch
}

// EndOffsetForEpoch answers OffsetForLeaderEpoch: where the given epoch ends in this log, with the floor epoch (KIP-279).
// An epoch this log never had is NoEpoch and NoOffset without an error.
func (p *Partition) EndOffsetForEpoch(current, epoch kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset, error) {
	s := p.published.Load()
	if err := s.readable(current, false); err != nil {
		return kafka.NoEpoch, kafka.NoOffset, err
	}
	floor, end := s.view.EndOffsetFor(epoch)
	return floor, end, nil
}

// DeleteRecords moves the log start to offset, -1 meaning the high watermark (KIP-107), and gives the low watermark: the
// least log start over the replicas.
//
// Errors: NotLeaderOrFollower; KafkaStorageError; PolicyViolation when the topic's cleanup policy has no delete;
// OffsetOutOfRange for a negative offset or one beyond the high watermark.
func (p *Partition) DeleteRecords(now time.Time, offset kafka.Offset) (kafka.Offset, Effects, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.mustLead(); err != nil {
		return kafka.NoOffset, Effects{}, err
	}
	if !p.log.Config().Delete {
		return kafka.NoOffset, Effects{}, kafka.Errorf(kafka.PolicyViolation,
			"records of %s cannot be deleted: its cleanup.policy does not contain delete", p.tp)
	}
	if offset == kafka.NoOffset {
		offset = p.highWatermark
	}
	if offset < 0 || offset > p.highWatermark {
		return kafka.NoOffset, Effects{}, kafka.Errorf(kafka.OffsetOutOfRange,
			"offset %d lies outside of 0 to the high watermark %d of %s", offset, p.highWatermark, p.tp)
	}
	e := Effects{p: p}
	if err := p.log.AdvanceStart(offset); err != nil {
		p.judge(err, &e)
		return kafka.NoOffset, e, err
	}
	p.settle(now, &e)
	return p.lowWatermark(), e, nil
}

func (p *Partition) lowWatermark() kafka.Offset {
	low := p.log.View().Start
	for _, r := range p.remotes {
		r.mu.Lock()
		low = min(low, r.start)
		r.mu.Unlock()
	}
	return low
}

// Retain lets the log drop what its configuration says must go. It reports what went.
func (p *Partition) Retain(now time.Time) (log.Retained, Effects, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := Effects{p: p}
	if p.log == nil || p.role == Offline || p.role == Gone {
		return log.Retained{}, e, nil
	}
	done, err := p.log.Retain(p.highWatermark, now)
	if err != nil {
		p.judge(err, &e)
		e.moved |= p.publish() // part of it may be done
		return done, e, err
	}
	p.settle(now, &e)
	return done, e, nil
}

// ExpireProducers forgets producers that were silent for too long.
func (p *Partition) ExpireProducers(now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log == nil || p.role == Offline || p.role == Gone {
		return 0
	}
	gone := p.log.ExpireProducers(now)
	p.countProducers(true)
	return gone
}
