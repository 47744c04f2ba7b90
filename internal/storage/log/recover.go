package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"path"
	"slices"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

const (
	// stepBytes is how much a Loader or Scrubber reads in one step.
	stepBytes = 8 << 20
	// windowSize is the unit in which recovery reads.
	windowSize = 256 << 10
	// stepFiles is how many files a step syncs.
	stepFiles = 64
	// maxMarkerBytes bounds the control batches that are read whole; Kafka's take less than 200 bytes.
	maxMarkerBytes = 64 << 10
)

// pass says what is wanted of a segment.
type pass int8

const (
	replay  pass = iota // headers only, for the producer state
	reindex             // headers only, for the indexes
	relearn             // headers only, for the epochs
	verify              // everything, with CRC
)

type scanTask struct {
	segment int
	pass    pass
}

// scan is how far the reading of segments has come.
type scan struct {
	tasks   []scanTask
	from    kafka.Offset // the producer state knows what lies before
	builder *active      // of the segment that is being read; nil between segments
	window  window
	next    kafka.Offset      // no batch may begin before
	epoch   kafka.LeaderEpoch // no batch may be of an older one
	tail    tailIndex         // of the last segment, once known
}

// syncFiles makes durable what recovery is going to trust: names, and files where OpenDir could not sync all at once.
func (x *Loader) syncFiles() error {
	if x.dir.synced {
		x.next = x.prepareRecovery
		if syncsNames(x.dir.fs) {
			return nil
		}
		return x.dir.fs.SyncDir(x.log.Path())
	}
	entries, err := x.dir.fs.ReadDir(x.log.Path())
	if err != nil {
		return err
	}
	var names []string
	from := x.segments[x.firstUntrusted()].base
	for _, e := range entries {
		base, _, isSegment := parseSegmentName(e.Name)
		if !e.IsDir && (!isSegment || base >= from) {
			names = append(names, e.Name)
		}
	}
	x.next = func() error { return x.syncSome(&names) }
	return nil
}

func (x *Loader) syncSome(names *[]string) error {
	n := min(len(*names), stepFiles)
	for _, name := range (*names)[:n] {
		if err := syncFile(x.dir.fs, path.Join(x.log.Path(), name)); err != nil {
			return err
		}
	}
	*names = (*names)[n:]
	if len(*names) > 0 {
		return nil
	}
	if err := x.dir.fs.SyncDir(x.log.Path()); err != nil {
		return err
	}
	x.next = x.prepareRecovery
	return nil
}

// firstUntrusted gives the number of the recovery point's segment.
func (x *Loader) firstUntrusted() int {
	v := View{segments: x.segments}
	return v.find(x.recovery)
}

// prepareRecovery loads the producer state as of the recovery point's segment and plans what to read.
func (x *Loader) prepareRecovery() error {
	first := x.firstUntrusted()
	x.scan = scan{from: x.segments[0].base, next: x.segments[first].base, epoch: kafka.NoEpoch}
	if !x.log.options.NoProducers {
		from, err := x.loadSnapshot(x.segments[first].base)
		if err != nil {
			return err
		}
		x.scan.from = max(from, x.scan.from)
		v := View{segments: x.segments}
		for i := v.find(x.scan.from); i < first; i++ {
			x.scan.tasks = append(x.scan.tasks, scanTask{i, replay})
		}
	}
	for i := range first {
		if x.relearn {
			x.scan.tasks = append(x.scan.tasks, scanTask{i, relearn})
		}
		if !x.files.indexed(x.segments[i]) {
			x.scan.tasks = append(x.scan.tasks, scanTask{i, reindex})
		}
	}
	for i := first; i < len(x.segments); i++ {
		x.scan.tasks = append(x.scan.tasks, scanTask{i, verify})
	}
	x.next = x.scanStep
	return nil
}

