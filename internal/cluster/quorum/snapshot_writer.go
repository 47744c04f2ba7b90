package quorum

import (
	"errors"
	"os"
	"path"

	"moldau/internal/invariant"
	"moldau/internal/kafka"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// snapshotBatchBytes is the size at which the writer cuts a batch, so that neither writing nor reading takes
// long steps.
const snapshotBatchBytes = 1 << 20

// SnapshotWriter writes one snapshot. It is used in bounded steps, by one goroutine at a time, without any
// lock: Add what the image holds, then Finish, then hand it to Pump.SnapshotWritten. Nothing is visible
// before Finish returns nil.
type SnapshotWriter struct {
	fs          vfs.FS
	dir         string
	id          OffsetAndEpoch
	timestampMs int64
	header      SnapshotHeaderRecord
	file        vfs.File
	next        kafka.Offset
	size        int64
	pending     [][]byte
	pendingSize int
	finished    bool
	err         error
}

// snapshotStart is what the writer is told when it begins.
type snapshotStart struct {
	id          OffsetAndEpoch
	timestampMs int64 // of the batches
	// lastContainedMs is the time of the last batch of the log that the snapshot contains.
	lastContainedMs int64
	kraftVersion    int16
	voters          VoterSet // nil: none was ever recorded
}

// newSnapshotWriter creates the file and writes the first batch: the header, and under kraft.version 1 or
// later what the quorum was at that offset.
func newSnapshotWriter(fsys vfs.FS, dir string, s snapshotStart) (*SnapshotWriter, error) {
	f, err := fsys.Open(path.Join(dir, partName(s.id, 0)), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, err
	}
	w := &SnapshotWriter{fs: fsys, dir: dir, id: s.id, timestampMs: s.timestampMs, file: f,
		header: SnapshotHeaderRecord{LastContainedMs: s.lastContainedMs}}
	bodies := []ControlBody{w.header}
	if s.kraftVersion > 0 {
		bodies = append(bodies, KRaftVersionRecord{Version: s.kraftVersion})
		if s.voters != nil {
			bodies = append(bodies, VotersRecord{Voters: s.voters})
		}
	}
	if err := w.write(controlBatch(s.timestampMs, bodies)); err != nil {
		w.Abort()
		return nil, err
	}
	return w, nil
}

// ID is the snapshot's end offset and epoch.
func (w *SnapshotWriter) ID() OffsetAndEpoch { return w.id }

// Size is the bytes written so far.
func (w *SnapshotWriter) Size() int64 { return w.size }

// Add appends metadata records in their encoded form. The slices are kept until a batch is full.
func (w *SnapshotWriter) Add(values ...[]byte) error {
	for _, v := range values {
		cost := len(v) + recordOverhead
		if len(w.pending) >= MaxBatchRecords || w.pendingSize > 0 && w.pendingSize+cost > snapshotBatchBytes {
			if err := w.cut(); err != nil {
				return err
			}
		}
		w.pending = append(w.pending, v)
		w.pendingSize += cost
	}
	return w.err
}

// cut writes the pending records as one batch.
func (w *SnapshotWriter) cut() error {
	if len(w.pending) == 0 {
		return w.err
	}
	err := w.write(dataBatch(w.timestampMs, w.pending))
	w.pending, w.pendingSize = nil, 0
	return err
}

// write appends a batch that was just built, if it could be.
func (w *SnapshotWriter) write(b record.Batch, err error) error {
	if w.err == nil {
		w.err = err
	}
	if w.err != nil {
		return w.err
	}
	batch := stamped(b, w.next, w.id.Epoch)
	if _, err := w.file.Write(batch); err != nil {
		w.err = err
		return err
	}
	w.next = batch.NextOffset()
	w.size += int64(len(batch))
	return nil
}

// Finish writes the footer, makes the file durable and gives it its name. It blocks on the disk.
func (w *SnapshotWriter) Finish() error {
	err := w.cut()
	if err == nil {
		err = w.write(controlBatch(w.timestampMs, []ControlBody{SnapshotFooterRecord{}}))
	}
	if err != nil {
		return err
	}
	if err := errors.Join(w.file.Sync(), w.file.Close()); err != nil {
		w.err = err
		return err
	}
	if err := publishSnapshot(w.fs, w.dir, w.id, 0); err != nil {
		w.err = err
		return err
	}
	w.finished = true
	return nil
}

// publishSnapshot gives a written and synced part its final name.
func publishSnapshot(fsys vfs.FS, dir string, id OffsetAndEpoch, part int) error {
	if err := fsys.Rename(path.Join(dir, partName(id, part)), path.Join(dir, snapshotName(id))); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// Abort gives the snapshot up and removes the file.
func (w *SnapshotWriter) Abort() {
	invariant.Check(!w.finished, "a finished snapshot is aborted")
	_ = w.file.Close() // nothing in the file matters any more
	_ = w.fs.Remove(path.Join(w.dir, partName(w.id, 0)))
	if w.err == nil {
		w.err = errors.New("aborted")
	}
}
