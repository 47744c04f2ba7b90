package log

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// PartitionMetadataFile is the name of the file that ties a partition's directory to a topic id.
const PartitionMetadataFile = "partition.metadata"

// ReadPartitionMetadata reads the topic id kept in the partition directory dir. A missing file is
// fs.ErrNotExist: nothing was appended there yet. Anything malformed, the zero id included, is a
// *FormatError.
func ReadPartitionMetadata(fsys vfs.FS, dir string) (kafka.UUID, error) {
	name := path.Join(dir, PartitionMetadataFile)
	data, err := readWhole(fsys, name, maxSmallFileBytes)
	if err != nil {
		return kafka.UUID{}, err
	}
	id, err := parsePartitionMetadata(string(data))
	if err != nil {
		return kafka.UUID{}, &FormatError{Name: name, Reason: err.Error()}
	}
	return id, nil
}

// WritePartitionMetadata ties dir to a topic, durably. It must come before the first append, so that no data
// can ever be taken for another topic's of the same name.
func WritePartitionMetadata(fsys vfs.FS, dir string, topic kafka.UUID) error {
	if topic.IsZero() {
		return errors.New("partition.metadata needs a topic id")
	}
	return AtomicWrite(fsys, path.Join(dir, PartitionMetadataFile), formatPartitionMetadata(topic))
}

// formatPartitionMetadata ends without a newline, as Kafka's file does.
func formatPartitionMetadata(topic kafka.UUID) []byte {
	return fmt.Appendf(nil, "version: 0\ntopic_id: %s", topic)
}

func parsePartitionMetadata(text string) (kafka.UUID, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != 2 {
		return kafka.UUID{}, fmt.Errorf("%d lines, want 2", len(lines))
	}
	version, ok := strings.CutPrefix(lines[0], "version:")
	if !ok || strings.TrimSpace(version) != "0" {
		return kafka.UUID{}, fmt.Errorf("%q is not version 0", lines[0])
	}
	text, ok = strings.CutPrefix(lines[1], "topic_id:")
	if !ok {
		return kafka.UUID{}, fmt.Errorf("%q is not a topic_id line", lines[1])
	}
	id, err := kafka.ParseUUID(strings.TrimSpace(text))
	if err != nil {
		return kafka.UUID{}, err
	}
	if id.IsZero() {
		return kafka.UUID{}, errors.New("the topic id is zero")
	}
	return id, nil
}