// loadSnapshot loads the producer state of the newest sound snapshot at or below base. Damaged ones go, and so do those
// above the recovery point: they describe what recovery has yet to find. That need not be durable, because nothing above
// the recovery point's segment is trusted until the directory was synced again. One between base and the recovery point
// is what an orderly stop left; it stays, as the next one would only write it again.
func (x *Loader) loadSnapshot(base kafka.Offset) (kafka.Offset, error) {
	l := x.log
	var kept []kafka.Offset
	found := kafka.NoOffset
	for _, offset := range slices.Backward(x.files.snapshots) {
		if offset > base && offset <= x.recovery {
			kept = append(kept, offset)
			continue
		}
		if offset <= base {
			err := l.producers.LoadSnapshot(x.dir.fs, l.Path(), offset, x.now, l.producerTTL())
			if err == nil {
				l.loadedAt = offset
				found = offset
				break
			}
			if _, damaged := errors.AsType[*FormatError](err); !damaged {
				return found, err
			}
		}
		if err := RemoveSnapshot(x.dir.fs, l.Path(), offset); err != nil {
			return found, err
		}
	}
	keep := slices.DeleteFunc(x.files.snapshots, func(o kafka.Offset) bool { return o > base && o > x.recovery || o > found && o <= base })
	x.files.snapshots = keep
	l.snapshotAt = found
	if len(kept) > 0 {
		l.snapshotAt = kept[0]
	}
	return found, nil
}

// checkIndexes plans the rebuilding of missing indexes after an orderly stop.
func (x *Loader) checkIndexes() error {
	for i, s := range x.segments {
		if !x.files.indexed(s) {
			x.scan.tasks = append(x.scan.tasks, scanTask{i, reindex})
		}
	}
	x.next = x.scanStep
	return nil
}

// indexed says whether the segment has the index files it needs; an empty one needs none.
func (f *listing) indexed(s *segment) bool {
	x, _ := f.at(s.base)
	return s.size == 0 || (x.offsets && x.times)
}

func (f *listing) allIndexed(segments []*segment) bool {
	return !slices.ContainsFunc(segments, func(s *segment) bool { return !f.indexed(s) })
}

// scanStep reads on for about stepBytes.
func (x *Loader) scanStep() error {
	for budget := int64(stepBytes); budget > 0; {
		if len(x.scan.tasks) == 0 {
			x.scan.window = window{}
			return x.finish()
		}
		task := x.scan.tasks[0]
		if x.scan.builder == nil {
			if err := x.beginSegment(task); err != nil {
				return err
			}
		}
		n, done, err := x.scanSome(task, budget)
		if err != nil {
			return err
		}
		budget -= max(n, 1)
		if !done {
			continue
		}
		if err := x.endSegment(task); err != nil {
			return err
		}
		if len(x.scan.tasks) > 0 {
			x.scan.tasks = x.scan.tasks[1:]
		}
	}
	return nil
}

// beginSegment opens a segment; its indexes are emptied when they are to be made anew.
func (x *Loader) beginSegment(task scanTask) error {
	s := x.segments[task.segment]
	if task.pass == verify {
		if err := x.dir.fs.Evict(s.path(dataSuffix)); err != nil {
			return err
		}
	}
	data, err := s.acquire(dataFile)
	if err != nil {
		return err
	}
	x.scan.builder = &active{seg: s, data: data, firstTimestamp: unknownTimestamp, index: noIndex()}
	x.scan.window.reset(data.file, s.size)
	if task.pass == replay || task.pass == relearn {
		return nil
	}
	s.setIndexCounts(indexCounts{known: true})
	files, _ := x.files.at(s.base)
	if err := x.emptyIndexes(s, files); err != nil {
		return err
	}
	if task.pass == verify && files.txns {
		s.hasTxns.Store(false)
		return x.dir.fs.Remove(s.path(TxnIndexSuffix))
	}
	return nil
}

