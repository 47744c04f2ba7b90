package record

import (
	"encoding/binary"
	"errors"
	"io"
)

const (
	// windowSize is how much of a decompressed stream is held at once, in bytes.
	windowSize = 64 << 10
	// slack is more than what reading one record can touch beyond its end before the error shows. A held record has
	// as much behind it, so that the window does not move while the record's fields point into it.
	slack = 64
)

// raw is one record as it stands in the batch, relative to the batch's base values.
type raw struct {
	timestampDelta int64
	offsetDelta    int32
	keySize        int32 // negative: null
	valueSize      int32
	headerCount    int32
	// The bytes of the fields; nil when null, and meaningless when a streaming walk that does not hold records
	// skipped them.
	key, value, headers []byte
}

// walker passes over the records of one batch, checking their structure. The bytes are either all there (src is nil)
// or come through a window from a decompressor; then a record larger than the window is skipped piecewise unless hold
// is set. The first error sticks and empties the walker, so that callers need to look only once per record.
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
	length := w.varint()
	if length < 0 {
		w.fail(invalid("record length %d", length))
	}
	if w.hold {
		w.gather(int(length) + slack)
	}
	end := w.at() + int64(length)
	w.skip(1) // attributes: none is defined
	r.timestampDelta = w.varlong()
	r.offsetDelta = w.varint()
	r.keySize = w.varint()
	r.key = w.field(r.keySize, end)
	r.valueSize = w.varint()
	r.value = w.field(r.valueSize, end)
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

func (w *walker) headers(r *raw, end int64) {
	r.headerCount = w.varint()
	if r.headerCount == 0 {
		r.headers = nil
		return
	}
	if r.headerCount < 0 || int64(r.headerCount) > end-w.at() {
		w.fail(errHeaders)
		return
	}
	from := w.pos
	for range r.headerCount {
		size := w.varint()
		if size < 0 {
			w.fail(errHeaders)
		}
		w.field(size, end)
		w.field(w.varint(), end)
		if w.err != nil {
			return
		}
	}
	if w.src == nil || w.hold {
		r.headers = w.buf[from:w.pos:w.pos]
	}
}

// field passes over n bytes, which must end at or before end; a negative n is a null field.
func (w *walker) field(n int32, end int64) []byte {
	if n < 0 {
		return nil
	}
	if int64(n) > end-w.at() {
		w.fail(errBeyond)
		return nil
	}
	return w.skip(int(n))
}

// skip passes over n bytes and returns them if they were all at hand.
func (w *walker) skip(n int) []byte {
	if n <= len(w.buf)-w.pos {
		from := w.pos
		w.pos += n
		return w.buf[from:w.pos:w.pos]
	}
	for n > len(w.buf)-w.pos {
		n -= len(w.buf) - w.pos
		w.pos = len(w.buf)
		if !w.refill() {
			w.fail(errShort)
			return nil
		}
	}
	w.pos += n
	return nil
}

func (w *walker) varint() int32 {
	if w.pos < len(w.buf) && w.buf[w.pos] < 0x80 {
		w.pos++
		return unzigzag32(uint32(w.buf[w.pos-1]))
	}
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
	if w.pos < len(w.buf) && w.buf[w.pos] < 0x80 {
		w.pos++
		return unzigzag64(uint64(w.buf[w.pos-1]))
	}
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

// gather makes the next n bytes contiguous. The window grows with what the stream really gives, never with what a
// length claims.
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
