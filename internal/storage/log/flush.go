package log

import (
	"errors"
	"os"
	"path"
	"slices"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// unsynced is what a log owes the disk besides the bytes of its last segment. Counters instead of flags, because a flush
// runs while the log goes on: it settles what there was when its token was taken.
type unsynced struct {
	items   []syncItem // files of closed segments and indexes
	settled int        // items settled before the first of items
	cut     bool       // the last segment was cut and not synced since
	names   int        // changes of names in the partition's directory
	synced  int        // names that are durable
	parent  bool       // the directory itself is new
	epochs  int        // changes of the epoch history
	written int        // the epoch history that is durable

	generation int // cuts so far
	cuts       []cutRecord
}

// syncItem is one file to sync: an open one, or a small one that was closed after writing (its content is checked when
// it is read, so an error that closing it hid does no harm).
type syncItem struct {
	file *handle // referenced by the list
	name string  // in the partition's directory
}

// cutRecord remembers a truncation for tokens that were taken before it.
type cutRecord struct {
	generation int
	end        kafka.Offset
}

// keptCuts bounds the memory of truncations; older ones are merged, which only makes MarkDurable more careful.
const keptCuts = 8

func (u *unsynced) add(x syncItem) { u.items = append(u.items, x) }

// FlushToken is what to sync: take it with Dirty under the owner's lock, Sync it without (or many at once with SyncGroup),
// then give it to MarkDurable under the lock. A token that is not Empty holds files open until it is synced or dropped.
type FlushToken struct{ *flush }

type flush struct {
	log        *Log
	generation int
	end        kafka.Offset
	recovery   kafka.Offset // recovery point once all of this is durable
	data       *handle      // last segment; nil: nothing of it is owed
	items      []syncItem
	settles    int // items settled with this token
	names      int
	syncNames  bool
	syncParent bool
	epochs     Epochs
	epochsSeen int
	saveEpochs bool
	epochsAll  bool // epochs is the whole history
	cut        bool
}

// Dirty takes a token for everything that was appended, cut or closed and is not durable.
func (l *Log) Dirty() FlushToken {
	u, v := &l.unsynced, l.View()
	t := &flush{
		log: l, generation: u.generation, end: v.End, recovery: v.last().base,
		settles: u.settled + len(u.items), names: u.names, syncNames: u.names > u.synced, syncParent: u.parent,
		epochsSeen: u.epochs, saveEpochs: l.epochsOwed(v), cut: u.cut,
	}
	if l.finished {
		t.recovery = v.End
	}
	if (v.End > v.Durable || u.cut) && l.active != nil {
		l.active.data.refs.Add(1)
		t.data = l.active.data
	}
	if len(u.items) > 0 {
		t.items = slices.Clone(u.items)
	}
	for _, x := range t.items {
		if x.file != nil {
			x.file.refs.Add(1)
		}
	}
	if t.saveEpochs {
		t.epochs = l.epochs.TruncateEnd(v.End)
		t.epochsAll = len(t.epochs) == len(l.epochs)
	}
	return FlushToken{t}
}

// epochsOwed says whether the epoch file differs from the history as far as that has records. An entry at the log end
// has none and does not belong into the file: its leader, or the next one, assigns it anew. So a restart that makes this
// node the leader of thousands of partitions writes nothing.
func (l *Log) epochsOwed(v *View) bool {
	u := &l.unsynced
	if u.epochs == u.written {
		return false
	}
	return !slices.Equal(l.epochs.TruncateEnd(v.End), l.epochsSaved.TruncateEnd(v.End))
}

// Log is the log the token is of; nil for the zero value.
func (t FlushToken) Log() *Log {
	if t.flush == nil {
		return nil
	}
	return t.log
}

// End is the log end that Sync makes durable.
func (t FlushToken) End() kafka.Offset { return t.end }

// Empty says that there is nothing to sync.
func (t FlushToken) Empty() bool { return t.Files() == 0 }

// Files is how many sync calls Sync makes, for the choice between Sync and SyncGroup.
func (t FlushToken) Files() int {
	if t.flush == nil {
		return 0
	}
	n := len(t.items)
	if t.data != nil {
		n++
	}
	for _, b := range []bool{t.syncNames, t.syncParent, t.saveEpochs, t.saveEpochs} {
		if b {
			n++
		}
	}
	return n
}

// Sync makes what the token stands for durable, file by file, and gives the files back. It blocks and must be called
// without the owner's lock. An error is final, also for this log alone: the pages may be marked clean, so a second sync
// would prove nothing. The log takes no more appends and calls nothing durable; the log directory is offline. Only a lack
// of descriptors (vfs.IsOutOfFiles) says nothing of the kind: no sync was asked for, and a new token may be tried.
func (t FlushToken) Sync() error {
	if t.flush == nil {
		return nil
	}
	defer t.Drop()
	err := t.syncEach()
	if err != nil && t.log.gone.Load() {
		return nil // deleted meanwhile: nobody waits for it
	}
	if err != nil && (!vfs.IsOutOfFiles(err) || vfs.IsDiskFailure(err)) {
		t.log.syncFailed.Store(true)
	}
	return err
}

func (t FlushToken) syncEach() error {
	if t.data != nil {
		if err := t.data.file.Sync(); err != nil {
			return storageError("sync", err)
		}
	}
	if err := t.syncItems(); err != nil {
		return storageError("sync", err)
	}
	if t.saveEpochs {
		if err := t.log.writeEpochs(t.epochs, epochVersion(t.epochsSeen, t.epochsAll)); err != nil {
			return storageError("sync", err)
		}
	}
	return t.syncDirs()
}

// syncItems syncs what closed segments left. A file that is gone was deleted meanwhile and owes nothing.
func (t *flush) syncItems() error {
	for _, x := range t.items {
		if x.file != nil {
			if err := x.file.file.Sync(); err != nil {
				return err
			}
			continue
		}
		if err := syncFile(t.log.dir.fs, path.Join(t.log.Path(), x.name)); err != nil && !isGone(err) {
			return err
		}
	}
	return nil
}

func (t FlushToken) syncDirs() error {
	if err := t.syncNamesOnly(); err != nil || !t.syncParent {
		return err
	}
	if err := t.log.dir.fs.SyncDir(t.log.dir.path); err != nil {
		return storageError("sync names", err)
	}
	return nil
}

// syncNamesOnly syncs the partition's directory if names in it are new.
func (t FlushToken) syncNamesOnly() error {
	if t.flush == nil || !(t.syncNames || t.saveEpochs) {
		return nil
	}
	err := t.log.dir.fs.SyncDir(t.log.Path())
	if isGone(err) { // renamed in this moment: it is being deleted, or the new name is right
		err = t.log.dir.fs.SyncDir(t.log.Path())
	}
	if err != nil && !isGone(err) {
		return storageError("sync names", err)
	}
	return nil
}

// Drop gives the files back without a sync. It may be called more than once.
func (t FlushToken) Drop() {
	if t.flush == nil {
		return
	}
	if t.data != nil {
		t.data.release()
		t.data = nil
	}
	for _, x := range t.items {
		if x.file != nil {
			x.file.release()
		}
	}
	t.items = nil
}

// syncFile syncs a file that is not open.
func syncFile(fsys vfs.FS, name string) (err error) {
	f, err := fsys.Open(name, os.O_RDWR)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return f.Sync()
}

// SyncGroup makes all tokens of one log directory durable with one sync of the whole file system, which beats Sync from
// about 16 files on. ok is false when the file system cannot do that; nothing was done then and the caller syncs each
// token. An error names nobody: the caller syncs the tokens one by one to learn whose it is, as other programs' errors
// are reported too; the tokens still hold their files. Otherwise it gives the files back.
func SyncGroup(d *Dir, tokens []FlushToken) (ok bool, err error) {
	var renames []func() error
	for _, t := range tokens {
		if t.flush == nil || !t.saveEpochs {
			continue
		}
		rename, err := t.log.stageEpochs(t.epochs, epochVersion(t.epochsSeen, t.epochsAll))
		if err != nil && t.log.gone.Load() {
			continue
		}
		if err != nil {
			return true, storageError("sync", err)
		}
		renames = append(renames, rename)
	}
	if ok, err = d.fs.SyncAll(d.path); !ok || err != nil {
		return ok, err
	}
	for _, rename := range renames {
		if err := rename(); err != nil {
			return true, storageError("sync", err)
		}
	}
	if err := d.syncGroupNames(tokens, len(renames) > 0); err != nil {
		return true, err
	}
	for _, t := range tokens {
		t.Drop()
	}
	return true, nil
}

// syncGroupNames makes new names durable after the contents are.
func (d *Dir) syncGroupNames(tokens []FlushToken, renamed bool) error {
	if syncsNames(d.fs) {
		if !renamed {
			return nil
		}
		_, err := d.fs.SyncAll(d.path)
		return err
	}
	parent := false
	for _, t := range tokens {
		parent = parent || t.flush != nil && t.syncParent
		if err := t.syncNamesOnly(); err != nil {
			return err
		}
	}
	if parent {
		if err := d.fs.SyncDir(d.path); err != nil {
			return storageError("sync names", err)
		}
	}
	return nil
}

// MarkDurable records that t was synced: everything before its end is durable, except what a truncation took back since
// the token was taken.
func (l *Log) MarkDurable(t FlushToken) {
	if t.Log() != l || l.syncFailed.Load() {
		return
	}
	u := &l.unsynced
	u.synced = max(u.synced, t.names)
	u.parent = u.parent && !t.syncParent
	if t.saveEpochs && t.generation == u.generation {
		l.noteEpochsSaved(t.epochs, epochVersion(t.epochsSeen, t.epochsAll))
		if t.epochsAll {
			u.written = max(u.written, t.epochsSeen)
		}
	}
	for u.settled < t.settles && len(u.items) > 0 {
		if h := u.items[0].file; h != nil {
			h.release()
		}
		u.items = u.items[1:]
		u.settled++
	}
	if len(u.items) == 0 {
		u.items = nil
	}
	if t.cut && t.generation == u.generation {
		u.cut = false
	}
	end, recovery := u.clamp(t.end, t.generation), u.clamp(t.recovery, t.generation)
	if v := l.View(); end > v.Durable {
		next := *v
		next.Durable = end
		l.view.Store(&next)
	}
	if recovery > l.RecoveryPoint() {
		l.recoveryPoint.Store(int64(recovery))
	}
}

// clamp lowers an end to what truncations since the given generation left.
func (u *unsynced) clamp(end kafka.Offset, generation int) kafka.Offset {
	for _, c := range u.cuts {
		if c.generation > generation {
			end = min(end, c.end)
		}
	}
	return end
}

// noteCut records a truncation to end.
func (u *unsynced) noteCut(end kafka.Offset) {
	u.generation++
	if len(u.cuts) == keptCuts {
		u.cuts[1].end = min(u.cuts[0].end, u.cuts[1].end)
		u.cuts = append(u.cuts[:0], u.cuts[1:]...)
	}
	u.cuts = append(u.cuts, cutRecord{generation: u.generation, end: end})
}

// setEpochs replaces the history in memory; the next flush writes it. Readers see it from the log start on. What lies
// before stays until the log is opened again: the start may not be durable yet, and a history that knows more than the
// log does no harm, but one that knows less does.
func (l *Log) setEpochs(e Epochs) {
	l.epochs, l.visible = e, e
	if v := l.View(); v != nil {
		l.visible = e.TruncateStart(v.Start)
	}
	l.unsynced.epochs++
}

// AssignEpoch records that the leader of epoch begins to write at the log end. It reaches the disk with the first record
// of that epoch, before that is acknowledged.
func (l *Log) AssignEpoch(epoch kafka.LeaderEpoch) {
	v := *l.View()
	e, changed := l.epochs.Assign(epoch, v.End)
	if !changed {
		return
	}
	l.setEpochs(e)
	v.epochs = l.visible
	l.view.Store(&v)
}

// noteEpochsSaved records what is durably in the epoch file.
func (l *Log) noteEpochsSaved(e Epochs, version int) {
	if version >= l.epochsSavedVersion {
		l.epochsSaved, l.epochsSavedVersion = e, version
	}
}

// epochVersion orders what is written to the epoch file: by change, and of one change the whole history, once its last
// entry has records, after the one without that entry.
func epochVersion(change int, whole bool) int {
	if whole {
		return 2*change + 1
	}
	return 2 * change
}

// writeEpochs makes the history durable unless a newer one is. It serialises with cuts, which write it under the owner's
// lock.
func (l *Log) writeEpochs(e Epochs, version int) error {
	l.epochFile.Lock()
	defer l.epochFile.Unlock()
	if version <= l.epochsOnDisk {
		return nil
	}
	if err := WriteEpochs(l.dir.fs, l.Path(), e); err != nil {
		return err
	}
	l.epochsOnDisk = version
	return nil
}

// stageEpochs writes the history beside its file; the returned function puts it in place once it was synced.
func (l *Log) stageEpochs(e Epochs, version int) (func() error, error) {
	l.epochFile.Lock()
	defer l.epochFile.Unlock()
	name := path.Join(l.Path(), EpochsFile)
	if err := writeFile(l.dir.fs, name+temporarySuffix, formatEpochs(e)); err != nil {
		return nil, err
	}
	return func() error {
		l.epochFile.Lock()
		defer l.epochFile.Unlock()
		if version <= l.epochsOnDisk {
			return nil
		}
		l.epochsOnDisk = version
		err := l.dir.fs.Rename(name+temporarySuffix, name)
		if l.gone.Load() {
			return nil
		}
		return err
	}, nil
}

// writeFile replaces the content of name, not durably.
func writeFile(fsys vfs.FS, name string, data []byte) (err error) {
	f, err := fsys.Open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return writeFull(f, data, 0)
}
