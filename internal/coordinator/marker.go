package coordinator

import (
	"moldau/internal/kafka"
	"moldau/internal/promise"
	"moldau/internal/storage/record"
)

// Marker ends the transaction of a producer on one partition.
type Marker struct {
	Partition int32
	Producer  Stamp
	Commit    bool
	// CoordinatorEpoch is the transaction coordinator's: an older one's markers are refused.
	CoordinatorEpoch int32
	// TransactionVersion of that coordinator: from 2 on, each transaction has a new epoch (KIP-890).
	TransactionVersion int16
}

// end appends a marker and tells the machine. Without s.mu.
func (s *shard) end(m Marker) *promise.Promise[error] {
	now := s.r.o.Now()
	batch, err := record.MarkerBatch(m.Producer.ID, m.Producer.Epoch,
		record.EndTxnMarker{Commit: m.Commit, CoordinatorEpoch: m.CoordinatorEpoch}, now.UnixMilli())
	if err != nil {
		return promise.Done(err)
	}
	done := &promise.Promise[error]{}
	var out outbox
	s.mu.Lock()
	if err = s.refusal(); err == nil {
		w := s.r.newWrite(s, &Result{WholeShard: true}, now)
		w.marker = done
		var at kafka.Offset
		if at, err = s.appendBatch(now, batch, m.TransactionVersion, w, &out); err == nil {
			s.machine.Ended(m.Producer, m.Commit, Origin{Offset: at, TimestampMs: now.UnixMilli(), Producer: m.Producer})
		}
	}
	s.mu.Unlock()
	out.run(s.r.o.Host)
	if err != nil {
		done.Set(refusalOf(err))
	}
	return done
}
