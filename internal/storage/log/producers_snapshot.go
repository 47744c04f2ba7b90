package log

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// Layout of a producer snapshot: version, CRC-32C of everything after the CRC, entry count, entries.
const (
	snapshotSuffix     = ".snapshot"
	snapshotVersion    = 1
	snapshotHead       = 2 + 4 + 4
	snapshotEntry      = 46
	posSnapshotCRC     = 2
	posSnapshotEntries = 6 // the count, where the CRC's cover begins

	// maxSnapshotBytes guards memory against a file that is none of ours: 23 M producers.
	maxSnapshotBytes = 1 << 30
)

// SnapshotName gives the file name of the snapshot that covers everything before offset.
func SnapshotName(offset kafka.Offset) string { return fmt.Sprintf("%020d%s", offset, snapshotSuffix) }

// parseSnapshotName gives the offset in a snapshot's file name; false for any other name.
func parseSnapshotName(name string) (kafka.Offset, bool) {
	digits, ok := strings.CutSuffix(name, snapshotSuffix)
	if !ok || len(digits) != 20 || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	offset, err := strconv.ParseInt(digits, 10, 64)
	return kafka.Offset(offset), err == nil
}

// WriteSnapshot writes the state to dir as the snapshot of offset, the end of the log that the state covers.
// Without sync the file is as durable as the page cache: the caller must sync it before it counts on it (a
// torn one is found by its CRC). Of each producer only the newest batch is kept, as the format has room for
// one.
func (p *Producers) WriteSnapshot(fsys vfs.FS, dir string, offset kafka.Offset, sync bool) (err error) {
	f, err := fsys.Open(path.Join(dir, SnapshotName(offset)), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(p.encode()); err != nil {
		return err
	}
	if sync {
		return f.Sync()
	}
	return nil
}

func (p *Producers) encode() []byte {
	out := make([]byte, snapshotHead, snapshotHead+len(p.byID)*snapshotEntry)
	binary.BigEndian.PutUint16(out, snapshotVersion)
	binary.BigEndian.PutUint32(out[posSnapshotEntries:], uint32(len(p.byID)))
	for _, id := range slices.Sorted(maps.Keys(p.byID)) {
		x := p.byID[id].info(id)
		out = binary.BigEndian.AppendUint64(out, uint64(x.ProducerID))
		out = binary.BigEndian.AppendUint16(out, uint16(x.Epoch))
		out = binary.BigEndian.AppendUint32(out, uint32(x.LastSequence))
		out = binary.BigEndian.AppendUint64(out, uint64(x.LastOffset))
		out = binary.BigEndian.AppendUint32(out, uint32(x.OffsetDelta))
		out = binary.BigEndian.AppendUint64(out, uint64(x.LastTimestampMs))
		out = binary.BigEndian.AppendUint32(out, uint32(x.CoordinatorEpoch))
		out = binary.BigEndian.AppendUint64(out, uint64(x.TxnStart))
	}
	sum := crc32.Checksum(out[posSnapshotEntries:], crc32.MakeTable(crc32.Castagnoli))
	binary.BigEndian.PutUint32(out[posSnapshotCRC:], sum)
	return out
}

// LoadSnapshot replaces the state by the snapshot of offset, without the producers that have expired by now.
// On an error the state is untouched; a damaged file is a *FormatError, and the caller takes an older one or
// the log itself.
func (p *Producers) LoadSnapshot(
	fsys vfs.FS, dir string, offset kafka.Offset, now time.Time, ttl time.Duration,
) error {
	name := path.Join(dir, SnapshotName(offset))
	data, err := readWhole(fsys, name, maxSnapshotBytes)
	if err != nil {
		return err
	}
	loaded, err := decodeSnapshot(data, now, ttl)
	if err != nil {
		return &FormatError{Name: name, Reason: err.Error()}
	}
	*p = loaded
	return nil
}

func decodeSnapshot(data []byte, now time.Time, ttl time.Duration) (Producers, error) {
	if len(data) < snapshotHead {
		return Producers{}, fmt.Errorf("%d bytes are too few", len(data))
	}
	if v := binary.BigEndian.Uint16(data); v != snapshotVersion {
		return Producers{}, fmt.Errorf("version %d is not known", v)
	}
	sum := crc32.Checksum(data[posSnapshotEntries:], crc32.MakeTable(crc32.Castagnoli))
	if want := binary.BigEndian.Uint32(data[posSnapshotCRC:]); sum != want {
		return Producers{}, fmt.Errorf("crc is %08x, the file says %08x", sum, want)
	}
	count := binary.BigEndian.Uint32(data[posSnapshotEntries:])
	entries := data[snapshotHead:]
	if uint64(len(entries)) != uint64(count)*snapshotEntry {
		return Producers{}, fmt.Errorf("%d bytes for %d entries", len(entries), count)
	}
	var p Producers
	if count > 0 {
		p.byID = make(map[kafka.ProducerID]*producer, count)
	}
	for e := range slices.Chunk(entries, snapshotEntry) {
		x := decodeSnapshotEntry(e)
		if _, twice := p.byID[x.ProducerID]; twice || x.ProducerID < 0 {
			return Producers{}, fmt.Errorf("producer id %d stands twice or is negative", x.ProducerID)
		}
		s := x.state()
		if s.expired(now, ttl) {
			continue
		}
		p.byID[x.ProducerID] = s
		if s.txnFirst != kafka.NoOffset {
			p.open = append(p.open, openTxn{first: s.txnFirst, producer: x.ProducerID})
		}
	}
	slices.SortFunc(p.open, func(a, b openTxn) int { return cmp.Compare(a.first, b.first) })
	for i := 1; i < len(p.open); i++ {
		if p.open[i-1].first == p.open[i].first {
			return Producers{}, fmt.Errorf("two transactions begin at offset %d", p.open[i].first)
		}
	}
	return p, nil
}

func decodeSnapshotEntry(e []byte) ProducerInfo {
	return ProducerInfo{
		ProducerID:       kafka.ProducerID(binary.BigEndian.Uint64(e)),
		Epoch:            kafka.ProducerEpoch(binary.BigEndian.Uint16(e[8:])),
		LastSequence:     int32(binary.BigEndian.Uint32(e[10:])),
		LastOffset:       kafka.Offset(binary.BigEndian.Uint64(e[14:])),
		OffsetDelta:      int32(binary.BigEndian.Uint32(e[22:])),
		LastTimestampMs:  int64(binary.BigEndian.Uint64(e[26:])),
		CoordinatorEpoch: int32(binary.BigEndian.Uint32(e[34:])),
		TxnStart:         kafka.Offset(binary.BigEndian.Uint64(e[38:])),
	}
}

// state makes the state an entry describes; an entry without a last offset remembers no batch.
func (x ProducerInfo) state() *producer {
	s := &producer{
		txnFirst:         max(x.TxnStart, kafka.NoOffset),
		lastTimestamp:    x.LastTimestampMs,
		coordinatorEpoch: x.CoordinatorEpoch,
		epoch:            x.Epoch,
	}
	if x.LastOffset >= 0 {
		s.push(producerBatch{
			lastOffset: x.LastOffset,
			timestamp:  x.LastTimestampMs,
			lastSeq:    x.LastSequence,
			delta:      x.OffsetDelta,
		})
	}
	return s
}

// ListSnapshots gives the offsets of the snapshots in dir, rising.
func ListSnapshots(fsys vfs.FS, dir string) ([]kafka.Offset, error) {
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []kafka.Offset
	for _, n := range names {
		if offset, ok := parseSnapshotName(n.Name); ok && !n.IsDir {
			out = append(out, offset)
		}
	}
	slices.Sort(out)
	return out, nil
}

// RemoveSnapshot deletes the snapshot of offset; none is not an error.
func RemoveSnapshot(fsys vfs.FS, dir string, offset kafka.Offset) error {
	err := fsys.Remove(path.Join(dir, SnapshotName(offset)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Reload replaces the state by what dir knows of a log that ends at end, and gives the offset from which the
// caller must replay the log with Update: the snapshot's, or NoOffset for all of it. Damaged snapshots are
// deleted and the next older one is taken. Snapshots beyond end describe what was cut off; they are deleted
// durably, because one that came back after a power cut would by then lie inside a log with another history.
func (p *Producers) Reload(
	fsys vfs.FS, dir string, end kafka.Offset, now time.Time, ttl time.Duration,
) (kafka.Offset, error) {
	p.Reset()
	offsets, err := ListSnapshots(fsys, dir)
	if err != nil {
		return kafka.NoOffset, err
	}
	keep, err := dropSnapshotsAbove(fsys, dir, offsets, end)
	if err != nil {
		return kafka.NoOffset, err
	}
	for _, offset := range slices.Backward(keep) {
		err := p.LoadSnapshot(fsys, dir, offset, now, ttl)
		if err == nil {
			return offset, nil
		}
		if _, damaged := errors.AsType[*FormatError](err); !damaged {
			return kafka.NoOffset, err
		}
		if err := RemoveSnapshot(fsys, dir, offset); err != nil {
			return kafka.NoOffset, err
		}
	}
	return kafka.NoOffset, nil
}

// dropSnapshotsAbove durably deletes those of the rising offsets that lie above end and gives the others.
func dropSnapshotsAbove(
	fsys vfs.FS, dir string, offsets []kafka.Offset, end kafka.Offset,
) ([]kafka.Offset, error) {
	keep, _ := slices.BinarySearch(offsets, end+1)
	for _, offset := range offsets[keep:] {
		if err := RemoveSnapshot(fsys, dir, offset); err != nil {
			return nil, err
		}
	}
	if keep == len(offsets) {
		return offsets, nil
	}
	return offsets[:keep], fsys.SyncDir(dir)
}

// RetainSnapshots deletes the snapshots that nothing can start from: all but those of the given segment bases
// and the newest one. bases must rise.
func RetainSnapshots(fsys vfs.FS, dir string, bases []kafka.Offset) error {
	offsets, err := ListSnapshots(fsys, dir)
	if err != nil {
		return err
	}
	for i, offset := range offsets {
		if _, wanted := slices.BinarySearch(bases, offset); wanted || i == len(offsets)-1 {
			continue
		}
		if err := RemoveSnapshot(fsys, dir, offset); err != nil {
			return err
		}
	}
	return nil
}
