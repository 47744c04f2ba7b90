package log

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// ErrCleanAborted ends a compaction because the log changed under it: it was cut, lost segments to retention, was closed
// or is not compacted any more. Nothing is wrong; the next round begins anew.
var ErrCleanAborted = errors.New("the log changed while it was compacted")

// CleanOptions are what a compaction may use. Zero values of sizes give small defaults.
type CleanOptions struct {
	// Hash distributes keys over the table. It should be seeded, or clients could choose keys that collide; collisions
	// cost time only.
	Hash func(key []byte) uint64
	// KeyBytes bounds the memory for keys (log.cleaner.dedupe.buffer.size), of which the table is filled up to the share
	// KeyLoad (log.cleaner.io.buffer.load.factor). At least 1 MiB is used.
	KeyBytes int64
	KeyLoad  float64
	// BufferBytes bounds the buffers for reading and writing together (log.cleaner.io.buffer.size). They grow for larger
	// batches.
	BufferBytes int
}

// Cleaned is what a compaction did.
type Cleaned struct {
	From, End                   kafka.Offset // the part that was dirty and is clean now
	Keys                        int          // distinct keys in it
	BytesRead, BytesWritten     int64
	BytesBefore, BytesAfter     int64 // of the segments that were gone through
	SegmentsBefore              int
	SegmentsAfter               int
	RecordsKept, RecordsDropped int64
	BatchesRewritten            int64
	// Partial: the memory for keys did not suffice for all that was dirty; the next compaction goes on at End.
	Partial bool
}

// Cleaning compacts a log once, in steps of bounded size. The first pass reads what is dirty and remembers the newest
// offset of each key; the second goes through all segments up to there and writes what stays into new ones, several small
// ones into one. Steps that change the log are Exclusive: they are made under the owner's lock, do not sync, and touch
// names and the view only.
//
// A group of segments is replaced so that a crash at any moment leaves the old or the new ones, whole:
//
//  1. The new segment is written with the ending .cleaned and synced. A start deletes such files.
//  2. Its files are renamed to .swap (exclusive) and the directory is synced. From now on a start finishes the job.
//  3. Readers are given the new segment, which keeps its .swap names, and the files of the old ones get the ending
//     .deleted (exclusive); the directory is synced. Now nothing of the old ones can come back.
//  4. The new files get their live names (exclusive), and the directory is synced before the next group.
//
// Groups are replaced in the order of their offsets: an older record goes before the newer one that made it superfluous
// may, and the data of a transaction before its marker.
//
// Before the first group the recovery point is made durable, so that a crash never makes recovery read, and cut at, the
// holes that compaction leaves. The cleaner's checkpoint follows after the last group. Producer snapshots inside what was
// compacted go with the old segments: they may know open transactions whose markers are gone.
type Cleaning struct {
	log        *Log
	o          CleanOptions
	view       *View // when the compaction began
	generation int   // of cuts
	sieve      sieve
	reader     batchReader
	stage      cleanStage
	segment    int // that is read, or is read next
	group      cleanGroup
	snapshots  []kafka.Offset // of producers, that go with the group
	vouched    bool           // the recovery point is durable
	err        error
}

// cleanStage is what the next step does.
type cleanStage int8

const (
	cleanMapping   cleanStage = iota // first pass
	cleanRewriting                   // second pass
	cleanSealing                     // the new files are complete: sync them
	cleanNaming                      // .cleaned to .swap
	cleanNamed                       // sync the names
	cleanSwapping                    // show the new segment, drop the old ones
	cleanSwapped                     // sync the names
	cleanSettling                    // .swap to live names
	cleanSettled                     // sync the names
	cleanRecording                   // note how far compaction has come
	cleanRecorded                    // write that down
	cleanDone
)

