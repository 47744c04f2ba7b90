package group

import (
	"encoding/binary"
	"slices"
	"unicode/utf16"

	"moldau/internal/cluster/metadata"
)

// metadataHash is one number for the topics that a group subscribes to, as far as assignors look at them: it changes when
// one of them comes, goes, is made anew, grows, or moves to other racks (KIP-1101). It is 0 for no topic, and byte for
// byte the number that Kafka stores in a group's record, so that a broker of either kind can go on with the other's group.
// names are sorted.
func metadataHash(image *metadata.Image, names []string) uint64 {
	var all []byte
	var buf []byte
	for _, name := range names {
		t, ok := image.Topic(name)
		if !ok {
			continue
		}
		buf = appendTopic(buf[:0], image, t)
		all = binary.LittleEndian.AppendUint64(all, xxh3(buf))
	}
	if len(all) == 0 {
		return 0
	}
	return xxh3(all)
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