func (x *Loader) emptyIndexes(s *segment, files indexFiles) error {
	kinds := map[fileKind]bool{offsetIndexFile: files.offsets, timeIndexFile: files.times}
	for _, k := range []fileKind{offsetIndexFile, timeIndexFile} {
		if !kinds[k] {
			continue
		}
		h, err := s.acquire(k)
		if err != nil {
			return err
		}
		err = h.file.Truncate(0)
		h.release()
		if err != nil {
			return err
		}
	}
	return nil
}

// scanSome reads batches until about budget bytes were read or the segment ends.
func (x *Loader) scanSome(task scanTask, budget int64) (read int64, done bool, err error) {
	if task.pass == verify {
		return x.verifySome(task, budget)
	}
	a := x.scan.builder
	b := x.dir.block()
	defer x.dir.putBlock(b)
	h := headers{file: a.data.file, pos: a.size, end: a.seg.size, block: b}
	for read < budget {
		y, err := h.next()
		if errors.Is(err, io.EOF) {
			return read, true, nil
		}
		if errors.Is(err, errBadBatch) {
			// Rot below the recovery point is not cut off: consumers refuse it, the scrubber reports it. Indexes and
			// producer state simply end here.
			x.dir.badIndexes.Add(1)
			return read, true, nil
		}
		if err != nil {
			return read, false, err
		}
		read += min(y.size, blockSize)
		if task.pass == reindex {
			a.noteBatch(y, y.pos, x.log.Config())
		} else if task.pass == relearn {
			x.epochs = x.epochs.reconcile(y.epoch, y.base)
		} else if y.base >= x.scan.from {
			if err := x.log.replayBatch(a.data.file, y, h.bytes(y)); err != nil {
				return read, false, err
			}
		}
		a.size = h.pos
	}
	return read, false, nil
}

// verifySome checks batches; the first bad one ends the log.
func (x *Loader) verifySome(task scanTask, budget int64) (read int64, done bool, err error) {
	a := x.scan.builder
	for read < budget && a.size < a.seg.size {
		h, err := x.scan.window.check(a.size)
		if err == nil {
			err = x.fits(h, task.segment)
		}
		if errors.Is(err, errBadBatch) {
			return read, true, x.cutAt(task.segment, a.size)
		}
		if err != nil {
			return read, false, err
		}
		if err := x.take(h); err != nil {
			return read, false, err
		}
		read += h.size
		x.report.BytesScanned += h.size
	}
	return read, a.size >= a.seg.size, nil
}

// fits checks what a batch must have in common with those before it: offsets rise, epochs never fall, and it lies within
// its segment.
func (x *Loader) fits(h header, i int) error {
	base := x.segments[i].base
	end := kafka.Offset(math.MaxInt64)
	if i+1 < len(x.segments) {
		end = x.segments[i+1].base
	}
	if h.base < max(x.scan.next, base) || h.last >= end || !fitsRelative(base, h.last) {
		return fmt.Errorf("%w: offsets %d to %d do not follow %d", errBadBatch, h.base, h.last, x.scan.next)
	}
	if h.epoch != kafka.NoEpoch && h.epoch < x.scan.epoch {
		return fmt.Errorf("%w: epoch %d after %d", errBadBatch, h.epoch, x.scan.epoch)
	}
	return nil
}

// take accounts for a good batch.
func (x *Loader) take(h header) error {
	a, l := x.scan.builder, x.log
	if h.magic == record.Magic && !l.options.NoProducers {
		ended, err := l.replayed(a.data.file, h, x.scan.window.head(h))
		if err != nil {
			return err
		}
		if ended.Aborted {
			if err := l.addAborted(a.seg, ended.Entry()); err != nil {
				return err
			}
		}
	}
	a.noteBatch(h, h.pos, l.Config())
	a.size = h.pos + h.size
	if len(a.index.offsets) >= indexBuffer {
		if err := a.writeIndexes(); err != nil {
			return err
		}
	}
	x.epochs = x.epochs.reconcile(h.epoch, h.base)
	x.scan.next = h.last + 1
	x.scan.epoch = max(x.scan.epoch, h.epoch)
	return nil
}

