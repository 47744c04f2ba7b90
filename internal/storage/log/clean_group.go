package log

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"time"

	"moldau/internal/kafka"
)

// cleanGroup is a run of segments that becomes one, and the new one in the making.
type cleanGroup struct {
	old     []*segment
	next    int // number of the segment after them in the view
	new     *segment
	builder *active
	out     cleanWriter
	changed bool // something was left out or rewritten
}

// begin makes the files of the new segment.
func (g *cleanGroup) begin(l *Log, old []*segment, next, buffer int) error {
	s := newSegment(l, old[0].base, 0)
	s.ending.Store(endingCleaned)
	*g = cleanGroup{old: old, next: next, new: s, changed: len(old) > 1}
	for _, k := range []fileKind{dataFile, offsetIndexFile, timeIndexFile} {
		f, err := l.dir.fs.Open(s.path(k.suffix()), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
		if err != nil {
			return err
		}
		if k != dataFile {
			s.adopt(k, newHandle(l.dir, f))
			continue
		}
		g.builder = newActive(s, newHandle(l.dir, f), time.Time{})
		g.out = cleanWriter{file: f, buf: make([]byte, 0, buffer)}
	}
	return nil
}

// add appends a batch to the new segment.
func (g *cleanGroup) add(b []byte, c *Config) error {
	h, err := parseHeader(b, g.builder.size, int64(len(b)))
	if err != nil {
		return err
	}
	if g.builder.size+h.size > math.MaxInt32 { // recompression may have made it larger
		return fmt.Errorf("%w: the segment at %d would grow beyond 2 GiB", errBadBatch, g.new.base)
	}
	g.builder.noteBatch(h, g.builder.size, c)
	g.builder.size += h.size
	if len(g.builder.index.offsets) >= indexBuffer {
		if err := g.builder.writeIndexes(); err != nil {
			return err
		}
	}
	return g.out.add(b)
}

// seal completes the files and makes their contents durable. The new segment is as old as the newest of those it stands
// for.
func (g *cleanGroup) seal(entries []AbortedTxn) error {
	s, fsys := g.new, g.new.log.dir.fs
	if err := g.out.flush(); err != nil {
		return err
	}
	g.builder.addTimeEntry()
	if err := g.builder.writeIndexes(); err != nil {
		return err
	}
	if err := g.writeTxnIndex(entries); err != nil {
		return err
	}
	info, err := fsys.Stat(g.old[len(g.old)-1].path(dataSuffix))
	if err != nil {
		return err
	}
	if err := g.builder.data.file.SetModTime(info.ModTime); err != nil {
		return err
	}
	for k := range fileKinds {
		if h := s.surrender(k); h != nil {
			err = errors.Join(err, h.file.Sync())
			h.release()
		}
	}
	s.size = g.builder.size
	newest := g.builder.index.newest
	s.newest.Store(&newest)
	g.builder.close()
	g.builder = nil
	return err
}

// writeTxnIndex writes the entries to a file of its own and keeps them in memory until that file has its live name. The
// file is made without entries too: see removeReplaced.
func (g *cleanGroup) writeTxnIndex(entries []AbortedTxn) error {
	s, fsys := g.new, g.new.log.dir.fs
	var data []byte
	for _, a := range entries {
		data = appendTxnEntry(data, a)
	}
	if err := writeSynced(fsys, s.path(TxnIndexSuffix), data); err != nil {
		return err
	}
	if len(entries) == 0 {
		return nil
	}
	x := &TxnIndex{fsys: fsys, name: path.Join(s.log.Path(), segmentName(s.base, TxnIndexSuffix))}
	x.end.Store(&txnIndexEnd{entries: int64(len(entries)), last: entries[len(entries)-1].Last})
	x.freeze(entries)
	s.txns.Store(x)
	s.hasTxns.Store(true)
	return nil
}

// discard drops a new segment that replaces nothing. What cannot be removed of its files, the next start removes.
func (g *cleanGroup) discard() {
	if g.builder != nil {
		g.builder.close()
	}
	g.new.retire()
	for _, suffix := range cleanedSuffixes {
		_ = g.new.log.dir.fs.Remove(g.new.path(suffix))
	}
	*g = cleanGroup{}
}

// cleanedSuffixes are the files of a new segment.
var cleanedSuffixes = [...]string{offsetIndexSuffix, timeIndexSuffix, TxnIndexSuffix, dataSuffix}

// rename gives the files of a segment another ending. Those it does not have are passed over.
func (s *segment) rename(ending segmentEnding) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, suffix := range cleanedSuffixes {
		from := s.path(suffix)
		to := path.Join(s.log.Path(), segmentName(s.base, suffix)) + ending.String()
		if suffix == TxnIndexSuffix && ending == endingLive && !s.hasTxns.Load() {
			if err := s.log.dir.fs.Remove(from); err != nil && !isGone(err) { // it is empty
				return err
			}
			continue
		}
		if err := s.log.dir.fs.Rename(from, to); err != nil && !isGone(err) {
			return err
		}
	}
	s.ending.Store(ending)
	return nil
}

// snapshotsBefore lists the producer snapshots of a partition that lie before end.
func (l *Log) snapshotsBefore(end kafka.Offset) ([]kafka.Offset, error) {
	all, err := ListSnapshots(l.dir.fs, l.Path())
	n := 0
	for n < len(all) && all[n] < end {
		n++
	}
	return all[:n], err
}
