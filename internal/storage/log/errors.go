package log

import (
	"errors"
	"fmt"

	"moldau/internal/kafka"
)

// errSyncFailed is the cause of refused appends after a failed sync.
var errSyncFailed = errors.New("an earlier sync failed")

// storageError gives an I/O error the code KAFKA_STORAGE_ERROR and keeps the cause: vfs.IsNoSpace tells a full disk, on
// which the log goes on when space returns, from a broken one, which takes the log directory offline.
func storageError(what string, err error) error {
	return fmt.Errorf("%w: %s: %w", kafka.KafkaStorageError, what, err)
}