// Clean begins a compaction of what d, a recent answer of Dirt, says is dirty. nowMs of the pass is now. It is called
// under the owner's lock; only one compaction of a log may run at a time, and it must be stepped until done, or dropped
// with Abandon.
func (l *Log) Clean(d Dirt, highWatermark kafka.Offset, now time.Time, o CleanOptions) (*Cleaning, error) {
	v, c := l.View(), l.Config()
	if l.failed != nil {
		return nil, l.failed
	}
	if l.cleaning != nil || !c.Compact || d.End <= d.From || d.End > min(v.last().base, l.RecoveryPoint(), v.Durable) {
		return nil, ErrCleanAborted
	}
	o.KeyBytes, o.BufferBytes = max(o.KeyBytes, 1<<20), max(o.BufferBytes, 8<<10)
	x := &Cleaning{log: l, o: o, view: v, generation: l.unsynced.generation}
	horizon := now.UnixMilli() + min(c.DeleteRetentionMs, math.MaxInt64/2)
	x.sieve = sieve{keys: newKeyMap(o.Hash, o.KeyBytes, o.KeyLoad), from: d.From, end: d.End, nowMs: now.UnixMilli(),
		horizonMs: horizon, highWatermark: highWatermark, last: l.producers.lastBatches(d.End),
		met: make(map[kafka.ProducerID]struct{})}
	x.reader.size = o.BufferBytes / 2
	x.segment = v.find(d.From)
	l.cleaning = x
	return x, nil
}

// Exclusive says that the next Step must be made under the owner's lock. All others must be made without it.
func (x *Cleaning) Exclusive() bool {
	switch x.stage {
	case cleanNaming, cleanSwapping, cleanSettling, cleanRecording:
		return true
	}
	return false
}

// Swapping says that a group is just being replaced: to stop now leaves that to the next start. The next few steps are
// short.
func (x *Cleaning) Swapping() bool { return x.stage >= cleanSealing && x.stage <= cleanSettled }

// Progress is what was done so far; From, End and Partial are final once the first pass is over.
func (x *Cleaning) Progress() Cleaned {
	out := x.sieve.done
	out.From, out.End, out.Keys = x.sieve.from, x.sieve.end, x.sieve.done.Keys
	return out
}

// Step does the next part of the work and says how many bytes it read and wrote, about budget at most.
//
// Errors: ErrCleanAborted; CorruptMessage when the log is damaged and UnsupportedForMessageFormat when it holds messages
// of an old format, after which the log should be left alone; KafkaStorageError wrapping the cause when the disk failed
// or is full. After an error only Abandon may follow.
func (x *Cleaning) Step(budget int64) (moved int64, done bool, err error) {
	if x.err != nil {
		return 0, false, x.err
	}
	switch x.stage {
	case cleanMapping:
		moved, err = x.mapKeys(budget)
	case cleanRewriting:
		moved, err = x.rewrite(budget)
	case cleanDone:
	default:
		err = x.replace()
	}
	if err != nil {
		x.err = x.explain(err)
	}
	return moved, x.stage == cleanDone, x.err
}

// explain gives the cause of a failed step the code that callers tell apart.
func (x *Cleaning) explain(err error) error {
	l := x.log
	switch {
	case errors.Is(err, ErrCleanAborted), errors.Is(err, errSegmentGone), l.gone.Load(), isChanged(err) && !x.unchanged():
		return ErrCleanAborted
	case errors.Is(err, errOldFormat), errors.Is(err, kafka.KafkaStorageError):
		return err
	case errors.Is(err, errBadBatch), errors.Is(err, kafka.InvalidRecord), errors.Is(err, kafka.CorruptMessage),
		isChanged(err):
		return kafka.Errorf(kafka.CorruptMessage, "compact: %v", err)
	}
	return storageError("compact", err)
}

// unchanged says whether the segment that is read is still part of the log.
func (x *Cleaning) unchanged() bool {
	return x.segment < len(x.view.segments) && slices.Contains(x.log.View().segments, x.view.segments[x.segment])
}

// mapKeys reads on in the dirty part.
func (x *Cleaning) mapKeys(budget int64) (read int64, err error) {
	s := &x.sieve
	for read < budget {
		if x.segment == len(x.view.segments) || x.view.segments[x.segment].base >= s.end {
			x.endMapping()
			return read, nil
		}
		h, b, err := x.nextBatch()
		if err != nil {
			return read, err
		}
		read += h.size
		if b == nil || h.last < s.from {
			continue
		}
		full, err := s.note(b)
		if err != nil {
			return read, err
		}
		if full {
			s.done.Partial = true
			x.endMapping()
			return read, nil
		}
	}
	return read, nil
}

