package log

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// answers is what readers learn from a log.
type answers struct {
	Start, End kafka.Offset
	Epochs     Epochs
	Producers  []ProducerInfo
	Aborted    []AbortedTxn
	Times      []TimestampOffset
	Bytes      string
}

func ask(x *crashRun, l *Log) (answers, error) {
	v := l.View()
	a := answers{Start: v.Start, End: v.End, Epochs: v.Epochs(), Producers: l.Producers()}
	var err error
	if a.Aborted, err = v.Aborted(v.Start, v.End); err != nil {
		return a, fmt.Errorf("aborted: %w", err)
	}
	for ts := epoch0.UnixMilli(); ts < x.ts+20; ts += 17 {
		at, found, err := v.OffsetForTime(ts, record.Limits{})
		if err != nil {
			return a, fmt.Errorf("offset for time: %w", err)
		}
		if found {
			a.Times = append(a.Times, at)
		}
	}
	at, _, err := v.MaxTimestamp(record.Limits{})
	if err != nil {
		return a, fmt.Errorf("max timestamp: %w", err)
	}
	a.Times = append(a.Times, at)
	b, err := readPieces(v)
	a.Bytes = string(b)
	return a, err
}

// readPieces reads the log batch by batch, as many consumers at many places would.
func readPieces(v *View) ([]byte, error) {
	var out []byte
	for from := v.Start; from < v.End; {
		e, err := v.Read(from, v.End, 1, true)
		if err != nil {
			return out, fmt.Errorf("read %d: %w", from, err)
		}
		b, err := e.ReadAll()
		e.Release()
		if err != nil {
			return out, err
		}
		first, _, err := record.Split(b)
		if err != nil {
			return out, fmt.Errorf("read %d: %w", from, err)
		}
		if first.NextOffset() <= from {
			return out, fmt.Errorf("read %d gives offsets %d to %d", from, first.BaseOffset(), first.LastOffset())
		}
		out = append(out, first...)
		from = first.NextOffset()
	}
	return out, nil
}

