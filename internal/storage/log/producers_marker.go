package log

import (
	"moldau/internal/storage/record"
)

// markerKind says what a control batch does to a transaction.
type markerKind int8

const (
	markerNone markerKind = iota // not a marker: emptied by compaction, or a control type of something else
	markerCommit
	markerAbort
)

// marker is what producer state needs of a transaction marker.
type marker struct {
	kind             markerKind
	coordinatorEpoch int32
	timestamp        int64 // ms
}

// parseMarker reads a control batch of a producer; it allocates nothing unless it fails.
func parseMarker(b record.Batch) (marker, error) {
	if b.Count() == 0 {
		return marker{}, nil // compaction removed the whole transaction
	}
	kind, err := b.ControlType()
	if err != nil {
		return marker{}, err
	}
	if kind != record.ControlCommit && kind != record.ControlAbort {
		return marker{}, nil
	}
	end, err := b.EndTxnMarker()
	if err != nil {
		return marker{}, err
	}
	// A marker batch holds one record, so the batch's time is the marker's.
	m := marker{kind: markerAbort, coordinatorEpoch: end.CoordinatorEpoch, timestamp: b.MaxTimestamp()}
	if end.Commit {
		m.kind = markerCommit
	}
	return m, nil
}
