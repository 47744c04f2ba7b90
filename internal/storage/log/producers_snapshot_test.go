package log

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

var (
	noTime = time.UnixMilli(0)
	noTTL  = 24 * time.Hour
)

func snapshotState() *Producers {
	return given(
		testBatch{id: 300, epoch: 2, seq: 7, count: 3, offset: 40, ts: 1000},
		testBatch{id: 300, epoch: 2, seq: 10, count: 5, offset: 43, ts: 2000},
		testBatch{id: 5, epoch: 0, seq: maxSeq, count: 2, offset: 48, ts: 3000, txn: true},
		testBatch{id: 6, epoch: 1, seq: 0, offset: 50, ts: 3500, txn: true},
		testMarker{id: 6, epoch: 2, coordinator: 9, abort: true, offset: 51, ts: 4000},
	)
}

// snapshotGolden was composed by hand from the description of the format, and kafka-dump-log (which checks the CRC) agrees.
const snapshotGolden = "0001" + "0cff258f" + "00000003" +
	"0000000000000005" + "0000" + "00000000" + "0000000000000031" + "00000001" + "0000000000000bb8" + "ffffffff" + "0000000000000030" +
	"0000000000000006" + "0002" + "ffffffff" + "ffffffffffffffff" + "00000000" + "0000000000000fa0" + "00000009" + "ffffffffffffffff" +
	"000000000000012c" + "0002" + "0000000e" + "000000000000002f" + "00000004" + "00000000000007d0" + "ffffffff" + "ffffffffffffffff"

func TestSnapshotGolden(t *testing.T) {
	if got := hex.EncodeToString(snapshotState().encode()); got != snapshotGolden {
		t.Errorf("got  %s\nwant %s", got, snapshotGolden)
	}
	if got := hex.EncodeToString(new(Producers).encode()); got != "000148674bc700000000" {
		t.Errorf("empty: %s", got)
	}
}

func TestSnapshotOfARealBroker(t *testing.T) {
	data, err := hex.DecodeString(realSnapshot)
	if err != nil {
		t.Fatal(err)
	}
	p, err := decodeSnapshot(data, noTime, noTTL)
	if err != nil {
		t.Fatal(err)
	}
	want := []ProducerInfo{{ProducerID: 0, Epoch: 4, CoordinatorEpoch: 0, LastSequence: -1, LastOffset: -1,
		LastTimestampMs: 1796052118531, TxnStart: -1}}
	if diff := cmp.Diff(want, p.All()); diff != "" {
		t.Error(diff)
	}
	if !bytes.Equal(p.encode(), data) {
		t.Error("it is written back differently")
	}
}

func TestSnapshotFile(t *testing.T) {
	fsys, dir := vfs.OS(), t.TempDir()
	p := snapshotState()
	for _, sync := range []bool{false, true} {
		if err := p.WriteSnapshot(fsys, dir, 52, sync); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := fsys.Stat(path.Join(dir, "00000000000000000052.snapshot")); err != nil {
		t.Fatal(err)
	}
	var got Producers
	if err := got.LoadSnapshot(fsys, dir, 52, noTime, noTTL); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.All(), got.All()); diff != "" {
		t.Error(diff)
	}
	if got.FirstUnstable(0) != 48 || !got.HasOpenTxn(5, 0) {
		t.Error("the open transaction is lost")
	}
	// Of producer 300 the newest batch is remembered and continued, the one before is not.
	for seq, want := range map[int32]kafka.Code{10: kafka.None, 15: kafka.None, 7: kafka.OutOfOrderSequenceNumber} {
		x := testBatch{id: 300, epoch: 2, seq: seq, count: 5}
		if v, err := got.Check(x.bytes(), client); kafka.CodeOf(err) != want || v.Duplicate != (seq == 10) {
			t.Errorf("sequence %d: %v %v", seq, v, err)
		}
	}
	if err := got.LoadSnapshot(fsys, dir, 52, time.UnixMilli(4000+noTTL.Milliseconds()), noTTL); err != nil {
		t.Fatal(err)
	}
	if got.Len() != 1 || !got.HasOpenTxn(5, 0) {
		t.Errorf("after a day only the open transaction is left, not %v", got.All())
	}
	if err := got.LoadSnapshot(fsys, dir, 53, noTime, noTTL); !errors.Is(err, fs.ErrNotExist) || got.Len() != 1 {
		t.Errorf("missing file: %v, %d producers", err, got.Len())
	}
}

