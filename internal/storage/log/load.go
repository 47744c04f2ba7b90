package log

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"moldau/internal/kafka"
)

// Loader opens one partition's directory. After an orderly stop that is one step which reads names and two or three
// small files, and no segment. Otherwise it recovers the log: from the recovery point's segment on it checks every
// batch, rebuilds indexes, epochs and producer state, and cuts at the first bad batch. Steps are of bounded size. A
// Loader can be abandoned at any step, as by a crash; the next one starts over.
type Loader struct {
	dir    *Dir
	part   PartitionDir
	now    time.Time
	log    *Log
	report Report
	next   func() error // the next step; nil when done

	// What the directory and the checkpoints say.
	files         listing
	recovery      kafka.Offset
	recoveryKnown bool
	relearn       bool         // the epoch file is damaged
	cleaned       kafka.Offset // compaction has not touched what lies from here on
	start         kafka.Offset
	highWatermark kafka.Offset

	segments []*segment
	epochs   Epochs
	end      kafka.Offset
	scan     scan
}

// Report says what opening a log found.
type Report struct {
	Clean           bool // names were trusted, no segment was read
	SegmentsScanned int  // with CRC
	BytesScanned    int64
	IndexesRebuilt  int   // segments whose indexes were made anew, beyond the recovered ones
	CutBytes        int64 // removed from the first bad batch on, later segments included
	// The log ends before an offset that was checkpointed as durable, or as seen by consumers: the replica lost
	// something that it once had.
	BelowRecoveryPoint, BelowHighWatermark bool
	// StartedOver: the log ended before its checkpointed start and was emptied.
	StartedOver bool
}

// Load begins to open a partition's directory, as found by Partitions.
func (d *Dir) Load(p PartitionDir, c *Config, o Options, now time.Time) *Loader {
	l := &Log{dir: d, tp: p.Partition, state: p.State, options: o, snapshotAt: kafka.NoOffset, loadedAt: kafka.NoOffset}
	l.name.Store(&p.Name)
	l.config.Store(c)
	x := &Loader{dir: d, part: p, now: now, log: l}
	x.start, x.highWatermark = kafka.NoOffset, kafka.NoOffset
	if p.State == Live {
		d.checkpointed(x)
	}
	x.next = x.list
	return x
}

// Open opens a live partition's directory in one go; see Load.
func (d *Dir) Open(tp kafka.TopicPartition, c *Config, o Options, now time.Time) (*Log, Report, error) {
	x := d.Load(PartitionDir{Name: tp.String(), Partition: tp}, c, o, now)
	for {
		done, err := x.Step()
		if err != nil {
			return nil, x.report, err
		}
		if done {
			return x.Log(), x.report, nil
		}
	}
}

// Step does the next part of the work. After an error the Loader is of no more use; the directory is damaged
// (*FormatError) or the disk failed.
func (x *Loader) Step() (done bool, err error) {
	if x.next == nil {
		return true, nil
	}
	if err := x.next(); err != nil {
		x.abandon()
		return false, fmt.Errorf("open %s: %w", path.Join(x.dir.path, x.part.Name), err)
	}
	return x.next == nil, nil
}

// Log is the opened log, once Step said done.
func (x *Loader) Log() *Log {
	if x.next != nil {
		return nil
	}
	return x.log
}

// Report says what was found so far.
func (x *Loader) Report() Report { return x.report }

// abandon closes what is open.
func (x *Loader) abandon() {
	if x.scan.builder != nil {
		x.scan.builder.close()
		x.scan.builder = nil
	}
	for _, s := range x.segments {
		s.closeFiles()
	}
	for _, item := range x.log.unsynced.items {
		if item.file != nil {
			item.file.release()
		}
	}
	x.log.unsynced.items = nil
}

// list reads the directory, tidies up what a crash left half done, and decides how to go on.
func (x *Loader) list() error {
	var err error
	if x.files, err = x.readDir(); err != nil {
		return err
	}
	if err := x.dropBelowStart(); err != nil {
		return err
	}
	if err := x.makeSegments(); err != nil {
		return err
	}
	if err := x.readSmallFiles(); err != nil {
		return err
	}
	if x.relearn || !x.dir.clean || x.part.State != Live {
		x.next = x.syncFiles
		return nil
	}
	known, err := x.trustEnd()
	if err != nil {
		return err
	}
	if !known {
		x.next = x.syncFiles // the marker is wrong about this one: trust nothing
		return nil
	}
	x.report.Clean = true
	x.next = x.checkIndexes
	if x.files.allIndexed(x.segments) {
		return x.finish()
	}
	return nil
}

