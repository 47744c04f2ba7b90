package log

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// CleanShutdownFile is the name of the marker at the top of a log directory that says its logs were closed in
// order.
const CleanShutdownFile = ".kafka_cleanshutdown"

// NoBrokerEpoch is the broker epoch of a marker that names none.
const NoBrokerEpoch kafka.BrokerEpoch = -1

// cleanShutdown is the marker's content, version 0 (KIP-966).
type cleanShutdown struct {
	Version     int                `json:"version"`
	BrokerEpoch *kafka.BrokerEpoch `json:"brokerEpoch"`
}

// ReadCleanShutdown says whether dir was closed in order, and in which broker epoch, NoBrokerEpoch when the
// marker does not say: older brokers leave it empty, and one that cannot be read still says that the logs are
// clean, but is no proof of an epoch.
func ReadCleanShutdown(fsys vfs.FS, dir string) (kafka.BrokerEpoch, bool, error) {
	data, err := readWhole(fsys, path.Join(dir, CleanShutdownFile), maxSmallFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return NoBrokerEpoch, false, nil
	}
	if _, odd := errors.AsType[*FormatError](err); odd {
		return NoBrokerEpoch, true, nil
	}
	if err != nil {
		return NoBrokerEpoch, false, err
	}
	var c cleanShutdown
	if json.Unmarshal(data, &c) != nil || c.BrokerEpoch == nil || *c.BrokerEpoch < 0 {
		return NoBrokerEpoch, true, nil
	}
	return *c.BrokerEpoch, true, nil
}

// WriteCleanShutdown marks dir as closed in order, durably. Everything else in it must be durable before.
func WriteCleanShutdown(fsys vfs.FS, dir string, epoch kafka.BrokerEpoch) error {
	return AtomicWrite(fsys, path.Join(dir, CleanShutdownFile), formatCleanShutdown(epoch))
}

func formatCleanShutdown(epoch kafka.BrokerEpoch) []byte {
	return fmt.Appendf(nil, `{"version":0,"brokerEpoch":%d}`, epoch)
}

// RemoveCleanShutdown removes the marker, durably: it must be gone before the first write to a log of dir, or
// a crash would pass for an orderly stop. A marker that is gone already may not be gone durably yet, so the
// directory is always synced.
func RemoveCleanShutdown(fsys vfs.FS, dir string) error {
	err := fsys.Remove(path.Join(dir, CleanShutdownFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fsys.SyncDir(dir)
}