// TestSnapshotOfTheFirstRecord: offset 0 is a batch, unlike -1.
func TestSnapshotOfTheFirstRecord(t *testing.T) {
	p, err := decodeSnapshot(given(testBatch{id: 1, seq: 0, offset: 0}).encode(), noTime, noTTL)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := p.Check(testBatch{id: 1, seq: 0}.bytes(), client); err != nil || !v.Duplicate {
		t.Errorf("%+v %v", v, err)
	}
}

// sealed gives the data the CRC it needs.
func sealed(data []byte) []byte {
	if len(data) >= snapshotHead {
		sum := crc32.Checksum(data[posSnapshotEntries:], crc32.MakeTable(crc32.Castagnoli))
		binary.BigEndian.PutUint32(data[posSnapshotCRC:], sum)
	}
	return data
}

func TestSnapshotDamage(t *testing.T) {
	good := snapshotState().encode()
	for i := range good {
		for bit := range 8 {
			bad := slices.Clone(good)
			bad[i] ^= 1 << bit
			if _, err := decodeSnapshot(bad, noTime, noTTL); err == nil {
				t.Fatalf("bit %d of byte %d was not missed", bit, i)
			}
		}
	}
	for n := range good {
		if _, err := decodeSnapshot(good[:n], noTime, noTTL); err == nil {
			t.Fatalf("%d bytes were enough", n)
		}
	}
	change := func(at int, value byte) []byte {
		bad := slices.Clone(good)
		bad[at] = value
		return sealed(bad)
	}
	for name, bad := range map[string][]byte{
		"one entry too many": sealed(append(slices.Clone(good), make([]byte, snapshotEntry)...)),
		"bytes left over":    sealed(append(slices.Clone(good), 0)),
		"count too high":     change(9, 4),
		"count huge":         change(6, 255),
		"negative id":        change(10, 0x80),
		"same id twice":      change(snapshotHead+snapshotEntry+7, 5),
	} {
		if _, err := decodeSnapshot(bad, noTime, noTTL); err == nil {
			t.Errorf("%s was not missed", name)
		}
	}
	twice := given(testBatch{id: 1, offset: 5, txn: true}, testBatch{id: 2, offset: 6, txn: true}).encode()
	twice[len(twice)-1] = 5
	if _, err := decodeSnapshot(sealed(twice), noTime, noTTL); err == nil {
		t.Error("two transactions with one first offset were not missed")
	}
}

