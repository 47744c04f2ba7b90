package record

import (
	"encoding/binary"
	"errors"
	"io"
)

// windowSize is how much of a decompressed stream is held at once, in bytes.
const windowSize = 64 << 10

// walker passes over the records of one batch, checking their structure. The bytes are either all there (src
// is nil) or come through a window from a decompressor; then a record larger than the window is skipped
// piecewise unless hold is set. The first error sticks and empties the walker, so that callers need to look
// only once per record.
type walker struct {
	buf   []byte    // what is at hand; buf[pos:] is not yet consumed
	pos   int       // bytes of buf consumed
	past  int64     // bytes consumed before buf[0]
	src   io.Reader // gives the bytes after buf
	quota int64     // bytes that src may still give
	eof   bool      // src has ended
	hold  bool      // each record is made contiguous, however large, up to quota
	err   error
}

var (
	errShort   = invalid("records end early")
	errVarint  = invalid("varint is too long")
	errBeyond  = invalid("field reaches beyond its record")
	errExcess  = invalid("bytes remain behind the last record")
	errLength  = invalid("record is shorter than its length says")
	errHeaders = invalid("impossible header")
	errRecord  = invalid("impossible record")
)

func (w *walker) fail(err error) {
	if w.err == nil {
		w.err = err
	}
	w.buf, w.pos, w.src = nil, 0, nil
}

// at is the position in the stream of records.
func (w *walker) at() int64 { return w.past + int64(w.pos) }

// next reads one record.
func (w *walker) next(r *raw) error {
	length := int(w.varint())
	if length < 0 {
		w.fail(invalid("record length %d", length))
	}
	if w.hold {
		w.gather(length)
	}
	if w.err != nil {
		return w.err
	}
	body := w.buf[w.pos:]
	if length > len(body) {
		return w.piecewise(r, length)
	}
	if !r.parse(body[:length:length]) {
		w.fail(errRecord)
		return w.err
	}
	w.pos += length
	return nil
}

// piecewise reads a record of which only a part is at hand, and does not hold its fields.
func (w *walker) piecewise(r *raw, length int) error {
	if w.src == nil || w.eof {
		w.fail(errShort)
		return w.err
	}
	end := w.at() + int64(length)
	*r = raw{}
	w.skip(1) // attributes: none is defined
	r.timestampDelta = w.varlong()
	r.offsetDelta = w.varint()
	r.keySize = w.varint()
	w.pass(r.keySize, end)
	r.valueSize = w.varint()
	w.pass(r.valueSize, end)
	w.headers(r, end)
	if w.at() != end {
		w.fail(errLength)
	}
	return w.err
}

// end checks that nothing follows the last record.
func (w *walker) end() error {
	if w.err == nil && w.pos == len(w.buf) {
		w.refill()
	}
	if w.err == nil && w.pos != len(w.buf) {
		w.fail(errExcess)
	}
	return w.err
}

// headers is the last part of piecewise.
func (w *walker) headers(r *raw, end int64) {
	r.headerCount = w.varint()
	if r.headerCount < 0 || int64(r.headerCount) > end-w.at() {
		w.fail(errHeaders)
		return
	}
	for range r.headerCount {
		size := w.varint()
		if size < 0 {
			w.fail(errHeaders)
		}
		w.pass(size, end)
		w.pass(w.varint(), end)
		if w.err != nil {
			return
		}
	}
}

// pass passes over n bytes, which must end at or before end; a negative n is a null field.
func (w *walker) pass(n int32, end int64) {
	switch {
	case n < 0:
	case int64(n) > end-w.at():
		w.fail(errBeyond)
	default:
		w.skip(int(n))
	}
}

// skip passes over n bytes.
func (w *walker) skip(n int) {
	for n > len(w.buf)-w.pos {
		n -= len(w.buf) - w.pos
		w.pos = len(w.buf)
		if !w.refill() {
			w.fail(errShort)
			return
		}
	}
	w.pos += n
}

func (w *walker) varint() int32 {
	v, end := varint32At(w.buf, w.pos)
	if end < 0 {
		return w.longVarint()
	}
	w.pos = end
	return v
}

// longVarint reads a varint that reaches beyond what is at hand, or fails.
func (w *walker) longVarint() int32 {
	w.want(maxVarintLen32)
	v, n := uvarint32(w.buf[w.pos:])
	if n <= 0 {
		w.failVarint(n)
		return 0
	}
	w.pos += n
	return unzigzag32(v)
}

func (w *walker) varlong() int64 {
	w.want(maxVarintLen64)
	v, n := binary.Uvarint(w.buf[w.pos:])
	if n <= 0 {
		w.failVarint(n)
		return 0
	}
	w.pos += n
	return unzigzag64(v)
}

func (w *walker) failVarint(n int) {
	if n == 0 {
		w.fail(errShort)
	} else {
		w.fail(errVarint)
	}
}

// want tries to have n bytes at hand; near the end of the stream there are fewer.
func (w *walker) want(n int) {
	for len(w.buf)-w.pos < n && w.refill() {
	}
}

// gather makes the next n bytes contiguous. The window grows with what the stream really gives, never with
// what a length claims.
func (w *walker) gather(n int) {
	for len(w.buf)-w.pos < n && w.src != nil {
		if w.pos == 0 && len(w.buf) == cap(w.buf) {
			grown := make([]byte, len(w.buf), min(n, 2*cap(w.buf)))
			copy(grown, w.buf)
			w.buf = grown
		}
		if !w.refill() {
			return
		}
	}
}

// refill moves what is left to the front of the window and reads more. It says whether anything came.
func (w *walker) refill() bool {
	if w.src == nil || w.eof {
		return false
	}
	left := copy(w.buf, w.buf[w.pos:])
	w.past += int64(w.pos)
	w.pos = 0
	w.buf = w.buf[:left]
	for range 100 {
		n, err := w.src.Read(w.buf[left:cap(w.buf)])
		w.quota -= int64(n)
		switch {
		case w.quota < 0:
			w.fail(ErrTooLarge)
			return false
		case err == io.EOF:
			w.eof = true
		case err != nil:
			w.fail(badPayload(err))
			return false
		}
		w.buf = w.buf[:left+n]
		if n > 0 || w.eof {
			return n > 0
		}
	}
	w.fail(badPayload(io.ErrNoProgress))
	return false
}

// badPayload makes an error of what a decompressor says.
func badPayload(err error) error {
	if errors.Is(err, ErrTooLarge) || errors.Is(err, ErrInvalid) {
		return err
	}
	return invalid("decompress: %v", err)
}
