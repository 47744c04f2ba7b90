package log

import (
	"iter"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// Extents names bytes of a log by file and position: what a reply sends, without a copy. It keeps its files open, also
// when their segments are deleted meanwhile, until Release, which must be called exactly once. The zero value is empty.
type Extents struct {
	// From is the offset that was asked for; the first batch may begin before it (clients skip those records).
	From        kafka.Offset
	size        int
	view        *View // that it was read from
	lastSegment int   // number of the last one's segment in the view
	first       extent
	more        []extent
}

// extent is a range of one file.
type extent struct {
	data *handle
	pos  int64
	size int
}

// View is the state of the log that the bytes are of: not older than the one that was read, and what Aborted must be asked.
// nil for an empty one.
func (e *Extents) View() *View { return e.view }

// Size is the number of bytes.
func (e *Extents) Size() int { return e.size }

// endPos gives the file position after the last byte.
func (e *Extents) endPos() int64 {
	x := e.first
	if n := len(e.more); n > 0 {
		x = e.more[n-1]
	}
	return x.pos + int64(x.size)
}

func (e *Extents) add(x extent, segment int) {
	e.size += x.size
	e.lastSegment = segment
	if e.first.data == nil {
		e.first = x
		return
	}
	e.more = append(e.more, x)
}

// Parts gives the ranges in order, for sendfile: File.Sendable has the descriptor. A file that ends before pos+n was cut
// meanwhile (the replica truncated); the sender must then give up the connection.
func (e *Extents) Parts() iter.Seq2[vfs.File, Range] {
	return func(yield func(vfs.File, Range) bool) {
		if e.first.data == nil || !yield(e.first.data.file, Range{e.first.pos, e.first.size}) {
			return
		}
		for _, x := range e.more {
			if !yield(x.data.file, Range{x.pos, x.size}) {
				return
			}
		}
	}
}

// Range is a part of a file: position and length in bytes.
type Range struct {
	Pos int64
	Len int
}

// ReadInto reads the first len(b) bytes, len(b) <= Size. A file that was cut meanwhile gives io.ErrUnexpectedEOF.
func (e *Extents) ReadInto(b []byte) error {
	for f, r := range e.Parts() {
		n := min(r.Len, len(b))
		if n == 0 {
			break
		}
		if err := readFull(f, b[:n], r.Pos); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// ReadAll gives all bytes in a new slice.
func (e *Extents) ReadAll() ([]byte, error) {
	b := make([]byte, e.size)
	if err := e.ReadInto(b); err != nil {
		return nil, err
	}
	return b, nil
}

// Release gives the files back.
func (e *Extents) Release() {
	if e.first.data == nil {
		return
	}
	e.first.data.release()
	for _, x := range e.more {
		x.data.release()
	}
	*e = Extents{}
}
