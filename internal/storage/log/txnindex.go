package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// TxnIndexSuffix ends the file name of a segment's transaction index.
const TxnIndexSuffix = ".txnindex"

// Layout of an entry: version 0, producer id, first, last and last stable offset.
const (
	txnEntrySize    = 34
	txnVersion      = 0
	txnEntriesAtime = 120 // entries read at once: about 4 KiB
)

// AbortedTxn is one entry of a transaction index: a transaction that was aborted.
type AbortedTxn struct {
	ProducerID kafka.ProducerID
	First      kafka.Offset // of the transaction's first batch
	Last       kafka.Offset // of the abort marker; rises from entry to entry
	LastStable kafka.Offset // the last stable offset when the marker was written
}

// TxnIndex lists the transactions whose abort marker lies in one segment, in marker order. read_committed
// fetches are answered from it. Its file exists only once there is an entry, and is open only while something
// is read or written: aborts are rare, and an idle partition holds no file.
//
// Append, Truncate and Remove belong to the owner of the log, who locks. Overlapping may run beside them
// without the lock: it sees entries as they were at some moment of the call.
type TxnIndex struct {
	fsys vfs.FS
	name string
	end  atomic.Pointer[txnIndexEnd]
	// frozen holds the entries while the file of that name is not, or not yet, this index's: see freeze.
	frozen atomic.Pointer[[]AbortedTxn]
}

// txnIndexEnd is what is known of the file without reading it.
type txnIndexEnd struct {
	entries int64
	last    kafka.Offset // marker offset of the last entry, NoOffset when empty
}

var emptyTxnIndex = &txnIndexEnd{last: kafka.NoOffset}

// OpenTxnIndex opens the index in file name, which need not exist, by reading its last entry. It trusts the
// rest: after an unclean stop call Check. A file that cannot be an index is a *FormatError.
func OpenTxnIndex(fsys vfs.FS, name string) (*TxnIndex, error) {
	x := &TxnIndex{fsys: fsys, name: name}
	x.end.Store(emptyTxnIndex)
	f, err := fsys.Open(name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return x, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size%txnEntrySize != 0 {
		return nil, x.bad("size %d is no multiple of %d", size, txnEntrySize)
	}
	if size == 0 {
		return x, nil
	}
	got, err := x.readAt(f, size/txnEntrySize-1, 1, nil)
	if err != nil {
		return nil, err
	}
	if len(got) == 0 {
		return nil, x.bad("shrank while it was opened")
	}
	x.end.Store(&txnIndexEnd{entries: size / txnEntrySize, last: got[0].Last})
	return x, nil
}

func (x *TxnIndex) bad(format string, args ...any) error {
	return &FormatError{Name: x.name, Reason: fmt.Sprintf(format, args...)}
}

// Name gives the file's path. Len is the number of entries.
func (x *TxnIndex) Name() string { return x.name }

// Len is the number of entries.
func (x *TxnIndex) Len() int { return int(x.end.Load().entries) }

// Append adds an entry. Entries must come in marker order: an older one is an error and writes nothing.
func (x *TxnIndex) Append(a AbortedTxn) (err error) {
	end := x.end.Load()
	if a.Last <= end.last {
		return x.bad("marker offset %d is not above the last one, %d", a.Last, end.last)
	}
	f, err := x.fsys.Open(x.name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	entry := appendTxnEntry(make([]byte, 0, txnEntrySize), a)
	if _, err := f.WriteAt(entry, end.entries*txnEntrySize); err != nil {
		_ = f.Truncate(end.entries * txnEntrySize) // a torn entry would look like damage at the next start
		return err
	}
	x.end.Store(&txnIndexEnd{entries: end.entries + 1, last: a.Last})
	return nil
}

func appendTxnEntry(dst []byte, a AbortedTxn) []byte {
	dst = binary.BigEndian.AppendUint16(dst, txnVersion)
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.ProducerID))
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.First))
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.Last))
	return binary.BigEndian.AppendUint64(dst, uint64(a.LastStable))
}

func (x *TxnIndex) decode(e []byte) (AbortedTxn, error) {
	if v := binary.BigEndian.Uint16(e); v != txnVersion {
		return AbortedTxn{}, x.bad("entry version %d is not known", v)
	}
	return AbortedTxn{
		ProducerID: kafka.ProducerID(binary.BigEndian.Uint64(e[2:])),
		First:      kafka.Offset(binary.BigEndian.Uint64(e[10:])),
		Last:       kafka.Offset(binary.BigEndian.Uint64(e[18:])),
		LastStable: kafka.Offset(binary.BigEndian.Uint64(e[26:])),
	}, nil
}

// readAt appends up to n entries from index i on to dst; fewer when the file ends before.
func (x *TxnIndex) readAt(f vfs.File, i int64, n int, dst []AbortedTxn) ([]AbortedTxn, error) {
	buf := make([]byte, n*txnEntrySize)
	got, err := f.ReadAt(buf, i*txnEntrySize)
	if err != nil && !errors.Is(err, io.EOF) {
		return dst, fmt.Errorf("read %s: %w", x.name, err)
	}
	for e := buf[:got]; len(e) >= txnEntrySize; e = e[txnEntrySize:] {
		a, err := x.decode(e)
		if err != nil {
			return dst, err
		}
		dst = append(dst, a)
	}
	return dst, nil
}

// walk calls visit for each entry from index i on until it returns false. A file that was removed or cut
// meanwhile simply ends.
func (x *TxnIndex) walk(f vfs.File, i, entries int64, visit func(i int64, a AbortedTxn) bool) error {
	var batch []AbortedTxn
	for i < entries {
		var err error
		batch, err = x.readAt(f, i, int(min(txnEntriesAtime, entries-i)), batch[:0])
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			return nil
		}
		for _, a := range batch {
			if !visit(i, a) {
				return nil
			}
			i++
		}
	}
	return nil
}

