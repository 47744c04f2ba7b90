package log

import (
	"errors"
	"fmt"

	"moldau/internal/kafka"
)

// Scrubber re-reads the closed segments of a log from the disk and checks every batch, a part at a time, so that rot is
// found before the last good copy is gone. It reads beside everything else, without the owner's lock; the caller decides
// the pace.
type Scrubber struct {
	view    *View
	segment int
	pos     int64
	data    *handle
	window  window
	next    kafka.Offset // where the batch at pos should begin
	bad     []BadRange
}

// BadRange is where a scrub found damage: from the batch at Pos of the segment at Base to the segment's end it could not
// be read on.
type BadRange struct {
	Base   kafka.Offset // of the segment
	Offset kafka.Offset // of the first damaged batch, as far as known
	Pos    int64
	Reason string
}

// Scrub begins a pass over what the log is now.
func (l *Log) Scrub() *Scrubber {
	v := l.View()
	return &Scrubber{view: v, next: v.segments[0].base}
}

// Step reads at most about budget bytes, and says how many it read. A segment that was deleted meanwhile is skipped. An
// error is the disk's: bad batches are not errors, they are listed by Bad.
func (x *Scrubber) Step(budget int64) (read int64, done bool, err error) {
	for read < budget {
		if x.segment >= len(x.view.segments)-1 {
			x.Close()
			return read, true, nil
		}
		n, err := x.step(budget - read)
		read += n
		if isGone(err) || errors.Is(err, errSegmentGone) {
			x.nextSegment()
			continue
		}
		if err != nil {
			x.Close()
			return read, false, storageError("scrub", err)
		}
	}
	return read, false, nil
}

// Bad lists the damage found so far.
func (x *Scrubber) Bad() []BadRange { return x.bad }

// Close gives the open file back; a finished pass has done so.
func (x *Scrubber) Close() {
	if x.data != nil {
		x.data.release()
		x.data = nil
	}
}

func (x *Scrubber) nextSegment() {
	x.Close()
	x.segment++
	x.pos = 0
	if x.segment < len(x.view.segments) {
		x.next = x.view.segments[x.segment].base
	}
}

func (x *Scrubber) step(budget int64) (read int64, err error) {
	s := x.view.segments[x.segment]
	if x.data == nil {
		if err := s.log.dir.fs.Evict(s.path(dataSuffix)); err != nil {
			return 0, err
		}
		if x.data, err = s.acquire(dataFile); err != nil {
			return 0, err
		}
		x.window.reset(x.data.file, s.size)
	}
	for read < budget && x.pos < s.size {
		h, err := x.window.check(x.pos)
		if err == nil && h.last >= x.view.endOf(x.segment) {
			err = fmt.Errorf("%w: offset %d lies in the next segment", errBadBatch, h.last)
		}
		if errors.Is(err, errBadBatch) {
			x.bad = append(x.bad, BadRange{Base: s.base, Offset: x.next, Pos: x.pos, Reason: err.Error()})
			if h.size == 0 || x.pos+h.size > s.size { // its length cannot be believed
				x.pos = s.size
				break
			}
		} else if err != nil {
			return read, err
		}
		x.next = h.last + 1
		read += h.size
		x.pos += h.size
	}
	if x.pos >= s.size {
		x.nextSegment()
	}
	return max(read, 1), nil
}
