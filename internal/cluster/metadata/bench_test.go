package metadata

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"moldau/internal/kafka"
)

// replicasOf is where bigImage puts a partition.
func replicasOf(topic, partition int) []kafka.NodeID {
	replicas := make([]kafka.NodeID, 3)
	for i := range replicas {
		replicas[i] = kafka.NodeID(1 + (topic+partition+i)%9)
	}
	return replicas
}

func topicID(n int) kafka.UUID {
	var id kafka.UUID
	binary.BigEndian.PutUint64(id[:], uint64(n)*0x9e3779b97f4a7c15) // spread, as random ids are
	id[15] = 200
	return id
}

// bigImage has 200,000 partitions of three replicas on nine brokers.
func bigImage(t testing.TB, topics int) *Image { return imageOf(t, topics, 200_000) }

func imageOf(t testing.TB, topics, partitions int) *Image {
	t.Helper()
	var records []Record
	for n := range topics {
		records = append(records, &TopicRecord{fmt.Sprintf("topic-%06d", n), topicID(n)})
		for p := range partitions / topics {
			replicas := replicasOf(n, p)
			records = append(records, &PartitionRecord{
				PartitionID: int32(p), TopicID: topicID(n), Replicas: replicas, ISR: slices.Clone(replicas),
				Leader: replicas[0], Directories: make([]kafka.UUID, 3),
			})
		}
	}
	i, _, err := New().Apply(records)
	if err != nil {
		t.Fatal(err)
	}
	if i.PartitionCount() != partitions {
		t.Fatal(i.PartitionCount())
	}
	return i
}

var shapes = []int{200_000, 2_000, 1} // topics

func BenchmarkPartitionChange(b *testing.B) {
	for _, topics := range shapes {
		b.Run(fmt.Sprintf("topics=%d", topics), func(b *testing.B) {
			i := bigImage(b, topics)
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				n = (n + 7919) % 200_000
				topic, partition := n%topics, n%(200_000/topics)
				r := &PartitionChangeRecord{
					TopicID: topicID(topic), PartitionID: int32(partition), ISR: replicasOf(topic, partition)[:2],
				}
				next, _, err := i.Apply([]Record{r})
				if err != nil {
					b.Fatal(err)
				}
				i = next
			}
		})
	}
}

func BenchmarkLeaderLost(b *testing.B) {
	i := bigImage(b, 200_000)
	none := kafka.NoNode
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n = (n + 7919) % 200_000
		next, _, err := i.Apply([]Record{&PartitionChangeRecord{TopicID: topicID(n), Leader: &none}})
		if err != nil {
			b.Fatal(err)
		}
		i = next
	}
}

func BenchmarkLookup(b *testing.B) {
	i := bigImage(b, 200_000)
	names, ids := make([]string, 1024), make([]kafka.UUID, 1024)
	for n := range names {
		names[n], ids[n] = fmt.Sprintf("topic-%06d", n*191), topicID(n*191)
	}
	b.Run("name", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			if _, ok := i.Partition(kafka.TopicPartition{Topic: names[n%1024]}); !ok {
				b.Fatal("missing")
			}
		}
	})
	b.Run("id", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			if _, ok := i.TopicByID(ids[n%1024]); !ok {
				b.Fatal("missing")
			}
		}
	})
}

// BenchmarkFence is what a controller does when one of nine brokers is lost: find its partitions, change each.
func BenchmarkFence(b *testing.B) {
	i := bigImage(b, 2_000)
	for b.Loop() {
		var records []Record
		for ref := range i.InISR(5) {
			isr := slices.DeleteFunc(slices.Clone(ref.Partition.ISR), func(id kafka.NodeID) bool { return id == 5 })
			records = append(records, &PartitionChangeRecord{
				TopicID: ref.Topic.ID, PartitionID: ref.Index, ISR: isr, Leader: &isr[0],
			})
		}
		if _, _, err := i.Apply(records); err != nil || len(records) < 60_000 {
			b.Fatal(len(records), err)
		}
	}
}

func BenchmarkSnapshot(b *testing.B) {
	i := bigImage(b, 2_000)
	for b.Loop() {
		var buf []byte
		for r := range i.Records(LatestMetadataVersion) {
			buf = Encode(buf[:0], r, VersionFor(r, LatestMetadataVersion))
		}
	}
}

func BenchmarkReplay(b *testing.B) {
	var values [][]byte
	for r := range bigImage(b, 2_000).Records(LatestMetadataVersion) {
		values = append(values, Encode(nil, r, VersionFor(r, LatestMetadataVersion)))
	}
	for b.Loop() {
		var records []Record
		for _, value := range values {
			r, err := Decode(value)
			if err != nil {
				b.Fatal(err)
			}
			records = append(records, r)
		}
		if _, _, err := New().Apply(records); err != nil {
			b.Fatal(err)
		}
	}
}

// TestChangeIsLocal: what a change costs must go with the depth of the trees, not with their size. Memory is measured
// because time is too noisy; a copy of one index of the larger image would be some megabytes.
func TestChangeIsLocal(t *testing.T) {
	for _, topics := range []int{1, 40_000} {
		i := imageOf(t, topics, 40_000)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		const changes = 500
		for n := range changes {
			topic, partition := n%topics, n%(40_000/topics)
			r := &PartitionChangeRecord{
				TopicID: topicID(topic), PartitionID: int32(partition), ISR: replicasOf(topic, partition)[:2],
				Leader: new(kafka.NoNode),
			}
			next, _, err := i.Apply([]Record{r})
			if err != nil {
				t.Fatal(err)
			}
			i = next
		}
		runtime.ReadMemStats(&after)
		if bytes := (after.TotalAlloc - before.TotalAlloc) / changes; bytes > 30_000 {
			t.Errorf("%d topics: %d bytes allocated for a change", topics, bytes)
		}
	}
}
