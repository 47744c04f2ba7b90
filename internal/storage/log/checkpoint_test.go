package log

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"strings"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

func tp(topic string, partition int32) kafka.TopicPartition {
	return kafka.TopicPartition{Topic: topic, Partition: partition}
}

type offsetMap = map[kafka.TopicPartition]kafka.Offset

func TestCheckpointRoundTrip(t *testing.T) {
	fsys, dir := vfs.OS(), t.TempDir()
	name := path.Join(dir, RecoveryPointCheckpoint)
	if got, err := ReadCheckpoint(fsys, name); err != nil || len(got) != 0 || got == nil {
		t.Fatalf("missing: %v %v", got, err)
	}
	for _, want := range []offsetMap{
		{tp("a.b-c_d", 10): 7, tp("a.b-c_d", 9): 1 << 62, tp("Z", 0): 0, tp("a", 2147483647): 5},
		{},
		{tp(strings.Repeat("x", 249), 0): 1},
	} {
		if err := WriteCheckpoint(fsys, name, want); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadCheckpoint(fsys, name); err != nil || !maps.Equal(got, want) {
			t.Errorf("read %v %v, wrote %v", got, err, want)
		}
		if _, err := fsys.Stat(name + temporarySuffix); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the temporary file stays: %v", err)
		}
	}
}

func TestCheckpointBytes(t *testing.T) {
	got := string(formatOffsets(offsetMap{tp("t.one", 10): 140, tp("t.one", 9): 3, tp("_x", 0): 0}))
	if want := "0\n3\n_x 0 0\nt.one 9 3\nt.one 10 140\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := string(formatOffsets(nil)); got != "0\n0\n" {
		t.Errorf("empty: %q", got)
	}
}

func TestCheckpointParse(t *testing.T) {
	one := offsetMap{tp("t", 0): 5}
	for _, c := range []struct {
		text string
		want offsetMap // nil: malformed
		line int
	}{
		{"0\n1\nt 0 5\n", one, 0},
		{"0\n1\nt 0 5", one, 0},
		{"0\r\n1\r\nt 0 5\r\n", one, 0},
		{"0\n1\n t\t0   5 \n", one, 0},
		{"0\n0\n", offsetMap{}, 0},
		{"", offsetMap{}, 0}, // Kafka creates its checkpoints empty
		{"1\n0\n", nil, 1},
		{"x\n0\n", nil, 1},
		{"\n", nil, 1},
		{"0\n", nil, 1},
		{"0\n\n", nil, 2},
		{"0\n-1\n", nil, 2},
		{"0\n99999999999\n", nil, 2},
		{"0\n2\nt 0 5\n", nil, 3},
		{"0\n2147483647\nt 0 5\n", nil, 3},
		{"0\n1\nt 0 5\nt 1 5\n", nil, 4},
		{"0\n1\nt 0 5\n\n", nil, 4},
		{"0\n2\nt 0 5\n\n", nil, 4},
		{"0\n1\nt 0\n", nil, 3},
		{"0\n1\nt 0 5 6\n", nil, 3},
		{"0\n1\nt x 5\n", nil, 3},
		{"0\n1\nt 0 x\n", nil, 3},
		{"0\n1\nt -1 5\n", nil, 3},
		{"0\n1\nt 2147483648 5\n", nil, 3},
		{"0\n1\nt 0 -1\n", nil, 3},
		{"0\n1\nt 0 9223372036854775808\n", nil, 3},
		{"0\n2\nt 0 5\nt 0 6\n", nil, 4},
	} {
		got, err := parseOffsets("f", []byte(c.text))
		if c.want != nil {
			if err != nil || !maps.Equal(got, c.want) {
				t.Errorf("%q: %v %v, want %v", c.text, got, err, c.want)
			}
			continue
		}
		e, ok := errors.AsType[*FormatError](err)
		if !ok || e.Line != c.line || e.Name != "f" || got != nil {
			t.Errorf("%q: %v %v, want a fault in line %d", c.text, got, err, c.line)
		}
	}
}

func TestFormatErrorText(t *testing.T) {
	for want, e := range map[string]*FormatError{
		"a/b:3: odd": {Name: "a/b", Line: 3, Reason: "odd"}, "a/b: odd": {Name: "a/b", Reason: "odd"},
	} {
		if e.Error() != want {
			t.Errorf("%q, want %q", e.Error(), want)
		}
	}
}

func TestReadWholeLimit(t *testing.T) {
	fsys, name := vfs.OS(), path.Join(t.TempDir(), "f")
	if err := AtomicWrite(fsys, name, []byte("12345")); err != nil {
		t.Fatal(err)
	}
	if data, err := readWhole(fsys, name, 5); err != nil || string(data) != "12345" {
		t.Errorf("%q %v", data, err)
	}
	if _, err := readWhole(fsys, name, 4); !isFormatError(err) {
		t.Errorf("5 bytes with a limit of 4: %v", err)
	}
}

func TestAtomicWriteReportsFailure(t *testing.T) {
	if err := AtomicWrite(vfs.OS(), path.Join(t.TempDir(), "none", "f"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

func FuzzCheckpoint(f *testing.F) {
	f.Add([]byte("0\n2\nt.one 0 140\nt.one 1 167\n"))
	f.Add([]byte("0\n0\n"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parseOffsets("f", data)
		if err != nil {
			if !isFormatError(err) {
				t.Fatal(err)
			}
			return
		}
		again, err := parseOffsets("f", formatOffsets(got))
		if err != nil || !maps.Equal(got, again) {
			t.Fatalf("%v became %v %v", got, again, err)
		}
		if e, err := parseEpochs("f", data); err == nil {
			if again, err := parseEpochs("f", formatEpochs(e)); err != nil || len(again) != len(e) {
				t.Fatalf("%v became %v %v", e, again, err)
			}
		}
	})
}
