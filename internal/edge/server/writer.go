package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/storage/vfs"
)

const (
	// flushAt is how much output is gathered before it is written although more replies are ready.
	flushAt = 64 << 10
	// keepOutput is the longest output buffer that goes back to the pool.
	keepOutput = 256 << 10
	// copyBelow is the length up to which a file range is read into the output buffer: below it a sendfile
	// costs more than the copy it saves.
	copyBelow = 16 << 10
	// copyChunk is the buffer for files that cannot be sent by the kernel.
	copyChunk = 256 << 10
)

// errShortFile means that a range ends behind the end of its file. The frame cannot be completed.
var errShortFile = errors.New("file is shorter than the range to send")

// transport moves bytes to the peer and notes the progress in the connection's meter.
type transport interface {
	// write sends all of b; more: the rest of the message follows at once.
	write(b []byte, more bool) error
	// cork holds partial packets back until it is undone.
	cork(on bool)
	// file sends n bytes from pos of the open file fd without copying; supported false: nothing was sent and
	// the caller copies.
	file(fd uintptr, pos int64, n int) (supported bool, err error)
}

// output is the writer's state: a buffer, held only while there is something in it, and the requests whose
// replies are wholly or partly in the buffer.
type output struct {
	c      *conn
	t      transport
	b      []byte
	held   *[]byte // where b came from
	sent   []sent  // encoded, and not yet given to the kernel
	broken bool    // a write failed: what follows is dropped
}

// sent is a request whose reply is encoded, and the length of that.
type sent struct {
	p     *pending
	bytes int64
}

func (o *output) init(c *conn) { o.c, o.t = c, newTransport(c.nc, &c.meter) }

// writeLoop sends replies in order until the queue ends or the connection is gone. Replies that are ready
// together leave together.
func (c *conn) writeLoop() {
	o := &c.out
	defer o.release()
	for {
		p, ended := c.queue.take()
		if p == nil {
			if !o.flush(false) {
				o.fail()
			}
			if ended {
				return
			}
			select {
			case <-c.queue.wake:
			case <-c.info.Done():
				return
			}
			continue
		}
		if c.s.opt.Observer != nil {
			p.taken = c.s.opt.Now()
		}
		if !o.reply(p) {
			return
		}
	}
}

// reply sends the reply of p, or puts it into the buffer. False: the connection has been closed.
func (o *output) reply(p *pending) bool {
	closing := p.reply.Close
	if o.broken {
		p.finish(true, 0)
	} else if n, err := o.encode(p); err != nil {
		o.c.s.opt.Log.Warn("sending a reply failed, closing the connection", "connection", o.c.info,
			"key", p.call.Key, "error", err)
		p.finish(true, n)
		o.c.close(ClosedSendFailed)
		return false
	} else if o.broken {
		p.finish(true, n)
	} else {
		o.sent = append(o.sent, sent{p, n})
		if len(o.b) >= flushAt && !o.flush(false) {
			o.fail()
		}
	}
	if closing {
		o.flush(false)
		o.c.close(ClosedByServer)
	}
	return !closing
}

// fail notes that the peer takes nothing any more. The reader goes on: what the peer had sent before, above
// all produces with acks=0, is still served, and the reader finds the end of the connection.
func (o *output) fail() {
	o.broken = true
	o.b = o.b[:0]
	o.finish(true)
}

// flush writes what is buffered and finishes the requests it belongs to. False: the peer does not take it.
func (o *output) flush(more bool) bool {
	if len(o.b) > 0 && !o.broken {
		if err := o.t.write(o.b, more); err != nil {
			return false
		}
		o.b = o.b[:0]
	}
	if !more {
		o.finish(o.broken)
		o.release()
	}
	return true
}

// finish disposes of the requests whose replies were encoded.
func (o *output) finish(dropped bool) {
	if len(o.sent) == 0 {
		return
	}
	o.c.meter.touch(o.c.s.opt.Now())
	for i, s := range o.sent {
		s.p.finish(dropped, s.bytes)
		o.sent[i] = sent{}
	}
	o.sent = o.sent[:0]
}

// hold makes sure that there is a buffer.
func (o *output) hold() {
	if o.held != nil {
		return
	}
	h, ok := o.c.s.output.Get().(*[]byte)
	if !ok {
		b := make([]byte, 0, 4<<10)
		h = &b
	}
	o.held, o.b = h, (*h)[:0]
}

// release gives the buffer back, at the end with the requests that are still in it.
func (o *output) release() {
	o.finish(true)
	if o.held == nil {
		return
	}
	if cap(o.b) <= keepOutput {
		*o.held = o.b[:0]
		o.c.s.output.Put(o.held)
	}
	o.held, o.b = nil, nil
}

