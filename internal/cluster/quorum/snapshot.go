package quorum

import (
	"time"

	"moldau/internal/kafka"
)

// snapshotter decides when a snapshot of the image is due.
type snapshotter struct {
	since   time.Time // of the last one, or of the start
	writing bool
}

// SnapshotDue says whether the driver should write a snapshot of its image: enough bytes were delivered since
// the last one, or the interval has passed and there is something new. The driver passes over it while a
// metadata transaction is open, and after a record that it could not apply.
func (p *Pump) SnapshotDue(now time.Time) bool {
	if p.err != nil || p.snapshots.writing || p.reader.bytes == 0 || p.reader.pending != nil {
		return false
	}
	if p.reader.bytes >= p.config.SnapshotBytes {
		return true
	}
	return p.config.SnapshotInterval > 0 && now.Sub(p.snapshots.since) >= p.config.SnapshotInterval
}

// NewSnapshot begins a snapshot of everything that Next has delivered so far, and of nothing else: the
// driver's image must stand exactly there. The writer is used outside of the pump and handed back to
// SnapshotWritten.
func (p *Pump) NewSnapshot(now time.Time) (*SnapshotWriter, error) {
	if p.err != nil {
		return nil, p.err
	}
	at := p.reader.at
	if p.snapshots.writing || at.Offset == 0 {
		return nil, kafka.Errorf(kafka.InvalidRequest, "no snapshot of offset %d now", at.Offset)
	}
	version, voters := p.core.voters.At(at.Offset)
	w, err := newSnapshotWriter(p.store.fs, p.store.dir, snapshotStart{id: at, timestampMs: now.UnixMilli(),
		lastContainedMs: p.reader.timestampMs, kraftVersion: version, voters: voters})
	if err != nil {
		return nil, err
	}
	p.snapshots.writing, p.snapshots.since, p.reader.bytes = true, now, 0
	return w, nil
}

// SnapshotWritten takes a finished snapshot into service. An unfinished one, given up by the driver, is
// removed: the next is due when there is enough new again.
func (p *Pump) SnapshotWritten(w *SnapshotWriter) {
	p.snapshots.writing = false
	if !w.finished {
		w.Abort()
		return
	}
	p.store.addSnapshot(snapshotFile{id: w.id, size: w.size, lastContainedMs: w.header.LastContainedMs})
}
