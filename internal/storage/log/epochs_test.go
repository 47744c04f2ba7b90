package log

import (
	"errors"
	"path"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

var threeEpochs = Epochs{{2, 0}, {4, 10}, {7, 20}}

func TestEpochsAssign(t *testing.T) {
	for _, c := range []struct {
		name    string
		epoch   kafka.LeaderEpoch
		start   kafka.Offset
		want    Epochs
		changed bool
	}{
		{"next", 8, 30, Epochs{{2, 0}, {4, 10}, {7, 20}, {8, 30}}, true},
		{"known, later offset", 7, 25, threeEpochs, false},
		{"known, same offset", 7, 20, threeEpochs, false},
		{"known, earlier offset", 7, 15, Epochs{{2, 0}, {4, 10}, {7, 15}}, true},
		{"an epoch without records leaves no trace", 8, 20, Epochs{{2, 0}, {4, 10}, {8, 20}}, true},
		{"higher epoch at an earlier offset drops all it contradicts", 9, 5, Epochs{{2, 0}, {9, 5}}, true},
		{"older epoch at a later offset drops the newer ones", 4, 40, Epochs{{2, 0}, {4, 40}}, true},
		{"older unknown epoch", 5, 40, Epochs{{2, 0}, {4, 10}, {5, 40}}, true},
		{"first of all", 1, 0, Epochs{{1, 0}}, true},
		{"no epoch", kafka.NoEpoch, 30, threeEpochs, false},
		{"no offset", 8, kafka.NoOffset, threeEpochs, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, changed := threeEpochs.Assign(c.epoch, c.start)
			if !slices.Equal(got, c.want) || changed != c.changed {
				t.Errorf("got %v %v, want %v %v", got, changed, c.want, c.changed)
			}
		})
	}
	if got, changed := Epochs(nil).Assign(0, 0); !changed || !slices.Equal(got, Epochs{{0, 0}}) {
		t.Errorf("first entry: %v %v", got, changed)
	}
}

func TestEpochsEndFor(t *testing.T) {
	for _, c := range []struct {
		in    Epochs
		epoch kafka.LeaderEpoch
		want  EpochEntry
	}{
		{threeEpochs, 7, EpochEntry{7, 33}},
		{threeEpochs, 8, EpochEntry{kafka.NoEpoch, kafka.NoOffset}},
		{threeEpochs, kafka.NoEpoch, EpochEntry{kafka.NoEpoch, kafka.NoOffset}},
		{threeEpochs, 2, EpochEntry{2, 10}},
		{threeEpochs, 3, EpochEntry{2, 10}},
		{threeEpochs, 4, EpochEntry{4, 20}},
		{threeEpochs, 6, EpochEntry{4, 20}},
		{threeEpochs, 1, EpochEntry{1, 0}},
		{Epochs{{5, 9}}, 3, EpochEntry{3, 9}},
		{nil, 0, EpochEntry{kafka.NoEpoch, kafka.NoOffset}},
	} {
		epoch, end := c.in.EndFor(c.epoch, 33)
		if got := (EpochEntry{epoch, end}); got != c.want {
			t.Errorf("%v.EndFor(%d) = %v, want %v", c.in, c.epoch, got, c.want)
		}
	}
}

func TestEpochsLookups(t *testing.T) {
	for offset, want := range map[kafka.Offset]kafka.LeaderEpoch{-1: -1, 0: 2, 9: 2, 10: 4, 19: 4, 20: 7, 1 << 40: 7} {
		if got := threeEpochs.At(offset); got != want {
			t.Errorf("At(%d) = %d, want %d", offset, got, want)
		}
	}
	for epoch, want := range map[kafka.LeaderEpoch]kafka.Offset{1: -1, 2: 0, 3: -1, 4: 10, 7: 20, 8: -1} {
		got, ok := threeEpochs.StartOf(epoch)
		if got != want || ok != (want >= 0) {
			t.Errorf("StartOf(%d) = %d %v, want %d", epoch, got, ok, want)
		}
	}
	if _, ok := Epochs(nil).Latest(); ok {
		t.Error("an empty history has a latest entry")
	}
}

