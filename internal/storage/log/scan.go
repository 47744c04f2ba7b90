package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// blockSize is the unit in which lookups read headers and index entries.
const blockSize = 4096

// block is a read buffer out of Dir's pool.
type block [blockSize]byte

// header is what lookups need of a batch.
type header struct {
	pos          int64 // in the file
	size         int64 // with the length field
	base, last   kafka.Offset
	maxTimestamp int64
	epoch        kafka.LeaderEpoch
	magic        int8
}

// oldHeaderSize is the size of the smallest message of formats 0 and 1: offset, size, CRC, magic, attributes and the
// lengths of key and value. Old segments that move in from Kafka may hold such messages; they are served as they are.
const oldHeaderSize = 8 + 4 + 4 + 1 + 1 + 4 + 4

// Field positions that both formats share, and the timestamp of format 1.
const (
	posMagic        = 16
	posOldTimestamp = 18
)

// errBadBatch marks bytes that are no batch, or one that does not fit where it stands.
var errBadBatch = errors.New("not a batch")

// parseHeader reads the header of the batch that begins at b; room is how many bytes the file has from there on. b holds
// at least min(room, record.HeaderSize) bytes.
func parseHeader(b []byte, pos, room int64) (header, error) {
	if room < oldHeaderSize {
		return header{}, fmt.Errorf("%w: %d bytes left at %d", errBadBatch, room, pos)
	}
	h := header{
		pos:   pos,
		size:  int64(int32(binary.BigEndian.Uint32(b[8:]))) + record.LogOverhead,
		base:  kafka.Offset(binary.BigEndian.Uint64(b)),
		magic: int8(b[posMagic]),
	}
	least := int64(record.HeaderSize)
	if h.magic < record.Magic {
		least = oldHeaderSize
	}
	if h.magic < 0 || h.magic > record.Magic || h.size < least || h.size > room || h.base < 0 {
		return header{}, fmt.Errorf("%w: offset %d, magic %d, size %d at %d of %d", errBadBatch,
			h.base, h.magic, h.size, pos, pos+room)
	}
	if h.magic < record.Magic {
		h.last, h.epoch, h.maxTimestamp = h.base, kafka.NoEpoch, -1
		if h.magic == 1 {
			h.maxTimestamp = int64(binary.BigEndian.Uint64(b[posOldTimestamp:]))
		}
		return h, nil
	}
	v2 := record.Batch(b)
	h.last, h.epoch, h.maxTimestamp = v2.LastOffset(), v2.LeaderEpoch(), v2.MaxTimestamp()
	if v2.LastOffsetDelta() < 0 || h.last < h.base {
		return header{}, fmt.Errorf("%w: last offset delta %d at %d", errBadBatch, v2.LastOffsetDelta(), pos)
	}
	return h, nil
}

// headers walks the batch headers of a file from pos to end without reading more records than share their blocks.
type headers struct {
	file  io.ReaderAt
	pos   int64 // of the next batch
	end   int64
	block *block
	at    int64 // file position of block
	have  int
}

// next gives the header at pos and moves behind that batch; io.EOF at the end.
func (h *headers) next() (header, error) {
	if h.pos >= h.end {
		return header{}, io.EOF
	}
	need := min(record.HeaderSize, h.end-h.pos)
	if h.pos < h.at || h.pos+need > h.at+int64(h.have) {
		if err := h.fill(); err != nil {
			return header{}, err
		}
	}
	x, err := parseHeader(h.block[h.pos-h.at:h.have], h.pos, h.end-h.pos)
	if err != nil {
		return header{}, err
	}
	h.pos += x.size
	return x, nil
}

func (h *headers) fill() error {
	n := int(min(blockSize, h.end-h.pos))
	h.at, h.have = h.pos, 0
	if err := readFull(h.file, h.block[:n], h.pos); err != nil {
		return err
	}
	h.have = n
	return nil
}

// readFull reads len(b) bytes; fewer is io.ErrUnexpectedEOF.
func readFull(f io.ReaderAt, b []byte, pos int64) error {
	n, err := f.ReadAt(b, pos)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// writeFull writes b at pos with one call.
func writeFull(f vfs.File, b []byte, pos int64) error {
	n, err := f.WriteAt(b, pos)
	if err == nil && n < len(b) {
		return io.ErrShortWrite
	}
	return err
}

// bytes gives the header bytes of x, which next has just returned.
func (h *headers) bytes(x header) []byte {
	if x.pos < h.at || x.pos >= h.at+int64(h.have) {
		return nil
	}
	b := h.block[x.pos-h.at : h.have]
	return b[:min(int64(len(b)), x.size)]
}