func FuzzSnapshot(f *testing.F) {
	f.Add(snapshotState().encode(), false)
	f.Add(snapshotState().encode(), true)
	f.Add(new(Producers).encode(), false)
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		if seal {
			data = sealed(slices.Clone(data))
		}
		p, err := decodeSnapshot(data, noTime, time.Duration(1<<62))
		if err != nil {
			return
		}
		sum := crc32.Checksum(data[posSnapshotEntries:], crc32.MakeTable(crc32.Castagnoli))
		if sum != binary.BigEndian.Uint32(data[posSnapshotCRC:]) {
			t.Fatal("a wrong CRC was accepted")
		}
		again, err := decodeSnapshot(p.encode(), noTime, time.Duration(1<<62))
		if err != nil {
			t.Fatalf("our own bytes are refused: %v", err)
		}
		if diff := cmp.Diff(p.All(), again.All()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestParseSnapshotName(t *testing.T) {
	for name, want := range map[string]kafka.Offset{
		"00000000000000000000.snapshot": 0, "00000000000000000140.snapshot": 140, "09223372036854775807.snapshot": 1<<63 - 1,
		"09223372036854775808.snapshot": -1, "0.snapshot": -1, "-0000000000000000001.snapshot": -1, "+0000000000000000001.snapshot": -1,
		"00000000000000000000.log": -1, "00000000000000000140.snapshot.deleted": -1, ".snapshot": -1,
	} {
		got, ok := parseSnapshotName(name)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%s: %d %v, want %d", name, got, ok, want)
		}
	}
}

func TestSnapshotReload(t *testing.T) {
	fsys := vfs.OS()
	write := func(t *testing.T, dir string, offsets ...kafka.Offset) {
		t.Helper()
		for _, o := range offsets {
			if err := given(testBatch{id: kafka.ProducerID(o), offset: o}).WriteSnapshot(fsys, dir, o, false); err != nil {
				t.Fatal(err)
			}
		}
		if err := fsys.MkdirAll(path.Join(dir, SnapshotName(77))); err != nil { // a directory is none of ours
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name    string
		end     kafka.Offset
		damaged []kafka.Offset
		from    kafka.Offset
		left    []kafka.Offset
	}{
		{"newest", 30, nil, 30, []kafka.Offset{0, 10, 20, 30}},
		{"cut behind the second", 25, nil, 20, []kafka.Offset{0, 10, 20}},
		{"damaged newest", 35, []kafka.Offset{30}, 20, []kafka.Offset{0, 10, 20}},
		{"only the first is sound", 35, []kafka.Offset{10, 20, 30}, 0, []kafka.Offset{0}},
		{"all damaged", 35, []kafka.Offset{0, 10, 20, 30}, kafka.NoOffset, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, 0, 10, 20, 30)
			for _, o := range c.damaged {
				if err := writeSynced(fsys, path.Join(dir, SnapshotName(o)), []byte("torn")); err != nil {
					t.Fatal(err)
				}
			}
			p := given(testBatch{id: 999})
			from, err := p.Reload(fsys, dir, c.end, noTime, noTTL)
			if err != nil || from != c.from {
				t.Fatalf("replay from %d %v, want %d", from, err, c.from)
			}
			if _, ok := p.Lookup(kafka.ProducerID(from)); ok != (from >= 0) || p.Len() > 1 {
				t.Errorf("loaded %v", p.All())
			}
			if left, err := ListSnapshots(fsys, dir); err != nil || !slices.Equal(left, c.left) {
				t.Errorf("left %v %v, want %v", left, err, c.left)
			}
		})
	}
}

func TestRetainSnapshots(t *testing.T) {
	for _, c := range []struct{ have, bases, want []kafka.Offset }{
		{[]kafka.Offset{0, 10, 15, 20, 30}, []kafka.Offset{10, 20}, []kafka.Offset{10, 20, 30}},
		{[]kafka.Offset{0, 10, 15}, []kafka.Offset{100}, []kafka.Offset{15}},
		{nil, []kafka.Offset{1}, nil},
	} {
		fsys, dir := vfs.OS(), t.TempDir()
		for _, o := range c.have {
			if err := new(Producers).WriteSnapshot(fsys, dir, o, false); err != nil {
				t.Fatal(err)
			}
		}
		if err := RetainSnapshots(fsys, dir, c.bases); err != nil {
			t.Fatal(err)
		}
		if got, err := ListSnapshots(fsys, dir); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v with bases %v leaves %v %v, want %v", c.have, c.bases, got, err, c.want)
		}
	}
	if err := RemoveSnapshot(vfs.OS(), t.TempDir(), 5); err != nil {
		t.Errorf("removing none: %v", err)
	}
}

