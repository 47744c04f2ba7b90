package log

import (
	"encoding/hex"
	"errors"
	"os"
	"path"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

func openTxnIndex(t testing.TB, name string) *TxnIndex {
	t.Helper()
	x, err := OpenTxnIndex(vfs.OS(), name)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func txnIndexOf(t testing.TB, entries ...AbortedTxn) *TxnIndex {
	t.Helper()
	x := openTxnIndex(t, path.Join(t.TempDir(), "00000000000000000000.txnindex"))
	for _, a := range entries {
		if err := x.Append(a); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

func (x *TxnIndex) mustRead(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile(x.Name())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return data
}

// txnIndexGolden was composed by hand from the description of the format; TestProducersRealLog has a real one.
const txnIndexGolden = "0000" + "0000000000000001" + "0000000000000005" + "0000000000000009" + "000000000000000a" +
	"0000" + "000000000000000c" + "0000000000000002" + "0000000000000010" + "0000000000000002"

func TestTxnIndexFile(t *testing.T) {
	x := txnIndexOf(t)
	if _, err := os.Stat(x.Name()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty index has a file: %v", err)
	}
	if err := errors.Join(x.Sync(), x.Truncate(0), x.Remove(), x.Check(0, 1)); err != nil {
		t.Errorf("an index without a file: %v", err)
	}
	for _, a := range []AbortedTxn{{1, 5, 9, 10}, {12, 2, 16, 2}} {
		if err := x.Append(a); err != nil {
			t.Fatal(err)
		}
	}
	if got := hex.EncodeToString(x.mustRead(t)); got != txnIndexGolden {
		t.Errorf("got  %s\nwant %s", got, txnIndexGolden)
	}
	for _, last := range []kafka.Offset{16, 3, -1} {
		if err := x.Append(AbortedTxn{First: 1, Last: last}); !isFormatError(err) {
			t.Errorf("marker %d after 16: %v", last, err)
		}
	}
	again := openTxnIndex(t, x.Name())
	if err := again.Append(AbortedTxn{First: 1, Last: 16}); !isFormatError(err) || again.Len() != 2 {
		t.Errorf("reopened: %v, %d entries", err, again.Len())
	}
	if err := errors.Join(again.Append(AbortedTxn{3, 17, 18, 19}), again.Sync()); err != nil || again.Len() != 3 {
		t.Errorf("reopened: %v, %d entries", err, again.Len())
	}
	if err := again.Remove(); err != nil || again.Len() != 0 || len(again.mustRead(t)) != 0 {
		t.Errorf("removed: %v", err)
	}
	if err := again.Append(AbortedTxn{3, 1, 2, 3}); err != nil || len(again.mustRead(t)) != txnEntrySize {
		t.Errorf("after Remove the index starts anew: %v", err)
	}
}

func TestTxnIndexOverlapping(t *testing.T) {
	// Producer 1 aborts at 20 while 2 is open since 5; 2 aborts at 30; 3 aborts later.
	x := txnIndexOf(t, AbortedTxn{1, 10, 20, 5}, AbortedTxn{2, 5, 30, 31}, AbortedTxn{3, 40, 50, 51})
	for _, c := range []struct {
		from, upper kafka.Offset
		want        []kafka.ProducerID
		done        bool
	}{
		{0, 5, nil, true}, // the first entry's stable offset says it
		{0, 6, []kafka.ProducerID{2}, true},
		{0, 10, []kafka.ProducerID{2}, true},
		{0, 11, []kafka.ProducerID{1, 2}, true},
		{20, 31, []kafka.ProducerID{1, 2}, true},
		{21, 31, []kafka.ProducerID{2}, true},
		{21, 32, []kafka.ProducerID{2}, true}, // 51 >= 32, and producer 3 starts later
		{31, 41, []kafka.ProducerID{3}, true},
		{50, 52, []kafka.ProducerID{3}, false},
		{51, 99, nil, false},
		{0, 99, []kafka.ProducerID{1, 2, 3}, false},
	} {
		got, done, err := x.Overlapping(nil, c.from, c.upper)
		var ids []kafka.ProducerID
		for _, a := range got {
			ids = append(ids, a.ProducerID)
		}
		if err != nil || !slices.Equal(ids, c.want) || done != c.done {
			t.Errorf("[%d, %d): %v %v %v, want %v %v", c.from, c.upper, ids, done, err, c.want, c.done)
		}
	}
	got, _, err := x.Overlapping([]AbortedTxn{{ProducerID: 77}}, 51, 99)
	if err != nil || len(got) != 1 {
		t.Errorf("dst is kept: %v %v", got, err)
	}
}

func TestTxnIndexTruncate(t *testing.T) {
	for end, want := range map[kafka.Offset]int{51: 3, 50: 2, 31: 2, 30: 1, 20: 0, 0: 0} {
		x := txnIndexOf(t, AbortedTxn{1, 10, 20, 5}, AbortedTxn{2, 5, 30, 31}, AbortedTxn{3, 40, 50, 51})
		if err := x.Truncate(end); err != nil || x.Len() != want || len(x.mustRead(t)) != want*txnEntrySize {
			t.Errorf("Truncate(%d): %v, %d entries, want %d", end, err, x.Len(), want)
		}
		if err := x.Append(AbortedTxn{4, end, end + 100, end}); err != nil || openTxnIndex(t, x.Name()).Len() != want+1 {
			t.Errorf("append after Truncate(%d): %v", end, err)
		}
	}
}

func TestTxnIndexCheck(t *testing.T) {
	good := []AbortedTxn{{1, 10, 20, 5}, {2, 5, 30, 31}, {3, 40, 50, 51}}
	if err := txnIndexOf(t, good...).Check(20, 51); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		base, next kafka.Offset
		change     func([]byte)
	}{
		"before the segment":    {21, 60, func([]byte) {}},
		"behind the segment":    {0, 50, func([]byte) {}},
		"version":               {0, 60, func(b []byte) { b[txnEntrySize+1] = 1 }},
		"negative producer":     {0, 60, func(b []byte) { b[txnEntrySize+2] = 0x80 }},
		"ends before it begins": {0, 60, func(b []byte) { b[17] = 21 }},
		"negative start":        {0, 60, func(b []byte) { b[10] = 0x80 }},
		"markers fall":          {0, 60, func(b []byte) { b[txnEntrySize+25] = 20 }},
	} {
		x := txnIndexOf(t, good...)
		data := x.mustRead(t)
		c.change(data)
		if err := os.WriteFile(x.Name(), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := openTxnIndex(t, x.Name()).Check(c.base, c.next); !isFormatError(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	x := txnIndexOf(t, good...)
	if err := os.Truncate(x.Name(), 2*txnEntrySize); err != nil {
		t.Fatal(err)
	}
	if err := x.Check(0, 60); !isFormatError(err) {
		t.Errorf("shrunk behind our back: %v", err)
	}
	if err := os.Truncate(x.Name(), 2*txnEntrySize-1); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenTxnIndex(vfs.OS(), x.Name()); !isFormatError(err) {
		t.Errorf("torn: %v", err)
	}
}

// TestTxnIndexModel compares a long index, in which lookups bisect, with a plain search.
func TestTxnIndexModel(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		x := openTxnIndex(t, path.Join(dir, "model.txnindex"))
		defer x.Remove()
		var model []AbortedTxn
		last := kafka.Offset(0)
		for range rapid.IntRange(0, 500).Draw(rt, "entries") {
			last += kafka.Offset(rapid.IntRange(1, 9).Draw(rt, "gap"))
			first := max(0, last-kafka.Offset(rapid.IntRange(0, 60).Draw(rt, "length")))
			stable := last + 1 - kafka.Offset(rapid.IntRange(0, 60).Draw(rt, "held back"))
			a := AbortedTxn{kafka.ProducerID(len(model)), first, last, stable}
			if err := x.Append(a); err != nil {
				rt.Fatal(err)
			}
			model = append(model, a)
		}
		for range 10 {
			from := kafka.Offset(rapid.Int64Range(0, int64(last)+5).Draw(rt, "from"))
			upper := from + kafka.Offset(rapid.Int64Range(1, 100).Draw(rt, "size"))
			var want []AbortedTxn
			for _, a := range model {
				if a.Last < from {
					continue
				}
				if a.First < upper {
					want = append(want, a)
				}
				if a.LastStable >= upper {
					break
				}
			}
			got, _, err := x.Overlapping(nil, from, upper)
			if err != nil || !slices.Equal(got, want) {
				rt.Fatalf("[%d, %d): %v %v, want %v", from, upper, got, err, want)
			}
		}
		end := kafka.Offset(rapid.Int64Range(0, int64(last)+1).Draw(rt, "end"))
		if err := x.Truncate(end); err != nil {
			rt.Fatal(err)
		}
		keep := slices.DeleteFunc(slices.Clone(model), func(a AbortedTxn) bool { return a.Last >= end })
		if x.Len() != len(keep) || openTxnIndex(t, x.Name()).Len() != len(keep) {
			rt.Fatalf("Truncate(%d) leaves %d, want %d", end, x.Len(), len(keep))
		}
	})
}

// TestTxnIndexReadersBesideTheOwner needs the race detector to say more than that nothing breaks.
func TestTxnIndexReadersBesideTheOwner(t *testing.T) {
	x := txnIndexOf(t)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				got, _, err := x.Overlapping(nil, 0, 1<<40)
				if err != nil {
					t.Error(err)
					return
				}
				for i, a := range got {
					if i > 0 && a.Last <= got[i-1].Last {
						t.Errorf("markers fall: %v", got)
						return
					}
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for i := range 300 {
		o := kafka.Offset(i)
		if err := x.Append(AbortedTxn{1, o, o, o + 1}); err != nil {
			t.Fatal(err)
		}
		if i%100 == 99 {
			if err := x.Truncate(o - 50); err != nil {
				t.Fatal(err)
			}
			if err := x.Append(AbortedTxn{1, o, o, o + 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := x.Remove(); err != nil {
		t.Fatal(err)
	}
	close(stop)
	readers.Wait()
}

func FuzzTxnIndex(f *testing.F) {
	golden, _ := hex.DecodeString(txnIndexGolden)
	f.Add(golden, int64(0), int64(99))
	f.Fuzz(func(t *testing.T, data []byte, from, upper int64) {
		name := path.Join(t.TempDir(), "f.txnindex")
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		x, err := OpenTxnIndex(vfs.OS(), name)
		if err != nil {
			return
		}
		sane := x.Check(0, 1<<62) == nil
		got, _, err := x.Overlapping(nil, kafka.Offset(from), kafka.Offset(upper))
		if sane && err != nil {
			t.Fatal(err)
		}
		for _, a := range got {
			if a.Last < kafka.Offset(from) || a.First >= kafka.Offset(upper) {
				t.Fatalf("%v does not overlap [%d, %d)", a, from, upper)
			}
		}
	})
}

// TestTxnIndexFaults: a failed append leaves the index as it was, and the next one works.
func TestTxnIndexFaults(t *testing.T) {
	for _, rule := range []string{"create * 1 error ENOSPC", "write * 1 error EIO", "write * 1 short 7 ENOSPC"} {
		m := memDir(t)
		x, err := OpenTxnIndex(m, "/d/0.txnindex")
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Append(AbortedTxn{1, 2, 3, 4}); err != nil {
			t.Fatal(err)
		}
		f, err := vfs.Faulty(m, rule)
		if err != nil {
			t.Fatal(err)
		}
		x.fsys = f
		if err := x.Append(AbortedTxn{5, 6, 7, 8}); err == nil || x.Len() != 1 {
			t.Errorf("%s: %v, %d entries", rule, err, x.Len())
		}
		if y, err := OpenTxnIndex(m, "/d/0.txnindex"); err != nil || y.Len() != 1 {
			t.Errorf("%s leaves a file that does not open: %v", rule, err)
		}
		if err := x.Append(AbortedTxn{5, 6, 7, 8}); err != nil || x.Check(0, 8) != nil {
			t.Errorf("after %s: %v %v", rule, err, x.Check(0, 8))
		}
	}
	m := memDir(t)
	x, err := OpenTxnIndex(m, "/d/0.txnindex")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(x.Append(AbortedTxn{1, 2, 3, 4}), x.Append(AbortedTxn{5, 6, 7, 8})); err != nil {
		t.Fatal(err)
	}
	for _, rule := range []string{"read * error EIO", "open * error EMFILE"} {
		f, err := vfs.Faulty(m, rule)
		if err != nil {
			t.Fatal(err)
		}
		x.fsys = f
		if _, _, err := x.Overlapping(nil, 0, 9); err == nil || isFormatError(err) {
			t.Errorf("%s: %v", rule, err)
		}
		if err := x.Check(0, 9); err == nil || isFormatError(err) {
			t.Errorf("%s: %v", rule, err)
		}
		if err := x.Truncate(5); err == nil || x.Len() != 2 {
			t.Errorf("%s: %v, %d entries", rule, err, x.Len())
		}
		if _, err := OpenTxnIndex(f, "/d/0.txnindex"); err == nil || isFormatError(err) {
			t.Errorf("%s: %v", rule, err)
		}
	}
}