// reconcile makes the history agree with a batch that stands in the log. Entries are only doubted when one does not.
func (e Epochs) reconcile(epoch kafka.LeaderEpoch, offset kafka.Offset) Epochs {
	if epoch == kafka.NoEpoch || e.At(offset) == epoch {
		return e
	}
	n := 0
	for n < len(e) && e[n].Start <= offset && e[n].Epoch <= epoch {
		n++
	}
	kept := e[:n:n]
	if last, ok := kept.Latest(); ok && last.Epoch == epoch {
		return kept
	}
	out, _ := kept.Assign(epoch, offset)
	return out
}

// cutAt ends the log at pos of segment i: later segments go first, last first and durably, so that another crash finds
// the same bad batch again.
func (x *Loader) cutAt(i int, pos int64) error {
	l, s := x.log, x.segments[i]
	later := x.segments[i+1:]
	for _, y := range later {
		x.report.CutBytes += y.size
	}
	x.report.CutBytes += s.size - pos
	if len(later) > 0 {
		if err := l.removeSegments(later); err != nil {
			return err
		}
		l.trash.items = nil
		for _, y := range slices.Backward(later) {
			if err := l.unlink(y.base); err != nil {
				return err
			}
		}
		if err := x.dir.fs.SyncDir(l.Path()); err != nil {
			return err
		}
	}
	x.segments = x.segments[:i+1]
	x.scan.tasks = x.scan.tasks[:1]
	s.size = pos
	if err := x.scan.builder.data.file.Truncate(pos); err != nil {
		return err
	}
	return x.scan.builder.data.file.Sync()
}

// checkGap cuts the log after a segment that ends before the next one begins: its file lost its end, exactly between two
// batches, while a later file survived. Nothing from there on can have been acknowledged. Only compaction leaves such
// gaps behind in good order, so where it may have been at work they stay. It works below the recovery point only, so they
// are met here only when that was lost, or was lowered by a cut.
func (x *Loader) checkGap(i int, a *active) error {
	if i+1 >= len(x.segments) || x.segments[i+1].base <= max(x.scan.next, a.seg.base) {
		return nil
	}
	if base := x.segments[i+1].base; base <= x.cleaned || x.log.Config().Compact && !x.recoveryKnown {
		return nil
	}
	return x.cutAt(i, a.seg.size)
}

// endSegment closes a segment that was read.
func (x *Loader) endSegment(task scanTask) error {
	a, l := x.scan.builder, x.log
	defer a.close()
	defer func() { x.scan.builder = nil }()
	if task.pass == replay || task.pass == relearn {
		a.seg.closeFiles()
		return nil
	}
	if task.pass == verify {
		if err := x.checkGap(task.segment, a); err != nil {
			return err
		}
		x.report.SegmentsScanned++
		x.end = max(x.scan.next, a.seg.base)
	} else {
		x.report.IndexesRebuilt++
	}
	if err := x.saveIndexes(a, task); err != nil {
		return err
	}
	if task.pass == verify && task.segment < len(x.segments)-1 && !l.options.NoProducers {
		base := x.segments[task.segment+1].base
		if err := l.producers.WriteSnapshot(x.dir.fs, l.Path(), base, false); err != nil {
			return err
		}
		l.snapshotAt = max(l.snapshotAt, base)
		x.files.snapshots = append(x.files.snapshots, base)
		l.unsynced.add(syncItem{name: SnapshotName(base)})
	}
	a.seg.closeFiles()
	return nil
}

