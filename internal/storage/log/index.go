package log

import (
	"encoding/binary"
	"io"
	"math"
	"sort"

	"moldau/internal/kafka"
)

// Sizes of index entries in bytes.
const (
	offsetEntrySize = 8
	timeEntrySize   = 12

	// maxRelative is the largest offset that can be written relative to a base.
	maxRelative = math.MaxInt32
)

// offsetEntry is one entry of a .index: a batch's last offset, relative to the segment's base, and where that batch
// begins in the file. Entries rise strictly in both.
type offsetEntry struct{ last, pos uint32 }

// timeEntry is one entry of a .timeindex: the largest timestamp (ms) so far and the last offset, relative to the base,
// of the batch that holds it. Entries rise strictly in both.
type timeEntry struct {
	timestamp int64
	last      uint32
}

// indexCounts is how many entries the index files of a segment hold; known after the first look.
type indexCounts struct {
	offsets, times int32
	known          bool
}

func appendOffsetEntry(dst []byte, e offsetEntry) []byte {
	dst = binary.BigEndian.AppendUint32(dst, e.last)
	return binary.BigEndian.AppendUint32(dst, e.pos)
}

func decodeOffsetEntry(b []byte) offsetEntry {
	return offsetEntry{last: binary.BigEndian.Uint32(b), pos: binary.BigEndian.Uint32(b[4:])}
}

func appendTimeEntry(dst []byte, e timeEntry) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.timestamp))
	return binary.BigEndian.AppendUint32(dst, e.last)
}

func decodeTimeEntry(b []byte) timeEntry {
	return timeEntry{timestamp: int64(binary.BigEndian.Uint64(b)), last: binary.BigEndian.Uint32(b[8:])}
}

// fitsRelative says whether an offset can be written relative to base.
func fitsRelative(base, offset kafka.Offset) bool {
	return offset >= base && offset-base <= maxRelative
}

// lastEntry gives the last of count entries of the given width for which keep holds, and its number; keep must hold for
// a prefix of them. No such entry is number -1. The entry aliases the block.
func lastEntry(f io.ReaderAt, width, count int, b *block, keep func(entry []byte) bool) ([]byte, int, error) {
	// Halve until what is left fits into one read.
	low, high := 0, count // keep holds below low, fails from high on
	perBlock := blockSize / width
	for high-low >= perBlock {
		middle := int(uint(low+high) >> 1)
		if err := readFull(f, b[:width], int64(middle*width)); err != nil {
			return nil, -1, err
		}
		if keep(b[:width]) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	first := max(low-1, 0) // entry low-1 is known to be kept: it may be the answer
	n := high - first
	if n == 0 {
		return nil, -1, nil
	}
	if err := readFull(f, b[:n*width], int64(first*width)); err != nil {
		return nil, -1, err
	}
	i := sort.Search(n, func(i int) bool { return !keep(b[i*width : (i+1)*width]) }) - 1
	if i < 0 {
		return nil, -1, nil
	}
	return b[i*width : (i+1)*width], first + i, nil
}