func TestEpochsTruncate(t *testing.T) {
	for end, want := range map[kafka.Offset]Epochs{
		21: threeEpochs, 20: {{2, 0}, {4, 10}}, 11: {{2, 0}, {4, 10}}, 10: {{2, 0}}, 1: {{2, 0}}, 0: nil,
	} {
		if got := threeEpochs.TruncateEnd(end); !slices.Equal(got, want) {
			t.Errorf("TruncateEnd(%d) = %v, want %v", end, got, want)
		}
	}
	for start, want := range map[kafka.Offset]Epochs{
		0: threeEpochs, 5: {{2, 5}, {4, 10}, {7, 20}}, 10: {{4, 10}, {7, 20}}, 15: {{4, 15}, {7, 20}}, 20: {{7, 20}}, 99: {{7, 99}},
	} {
		if got := threeEpochs.TruncateStart(start); !slices.Equal(got, want) {
			t.Errorf("TruncateStart(%d) = %v, want %v", start, got, want)
		}
	}
	later := Epochs{{3, 8}}
	if got := later.TruncateStart(2); !slices.Equal(got, later) {
		t.Errorf("a start before the first entry changed it to %v", got)
	}
}

// TestEpochsModel compares every operation with a table of one epoch per offset, and holds on to every value ever made
// to see that none changes.
func TestEpochsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e Epochs
		var written []kafka.LeaderEpoch // epoch of each record from offset 0
		start := 0
		type kept struct{ value, copy Epochs }
		var all []kept
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0, 1:
				last, _ := e.Latest()
				epoch := last.Epoch + kafka.LeaderEpoch(rapid.IntRange(0, 3).Draw(t, "rise"))
				if epoch < 0 {
					epoch = 0
				}
				e, _ = e.Assign(epoch, kafka.Offset(len(written)))
				for range rapid.IntRange(1, 3).Draw(t, "records") {
					written = append(written, epoch)
				}
			case 2:
				end := rapid.IntRange(start, len(written)).Draw(t, "end")
				written, e = written[:end], e.TruncateEnd(kafka.Offset(end))
			case 3:
				start = rapid.IntRange(start, len(written)).Draw(t, "start")
				e = e.TruncateStart(kafka.Offset(start))
			}
			all = append(all, kept{e, slices.Clone(e)})
			for o := start; o < len(written); o++ {
				if got := e.At(kafka.Offset(o)); got != written[o] {
					t.Fatalf("%v: At(%d) = %d, want %d", e, o, got, written[o])
				}
				epoch, end := e.EndFor(written[o], kafka.Offset(len(written)))
				next := slices.IndexFunc(written[o:], func(x kafka.LeaderEpoch) bool { return x > written[o] })
				if next < 0 {
					next = len(written) - o
				}
				if epoch != written[o] || int(end) != o+next {
					t.Fatalf("%v: EndFor(%d) = %d %d, want %d", e, written[o], epoch, end, o+next)
				}
			}
		}
		for _, k := range all {
			if !slices.Equal(k.value, k.copy) {
				t.Fatalf("a value changed from %v to %v", k.copy, k.value)
			}
		}
	})
}

func TestEpochsFile(t *testing.T) {
	fsys, dir := vfs.OS(), t.TempDir()
	if got, err := ReadEpochs(fsys, dir); err != nil || len(got) != 0 {
		t.Fatalf("missing file: %v %v", got, err)
	}
	for _, e := range []Epochs{threeEpochs, nil, {{0, 0}}} {
		if err := WriteEpochs(fsys, dir, e); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadEpochs(fsys, dir); err != nil || !slices.Equal(got, e) {
			t.Fatalf("read %v %v, wrote %v", got, err, e)
		}
	}
	if got := string(formatEpochs(threeEpochs)); got != "0\n3\n2 0\n4 10\n7 20\n" {
		t.Errorf("bytes %q", got)
	}
	for _, bad := range []string{
		"1\n0\n", "0\n", "0\nx\n", "0\n-1\n", "0\n2\n1 0\n", "0\n1\n1 0\n2 5\n", "0\n1\n1\n", "0\n1\n1 0 0\n", "0\n1\n-1 0\n",
		"0\n1\n1 -1\n", "0\n2\n1 0\n1 5\n", "0\n2\n1 5\n2 5\n", "0\n1\n2147483648 0\n", "0\n1\n1 0\n\n",
	} {
		if err := writeSynced(fsys, path.Join(dir, EpochsFile), []byte(bad)); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadEpochs(fsys, dir); !isFormatError(err) {
			t.Errorf("%q was read as %v %v", bad, got, err)
		}
	}
}

func isFormatError(err error) bool {
	_, ok := errors.AsType[*FormatError](err)
	return ok
}
