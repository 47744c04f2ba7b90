package log

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// Names of the offset checkpoints at the top of a log directory.
const (
	RecoveryPointCheckpoint       = "recovery-point-offset-checkpoint" // first offset not known to be durable
	HighWatermarkCheckpoint       = "replication-offset-checkpoint"
	LogStartCheckpoint            = "log-start-offset-checkpoint" // logs that start inside their first segment
	CleanerOffsetCheckpoint       = "cleaner-offset-checkpoint"   // first offset the cleaner has not seen
	temporarySuffix               = ".tmp"
	maxCheckpointBytes      int64 = 256 << 20 // about 4 M partitions; guards memory
)

// FormatError says that a file is not what its format demands. It is never about the disk failing to answer.
type FormatError struct {
	Name   string
	Line   int // counted from 1; 0 when the file is binary or the fault belongs to no line
	Reason string
}

// Error gives path, line and reason.
func (e *FormatError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", e.Name, e.Line, e.Reason)
	}
	return e.Name + ": " + e.Reason
}

// AtomicWrite makes data the durable content of name: whatever happens, the file holds its old or its new
// content whole, and the new one once AtomicWrite has returned nil. It goes through name.tmp, which a crash
// may leave behind and the next write replaces. Callers serialise writes to one name.
func AtomicWrite(fsys vfs.FS, name string, data []byte) error {
	tmp := name + temporarySuffix
	if err := writeSynced(fsys, tmp, data); err != nil {
		_ = fsys.Remove(tmp) // gives the space back; the next write would replace it anyway
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		_ = fsys.Remove(tmp)
		return err
	}
	return fsys.SyncDir(path.Dir(name))
}

// writeSynced creates or replaces name and makes its content, not its name, durable.
func writeSynced(fsys vfs.FS, name string, data []byte) (err error) {
	f, err := fsys.Open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Sync()
}

// readWhole reads a small file; more than limit bytes is a *FormatError.
func readWhole(fsys vfs.FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, &FormatError{Name: name, Reason: fmt.Sprintf("%d bytes, more than %d", size, limit)}
	}
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if err != nil && !(errors.Is(err, io.EOF) && n == len(data)) {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data, nil
}

// ReadCheckpoint reads an offset checkpoint. A missing file is an empty one; anything malformed is a
// *FormatError: the file was written atomically, so damage means that the directory cannot be trusted.
func ReadCheckpoint(fsys vfs.FS, name string) (map[kafka.TopicPartition]kafka.Offset, error) {
	data, err := readWhole(fsys, name, maxCheckpointBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return map[kafka.TopicPartition]kafka.Offset{}, nil
	}
	if err != nil {
		return nil, err
	}
	return parseOffsets(name, data)
}

// WriteCheckpoint replaces an offset checkpoint durably, in topic and partition order.
func WriteCheckpoint(fsys vfs.FS, name string, offsets map[kafka.TopicPartition]kafka.Offset) error {
	return AtomicWrite(fsys, name, formatOffsets(offsets))
}

func formatOffsets(offsets map[kafka.TopicPartition]kafka.Offset) []byte {
	order := slices.SortedFunc(maps.Keys(offsets), func(a, b kafka.TopicPartition) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	out := appendCheckpointHead(nil, len(order))
	for _, tp := range order {
		out = append(out, tp.Topic...)
		out = append(out, ' ')
		out = strconv.AppendInt(out, int64(tp.Partition), 10)
		out = append(out, ' ')
		out = strconv.AppendInt(out, int64(offsets[tp]), 10)
		out = append(out, '\n')
	}
	return out
}

func parseOffsets(name string, data []byte) (map[kafka.TopicPartition]kafka.Offset, error) {
	out := make(map[kafka.TopicPartition]kafka.Offset)
	topic := ""
	err := parseCheckpoint(name, data, 3, func(fields []string) error {
		if fields[0] != topic { // lines of a topic stand together: one string for all of them
			topic = strings.Clone(fields[0])
		}
		partition, err := parseNumber(fields[1], math.MaxInt32)
		if err != nil {
			return err
		}
		offset, err := parseNumber(fields[2], math.MaxInt64)
		if err != nil {
			return err
		}
		tp := kafka.TopicPartition{Topic: topic, Partition: int32(partition)}
		if _, twice := out[tp]; twice {
			return fmt.Errorf("%s stands twice", tp)
		}
		out[tp] = kafka.Offset(offset)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// appendCheckpointHead writes the two lines every text checkpoint begins with: version 0 and the number of
// entries.
func appendCheckpointHead(dst []byte, entries int) []byte {
	dst = append(dst, "0\n"...)
	dst = strconv.AppendInt(dst, int64(entries), 10)
	return append(dst, '\n')
}

// parseCheckpoint walks a text checkpoint (version 0) and calls entry for the fields of each line. The number
// of entries must be the promised one, so a cut file never passes. An empty file has no entries: Kafka
// creates its checkpoints so.
func parseCheckpoint(name string, data []byte, width int, entry func(fields []string) error) error {
	line := 0
	bad := func(format string, args ...any) error {
		return &FormatError{Name: name, Line: line, Reason: fmt.Sprintf(format, args...)}
	}
	next := func() (string, bool) {
		if len(data) == 0 {
			return "", false
		}
		line++
		text, rest, _ := bytes.Cut(data, []byte{'\n'})
		data = rest
		return string(bytes.TrimSuffix(text, []byte{'\r'})), true
	}
	version, ok := next()
	if !ok {
		return nil
	}
	if strings.TrimSpace(version) != "0" {
		return bad("version %q is not known", version)
	}
	text, _ := next()
	want, err := parseNumber(strings.TrimSpace(text), math.MaxInt32)
	if err != nil {
		return bad("entry count: %v", err)
	}
	for range want {
		text, ok := next()
		if !ok {
			return bad("%d entries promised, the file ends before", want)
		}
		fields := strings.Fields(text)
		if len(fields) != width {
			return bad("%d fields, want %d", len(fields), width)
		}
		if err := entry(fields); err != nil {
			return bad("%v", err)
		}
	}
	if len(data) > 0 {
		line++
		return bad("more than the %d entries promised", want)
	}
	return nil
}

// parseNumber reads a non-negative decimal number of at most highest.
func parseNumber(text string, highest int64) (int64, error) {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 || v > highest {
		return 0, fmt.Errorf("%q is not a number from 0 to %d", text, highest)
	}
	return v, nil
}
