package log

import (
	"fmt"

	"moldau/internal/kafka"
)

// storageError gives an I/O error the code KAFKA_STORAGE_ERROR and keeps the cause: vfs.IsNoSpace tells a full disk, on
// which the log goes on when space returns, from a broken one, which takes the log directory offline.
func storageError(what string, err error) error {
	return fmt.Errorf("%w: %s: %w", kafka.KafkaStorageError, what, err)
}
