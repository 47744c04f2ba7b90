package log

import (
	"fmt"
	"io"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// errOldFormat: a segment holds messages of formats 0 or 1, whose keys are not looked into. Leaving them alone while
// newer tombstones go would bring deleted keys back, so such a log is not compacted.
var errOldFormat = fmt.Errorf("%w: the log holds messages of an old format", kafka.UnsupportedForMessageFormat)

// batchReader reads the whole batches of a segment front to back and checks each.
type batchReader struct {
	data *handle
	end  int64
	pos  int64 // of the next batch
	buf  []byte
	at   int64 // file position of buf
	have int
	size int // how much is read at once; larger batches make the buffer grow
}

func (r *batchReader) open(s *segment, size int64) error {
	data, err := s.acquire(dataFile)
	if err != nil {
		return err
	}
	r.data, r.end, r.pos, r.at, r.have = data, size, 0, 0, 0
	return nil
}

func (r *batchReader) close() {
	if r.data != nil {
		r.data.release()
		r.data = nil
	}
}

// next gives the next batch, which is valid until the next call; io.EOF at the end, errBadBatch for a damaged one.
func (r *batchReader) next() (header, record.Batch, error) {
	if r.pos >= r.end {
		return header{}, nil, io.EOF
	}
	room := r.end - r.pos
	head, err := r.bytes(min(room, record.HeaderSize))
	if err != nil {
		return header{}, nil, err
	}
	h, err := parseHeader(head, r.pos, room)
	if err != nil {
		return h, nil, err
	}
	if h.magic < record.Magic {
		return h, nil, errOldFormat
	}
	b, err := r.bytes(h.size)
	if err != nil {
		return h, nil, err
	}
	batch := record.Batch(b)
	if batch.CheckCRC() != nil {
		return h, nil, fmt.Errorf("%w: wrong checksum at %d, offset %d", errBadBatch, h.pos, h.base)
	}
	r.pos += h.size
	return h, batch, nil
}

// bytes gives n bytes at the present position.
func (r *batchReader) bytes(n int64) ([]byte, error) {
	from := r.pos - r.at
	if r.pos >= r.at && from+n <= int64(r.have) {
		return r.buf[from : from+n : from+n], nil
	}
	want := int(min(max(int64(r.size), n), r.end-r.pos))
	if cap(r.buf) < want {
		r.buf = make([]byte, want)
	}
	r.at, r.have = r.pos, 0
	if err := readFull(r.data.file, r.buf[:want], r.pos); err != nil {
		return nil, err
	}
	r.have = want
	return r.buf[:n:n], nil
}

// cleanWriter gathers what is written to one file.
type cleanWriter struct {
	file vfs.File
	size int64 // with what is gathered
	buf  []byte
}

// add appends b; memory stays at about the capacity of buf.
func (w *cleanWriter) add(b []byte) error {
	if len(w.buf)+len(b) > cap(w.buf) {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.size += int64(len(b))
	if len(b) > cap(w.buf) {
		return writeFull(w.file, b, w.size-int64(len(b)))
	}
	w.buf = append(w.buf, b...)
	return nil
}

func (w *cleanWriter) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	err := writeFull(w.file, w.buf, w.size-int64(len(w.buf)))
	w.buf = w.buf[:0]
	return err
}
