package group

import (
	"encoding/binary"
	"slices"
	"unicode/utf16"

	"github.com/zeebo/xxh3"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// metadataHash is one number for the topics that a group subscribes to, as far as assignors look at them: it changes when
// one of them comes, goes, is made anew, grows, or moves to other racks (KIP-1101). It is 0 for no topic, and byte for
// byte the number that Kafka stores in a group's record, so that a broker of either kind can go on with the other's group.
// names are sorted.
func (m *Machine) metadataHash(names []string) uint64 {
	var all []byte
	for _, name := range names {
		if t, ok := m.image.Topic(name); ok {
			all = binary.LittleEndian.AppendUint64(all, m.topicHash(t))
		}
	}
	if len(all) == 0 {
		return 0
	}
	return xxh3.Hash(all)
}

// topicHash is the hash of one topic. Topics are never changed but replaced, so a hash holds as long as the topic is the
// same, and no broker has moved to another rack.
func (m *Machine) topicHash(t *metadata.Topic) uint64 {
	if known, ok := m.hashes[t.ID]; ok && known.topic == t {
		return known.hash
	}
	if m.hashes == nil {
		m.hashes = map[kafka.UUID]topicHash{}
	}
	h := xxh3.Hash(appendTopic(nil, m.image, t))
	m.hashes[t.ID] = topicHash{t, h}
	return h
}

type topicHash struct {
	topic *metadata.Topic
	hash  uint64
}

// appendTopic writes what is hashed of a topic, numbers in little endian: a version byte, the id as two big numbers, the
// name, the partitions, and for each of these its number and its racks.
func appendTopic(b []byte, image *metadata.Image, t *metadata.Topic) []byte {
	b = append(b, 0)
	b = binary.LittleEndian.AppendUint64(b, binary.BigEndian.Uint64(t.ID[:8]))
	b = binary.LittleEndian.AppendUint64(b, binary.BigEndian.Uint64(t.ID[8:]))
	b = appendHashString(b, t.Name)
	b = binary.LittleEndian.AppendUint32(b, uint32(t.NumPartitions()))
	for i := range int32(t.NumPartitions()) {
		b = binary.LittleEndian.AppendUint32(b, uint32(i))
		for _, rack := range partitionRacks(image, t, i) {
			b = binary.LittleEndian.AppendUint32(b, uint32(len(utf16.Encode([]rune(rack)))))
			b = appendHashString(b, rack)
		}
	}
	return b
}

// appendHashString writes the UTF-16 units of a string and their number.
func appendHashString(b []byte, s string) []byte {
	units := utf16.Encode([]rune(s))
	for _, u := range units {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return binary.LittleEndian.AppendUint32(b, uint32(len(units)))
}

func sortedMembers(g *consumerGroup) []string {
	ids := make([]string, 0, len(g.roster))
	for id := range g.roster {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