// dropBelowStart finishes a retention that a crash interrupted: some of the segments below the log start may be gone, so
// that what is left of them is no sequence any more.
func (x *Loader) dropBelowStart() error {
	n := 0
	for n+1 < len(x.files.bases) && x.files.bases[n+1] <= x.start {
		n++
	}
	if n == 0 {
		return nil
	}
	for _, base := range x.files.bases[:n] {
		for _, suffix := range segmentSuffixes {
			err := x.dir.fs.Remove(path.Join(x.log.Path(), segmentName(base, suffix)))
			if err != nil && !isGone(err) {
				return err
			}
		}
	}
	x.files.bases, x.files.indexes = x.files.bases[n:], x.files.indexes[n:]
	return x.dir.fs.SyncDir(x.log.Path()) // before the start leaves the checkpoint
}

// makeSegments makes the list of segments with their sizes; a directory without any gets an empty one.
func (x *Loader) makeSegments() error {
	for _, base := range x.files.bases {
		s := newSegment(x.log, base, 0)
		info, err := x.dir.fs.Stat(s.path(dataSuffix))
		if err != nil {
			return err
		}
		s.size = info.Size
		files, _ := x.files.at(base)
		s.hasTxns.Store(files.txns)
		x.segments = append(x.segments, s)
	}
	if len(x.segments) > 0 {
		return nil
	}
	s := newSegment(x.log, max(x.start, 0), 0)
	h, err := s.create(dataFile)
	if err != nil {
		return err
	}
	h.release()
	s.closeFiles()
	x.log.unsynced.names++
	x.segments = []*segment{s}
	return nil
}

// readSmallFiles reads topic id and epochs. After an unclean stop a topic id that cannot be read is none and is removed:
// it is made durable before the first acknowledgement, so nothing acknowledged depends on it.
func (x *Loader) readSmallFiles() error {
	l := x.log
	var err error
	if x.files.metadata {
		l.topicID, err = ReadPartitionMetadata(x.dir.fs, l.Path())
		if _, damaged := errors.AsType[*FormatError](err); damaged && !x.dir.clean {
			l.topicID, err = kafka.ZeroUUID, x.dir.fs.Remove(path.Join(l.Path(), PartitionMetadataFile))
		}
		if err != nil {
			return err
		}
	}
	if x.files.epochs {
		x.epochs, err = ReadEpochs(x.dir.fs, l.Path())
		if _, damaged := errors.AsType[*FormatError](err); damaged {
			x.relearn, err = true, nil // every batch says its epoch, and the next flush replaces the file
		}
		if err != nil {
			return err
		}
	}
	l.epochsSaved = x.epochs
	return nil
}

// trustEnd takes the log end after an orderly stop: from the name of the newest producer snapshot if that agrees with
// the recovery point, else from the batches after the last index entry. false: they cannot be read.
func (x *Loader) trustEnd() (bool, error) {
	last := x.segments[len(x.segments)-1]
	if n := len(x.files.snapshots); n > 0 {
		newest := x.files.snapshots[n-1]
		if newest == x.recovery && newest >= last.base && (last.size > 0) == (newest > last.base) {
			x.end = newest
			return true, nil
		}
	}
	if last.size == 0 {
		x.end = last.base
		return true, nil
	}
	v := &View{log: x.log, segments: x.segments, tail: tail{size: last.size}, Start: last.base, End: last.base + maxRelative}
	end, err := v.lastOffset()
	if errors.Is(err, errBadBatch) {
		return false, nil
	}
	x.end = end + 1
	return err == nil, err
}

// lastOffset reads the last offset of the last segment, which is not empty.
func (v *View) lastOffset() (kafka.Offset, error) {
	i := len(v.segments) - 1
	data, err := v.segments[i].acquire(dataFile)
	if err != nil {
		return 0, err
	}
	defer v.segments[i].closeFiles()
	defer data.release()
	b := v.log.dir.block()
	defer v.log.dir.putBlock(b)
	h, err := v.scanFrom(i, v.segments[i].base+maxRelative, data, b)
	if err != nil {
		return 0, err
	}
	last := kafka.NoOffset
	for h.pos < h.end {
		x, err := h.next()
		if err != nil {
			return 0, err
		}
		last = x.last
	}
	return last, nil
}

