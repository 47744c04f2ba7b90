package log

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// fileKind names one of a segment's files.
type fileKind int

// The files of a segment that are read at random. Snapshots belong to producers, txn indexes are read whole.
const (
	dataFile fileKind = iota
	offsetIndexFile
	timeIndexFile
	fileKinds
)

// Suffixes of a segment's files; the name before is the base offset in 20 digits.
const (
	dataSuffix        = ".log"
	offsetIndexSuffix = ".index"
	timeIndexSuffix   = ".timeindex"
	deletedSuffix     = ".deleted" // waits for the end of file.delete.delay.ms
	cleanedSuffix     = ".cleaned" // being written by the cleaner
	swapSuffix        = ".swap"    // complete, about to replace live segments
)

func (k fileKind) suffix() string {
	return [fileKinds]string{dataSuffix, offsetIndexSuffix, timeIndexSuffix}[k]
}

// segmentName gives the name of a segment's file.
func segmentName(base kafka.Offset, suffix string) string {
	return fmt.Sprintf("%020d%s", base, suffix)
}

// parseSegmentName splits a file name into base offset and suffix (everything from the first dot on).
func parseSegmentName(name string) (base kafka.Offset, suffix string, ok bool) {
	if len(name) < 21 || name[20] != '.' || strings.Trim(name[:20], "0123456789") != "" {
		return 0, "", false
	}
	n, err := strconv.ParseInt(name[:20], 10, 64)
	return kafka.Offset(n), name[20:], err == nil
}

// errSegmentGone: the segment was deleted or replaced after the view that names it was published.
var errSegmentGone = errors.New("segment is deleted")

// segment is one segment as readers of any view may see it. Everything is immutable or guarded by mu; what grows with
// appends stands in View. When a segment is cut, replaced or reopened for appending after a cut, it becomes another
// segment value, so that older views keep a consistent one.
type segment struct {
	log  *Log
	base kafka.Offset
	// size in bytes; final once a later segment exists, and not to be read before (View.tail has the last one's).
	size int64

	ending endingState // of the files' names

	mu      sync.Mutex
	gone    bool
	used    bool // since the last Idle
	files   [fileKinds]*handle
	entries indexCounts

	newest atomic.Pointer[timeEntry] // largest timestamp of a closed segment, once somebody asked

	hasTxns atomic.Bool              // there may be a .txnindex file
	txns    atomic.Pointer[TxnIndex] // opened when first needed
}

// unknownTimestamp marks a timestamp that was not read yet; -1 means that no record has one.
const unknownTimestamp = -2

func newSegment(l *Log, base kafka.Offset, size int64) *segment {
	return &segment{log: l, base: base, size: size}
}

func (s *segment) path(suffix string) string {
	return path.Join(s.log.Path(), segmentName(s.base, suffix)) + s.ending.Load().String()
}

// segmentEnding is what follows the usual names of a segment's files while compaction replaces others by it.
type segmentEnding int32

const (
	endingLive segmentEnding = iota
	endingCleaned
	endingSwap
)

func (e segmentEnding) String() string { return [...]string{"", cleanedSuffix, swapSuffix}[e] }

// endingState changes under segment.mu, so that nobody opens a file between two renames.
type endingState struct{ v atomic.Int32 }

func (s *endingState) Load() segmentEnding   { return segmentEnding(s.v.Load()) }
func (s *endingState) Store(e segmentEnding) { s.v.Store(int32(e)) }

// handle is an open file with a count of those who need it: the segment while it is in use, every reply on the wire and
// every flush. The last one closes it, so a deleted segment can still be sent.
type handle struct {
	file vfs.File
	dir  *Dir
	refs atomic.Int32
}

func newHandle(d *Dir, f vfs.File) *handle {
	h := &handle{file: f, dir: d}
	h.refs.Store(1)
	d.openFiles.Add(1)
	return h
}

func (h *handle) release() {
	if h.refs.Add(-1) == 0 {
		// Nothing can be lost here: what was written was synced or will be found missing by recovery.
		_ = h.file.Close()
		h.dir.openFiles.Add(-1)
	}
}

// acquire gives a referenced handle of an existing file; callers release it.
func (s *segment) acquire(k fileKind) (*handle, error) { return s.open(k, os.O_RDWR) }

// create is acquire for a writer: a missing file is made.
func (s *segment) create(k fileKind) (*handle, error) { return s.open(k, os.O_RDWR|os.O_CREATE) }

func (s *segment) open(k fileKind, flag int) (*handle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return nil, errSegmentGone
	}
	h := s.files[k]
	if h == nil {
		f, err := s.log.dir.fs.Open(s.path(k.suffix()), flag)
		if err != nil {
			return nil, err
		}
		h = newHandle(s.log.dir, f)
		s.files[k] = h
	}
	s.used = true
	h.refs.Add(1)
	return h, nil
}

// adopt gives the segment a handle that another segment value of the same file held.
func (s *segment) adopt(k fileKind, h *handle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[k] = h
}

// surrender takes the handle away from the segment, with its reference; nil when the file is not open.
func (s *segment) surrender(k fileKind) *handle {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.files[k]
	s.files[k] = nil
	return h
}

// closeFiles drops the segment's own references.
func (s *segment) closeFiles() {
	for k := range fileKinds {
		if h := s.surrender(k); h != nil {
			h.release()
		}
	}
}

// retire makes every later open fail and closes what nobody is using.
func (s *segment) retire() {
	s.mu.Lock()
	s.gone = true
	s.mu.Unlock()
	s.closeFiles()
}

// closeUnused closes the files if nobody opened one since the last call (a second chance, as in a clock cache).
func (s *segment) closeUnused() {
	s.mu.Lock()
	used := s.used
	s.used = false
	s.mu.Unlock()
	if !used {
		s.closeFiles()
	}
}
