package quorum

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// receivedSnapshot is a snapshot on its way from the leader.
type receivedSnapshot struct {
	id   OffsetAndEpoch
	part int // tells the files of two attempts apart
	file vfs.File
	size int64
	bad  error // its content is not that of a snapshot
}

// receivePiece writes a piece of a snapshot. The first piece begins a new file; one that does not go on where
// the file ends is of an attempt that was given up.
func (p *Pump) receivePiece(piece *SnapshotPiece) {
	r := p.receiving
	if piece.Position == 0 {
		p.dropReceiving()
		p.parts++
		r = &receivedSnapshot{id: piece.Snapshot, part: p.parts}
		f, err := p.store.fs.Open(r.name(p.store), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
		if err != nil {
			p.fail(err)
			return
		}
		r.file, p.receiving = f, r
	}
	if r == nil || r.id != piece.Snapshot || piece.Position != r.size {
		return
	}
	if _, err := r.file.Write(piece.Bytes); err != nil {
		p.fail(err)
		return
	}
	r.size += int64(len(piece.Bytes))
	if r.size == piece.Size {
		p.receiving = nil
		run := func() error { return r.complete(p.store) }
		p.work = append(p.work, &Work{kind: workInstall, received: r, run: run})
	}
}

func (r *receivedSnapshot) name(s *Store) string { return path.Join(s.dir, partName(r.id, r.part)) }

// dropReceiving gives an unfinished download up.
func (p *Pump) dropReceiving() {
	if r := p.receiving; r != nil {
		_ = r.file.Close() // nothing in the file matters any more
		_ = p.store.fs.Remove(r.name(p.store))
		p.receiving = nil
	}
}

// complete makes a received snapshot durable and checks it.
func (r *receivedSnapshot) complete(s *Store) error {
	if err := errors.Join(r.file.Sync(), r.file.Close()); err != nil {
		return err
	}
	_, err := checkSnapshot(s.fs, r.name(s), r.id)
	if _, disk := errors.AsType[*fs.PathError](err); disk {
		return err
	}
	r.bad = err
	return nil
}

// install lets a received snapshot replace the log, if the replica still waits for it. It may have found
// another leader meanwhile, or lead itself.
func (p *Pump) install(now time.Time, r *receivedSnapshot) {
	if !p.core.awaits(r.id) || r.bad != nil {
		_ = p.store.fs.Remove(r.name(p.store))
		p.step(now, SnapshotDropped{Snapshot: r.id})
		return
	}
	err := publishSnapshot(p.store.fs, p.store.dir, r.id, r.part)
	var content snapshotContent
	if err == nil {
		content, err = readSnapshotHead(p.store.fs, p.store.dir, r.id)
	}
	if err == nil {
		err = p.store.log.TruncateFullyAndStartAt(r.id.Offset)
	}
	if err != nil {
		p.fail(err)
		return
	}
	p.store.addSnapshot(snapshotFile{id: r.id, size: r.size, lastContainedMs: content.lastContainedMs})
	for p.store.snapshots[0].id.Offset < r.id.Offset {
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
