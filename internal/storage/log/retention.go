package log

import (
	"slices"
	"time"

	"moldau/internal/kafka"
)

// Retained is what a Retain did.
type Retained struct {
	Segments int
	Bytes    int64
	Start    kafka.Offset // log start now
	// The same by reason: below the log start, too much, too old.
	ByStart, BySize, ByTime Dropped
}

// Dropped are segments that went for one reason.
type Dropped struct {
	Segments int
	Bytes    int64
}

// Retain drops the segments that the configuration says must go, oldest first: below the log start; with the delete
// policy also older than retention.ms (largest timestamp, the file's time if it has none) and what exceeds
// retention.bytes. Only whole segments below the high watermark go. When all are due a new empty one is begun. The log
// start moves at once; the files go by DeletePending.
func (l *Log) Retain(highWatermark kafka.Offset, now time.Time) (Retained, error) {
	if l.failed != nil {
		return Retained{}, l.failed
	}
	v, err := l.loadTail()
	if err != nil {
		return Retained{Start: v.Start}, storageError("retention", err)
	}
	due, err := l.expired(v, highWatermark, now)
	if err != nil {
		return Retained{Start: v.Start}, storageError("retention", err)
	}
	due.limit(l.replacedFrom(v))
	n := due.old
	if n == 0 {
		return Retained{Start: v.Start}, nil
	}
	if n == len(v.segments) {
		if err := l.Roll(now); err != nil {
			return Retained{Start: v.Start}, err
		}
		v = l.View()
	}
	out := l.dropFirst(v, n)
	out.ByStart, out.BySize, out.ByTime = v.dropped(0, due.below), v.dropped(due.below, due.large), v.dropped(due.large, n)
	return out, nil
}

// dropped counts the segments from number from up to, and not including, number to. They are closed.
func (v *View) dropped(from, to int) Dropped {
	out := Dropped{Segments: to - from}
	for _, s := range v.segments[from:to] {
		out.Bytes += s.size
	}
	return out
}

// replacedFrom gives the number of the first segment that takes part in a replacement by compaction, and so stays for
// another round.
func (l *Log) replacedFrom(v *View) int {
	r := l.replacing
	if r == nil {
		return len(v.segments)
	}
	return slices.IndexFunc(v.segments, func(s *segment) bool { return s.base == r.new.base })
}

// loadTail reads what is not known of the last segment's index if retention asks for its timestamps, once: the next round
// of an idle log opens no file.
func (l *Log) loadTail() (*View, error) {
	v, c := l.View(), l.Config()
	if v.tail.index.loaded || !c.Delete || c.RetentionMs < 0 {
		return v, nil
	}
	b := l.dir.block()
	defer l.dir.putBlock(b)
	x, err := v.lastIndex(b)
	if err != nil {
		return v, err
	}
	next := *v
	next.tail.index = x
	l.view.Store(&next)
	next.last().closeFiles()
	return &next, nil
}

// dropFirst takes the first n segments out of the log.
func (l *Log) dropFirst(v *View, n int) Retained {
	next := *v
	next.segments = v.segments[n:len(v.segments):len(v.segments)]
	next.Start = max(v.Start, next.segments[0].base)
	out := Retained{Segments: n, Bytes: v.dropped(0, n).Bytes, Start: next.Start}
	next.sealed -= out.Bytes
	l.visible = l.epochs.TruncateStart(next.Start)
	next.epochs = l.visible
	l.finished = false
	l.trash.mu.Lock()
	for i := range n {
		l.trash.items = append(l.trash.items, discarded{segment: v.segments[i], end: v.endOf(i)})
	}
	l.trash.mu.Unlock()
	l.view.Store(&next)
	for i := range n {
		v.segments[i].retire()
	}
	return out
}

// due is up to which number segments go: those below the log start, then what is too much, then what is too old.
type due struct{ below, large, old int }

// limit keeps the segments from number n on.
func (d *due) limit(n int) { d.below, d.large, d.old = min(d.below, n), min(d.large, n), min(d.old, n) }

// expired gives which segments are due.
func (l *Log) expired(v *View, highWatermark kafka.Offset, now time.Time) (out due, err error) {
	c := l.Config()
	b := l.dir.block()
	defer l.dir.putBlock(b)
	n := 0
	for n < len(v.segments)-1 && v.endOf(n) <= min(v.Start, highWatermark) {
		n++
	}
	out.below = n
	if c.Delete && c.RetentionBytes >= 0 {
		rest := v.Size() - c.RetentionBytes
		for i := range n {
			rest -= v.sizeOf(i)
		}
		for v.mayGo(n, highWatermark) && rest >= v.sizeOf(n) {
			rest -= v.sizeOf(n)
			n++
		}
	}
	out.large = n
	for c.Delete && c.RetentionMs >= 0 && v.mayGo(n, highWatermark) {
		newest, err := v.ageTimestamp(n, b)
		if err != nil {
			return out, err
		}
		if now.UnixMilli()-newest <= c.RetentionMs {
			break
		}
		n++
	}
	out.old = n
	return out, nil
}

// mayGo says whether segment n exists, has records if it is the last, and lies below the high watermark.
func (v *View) mayGo(n int, highWatermark kafka.Offset) bool {
	if n >= len(v.segments) || v.endOf(n) > highWatermark {
		return false
	}
	return n < len(v.segments)-1 || v.tail.size > 0
}

// ageTimestamp is the time in ms from which the age of segment i counts.
func (v *View) ageTimestamp(i int, b *block) (int64, error) {
	newest, err := v.newestOf(i, b)
	if err != nil || newest.timestamp >= 0 {
		return newest.timestamp, err
	}
	info, err := v.log.dir.fs.Stat(v.segments[i].path(dataSuffix))
	return info.ModTime.UnixMilli(), err
}