// saveIndexes writes what is left of a rebuilt index. That of the last segment stays open for more entries, and one
// without entries is not written at all.
func (x *Loader) saveIndexes(a *active, task scanTask) error {
	l, isLast := x.log, task.segment == len(x.segments)-1
	if !isLast {
		a.addTimeEntry()
	}
	if !isLast || len(a.index.offsets) > 0 {
		if err := a.writeIndexes(); err != nil {
			return err
		}
	}
	if a.indexDirty {
		l.noteIndexes(a.seg)
		a.indexDirty = false
		l.unsynced.names++
	}
	if a.seg.txns.Load() != nil {
		l.unsynced.add(syncItem{name: segmentName(a.seg.base, TxnIndexSuffix)})
	}
	if isLast {
		x.scan.tail = a.index
	}
	newest := a.index.newest
	a.seg.newest.Store(&newest)
	return nil
}

// replayBatch tells the producer state one batch; head holds at least its header.
func (l *Log) replayBatch(f io.ReaderAt, h header, head []byte) error {
	_, err := l.replayed(f, h, head)
	return err
}

func (l *Log) replayed(f io.ReaderAt, h header, head []byte) (CompletedTxn, error) {
	if l.options.NoProducers {
		return CompletedTxn{}, nil
	}
	return l.producers.replay(f, h, head)
}

// replay is Update for a batch of which only the first bytes were read, at least its header. Markers need the rest.
func (p *Producers) replay(f io.ReaderAt, h header, head []byte) (CompletedTxn, error) {
	b := record.Batch(head)
	if h.magic < record.Magic || !b.HasProducer() {
		return CompletedTxn{}, nil
	}
	if b.IsControl() && int64(len(head)) < h.size && h.size <= maxMarkerBytes {
		b = make(record.Batch, h.size)
		if err := readFull(f, b, h.pos); err != nil {
			return CompletedTxn{}, err
		}
	}
	ended, _ := p.Update(b)
	return ended, nil
}

// window reads a file front to back.
type window struct {
	file vfs.File
	end  int64
	buf  []byte
	at   int64 // file position of buf
	have int
}

func (w *window) reset(f vfs.File, end int64) {
	w.file, w.end, w.at, w.have = f, end, 0, 0
}

// bytes gives n bytes at pos, n <= windowSize.
func (w *window) bytes(pos, n int64) ([]byte, error) {
	if pos < w.at || pos+n > w.at+int64(w.have) {
		want := int(min(windowSize, w.end-pos))
		if cap(w.buf) < want {
			w.buf = make([]byte, want)
		}
		w.at, w.have = pos, 0
		if err := readFull(w.file, w.buf[:want], pos); err != nil {
			return nil, err
		}
		w.have = want
	}
	return w.buf[pos-w.at : pos-w.at+n], nil
}

// head gives at least the header of a batch that was just checked; the whole batch if it is small.
func (w *window) head(h header) []byte {
	b, err := w.bytes(h.pos, min(h.size, windowSize))
	if err != nil {
		return nil
	}
	return b
}

// check reads the batch at pos and its checksum; errBadBatch when it is none or damaged. Memory stays bounded whatever
// the length field says.
func (w *window) check(pos int64) (header, error) {
	room := w.end - pos
	head, err := w.bytes(pos, min(room, record.HeaderSize))
	if err != nil {
		return header{}, err
	}
	h, err := parseHeader(head, pos, room)
	if err != nil {
		return h, err
	}
	want, table, from := record.Batch(head).CRC(), crc32.MakeTable(crc32.Castagnoli), int64(posCovered)
	if h.magic < record.Magic {
		want, table, from = binary.BigEndian.Uint32(head[posOldCRC:]), crc32.IEEETable, posMagic
	}
	sum := uint32(0)
	for p, end := pos+from, pos+h.size; p < end; {
		n := min(end-p, windowSize)
		b, err := w.bytes(p, n)
		if err != nil {
			return h, err
		}
		sum = crc32.Update(sum, table, b)
		p += n
	}
	if sum != want {
		return h, fmt.Errorf("%w: crc %08x at %d, expected %08x", errBadBatch, sum, pos, want)
	}
	return h, nil
}

// Where the checksums lie and what they cover.
const (
	posCovered = 21 // format 2: from the attributes on
	posOldCRC  = 12 // formats 0 and 1: from the magic byte on
)