// Overlapping appends to dst the aborted transactions that a read_committed reader of [from, upper) must
// know: those whose marker is at or after from and whose first offset lies below upper. done says that no
// later segment can hold another one, because everything below upper was stable when an entry here was
// written; otherwise the caller goes on with the next segment's index.
func (x *TxnIndex) Overlapping(
	dst []AbortedTxn, from, upper kafka.Offset,
) (_ []AbortedTxn, done bool, err error) {
	held := len(dst)
	if x.frozen.Load() == nil {
		dst, done, err = x.overlappingInFile(dst, from, upper)
	}
	frozen := x.frozen.Load() // again: what was read may have been another index's file
	if frozen == nil {
		return dst, done, err
	}
	dst = dst[:held]
	for _, a := range *frozen {
		if a.Last >= from && a.First < upper {
			dst = append(dst, a)
		}
		if a.LastStable >= upper && a.Last >= from {
			return dst, true, nil
		}
	}
	return dst, false, nil
}

func (x *TxnIndex) overlappingInFile(
	dst []AbortedTxn, from, upper kafka.Offset,
) (_ []AbortedTxn, done bool, err error) {
	end := x.end.Load()
	if end.last < from { // an empty index too. No entry can say done: stable offsets are at most marker + 1
		return dst, false, nil
	}
	f, err := x.fsys.Open(x.name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return dst, false, nil // the segment was deleted meanwhile
	}
	if err != nil {
		return dst, false, err
	}
	defer f.Close()
	start, err := x.firstFrom(f, end.entries, from)
	if err != nil {
		return dst, false, err
	}
	err = x.walk(f, start, end.entries, func(_ int64, a AbortedTxn) bool {
		if a.Last >= from && a.First < upper {
			dst = append(dst, a)
		}
		done = a.LastStable >= upper
		return !done
	})
	return dst, done, err
}

// All reads every entry.
func (x *TxnIndex) All() (all []AbortedTxn, err error) {
	end := x.end.Load()
	if end.entries == 0 {
		return nil, nil
	}
	f, err := x.fsys.Open(x.name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	err = x.walk(f, 0, end.entries, func(_ int64, a AbortedTxn) bool {
		all = append(all, a)
		return true
	})
	if err == nil && int64(len(all)) != end.entries {
		err = x.bad("%d entries, expected %d", len(all), end.entries)
	}
	return all, err
}

// freeze makes readers take the entries from memory from now on, because another file is about to get this one's name;
// thaw lets them read the file again. Entries must be those of the index.
func (x *TxnIndex) freeze(entries []AbortedTxn) { x.frozen.Store(&entries) }

func (x *TxnIndex) thaw() { x.frozen.Store(nil) }

// firstFrom finds the first entry whose marker is at or after from, by bisection: marker offsets rise.
func (x *TxnIndex) firstFrom(f vfs.File, entries int64, from kafka.Offset) (int64, error) {
	lo, hi := int64(0), entries
	for hi-lo > txnEntriesAtime {
		mid := lo + (hi-lo)/2
		got, err := x.readAt(f, mid, 1, nil)
		if err != nil {
			return 0, err
		}
		if len(got) == 0 || got[0].Last >= from {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo, nil
}

// Check reads the whole index of a segment with records in [base, next) and demands that it makes sense:
// known versions, no transaction that ends before it begins, markers rising and inside the segment. A fault
// is a *FormatError: the caller rebuilds the index while it recovers the segment.
func (x *TxnIndex) Check(base, next kafka.Offset) error {
	entries := x.end.Load().entries
	if entries == 0 {
		return nil
	}
	f, err := x.fsys.Open(x.name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	var fault error
	seen, before := int64(0), base-1
	err = x.walk(f, 0, entries, func(i int64, a AbortedTxn) bool {
		switch {
		case a.ProducerID < 0 || a.First < 0 || a.First > a.Last:
			fault = x.bad("entry %d of producer %d spans %d to %d", i, a.ProducerID, a.First, a.Last)
		case a.Last <= before || a.Last >= next:
			fault = x.bad("entry %d: marker at %d after %d in a segment of %d to %d", i, a.Last, before, base, next)
		}
		seen, before = i+1, a.Last
		return fault == nil
	})
	if err == nil && fault == nil && seen != entries {
		fault = x.bad("%d entries, expected %d", seen, entries)
	}
	return errors.Join(err, fault)
}

// Truncate drops the entries whose marker is at or after end: the log was cut there.
func (x *TxnIndex) Truncate(end kafka.Offset) (err error) {
	was := x.end.Load()
	if was.last < end {
		return nil
	}
	f, err := x.fsys.Open(x.name, os.O_RDWR)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	now := *emptyTxnIndex
	err = x.walk(f, 0, was.entries, func(i int64, a AbortedTxn) bool {
		if a.Last >= end {
			return false
		}
		now = txnIndexEnd{entries: i + 1, last: a.Last}
		return true
	})
	if err != nil {
		return err
	}
	x.end.Store(&now)
	return f.Truncate(now.entries * txnEntrySize)
}

// Remove deletes the file and leaves an empty index: for a segment that is deleted, or whose index is
// rebuilt.
func (x *TxnIndex) Remove() error {
	x.end.Store(emptyTxnIndex)
	err := x.fsys.Remove(x.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Sync makes the entries durable; nothing to do while there is no file. Its name is durable after SyncDir.
func (x *TxnIndex) Sync() (err error) {
	if x.end.Load().entries == 0 {
		return nil
	}
	f, err := x.fsys.Open(x.name, os.O_RDWR)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return f.Sync()
}
