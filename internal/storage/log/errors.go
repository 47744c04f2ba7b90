package log

import (
	"errors"
	"fmt"

	"moldau/internal/kafka"
)

// ErrSyncFailed is the cause of what a log refuses after a failed sync; the whole log directory is offline then.
var ErrSyncFailed = errors.New("an earlier sync failed")

// storageError gives an I/O error the code KAFKA_STORAGE_ERROR and keeps the cause: vfs.IsNoSpace tells a full disk, on
// which the log goes on when space returns; vfs.IsDiskFailure a broken one, which takes the log directory offline; other
// causes, such as damage or a missing file, concern this log alone.
func storageError(what string, err error) error {
	return fmt.Errorf("%w: %s: %w", kafka.KafkaStorageError, what, err)
}