// TestSnapshotCrash cuts the power after a snapshot was written over an older one of the same offset: what is found is
// nothing, one of the two, or damage that is noticed. Synced, it is there.
func TestSnapshotCrash(t *testing.T) {
	one := given(testBatch{id: 1, seq: 5, offset: 8})
	for _, sync := range []bool{false, true} {
		for seed := range uint64(300) {
			m := memDir(t)
			if err := one.WriteSnapshot(m, "/d", 9, seed%2 == 0); err != nil {
				t.Fatal(err)
			}
			if err := snapshotState().WriteSnapshot(m, "/d", 9, sync); err != nil {
				t.Fatal(err)
			}
			if sync {
				if err := m.SyncDir("/d"); err != nil {
					t.Fatal(err)
				}
			}
			rnd := rand.New(rand.NewPCG(seed, 1))
			keep := vfs.KeepSome(rnd)
			m = m.CrashClone(rnd, keep)
			var got Producers
			err := got.LoadSnapshot(m, "/d", 9, noTime, noTTL)
			switch {
			case err == nil && cmp.Equal(got.All(), snapshotState().All()):
			case err == nil && cmp.Equal(got.All(), one.All()) && !sync:
			case err != nil && !sync && (isFormatError(err) || errors.Is(err, fs.ErrNotExist)):
			default:
				t.Fatalf("seed %d, synced %v: %v %v", seed, sync, got.All(), err)
			}
			var again Producers
			if _, err := again.Reload(m, "/d", 20, noTime, noTTL); err != nil || !cmp.Equal(again.All(), got.All(), cmpopts.EquateEmpty()) {
				t.Fatalf("seed %d: reload gives %v %v", seed, again.All(), err)
			}
		}
	}
}

// TestReloadDropsDurably: a snapshot of a history that was cut off must not come back with the power.
func TestReloadDropsDurably(t *testing.T) {
	m := memDir(t)
	for _, o := range []kafka.Offset{10, 20} {
		if err := new(Producers).WriteSnapshot(m, "/d", o, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.SyncDir("/d"); err != nil {
		t.Fatal(err)
	}
	if _, err := new(Producers).Reload(m, "/d", 15, noTime, noTTL); err != nil {
		t.Fatal(err)
	}
	m = m.CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.CrashOptions{})
	if got, err := ListSnapshots(m, "/d"); err != nil || !slices.Equal(got, []kafka.Offset{10}) {
		t.Errorf("after the power cut: %v %v", got, err)
	}
}

func TestSnapshotFaults(t *testing.T) {
	m := memDir(t)
	for _, o := range []kafka.Offset{10, 20} {
		if err := snapshotState().WriteSnapshot(m, "/d", o, true); err != nil {
			t.Fatal(err)
		}
	}
	for _, rule := range []string{"create * error ENOSPC", "write * short 20 ENOSPC", "sync * error EIO"} {
		f, err := vfs.Faulty(m, rule)
		if err != nil {
			t.Fatal(err)
		}
		if err := snapshotState().WriteSnapshot(f, "/d", 30, true); err == nil {
			t.Errorf("%s is not reported", rule)
		}
		if err := RemoveSnapshot(m, "/d", 30); err != nil {
			t.Fatal(err)
		}
	}
	// A disk that does not answer must not cost a sound snapshot.
	for _, rule := range []string{"read * error EIO", "open * error EMFILE", "readdir * error EIO", "remove * error EIO", "syncdir * error EIO"} {
		f, err := vfs.Faulty(m, rule)
		if err != nil {
			t.Fatal(err)
		}
		end := kafka.Offset(15)
		if rule[:6] == "read *" || rule[:4] == "open" {
			end = 25
		}
		if _, err := new(Producers).Reload(f, "/d", end, noTime, noTTL); err == nil || isFormatError(err) {
			t.Errorf("%s: %v", rule, err)
		}
		if rule[:4] == "read" || rule[:4] == "open" {
			if got, err := ListSnapshots(m, "/d"); err != nil || len(got) != 2 {
				t.Errorf("%s leaves %v %v", rule, got, err)
			}
		}
	}
}
