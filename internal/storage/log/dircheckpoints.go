package log

import (
	"maps"
	"path"

	"moldau/internal/kafka"
)

// offsetFile is one of the directory's checkpoints: what the file holds or, while changed, should hold. Partitions that
// are not open keep what was read.
type offsetFile struct {
	offsets map[kafka.TopicPartition]kafka.Offset
	changed bool
}

func (f *offsetFile) set(tp kafka.TopicPartition, offset kafka.Offset) {
	if old, ok := f.offsets[tp]; ok && old == offset {
		return
	}
	f.offsets[tp] = offset
	f.changed = true
}

func (f *offsetFile) remove(tp kafka.TopicPartition) {
	if _, ok := f.offsets[tp]; ok {
		delete(f.offsets, tp)
		f.changed = true
	}
}

func (d *Dir) readCheckpoints() error {
	for name, f := range d.checkpoints() {
		offsets, err := ReadCheckpoint(d.fs, path.Join(d.path, name))
		if err != nil {
			return err
		}
		f.offsets = offsets
	}
	return nil
}

func (d *Dir) checkpoints() map[string]*offsetFile {
	return map[string]*offsetFile{
		RecoveryPointCheckpoint: &d.recovery,
		LogStartCheckpoint:      &d.starts,
		HighWatermarkCheckpoint: &d.highWatermarks,
		CleanerOffsetCheckpoint: &d.cleaned,
	}
}

// write replaces a checkpoint file if it should change. The caller holds d.mu.
func (d *Dir) write(name string, f *offsetFile) error {
	if !f.changed {
		return nil
	}
	if err := WriteCheckpoint(d.fs, path.Join(d.path, name), f.offsets); err != nil {
		return storageError("checkpoint", err)
	}
	f.changed = false
	return nil
}

// capture takes over what an open log is to be checkpointed with. The caller holds d.mu.
func (d *Dir) capture(l *Log) {
	if l.state == Live {
		d.take(l)
	}
}

// take is capture whatever the log is for.
func (d *Dir) take(l *Log) {
	d.recovery.set(l.tp, l.RecoveryPoint())
	if start := l.View().Start; start > l.firstOnDisk() {
		d.starts.set(l.tp, start)
	} else {
		d.starts.remove(l.tp)
	}
}

func (d *Dir) captureAll() {
	for _, l := range d.logs { // the order does not show
		d.capture(l)
	}
}

// Checkpoint writes, durably, the recovery points, log starts and compaction's progress of all open logs and the given
// high watermarks; each
// file only if something changed. Partitions that are not named keep their high watermark.
func (d *Dir) Checkpoint(highWatermarks map[kafka.TopicPartition]kafka.Offset) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.captureAll()
	for tp, offset := range highWatermarks { // the order does not show
		d.highWatermarks.set(tp, offset)
	}
	if err := d.write(RecoveryPointCheckpoint, &d.recovery); err != nil {
		return err
	}
	if err := d.write(LogStartCheckpoint, &d.starts); err != nil {
		return err
	}
	if err := d.write(CleanerOffsetCheckpoint, &d.cleaned); err != nil {
		return err
	}
	return d.write(HighWatermarkCheckpoint, &d.highWatermarks)
}

// firstDirty gives the first offset of a log that compaction has not been through: as recorded, unless the log says that
// it cannot be.
func (d *Dir) firstDirty(v *View) kafka.Offset {
	d.mu.Lock()
	defer d.mu.Unlock()
	offset, ok := d.cleaned.offsets[v.log.tp]
	if first := v.segments[0].base; !ok || offset < first || offset > v.End {
		return first
	}
	return offset
}

// vouch makes the recovery point of l durable before compaction makes holes below it.
func (d *Dir) vouch(l *Log) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.state != Live || l.gone.Load() {
		return ErrCleanAborted
	}
	d.capture(l)
	return d.write(RecoveryPointCheckpoint, &d.recovery)
}

// noteCleaned records, in memory, that compaction has been through l up to end; Checkpoint or saveCleaned writes it.
func (d *Dir) noteCleaned(l *Log, end kafka.Offset) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.state == Live && !l.gone.Load() {
		d.cleaned.set(l.tp, end)
	}
}

// saveCleaned writes the cleaner's checkpoint if it changed.
func (d *Dir) saveCleaned() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.write(CleanerOffsetCheckpoint, &d.cleaned)
}

// lowerCleaned sees to it that the checkpoint does not say that compaction went beyond end.
func (d *Dir) lowerCleaned(l *Log, end kafka.Offset) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.state != Live || d.cleaned.offsets[l.tp] <= end {
		return nil
	}
	d.cleaned.set(l.tp, end)
	return d.write(CleanerOffsetCheckpoint, &d.cleaned)
}

// HighWatermark gives the checkpointed high watermark of a partition; false when there is none.
func (d *Dir) HighWatermark(tp kafka.TopicPartition) (kafka.Offset, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	offset, ok := d.highWatermarks.offsets[tp]
	return offset, ok
}

// HighWatermarks gives a copy of all checkpointed high watermarks.
func (d *Dir) HighWatermarks() map[kafka.TopicPartition]kafka.Offset {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.highWatermarks.offsets)
}

// checkpointed tells a loader what the files say of its partition.
func (d *Dir) checkpointed(x *Loader) {
	d.mu.Lock()
	defer d.mu.Unlock()
	x.recovery, x.recoveryKnown = d.recovery.offsets[x.part.Partition]
	x.cleaned = d.cleaned.offsets[x.part.Partition]
	if start, ok := d.starts.offsets[x.part.Partition]; ok {
		x.start = start
	}
	if highWatermark, ok := d.highWatermarks.offsets[x.part.Partition]; ok {
		x.highWatermark = highWatermark
	}
}

// lowerRecoveryPoint sees to it that the checkpoint does not vouch for anything from end on.
func (d *Dir) lowerRecoveryPoint(l *Log, end kafka.Offset) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.state != Live || d.recovery.offsets[l.tp] <= end {
		return nil
	}
	d.recovery.set(l.tp, end)
	return d.write(RecoveryPointCheckpoint, &d.recovery)
}

// lowerStart sees to it that the checkpoint does not say that the log begins after start.
func (d *Dir) lowerStart(l *Log, start kafka.Offset) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.state != Live || d.starts.offsets[l.tp] <= start {
		return nil
	}
	d.starts.remove(l.tp)
	return d.write(LogStartCheckpoint, &d.starts)
}

// saveStart makes a log start of at least start durable for l, and that of every other log with it.
func (d *Dir) saveStart(l *Log, start kafka.Offset) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.state != Live || (!d.starts.changed && d.starts.offsets[l.tp] >= start) {
		return nil
	}
	d.captureAll()
	return d.write(LogStartCheckpoint, &d.starts)
}

// forget drops a partition from all checkpoints; they are written with the next Checkpoint.
func (d *Dir) forget(tp kafka.TopicPartition) {
	d.recovery.remove(tp)
	d.starts.remove(tp)
	d.highWatermarks.remove(tp)
	d.cleaned.remove(tp)
}
