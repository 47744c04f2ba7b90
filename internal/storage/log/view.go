package log

import (
	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// View is a log as it stood at one moment. It is immutable and may be read without any lock for as long as wanted; the
// files it names are opened when read, and reading what was deleted since gives OffsetOutOfRange.
type View struct {
	Start   kafka.Offset // log start: nothing before it is served
	End     kafka.Offset // log end: where the next record goes
	Durable kafka.Offset // end of what was synced

	log      *Log
	segments []*segment // by rising base, never empty
	epochs   Epochs
	sealed   int64 // bytes of all segments but the last
	tail     tail
}

// tail is what a view knows of the last segment, the only one that changes.
type tail struct {
	size int64
	// ends are the last batches' ends by rising offset, so that reads near the end of the log touch no index. The
	// first one may be the segment's start. The arrays behind these slices are only ever appended to.
	ends  []batchEnd
	index tailIndex
}

// batchEnd says that the batch before offset ends, and the one after begins, at pos.
type batchEnd struct {
	offset kafka.Offset
	pos    int64
}

// tailIndex is the index of the last segment while it is being appended to.
type tailIndex struct {
	inFile  indexCounts
	offsets []offsetEntry // not yet in the file
	times   []timeEntry   // not yet in the file
	// newest is the largest timestamp of the segment and the batch that holds it, not necessarily indexed; timestamp -1:
	// no record has one.
	newest  timeEntry
	indexed int64 // timestamp of the last time index entry, in file or in memory; -1: there is none
	made    bool  // both files exist
	loaded  bool  // false: nothing of this is known, everything is in the files
}

// noIndex is the index of an empty segment.
func noIndex() tailIndex {
	return tailIndex{
		inFile: indexCounts{known: true}, newest: timeEntry{timestamp: record.NoTimestamp}, indexed: record.NoTimestamp,
		loaded: true,
	}
}

// Log is the log the view is of.
func (v *View) Log() *Log { return v.log }

// Size is the log's size in bytes: that of its .log files.
func (v *View) Size() int64 { return v.sealed + v.tail.size }

// Segments is the number of segments.
func (v *View) Segments() int { return len(v.segments) }

// Epochs is the history of leaders.
func (v *View) Epochs() Epochs { return v.epochs }

// EndOffsetFor answers an OffsetForLeaderEpoch question: see Epochs.EndFor.
func (v *View) EndOffsetFor(epoch kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset) {
	return v.epochs.EndFor(epoch, v.End)
}

// EndOffsetFor answers for the newest state; see View.EndOffsetFor. Lock-free.
func (l *Log) EndOffsetFor(epoch kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset) {
	return l.View().EndOffsetFor(epoch)
}

// last is the segment that is appended to.
func (v *View) last() *segment { return v.segments[len(v.segments)-1] }

// sizeOf gives the size of the i-th segment in this view.
func (v *View) sizeOf(i int) int64 {
	if i == len(v.segments)-1 {
		return v.tail.size
	}
	return v.segments[i].size
}

// endOf gives the offset at which the i-th segment ends: the next one's base.
func (v *View) endOf(i int) kafka.Offset {
	if i == len(v.segments)-1 {
		return v.End
	}
	return v.segments[i+1].base
}

// find gives the number of the segment that holds offset: the last with base <= offset, or the first.
func (v *View) find(offset kafka.Offset) int {
	low, high := 0, len(v.segments)
	for high-low > 1 {
		middle := int(uint(low+high) >> 1)
		if v.segments[middle].base <= offset {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}
