package log

import (
	"os"
	"path"
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