// TestCorruption flips one bit of each kind of file. Whatever is not a segment is made good from the segments, so that
// every answer stays what it was; a damaged segment is found by its checksums, and recovery keeps what is whole.
func TestCorruption(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	x, err := runScript(t, mem, mem, func(x *crashRun) {
		x.create()
		for i := range 8 {
			x.produce(2, true)
			x.append(4)
			x.produce(1, false)
			x.marker(2, []record.ControlType{record.ControlAbort, record.ControlCommit}[i%2])
			if i%3 == 0 {
				x.newEpoch()
			}
		}
		x.flush()
		x.checkpoint()
		x.do(x.log.Close(true, x.now))
		x.do(x.dir.Close(true, 1))
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := x.recover(mem.KillClone())
	if err != nil {
		t.Fatal(err)
	}
	want, err := ask(x, l)
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	dir := path.Join(testRoot, x.tp.String())
	for name, data := range contents(mem, dir) {
		flips := 10
		if *long {
			flips = len(data) * 8
		}
		for i := range flips {
			bit := i
			if !*long {
				bit = rnd.IntN(max(1, len(data)*8))
			}
			if len(data) == 0 {
				continue
			}
			for _, clean := range []bool{true, false} {
				if err := x.flipped(mem.KillClone(), dir, name, bit, clean, want); err != nil {
					t.Fatalf("%s, bit %d of %d, clean %v: %v", name, bit, len(data)*8, clean, err)
				}
			}
		}
	}
}

// flipped damages one bit and judges what the log says then.
func (x *crashRun) flipped(mem *vfs.Mem, dir, name string, bit int, clean bool, want answers) error {
	f, err := mem.Open(path.Join(dir, name), os.O_RDWR)
	if err != nil {
		return err
	}
	b := make([]byte, 1)
	if err := readFull(f, b, int64(bit/8)); err != nil {
		return err
	}
	b[0] ^= 1 << (bit % 8)
	if err := writeFull(f, b, int64(bit/8)); err != nil {
		return err
	}
	f.Close()
	if !clean {
		if err := mem.Remove(path.Join(testRoot, CleanShutdownFile)); err != nil {
			return err
		}
		if err := mem.Remove(path.Join(testRoot, RecoveryPointCheckpoint)); err != nil {
			return err
		}
	}
	l, _, err := x.recover(mem)
	if name == PartitionMetadataFile && clean {
		return nil // says whose data it is: either still a valid id, or refused
	}
	if err != nil {
		return err
	}
	got, err := ask(x, l)
	if !strings.HasSuffix(name, dataSuffix) {
		if err != nil {
			return err
		}
		return x.sameAnswers(got, want, name, clean)
	}
	if err != nil && clean {
		return nil // the damage was met and told
	}
	if err != nil {
		return err
	}
	return judgeRot(got, want, clean)
}

func (x *crashRun) sameAnswers(got, want answers, name string, clean bool) error {
	if strings.HasSuffix(name, snapshotSuffix) && clean {
		got.Producers, want.Producers = nil, nil // an older snapshot and the log give the same, checked below
	}
	if strings.HasSuffix(name, TxnIndexSuffix) && clean {
		got.Aborted, want.Aborted = nil, nil // the format has no checksum; only recovery compares it with the log
	}
	if name == EpochsFile && clean {
		got.Epochs, want.Epochs = nil, nil // the same
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("answers differ: %s", diff)
	}
	return nil
}

// judgeRot: after recovery only whole, original batches are left; without one, damage shows in the checksum, or lies in
// the two fields that it does not cover.
func judgeRot(got, want answers, clean bool) error {
	if !clean && !strings.HasPrefix(want.Bytes, got.Bytes) {
		rest, original := []byte(got.Bytes), []byte(want.Bytes)
		for len(rest) > 0 {
			b, next, err := record.Split(rest)
			if err != nil {
				return err
			}
			if err := b.CheckCRC(); err != nil {
				return err
			}
			o, nextOriginal, err := record.Split(original)
			if err != nil {
				return err
			}
			if !bytes.Equal(b[21:], o[21:]) { // base offset, length, epoch and magic are checked by what surrounds them
				return fmt.Errorf("batch at %d is not the original", b.BaseOffset())
			}
			rest, original = next, nextOriginal
		}
	}
	return nil
}

// TestPaddedIndexes: a Kafka that was killed leaves the last segment's indexes padded with zeros. If such a directory passes
// for clean, lookups scan, and the first append cuts the padding off.
func TestPaddedIndexes(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	r := newRig(t, mem, smallConfig())
	var want []byte
	for i := range 12 {
		b := dataBatch(t, 1, epoch0.UnixMilli()+int64(i), 60)
		r.append(b, leader(0))
		want = append(want, b...)
	}
	r.stop()
	for _, suffix := range []string{offsetIndexSuffix, timeIndexSuffix} {
		f, err := mem.Open(path.Join(r.log.Path(), segmentName(0, suffix)), os.O_RDWR)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(offsetEntrySize * timeEntrySize * 40); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	r.reopen()
	if got, err := readPieces(r.log.View()); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes, want %d: %v", len(got), len(want), err)
	}
	at, found, err := r.log.View().OffsetForTime(epoch0.UnixMilli()+7, record.Limits{})
	if err != nil || !found || at.Offset != 7 {
		t.Fatalf("%+v %v %v", at, found, err)
	}
	r.append(dataBatch(t, 1, epoch0.UnixMilli()+50, 60), leader(0))
	r.stop()
	r.reopen()
	if c, err := r.log.View().countsOf(0, new(block)); err != nil || c.offsets == 0 || c.offsets > 12 || c.times > 12 {
		t.Fatalf("%+v, %v", c, err)
	}
	if at, found, err = r.log.View().OffsetForTime(epoch0.UnixMilli()+7, record.Limits{}); err != nil || !found || at.Offset != 7 {
		t.Fatalf("%+v %v %v", at, found, err)
	}
}

// TestDamagedSnapshot: the newest producer snapshot is damaged, and an older one and the log give the same state.
func TestDamagedSnapshot(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	x, err := runScript(t, mem, mem, func(x *crashRun) {
		x.create()
		for range 6 {
			x.produce(1, false)
			x.append(3)
			x.produce(2, true)
		}
		x.do(x.log.Close(true, x.now))
		x.do(x.dir.Close(true, 1))
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := x.recover(mem.KillClone())
	if err != nil {
		t.Fatal(err)
	}
	want := l.Producers()
	dir := path.Join(testRoot, x.tp.String())
	snapshots, err := ListSnapshots(mem, dir)
	if err != nil || len(snapshots) < 3 {
		t.Fatalf("%v %v", snapshots, err)
	}
	for n := range len(snapshots) + 1 {
		twin := mem.KillClone()
		for _, offset := range snapshots[len(snapshots)-n:] {
			if err := writeFile(twin, path.Join(dir, SnapshotName(offset)), []byte("nonsense")); err != nil {
				t.Fatal(err)
			}
		}
		l, _, err := x.recover(twin)
		if err != nil {
			t.Fatalf("%d damaged: %v", n, err)
		}
		if got := l.Producers(); !slices.Equal(got, want) {
			t.Fatalf("%d damaged: %+v, want %+v", n, got, want)
		}
	}
}
