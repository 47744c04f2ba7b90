package quorum

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// maxSnapshotBatch bounds one batch of a snapshot: Kafka writes at most 8 MiB of records into one.
const maxSnapshotBatch = MaxBatchBytes + 1<<20

// SnapshotReader reads one snapshot from its beginning. It needs no lock. Whoever was given it closes it.
type SnapshotReader struct {
	id     OffsetAndEpoch
	file   vfs.File
	size   int64
	pos    int64
	next   kafka.Offset
	header *SnapshotHeaderRecord
	footer bool
	skim   bool // records of data batches are not wanted
}

// openSnapshot opens a snapshot of a metadata log directory.
func openSnapshot(fsys vfs.FS, dir string, id OffsetAndEpoch) (*SnapshotReader, error) {
	return openSnapshotFile(fsys, path.Join(dir, snapshotName(id)), id)
}

func openSnapshotFile(fsys vfs.FS, name string, id OffsetAndEpoch) (*SnapshotReader, error) {
	f, err := fsys.Open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &SnapshotReader{id: id, file: f, size: size}, nil
}

// ID is the snapshot's end offset and epoch: it holds everything below the offset.
func (r *SnapshotReader) ID() OffsetAndEpoch { return r.id }

// Size is the size of the file in bytes.
func (r *SnapshotReader) Size() int64 { return r.size }

// LastContainedMs is the time of the last batch that the snapshot contains, known once the first batch was
// read.
func (r *SnapshotReader) LastContainedMs() int64 {
	if r.header == nil {
		return -1
	}
	return r.header.LastContainedMs
}

// Close gives the file back.
func (r *SnapshotReader) Close() error { return r.file.Close() }

// Batches yields the batches in order: control records or values. A damaged snapshot yields an error last; so
// does one without header or footer. Values are the caller's.
func (r *SnapshotReader) Batches() iter.Seq2[SnapshotBatch, error] {
	return func(yield func(SnapshotBatch, error) bool) {
		for {
			b, err := r.batch()
			if err == io.EOF {
				return
			}
			if err != nil {
				err = fmt.Errorf("snapshot %s at byte %d: %w", r.id, r.pos, err)
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// SnapshotBatch is one batch of a snapshot.
type SnapshotBatch struct {
	Control []ControlRecord // of a control batch
	Values  [][]byte        // of a data batch: metadata records in their encoded form
}

// batch reads the next batch; io.EOF after the footer.
func (r *SnapshotReader) batch() (SnapshotBatch, error) {
	if r.pos == r.size {
		if !r.footer {
			return SnapshotBatch{}, errors.New("it has no footer")
		}
		return SnapshotBatch{}, io.EOF
	}
	b, err := r.read()
	if err != nil {
		return SnapshotBatch{}, err
	}
	out := SnapshotBatch{}
	if b.IsControl() {
		if out.Control, err = controlRecords(b); err == nil {
			err = r.control(out.Control)
		}
	} else if r.header == nil {
		err = errors.New("it does not begin with a header")
	} else if !r.skim {
		out.Values, err = dataValues(b)
	}
	if err != nil {
		return SnapshotBatch{}, err
	}
	r.pos += int64(len(b))
	r.next = b.NextOffset()
	return out, nil
}

// read takes one batch from the file and checks it.
func (r *SnapshotReader) read() (record.Batch, error) {
	head := make([]byte, min(record.HeaderSize, r.size-r.pos))
	if _, err := r.file.ReadAt(head, r.pos); err != nil && err != io.EOF {
		return nil, err
	}
	if len(head) < record.HeaderSize {
		return nil, errors.New("it ends inside a batch")
	}
	size := int64(record.Batch(head).Size())
	if size < record.HeaderSize || size > maxSnapshotBatch || size > r.size-r.pos {
		return nil, fmt.Errorf("a batch of %d bytes does not fit", size)
	}
	buf := make([]byte, size)
	if _, err := r.file.ReadAt(buf, r.pos); err != nil && err != io.EOF {
		return nil, err
	}
	b, _, err := record.Split(buf)
	if err != nil {
		return nil, err
	}
	if err := checkBatch(b); err != nil {
		return nil, err
	}
	if b.BaseOffset() != r.next || r.footer {
		return nil, fmt.Errorf("a batch begins at %d, expected was %d", b.BaseOffset(), r.next)
	}
	return b, nil
}

// control notes header and footer: the one comes first, the other last.
func (r *SnapshotReader) control(records []ControlRecord) error {
	for i, rec := range records {
		switch body := rec.Body.(type) {
		case SnapshotHeaderRecord:
			if r.header != nil || i > 0 {
				return errors.New("a second header")
			}
			r.header = &body
		case SnapshotFooterRecord:
			r.footer = true
		}
	}
	if r.header == nil {
		return errors.New("it does not begin with a header")
	}
	return nil
}

// snapshotContent is what the quorum itself needs of a snapshot.
type snapshotContent struct {
	lastContainedMs int64
	control         []ControlRecord // kraft.version and voters, at the snapshot's last offset
}

// readSnapshotHead reads the first batch of a snapshot.
func readSnapshotHead(fsys vfs.FS, dir string, id OffsetAndEpoch) (snapshotContent, error) {
	r, err := openSnapshot(fsys, dir, id)
	if err != nil {
		return snapshotContent{}, err
	}
	defer r.Close()
	return r.head()
}

func (r *SnapshotReader) head() (snapshotContent, error) {
	b, err := r.batch()
	if err != nil {
		return snapshotContent{}, fmt.Errorf("snapshot %s at byte %d: %w", r.id, r.pos, err)
	}
	out := snapshotContent{lastContainedMs: r.LastContainedMs()}
	for _, c := range b.Control {
		c.Offset = r.id.Offset - 1
		out.control = append(out.control, c)
	}
	return out, nil
}

// verify reads the rest of a snapshot without taking its records apart: batches, checksums, footer.
func (r *SnapshotReader) verify() error {
	r.skim = true
	for _, err := range r.Batches() {
		if err != nil {
			return err
		}
	}
	return nil
}

// checkSnapshot reads a snapshot whole.
func checkSnapshot(fsys vfs.FS, name string, id OffsetAndEpoch) (snapshotContent, error) {
	r, err := openSnapshotFile(fsys, name, id)
	if err != nil {
		return snapshotContent{}, err
	}
	defer r.Close()
	out, err := r.head()
	if err != nil {
		return snapshotContent{}, err
	}
	return out, r.verify()
}