// finish applies the log start, settles epochs and producers, and publishes the log.
func (x *Loader) finish() error {
	l := x.log
	start := max(x.start, x.segments[0].base)
	if x.end < start {
		if err := x.startOver(start); err != nil {
			return err
		}
	}
	x.report.BelowRecoveryPoint = x.end < x.recovery
	x.report.BelowHighWatermark = x.end < x.highWatermark
	v := &View{Start: start, End: x.end, Durable: x.end, log: l, segments: x.segments}
	for _, s := range x.segments[:len(x.segments)-1] {
		v.sealed += s.size
	}
	v.tail = tail{size: x.segments[len(x.segments)-1].size, index: x.scan.tail}
	l.epochs = x.epochs.TruncateEnd(x.end).TruncateStart(start)
	if !slices.Equal(l.epochs, l.epochsSaved) {
		l.unsynced.epochs++
	}
	v.epochs, l.visible = l.epochs, l.epochs
	l.view.Store(v)
	l.recoveryPoint.Store(int64(min(x.recovery, x.end)))
	if err := x.dir.lowerRecoveryPoint(l, x.end); err != nil {
		return err
	}
	if x.report.Clean {
		l.recoveryPoint.Store(int64(x.end))
		if err := x.loadProducers(v); err != nil {
			return err
		}
	}
	if err := x.dropSnapshotsBeyond(x.end); err != nil {
		return err
	}
	if err := x.dropStraySnapshots(); err != nil {
		return err
	}
	x.next = nil
	return x.dir.add(l)
}

// loadProducers reads the producer state after an orderly stop. The empty snapshot of a log without idempotent producers
// is not even opened.
func (x *Loader) loadProducers(v *View) error {
	l := x.log
	if l.options.NoProducers {
		return nil
	}
	if n := len(x.files.snapshots); n > 0 && x.files.snapshots[n-1] == v.End {
		l.snapshotAt = v.End
		info, err := x.dir.fs.Stat(path.Join(l.Path(), SnapshotName(v.End)))
		if err == nil && info.Size != snapshotHead {
			err = l.producers.LoadSnapshot(x.dir.fs, l.Path(), v.End, x.now, l.producerTTL())
		}
		l.loadedAt = v.End
		if _, damaged := errors.AsType[*FormatError](err); !damaged && !isGone(err) {
			return err
		}
	}
	return l.reloadProducers(v, x.now)
}

// dropSnapshotsBeyond deletes the snapshots of what recovery did not find.
func (x *Loader) dropSnapshotsBeyond(end kafka.Offset) error {
	l := x.log
	slices.Sort(x.files.snapshots)
	for n := len(x.files.snapshots); n > 0 && x.files.snapshots[n-1] > end; n-- {
		if err := RemoveSnapshot(x.dir.fs, l.Path(), x.files.snapshots[n-1]); err != nil {
			return err
		}
		x.files.snapshots = x.files.snapshots[:n-1]
	}
	if n := len(x.files.snapshots); l.snapshotAt > end {
		l.snapshotAt = kafka.NoOffset
		if n > 0 {
			l.snapshotAt = x.files.snapshots[n-1]
		}
	}
	return nil
}

// dropStraySnapshots deletes the snapshots that nothing can start from.
func (x *Loader) dropStraySnapshots() error {
	bases := make([]kafka.Offset, len(x.segments))
	for i, s := range x.segments {
		bases[i] = s.base
	}
	for i, offset := range x.files.snapshots {
		if _, ok := slices.BinarySearch(bases, offset); !ok && i < len(x.files.snapshots)-1 {
			return RetainSnapshots(x.dir.fs, x.log.Path(), bases)
		}
	}
	return nil
}

// startOver empties a log that ended before its start.
func (x *Loader) startOver(start kafka.Offset) error {
	l := x.log
	x.report.StartedOver = true
	for _, s := range x.segments {
		s.closeFiles()
	}
	if x.files.epochs {
		if err := WriteEpochs(x.dir.fs, l.Path(), nil); err != nil {
			return err
		}
		l.epochsSaved = nil
	}
	if err := l.removeSegments(x.segments); err != nil {
		return err
	}
	l.trash.items = nil
	for _, s := range slices.Backward(x.segments) {
		if err := l.unlink(s.base); err != nil {
			return err
		}
	}
	if err := l.removeSnapshots(); err != nil {
		return err
	}
	x.files.snapshots = nil
	s := newSegment(l, start, 0)
	h, err := s.create(dataFile)
	if err != nil {
		return err
	}
	h.release()
	s.closeFiles()
	x.segments, x.end, x.epochs, x.scan.tail = []*segment{s}, start, nil, tailIndex{}
	l.unsynced.names++
	return x.dir.fs.SyncDir(l.Path())
}
