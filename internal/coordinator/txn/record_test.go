package txn

import (
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// FuzzRecord: no record, however damaged, breaks the machine, and one that is understood reads the same again.
func FuzzRecord(f *testing.F) {
	text, err := os.ReadFile("testdata/bytes.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if v, err := hex.DecodeString(strings.TrimSpace(line)); err == nil && len(v) > 0 {
			f.Add(key("an-id"), v)
		}
	}
	old := transaction{id: "x", producer: coordinator.Stamp{ID: 3, Epoch: 4}, state: Ongoing, partitions: []kafka.TopicPartition{
		{Topic: "a", Partition: 1}, {Topic: "a", Partition: 2}, {Topic: "b"}}}
	f.Add(old.record(false).Key, old.record(false).Value)
	f.Add(key(""), []byte(nil))
	f.Fuzz(func(t *testing.T, k, v []byte) {
		m := New(Options{}, nil)
		if err := m.Apply(coordinator.Record{Key: k, Value: v}, coordinator.Origin{}); err != nil {
			return
		}
		id, err := parseKey(k)
		if again, wrong := parseKey(key(id)); err != nil || wrong != nil || again != id {
			t.Fatalf("key %x reads as %q, %v, and again as %q, %v", k, id, err, again, wrong)
		}
		if v == nil {
			return
		}
		x := m.ids[id].transaction
		r := x.record(v[1] == 1)
		y, err := parseValue(id, r.Value)
		if err != nil {
			t.Fatal(err)
		}
		if x.state == Empty {
			x.partitions = nil
		}
		if !slices.Equal(x.partitions, y.partitions) {
			t.Fatalf("partitions %v read again as %v", x.partitions, y.partitions)
		}
		if again := y.record(v[1] == 1); string(again.Value) != string(r.Value) {
			t.Fatalf("%x reads again as %x", r.Value, again.Value)
		}
	})
}
