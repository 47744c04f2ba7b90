package record

import (
	"fmt"

	"moldau/internal/kafka"
)

// The classes of failure, to be tested with errors.Is. Each carries the code that Kafka's clients see, found
// by kafka.CodeOf, but no client message: Kafka answers these without one.
var (
	// ErrTruncated: the bytes end before the batch does. At the end of a log that is a torn write.
	ErrTruncated error = &fault{"bytes end before the batch does", kafka.InvalidRecord}
	// ErrCorrupt: the envelope is impossible or the checksum does not match.
	ErrCorrupt error = &fault{"batch is corrupt", kafka.CorruptMessage}
	// ErrLegacy: the entry has format v0 or v1; SplitLegacy reads its envelope.
	ErrLegacy error = &fault{"entry has a format before v2", kafka.InvalidRecord}
	// ErrInvalid: the envelope is sound, but records, counts or compressed bytes break the format's rules.
	ErrInvalid error = &fault{"invalid record", kafka.InvalidRecord}
	// ErrTooLarge: decompression would cost more than its limits allow. Producers answer MESSAGE_TOO_LARGE by
	// splitting the batch, which is the cure.
	ErrTooLarge error = &fault{"batch expands beyond its limit", kafka.MessageTooLarge}
)

// fault is a class of failure with its wire code.
type fault struct {
	text string
	code kafka.Code
}

func (f *fault) Error() string { return f.text }

// Unwrap lets kafka.CodeOf find the code.
func (f *fault) Unwrap() error { return f.code }

// invalid makes an ErrInvalid that says what was wrong, for logs.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// corrupt makes an ErrCorrupt whose message is also sent to the client, as Kafka does for an impossible
// envelope.
func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrCorrupt, kafka.Errorf(kafka.CorruptMessage, format, args...))
}
