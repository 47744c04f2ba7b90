package quorum

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// snapshotter decides when a snapshot of the image is due.
type snapshotter struct {
	since   time.Time // of the last one, or of the start
	writing bool
}

// SnapshotDue says whether the driver should write a snapshot of its image: enough bytes were delivered since the last
// one, or the interval has passed and there is something new. The driver passes over it while a metadata transaction is
// open, and after a record that it could not apply.
func (p *Pump) SnapshotDue(now time.Time) bool {
	if p.err != nil || p.snapshots.writing || p.reader.bytes == 0 || p.reader.pending != nil {
		return false
	}
	if p.reader.bytes >= p.config.SnapshotBytes {
		return true
	}
	return p.config.SnapshotInterval > 0 && now.Sub(p.snapshots.since) >= p.config.SnapshotInterval
}

// NewSnapshot begins a snapshot of everything that Next has delivered so far, and of nothing else: the driver's image
// must stand exactly there. The writer is used outside of the pump and handed back to SnapshotWritten.
func (p *Pump) NewSnapshot(now time.Time) (*SnapshotWriter, error) {
	if p.err != nil {
		return nil, p.err
	}
	at := p.reader.at
	if p.snapshots.writing || at.Offset == 0 {
		return nil, fmt.Errorf("no snapshot of offset %d while another is written: %w", at.Offset, kafka.InvalidRequest)
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

// SnapshotWritten takes a finished snapshot into service. An unfinished one, given up by the driver, is removed: the next
// is due when there is enough new again.
func (p *Pump) SnapshotWritten(w *SnapshotWriter) {
	p.snapshots.writing = false
	if !w.finished {
		w.Abort()
		return
	}
	p.store.addSnapshot(snapshotFile{id: w.id, size: w.size, lastContainedMs: w.header.LastContainedMs})
}

// receivedSnapshot is a snapshot on its way from the leader.
type receivedSnapshot struct {
	id   OffsetAndEpoch
	file vfs.File
	size int64
}

// receivePiece writes a piece of a snapshot. A piece of another snapshot, or from the beginning, starts a new file.
func (p *Pump) receivePiece(piece *SnapshotPiece) {
	r := p.receiving
	if r == nil || r.id != piece.Snapshot || piece.Position != r.size {
		p.dropReceiving()
		if piece.Position != 0 {
			return
		}
		f, err := p.store.fs.Open(path.Join(p.store.dir, partName(piece.Snapshot)), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
		if err != nil {
			p.fail(err)
			return
		}
		r = &receivedSnapshot{id: piece.Snapshot, file: f}
		p.receiving = r
	}
	if _, err := r.file.Write(piece.Bytes); err != nil {
		p.fail(err)
		return
	}
	r.size += int64(len(piece.Bytes))
	if r.size == piece.Size {
		p.work = append(p.work, &Work{kind: workInstall, run: func() error { return p.store.completePart(r) }})
	}
}

func (p *Pump) dropReceiving() {
	if p.receiving != nil {
		_ = p.receiving.file.Close() // the file is given up
		p.receiving = nil
	}
}

// completePart makes a received snapshot durable, checks it and gives it its name.
func (s *Store) completePart(r *receivedSnapshot) error {
	if err := r.file.Sync(); err != nil {
		return err
	}
	if err := r.file.Close(); err != nil {
		return err
	}
	if _, err := checkSnapshot(s.fs, path.Join(s.dir, partName(r.id)), r.id); err != nil {
		return err
	}
	return publishSnapshot(s.fs, s.dir, r.id)
}

// installed lets a received snapshot replace the log.
func (p *Pump) installed(now time.Time) {
	r := p.receiving
	p.receiving = nil
	content, err := readSnapshotHead(p.store.fs, p.store.dir, r.id)
	if err == nil {
		err = p.store.log.TruncateFullyAndStartAt(r.id.Offset)
	}
	if err != nil {
		p.fail(err)
		return
	}
	p.store.addSnapshot(snapshotFile{id: r.id, size: r.size, lastContainedMs: content.lastContainedMs})
	for len(p.store.snapshots) > 0 && p.store.snapshots[0].id.Offset < r.id.Offset {
		if err := p.store.removeOldest(); err != nil {
			p.fail(err)
			return
		}
	}
	p.reader.restart(r.id)
	p.step(now, SnapshotLoaded{Snapshot: r.id, Controls: content.control})
}

// fillPiece puts the bytes of a snapshot into an answer.
func (s *Store) fillPiece(r *FetchSnapshotResponse) error {
	f, err := s.fs.Open(path.Join(s.dir, snapshotName(r.Snapshot)), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		r.Code = kafka.SnapshotNotFound
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if r.Size, err = f.Size(); err != nil {
		return err
	}
	if r.Position < 0 || r.Position >= r.Size {
		r.Code = kafka.PositionOutOfRange
		return nil
	}
	r.Bytes = make([]byte, min(int64(r.MaxBytes), r.Size-r.Position))
	if _, err := f.ReadAt(r.Bytes, r.Position); err != nil && err != io.EOF {
		return err
	}
	return nil
}
