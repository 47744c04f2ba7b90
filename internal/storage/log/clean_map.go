package log

import (
	"bytes"
	"encoding/binary"

	"moldau/internal/kafka"
)

const (
	// keyChunkBits is the size of the pieces in which a keyMap takes memory, as a power of two: positions in a piece fit
	// beside the piece's number into 32 bits.
	keyChunkBits = 20
	maxKeyChunks = 1<<(32-keyChunkBits) - 1
	// minKeySlots is the first size of the table.
	minKeySlots = 1024
	keySlotSize = 8
	// maxKeyShare is the part of the memory that a single key may take; longer ones are never compacted.
	maxKeyShare = 8
)

// keyMap remembers the newest offset of each key of the part of a log that is being compacted, in bounded memory.
//
// It holds the keys themselves. A table of fingerprints is smaller, but two keys with one fingerprint would make the
// older record vanish although it is the newest of its key; here equal hashes only cost a comparison. When the memory is
// used up the map is full, and the compaction covers the log up to there: the next one goes on.
type keyMap struct {
	hash     func(key []byte) uint64
	limit    int64 // bytes
	load     float64
	table    []keySlot // open addressing; its length is a power of two
	count    int
	chunks   [][]byte // entries: offset (8 bytes), length of the key (uvarint), key
	chunk    int      // size of the next chunk
	reserved int64    // bytes of table and chunks
}

// keySlot refers to an entry: number of its chunk and position in there. Zero is an empty slot, which no entry has.
type keySlot struct{ hash, ref uint32 }

// newKeyMap makes a map of at most limit bytes whose table is filled up to the share load.
func newKeyMap(hash func([]byte) uint64, limit int64, load float64) *keyMap {
	const most = int64(maxKeyChunks) << keyChunkBits
	m := &keyMap{hash: hash, limit: min(limit, most), load: min(max(load, 0.1), 0.9)}
	m.chunk = int(min(max(m.limit/64, 4096), 1<<keyChunkBits))
	m.table = make([]keySlot, minKeySlots)
	m.reserved = minKeySlots * keySlotSize
	return m
}

// tooLong says that a key is not remembered: records with it are always kept.
func (m *keyMap) tooLong(key []byte) bool { return int64(len(key)) > m.limit/maxKeyShare }

// put notes that key stands at offset, unless it is known to stand later. false: there is no room for another key.
func (m *keyMap) put(key []byte, offset kafka.Offset) bool {
	hash := uint32(m.hash(key) >> 32)
	i, entry := m.find(hash, key)
	if entry != nil {
		if kafka.Offset(binary.LittleEndian.Uint64(entry)) < offset {
			binary.LittleEndian.PutUint64(entry, uint64(offset))
		}
		return true
	}
	if float64(m.count+1) > m.load*float64(len(m.table)) {
		if !m.grow() {
			return false
		}
		i, _ = m.find(hash, key)
	}
	ref, ok := m.add(key, offset)
	if !ok {
		return false
	}
	m.table[i] = keySlot{hash: hash, ref: ref}
	m.count++
	return true
}

// newest gives the newest offset of key; false when the map does not have it.
func (m *keyMap) newest(key []byte) (kafka.Offset, bool) {
	_, entry := m.find(uint32(m.hash(key)>>32), key)
	if entry == nil {
		return kafka.NoOffset, false
	}
	return kafka.Offset(binary.LittleEndian.Uint64(entry)), true
}

// find gives the slot of key and its entry, or the slot where it belongs and nil.
func (m *keyMap) find(hash uint32, key []byte) (int, []byte) {
	mask := len(m.table) - 1
	for i := int(hash) & mask; ; i = (i + 1) & mask {
		s := m.table[i]
		if s.ref == 0 {
			return i, nil
		}
		if s.hash != hash {
			continue
		}
		entry := m.chunks[s.ref>>keyChunkBits-1][s.ref&(1<<keyChunkBits-1):]
		size, n := binary.Uvarint(entry[8:])
		if size == uint64(len(key)) && bytes.Equal(entry[8+n:8+n+len(key)], key) {
			return i, entry
		}
	}
}

// add appends an entry.
func (m *keyMap) add(key []byte, offset kafka.Offset) (uint32, bool) {
	size := 8 + binary.MaxVarintLen32 + len(key)
	last := len(m.chunks) - 1
	if last < 0 || cap(m.chunks[last])-len(m.chunks[last]) < size {
		room := max(m.chunk, size)
		if m.reserved+int64(room) > m.limit || len(m.chunks) == maxKeyChunks {
			return 0, false
		}
		m.chunks = append(m.chunks, make([]byte, 0, room))
		m.reserved += int64(room)
		last++
	}
	b := m.chunks[last]
	ref := uint32(last+1)<<keyChunkBits | uint32(len(b))
	b = binary.LittleEndian.AppendUint64(b, uint64(offset))
	b = binary.AppendUvarint(b, uint64(len(key)))
	m.chunks[last] = append(b, key...)
	return ref, true
}

// grow doubles the table; both are held meanwhile, and counted. The last doubling may not fit any more: then the table
// fills up a little further before the map is full.
func (m *keyMap) grow() bool {
	added := int64(2*len(m.table)) * keySlotSize
	if m.reserved+added > m.limit {
		return false
	}
	old := m.table
	m.table = make([]keySlot, 2*len(old))
	mask := len(m.table) - 1
	for _, s := range old {
		if s.ref == 0 {
			continue
		}
		i := int(s.hash) & mask
		for m.table[i].ref != 0 {
			i = (i + 1) & mask
		}
		m.table[i] = s
	}
	m.reserved += added - int64(len(old))*keySlotSize
	return true
}
