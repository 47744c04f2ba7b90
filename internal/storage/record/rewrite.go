package record

import (
	"encoding/binary"

	"moldau/internal/kafka"
)

// attrKnown are the attribute bits that survive a rewrite. Others stay as long as a batch is stored as it
// came.
const attrKnown = attrCodec | attrLogAppendTime | attrTransactional | attrControl | attrDeleteHorizon

func (b Batch) put16(pos int, v int16) { binary.BigEndian.PutUint16(b[pos:], uint16(v)) }
func (b Batch) put32(pos int, v int32) { binary.BigEndian.PutUint32(b[pos:], uint32(v)) }
func (b Batch) put64(pos int, v int64) { binary.BigEndian.PutUint64(b[pos:], uint64(v)) }

// UpdateCRC recomputes the checksum after the batch was changed.
func (b Batch) UpdateCRC() { binary.BigEndian.PutUint32(b[posCRC:], b.computeCRC()) }

// SetCreateTime marks the records' times as the producer's and ms as the largest of them. Nothing is touched,
// the checksum included, if the batch says so already.
func (b Batch) SetCreateTime(ms int64) { b.setMaxTimestamp(0, ms) }

// SetLogAppendTime gives every record the time ms.
func (b Batch) SetLogAppendTime(ms int64) { b.setMaxTimestamp(attrLogAppendTime, ms) }

func (b Batch) setMaxTimestamp(timestampType int16, ms int64) {
	if b.attributes()&attrLogAppendTime == timestampType && b.MaxTimestamp() == ms {
		return
	}
	b.put16(posAttributes, b.attributes()&attrKnown&^attrLogAppendTime|timestampType)
	b.put64(posMaxTimestamp, ms)
	b.UpdateCRC()
}

// Emptied makes a batch without records that keeps what others may still need of b: its offsets and its
// producer's state. Compaction leaves it in place of a batch of which no record remains.
func (b Batch) Emptied() Batch {
	e := Batch(make([]byte, HeaderSize))
	copy(e, b)
	e.put32(posLength, HeaderSize-LogOverhead)
	e.put16(posAttributes, b.attributes()&(attrLogAppendTime|attrTransactional|attrControl))
	e.put64(posBaseTimestamp, b.MaxTimestamp())
	e.put32(posCount, 0)
	e.UpdateCRC()
	return e
}

// recoded is b with its records in other bytes, which stand in s behind room for the header. What is not b's
// meaning (unknown attribute bits, a delete horizon that only compaction may set) is dropped, as Kafka does.
func (b Batch) recoded(s *sink, c Codec, timestampType int16, maxTimestamp int64) Batch {
	n := Batch(s.b)
	copy(n, b[:HeaderSize])
	n.put32(posLength, int32(len(n)-LogOverhead))
	n.put16(posAttributes, b.attributes()&(attrTransactional|attrControl)|timestampType|int16(c))
	n.put64(posMaxTimestamp, maxTimestamp)
	n.UpdateCRC()
	return n
}

// newSink makes room for a batch of up to max bytes in all; 0: no limit.
func newSink(max, sizeHint int) *sink {
	if max <= 0 {
		max = maxBatchSize
	}
	return &sink{b: make([]byte, HeaderSize, HeaderSize+sizeHint), max: max}
}

// maxBatchSize is the most that the length field can tell.
const maxBatchSize = 1<<31 - 1 + LogOverhead

// compressed compresses the whole of src into a sink.
func compressed(s *sink, src []byte, c Codec, level int) error {
	if c == Uncompressed {
		_, err := s.Write(src)
		return err
	}
	w, err := compressTo(s, c, level)
	if err != nil {
		return err
	}
	defer w.release()
	_, err = w.Write(src)
	if err == nil {
		err = w.Close()
	}
	if s.full {
		return kafka.MessageTooLarge
	}
	return err
}
