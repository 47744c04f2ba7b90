package log

import (
	"errors"
	"io/fs"
	"math"
	"path"
	"strconv"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// EpochsFile is the name of the leader epoch history inside a partition's directory.
const EpochsFile = "leader-epoch-checkpoint"

// ReadEpochs reads the history kept in the partition directory dir. A missing file is an empty history; a
// malformed one, or one whose entries do not rise strictly, is a *FormatError.
func ReadEpochs(fsys vfs.FS, dir string) (Epochs, error) {
	name := path.Join(dir, EpochsFile)
	data, err := readWhole(fsys, name, maxCheckpointBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseEpochs(name, data)
}

// WriteEpochs replaces the history kept in dir, durably. It does blocking I/O: never call it under a
// partition's lock.
func WriteEpochs(fsys vfs.FS, dir string, e Epochs) error {
	return AtomicWrite(fsys, path.Join(dir, EpochsFile), formatEpochs(e))
}

func formatEpochs(e Epochs) []byte {
	out := appendCheckpointHead(make([]byte, 0, 16+len(e)*16), len(e))
	for _, x := range e {
		out = strconv.AppendInt(out, int64(x.Epoch), 10)
		out = append(out, ' ')
		out = strconv.AppendInt(out, int64(x.Start), 10)
		out = append(out, '\n')
	}
	return out
}

func parseEpochs(name string, data []byte) (Epochs, error) {
	var out Epochs
	err := parseCheckpoint(name, data, 2, func(fields []string) error {
		epoch, err := parseNumber(fields[0], math.MaxInt32)
		if err != nil {
			return err
		}
		start, err := parseNumber(fields[1], math.MaxInt64)
		if err != nil {
			return err
		}
		x := EpochEntry{Epoch: kafka.LeaderEpoch(epoch), Start: kafka.Offset(start)}
		if last, ok := out.Latest(); ok && (x.Epoch <= last.Epoch || x.Start <= last.Start) {
			return errors.New("epochs and offsets must rise")
		}
		out = append(out, x)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
