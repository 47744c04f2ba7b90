package txn

import (
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// TestBytes plays lives of transactional ids that Apache Kafka 4.4 has recorded, under each level of transaction.version, at
// the times it recorded and with its producer ids: our records are its bytes. Only the order of several partitions is its
// own (that of a hash set), ours is sorted.
func TestBytes(t *testing.T) {
	text, err := os.ReadFile("testdata/bytes.txt")
	if err != nil {
		t.Fatal(err)
	}
	lives := 0
	for life := range strings.SplitSeq(strings.TrimSpace(string(text)), "\nlevel ") {
		lives++
		lines := strings.Split(life, "\n")
		head, script, _ := strings.Cut(strings.TrimPrefix(lines[0], "level "), ": ")
		var level int16
		var timeoutMs int32
		var id string
		if _, err := fmt.Sscanf(head, "%d timeout %d %s", &level, &timeoutMs, &id); err != nil {
			t.Fatal(head, err)
		}
		var want [][]byte
		for _, line := range lines[1:] {
			v, err := hex.DecodeString(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, v)
		}
		t.Run(fmt.Sprint(level, " ", script), func(t *testing.T) { playLife(t, level, timeoutMs, id, script, want) })
	}
	if lives < 25 {
		t.Errorf("only %d lives", lives)
	}
}

func playLife(t *testing.T, level int16, timeoutMs int32, id, script string, want [][]byte) {
	b := newBench(t)
	b.setLevel(level)
	for _, v := range want {
		x, err := parseValue(id, v)
		if err != nil {
			t.Fatal(err)
		}
		b.times = append(b.times, time.UnixMilli(x.updateMs))
		for _, pid := range []kafka.ProducerID{x.producer.ID, x.nextID} {
			if pid != kafka.NoProducer && !slices.Contains(b.ids, pid) {
				b.ids = append(b.ids, pid)
			}
		}
	}
	s := &steps{b: b, id: id, timeoutMs: timeoutMs, producer: coordinator.NoStamp}
	for _, step := range strings.Fields(script) {
		s.do(step)
	}
	if len(b.log) != len(want) {
		t.Fatalf("%d records, want %d:%s", len(b.log), len(want), s.records())
	}
	for i, r := range b.log {
		x, _ := parseValue(id, want[i])
		v := want[i]
		if len(x.partitions) > 1 {
			v = x.record(level >= 1).Value
		}
		if string(v) != string(r.Value) {
			t.Errorf("record %d:\nKafka %x\ngot   %x", i, v, r.Value)
		}
	}
}

// setLevel finalizes transaction.version.
func (b *bench) setLevel(level int16) {
	b.image = b.withLevel(level)
	b.handle(coordinator.ImageChanged{Image: b.image})
}