// encode appends the reply's frame to the buffer; file ranges may be sent on the way. n is the frame's
// length. After an error the connection is of no more use: half a frame may be on the wire.
func (o *output) encode(p *pending) (n int64, err error) {
	defer p.lease.Release()
	if p.reply.None {
		return 0, nil
	}
	o.hold()
	start := len(o.b)
	size, err := o.head(p, start)
	if err != nil {
		o.b = o.b[:start]
		o.flush(false) // the replies before it are whole
		return 0, err
	}
	err = o.segments(p.reply.Segments)
	if errors.Is(err, errPeer) {
		o.fail()
		err = nil
	}
	return size + 4, err
}

// head appends all of the frame but the segments, and gives its length.
func (o *output) head(p *pending, start int) (size int64, err error) {
	defer func() {
		if e := recover(); e != nil {
			o.c.panicked("encoding a reply", p.call.Key, e)
			err = errors.New("panic while encoding")
		}
	}()
	o.b = binary.BigEndian.AppendUint32(o.b, 0)
	o.b = binary.BigEndian.AppendUint32(o.b, uint32(p.call.CorrelationID))
	if o.c.flexibleReply(p) {
		o.b = append(o.b, 0)
	}
	if body := p.reply.Body; body != nil {
		body.SetVersion(p.call.Version)
		if t, ok := body.(kmsg.SetThrottleResponse); ok && p.reply.ThrottleMs > 0 {
			t.SetThrottle(p.reply.ThrottleMs)
		}
		o.b = body.AppendTo(o.b)
	}
	size = int64(len(o.b)-start) - 4
	for _, s := range p.reply.Segments {
		size += int64(len(s.Bytes))
		if s.Extents != nil {
			size += int64(s.Extents.Size())
		}
	}
	if size > math.MaxInt32 {
		return 0, fmt.Errorf("reply of %d bytes does not fit a frame", size)
	}
	binary.BigEndian.PutUint32(o.b[start:], uint32(size))
	return size, nil
}

// flexibleReply says whether the response header is version 1. It is exactly when the request's was version
// 2, but for ApiVersions, whose response must be readable before the client knows what we speak.
func (c *conn) flexibleReply(p *pending) bool {
	return p.call.Key != apiVersionsKey && p.call.Version >= c.s.opt.Table.byKey[p.call.Key].flexible
}

// segments sends the pieces of a body.
func (o *output) segments(list []Segment) error {
	extents := 0
	for _, s := range list {
		if s.Extents != nil {
			extents++
		}
	}
	if extents > 1 {
		o.t.cork(true)
		defer o.t.cork(false)
	}
	for i, s := range list {
		if err := o.bytes(s.Bytes, i < len(list)-1 || s.Extents != nil); err != nil {
			return err
		}
		if s.Extents == nil {
			continue
		}
		if err := o.extents(s.Extents); err != nil {
			return err
		}
	}
	return nil
}

// extents sends file ranges, exactly as many bytes as their size, which the frame's length already counts.
func (o *output) extents(e Extents) error {
	left := e.Size()
	for f, r := range e.Parts() {
		if left -= r.Len; left < 0 {
			break
		}
		if err := o.part(f, r.Pos, r.Len); err != nil {
			return err
		}
	}
	if left != 0 {
		return fmt.Errorf("extents differ from their size by %d bytes", left)
	}
	return nil
}

// bytes puts b into the buffer, or sends it if it is long; more says that something follows in this reply.
func (o *output) bytes(b []byte, more bool) error {
	if len(b) >= copyBelow || len(o.b) >= flushAt {
		if !o.flush(true) {
			return errPeer
		}
	}
	if len(b) < copyBelow {
		o.hold()
		o.b = append(o.b, b...)
		return nil
	}
	if err := o.t.write(b, more); err != nil {
		return errPeer
	}
	return nil
}

// part sends one file range.
func (o *output) part(f vfs.File, pos int64, n int) error {
	if n <= copyBelow {
		return o.copyIn(f, pos, n)
	}
	if !o.flush(true) {
		return errPeer
	}
	if fd, ok := f.Sendable(); ok {
		if supported, err := o.t.file(fd, pos, n); supported {
			return err
		}
	}
	buf := o.c.s.buffers.get(min(n, copyChunk))
	defer o.c.s.buffers.put(buf)
	for n > 0 {
		chunk := buf.b[:min(n, len(buf.b))]
		if err := readFull(f, chunk, pos); err != nil {
			return err
		}
		n -= len(chunk)
		pos += int64(len(chunk))
		if err := o.t.write(chunk, n > 0); err != nil {
			return errPeer
		}
	}
	return nil
}

// copyIn reads a short file range into the buffer.
func (o *output) copyIn(f vfs.File, pos int64, n int) error {
	if len(o.b) >= flushAt && !o.flush(true) {
		return errPeer
	}
	o.hold()
	at := len(o.b)
	o.b = append(o.b, make([]byte, n)...)
	return readFull(f, o.b[at:], pos)
}

func readFull(f vfs.File, b []byte, pos int64) error {
	n, err := f.ReadAt(b, pos)
	if n == len(b) {
		return nil
	}
	if err == nil || n > 0 {
		return errShortFile
	}
	return fmt.Errorf("reading a file to send: %w", err)
}
