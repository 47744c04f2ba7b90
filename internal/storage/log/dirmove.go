package log

import (
	"path"

	"moldau/internal/kafka"
)

// FutureNameFits says whether the directory of a copy in the making can have a name that tells the whole topic.
func FutureNameFits(tp kafka.TopicPartition) bool {
	return len(tp.String())+len(".")+2*len(kafka.UUID{})+len(dirStateSuffixes[Future]) <= maxDirName
}

// State says what the log is for. It changes only by Promote and Demote, and is for the owner of the log to ask.
func (l *Log) State() DirState { return l.state }

// Cuts counts the truncations of the log since it was opened. The owner's lock is held.
func (l *Log) Cuts() int { return l.unsynced.generation }

// KeptSince gives how much of what lay before end the truncations since the given count have left as it was. The owner's
// lock is held.
func (l *Log) KeptSince(cuts int, end kafka.Offset) kafka.Offset { return l.unsynced.clamp(end, cuts) }

// BeingCleaned says whether a compaction of the log is at work. The owner's lock is held.
func (l *Log) BeingCleaned() bool { return l.cleaning != nil }

// Promote makes a future log a live one, durably: first what the checkpoints are to say of it, then its name. Its owner
// has synced it whole. From here on a start may find two live logs of the partition, until the one it replaces is put
// aside: both are true, and the one that was written last knows all.
func (d *Dir) Promote(l *Log, highWatermark kafka.Offset) error {
	if err := d.checkpointFuture(l, highWatermark); err != nil {
		return err
	}
	if err := d.rename(l, l.tp.String(), Live); err != nil {
		return err
	}
	return d.SyncNames()
}

// checkpointFuture writes down, durably, what a start is to know of a log that is about to become live.
func (d *Dir) checkpointFuture(l *Log, highWatermark kafka.Offset) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.take(l)
	d.highWatermarks.set(l.tp, highWatermark)
	for _, x := range []struct {
		name string
		file *offsetFile
	}{{RecoveryPointCheckpoint, &d.recovery}, {LogStartCheckpoint, &d.starts}, {HighWatermarkCheckpoint, &d.highWatermarks}} {
		if err := d.write(x.name, x.file); err != nil {
			return err
		}
	}
	return nil
}

// Demote makes a live log a future one again: a start found it beside the log that it was to replace.
func (d *Dir) Demote(l *Log, unique kafka.UUID) error {
	if err := d.rename(l, dirName(l.tp, Future, unique), Future); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget(l.tp)
	return nil
}

// rename gives the directory of an open log another name, and the log another state.
func (d *Dir) rename(l *Log, name string, state DirState) error {
	was := *l.name.Load()
	if err := d.fs.Rename(path.Join(d.path, was), path.Join(d.path, name)); err != nil {
		return storageError("rename directory", err)
	}
	d.mu.Lock()
	delete(d.logs, was)
	d.logs[name] = l
	l.state = state
	l.name.Store(&name)
	d.mu.Unlock()
	for _, s := range l.View().segments {
		s.txns.Store(nil) // it remembers the old path
	}
	return nil
}

// SyncNames makes the names in the directory durable.
func (d *Dir) SyncNames() error {
	if err := d.fs.SyncDir(d.path); err != nil {
		return storageError("sync names", err)
	}
	return nil
}
