package log

import (
	"errors"
	"io/fs"
	"path"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// realPartitionMetadata was written by Apache Kafka 4.4.0, without a newline at the end.
const realPartitionMetadata = "version: 0\ntopic_id: ObmAx3eeQYmS4cR8byfOBw"

func TestPartitionMetadata(t *testing.T) {
	fsys, dir := vfs.OS(), t.TempDir()
	if _, err := ReadPartitionMetadata(fsys, dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	id := uuid(t, "ObmAx3eeQYmS4cR8byfOBw")
	if err := WritePartitionMetadata(fsys, dir, id); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadPartitionMetadata(fsys, dir); err != nil || got != id {
		t.Errorf("%v %v", got, err)
	}
	if got := string(formatPartitionMetadata(id)); got != realPartitionMetadata {
		t.Errorf("bytes %q", got)
	}
	if err := WritePartitionMetadata(fsys, dir, kafka.UUID{}); err == nil {
		t.Error("the zero id was written")
	}
	if err := AtomicWrite(fsys, path.Join(dir, PartitionMetadataFile), []byte("version: 1\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPartitionMetadata(fsys, dir); !isFormatError(err) {
		t.Errorf("malformed: %v", err)
	}
}

func TestPartitionMetadataParse(t *testing.T) {
	for text, good := range map[string]bool{
		realPartitionMetadata:                              true,
		realPartitionMetadata + "\n":                       true,
		"version:0\r\ntopic_id:  ObmAx3eeQYmS4cR8byfOBw\r": true,
		"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ":     true, // the metadata topic
		"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA":     false,
		"version: 1\ntopic_id: ObmAx3eeQYmS4cR8byfOBw":     false,
		"version: 0\ntopic: ObmAx3eeQYmS4cR8byfOBw":        false,
		"version: 0\ntopic_id: ObmAx3eeQYmS4cR8byfOB":      false,
		"topic_id: ObmAx3eeQYmS4cR8byfOBw\nversion: 0":     false,
		"version: 0\n":                  false,
		"":                              false,
		realPartitionMetadata + "\nx\n": false,
	} {
		if id, err := parsePartitionMetadata(text); (err == nil) != good {
			t.Errorf("%q: %v %v", text, id, err)
		}
	}
}
