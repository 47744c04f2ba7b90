package record

import (
	"encoding/binary"
	"hash/crc32"

	"moldau/internal/kafka"
)

// PrefixSize is how many bytes of an entry tell its size and format, whatever the format.
const PrefixSize = posMagic + 1

// minLegacySize is the smallest value of the length field in any format: a v0 message without key and value.
const minLegacySize = 14

// EntrySize reads the size in bytes and the format (magic 0, 1 or 2) of the entry that starts with prefix, of
// which it needs PrefixSize bytes. It fails with ErrTruncated if there are fewer and with ErrCorrupt if no
// entry starts so.
func EntrySize(prefix []byte) (size int, magic int8, err error) {
	if len(prefix) < LogOverhead {
		return 0, 0, ErrTruncated
	}
	length := int32(binary.BigEndian.Uint32(prefix[posLength:]))
	if length < minLegacySize {
		return 0, 0, corrupt("Record size %d is less than the minimum record overhead (%d)",
			length, minLegacySize)
	}
	if len(prefix) < PrefixSize {
		return 0, 0, ErrTruncated
	}
	magic = int8(prefix[posMagic])
	if magic < 0 || magic > Magic {
		return 0, 0, corrupt("Invalid magic found in record: %d", magic)
	}
	return int(length) + LogOverhead, magic, nil
}

// Split cuts the first batch off b. Neither part is copied. It fails with ErrTruncated if b ends before the
// batch does (an empty b included), with ErrCorrupt if no batch starts so, and with ErrLegacy if the whole
// first entry is there but has an old format. Only sizes and format are checked, not the checksum.
func Split(b []byte) (first Batch, rest []byte, err error) {
	size, magic, err := EntrySize(b)
	switch {
	case err != nil:
		return nil, b, err
	case len(b) < size:
		return nil, b, ErrTruncated
	case magic < Magic:
		return nil, b, ErrLegacy
	case size < HeaderSize:
		return nil, b, ErrCorrupt
	}
	return Batch(b[:size:size]), b[size:], nil
}

// SplitProduced takes the one batch out of the records of a Produce request of the given version, as Kafka
// does: none, more than one or an old format is INVALID_RECORD, zstd before version 7
// UNSUPPORTED_COMPRESSION_TYPE (KIP-110). Bytes behind the batch that are no whole batch are dropped.
// Validate follows.
func SplitProduced(b []byte, version int16) (Batch, error) {
	first, rest, err := Split(b)
	if err != nil {
		return nil, err
	}
	if err := checkZstdVersion(first, version); err != nil {
		return nil, err
	}
	size, _, err := EntrySize(rest)
	switch {
	case err == ErrTruncated:
		return first, nil
	case err != nil:
		return nil, ErrCorrupt
	case size <= len(rest):
		return nil, invalid("more than one batch")
	}
	return first, nil
}

// zstdMinProduce is the first Produce version whose clients may send zstd.
const zstdMinProduce = 7

func checkZstdVersion(b Batch, version int16) error {
	if version < zstdMinProduce && b.Codec() == Zstd {
		return kafka.UnsupportedCompressionType
	}
	return nil
}

// CheckCRC checks the checksum (CRC-32C from the attributes to the end) and that the batch is whole. It fails
// with ErrCorrupt.
func (b Batch) CheckCRC() error {
	if len(b) < HeaderSize || b.Size() != len(b) || b.CRC() != b.computeCRC() {
		return ErrCorrupt
	}
	return nil
}

func (b Batch) computeCRC() uint32 {
	return crc32.Checksum(b[posAttributes:], crc32.MakeTable(crc32.Castagnoli))
}