// nextBatch reads on in the segment at hand, which is opened first. At its end there is no batch, and the next segment is
// at hand.
func (x *Cleaning) nextBatch() (header, record.Batch, error) {
	if x.reader.data == nil {
		if err := x.openSegment(); err != nil {
			return header{}, nil, err
		}
	}
	h, b, err := x.reader.next()
	if errors.Is(err, io.EOF) {
		x.reader.close()
		x.segment++
		return header{}, nil, nil
	}
	if err == nil {
		x.sieve.done.BytesRead += h.size
	}
	return h, b, err
}

// openSegment begins to read a segment.
func (x *Cleaning) openSegment() error {
	v, i := x.view, x.segment
	all, err := v.Aborted(v.segments[i].base, v.endOf(i))
	if err != nil {
		return err
	}
	x.sieve.aborted = newAbortedTxns(all)
	return x.reader.open(v.segments[i], v.sizeOf(i))
}

func (x *Cleaning) endMapping() {
	x.reader.close()
	x.sieve.done.Keys = x.sieve.keys.count
	x.segment = 0
	x.stage = cleanRewriting
}

// rewrite reads on in the group at hand, and begins the next one.
func (x *Cleaning) rewrite(budget int64) (moved int64, err error) {
	for moved < budget {
		if x.group.new == nil {
			if x.segment == len(x.view.segments) || x.view.segments[x.segment].base >= x.sieve.end {
				x.stage = cleanRecording
				return moved, nil
			}
			if err := x.beginGroup(); err != nil {
				return moved, err
			}
		}
		if x.segment == x.group.next {
			x.stage = cleanSealing
			return moved, nil
		}
		h, b, err := x.nextBatch()
		if err != nil {
			return moved, err
		}
		if b == nil {
			continue
		}
		moved += h.size
		left, err := x.sieve.sift(b)
		if err != nil {
			return moved, fmt.Errorf("batch at %d: %w", h.base, err)
		}
		if left == nil {
			x.group.changed = true
			continue
		}
		x.group.changed = x.group.changed || &left[0] != &b[0]
		moved += int64(len(left))
		if err := x.group.add(left, x.log.Config()); err != nil {
			return moved, err
		}
	}
	return moved, nil
}

// maxGroup bounds how many segments become one, and so what an exclusive step does.
const maxGroup = 64

// beginGroup decides which segments become one: as many as fit by size, offsets and index entries.
func (x *Cleaning) beginGroup() error {
	v, c, first := x.view, x.log.Config(), x.segment
	b := x.log.dir.block()
	defer x.log.dir.putBlock(b)
	bytes, next := int64(0), first
	var offsets, times int64
	for next < len(v.segments)-1 && next-first < maxGroup && v.segments[next].base < x.sieve.end {
		counts, err := v.countsOf(next, b)
		if err != nil {
			return err
		}
		bytes += v.sizeOf(next)
		offsets += int64(counts.offsets) * offsetEntrySize
		times += int64(counts.times) * timeEntrySize
		fits := bytes <= min(c.SegmentBytes, math.MaxInt32) && max(offsets, times) <= int64(c.SegmentIndexBytes) &&
			fitsRelative(v.segments[first].base, v.endOf(next)-1)
		if next > first && !fits {
			break
		}
		next++
	}
	x.sieve.kept = nil
	x.sieve.done.BytesBefore += segmentBytes(v.segments[first:next])
	x.sieve.done.SegmentsBefore += next - first
	return x.group.begin(x.log, v.segments[first:next:next], next, x.o.BufferBytes/2)
}

func segmentBytes(segments []*segment) int64 {
	n := int64(0)
	for _, s := range segments {
		n += s.size
	}
	return n
}

// Abandon gives back what a compaction that failed or is not wanted any more holds. It is called under the owner's lock.
// A group that is half replaced stays so in a log that failed or was closed, for the next start to finish; otherwise
// Swapping must be false.
func (x *Cleaning) Abandon() {
	x.reader.close()
	x.sieve.keys = nil
	x.stage, x.err = cleanDone, ErrCleanAborted
	if x.group.new != nil && x.group.new.ending.Load() == endingCleaned {
		x.group.discard()
	}
	x.group = cleanGroup{}
	if x.log.cleaning == x {
		x.log.cleaning = nil
	}
}
