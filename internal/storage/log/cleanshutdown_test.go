package log

import (
	"math/rand/v2"
	"os"
	"path"
	"strings"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

func TestCleanShutdown(t *testing.T) {
	fsys, dir := vfs.OS(), t.TempDir()
	read := func(wantEpoch kafka.BrokerEpoch, wantFound bool) {
		t.Helper()
		if epoch, found, err := ReadCleanShutdown(fsys, dir); err != nil || epoch != wantEpoch || found != wantFound {
			t.Errorf("%d %v %v, want %d %v", epoch, found, err, wantEpoch, wantFound)
		}
	}
	read(NoBrokerEpoch, false)
	if err := RemoveCleanShutdown(fsys, dir); err != nil {
		t.Errorf("removing none: %v", err)
	}
	if err := WriteCleanShutdown(fsys, dir, 14); err != nil {
		t.Fatal(err)
	}
	read(14, true)
	if got := string(formatCleanShutdown(14)); got != `{"version":0,"brokerEpoch":14}` { // as Apache Kafka 4.4.0 wrote it
		t.Errorf("bytes %q", got)
	}
	if err := RemoveCleanShutdown(fsys, dir); err != nil {
		t.Fatal(err)
	}
	read(NoBrokerEpoch, false)

	for text, want := range map[string]kafka.BrokerEpoch{
		"":                                 NoBrokerEpoch,
		"junk":                             NoBrokerEpoch,
		"{}":                               NoBrokerEpoch,
		`{"version":0}`:                    NoBrokerEpoch,
		`{"version":0,"brokerEpoch":null}`: NoBrokerEpoch,
		`{"version":0,"brokerEpoch":-5}`:   NoBrokerEpoch,
		`{"version":0,"brokerEpoch":"x"}`:  NoBrokerEpoch,
		`{"brokerEpoch":7,"version":0,"other":[1,2]}`: 7,
		`{"version":0,"brokerEpoch":0}` + "\n":        0,
	} {
		if err := os.WriteFile(path.Join(dir, CleanShutdownFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		read(want, true)
	}
}

// TestCleanShutdownIsRemovedDurably: the marker must not come back with the power, not even when a process was killed
// between removing it and making that durable.
func TestCleanShutdownIsRemovedDurably(t *testing.T) {
	for _, killed := range []bool{false, true} {
		m := memDir(t)
		if err := WriteCleanShutdown(m, "/d", 3); err != nil {
			t.Fatal(err)
		}
		if killed {
			if err := m.Remove(path.Join("/d", CleanShutdownFile)); err != nil {
				t.Fatal(err)
			}
		}
		if err := RemoveCleanShutdown(m, "/d"); err != nil {
			t.Fatal(err)
		}
		m = m.CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.CrashOptions{})
		if _, found, err := ReadCleanShutdown(m, "/d"); err != nil || found {
			t.Errorf("killed %v: found %v %v", killed, found, err)
		}
	}
}

func TestCleanShutdownFaults(t *testing.T) {
	m := memDir(t)
	if err := WriteCleanShutdown(m, "/d", 3); err != nil {
		t.Fatal(err)
	}
	for _, rule := range []string{"open * error EMFILE", "read * error EIO", "remove * error EIO", "syncdir * error EIO"} {
		f, err := vfs.Faulty(m, rule)
		if err != nil {
			t.Fatal(err)
		}
		var found bool
		if hitsReads := strings.HasPrefix(rule, "open") || strings.HasPrefix(rule, "read"); hitsReads {
			_, found, err = ReadCleanShutdown(f, "/d")
		} else {
			err = RemoveCleanShutdown(f, "/d")
		}
		if err == nil || found {
			t.Errorf("%s: %v %v", rule, found, err)
		}
	}
}
