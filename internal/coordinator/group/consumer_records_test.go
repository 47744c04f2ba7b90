package group

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// TestRecordsOfOtherPrograms: a group written by an older or newer broker goes on.
func TestRecordsOfOtherPrograms(t *testing.T) {
	s := newConsumerShard(t, 1)
	id := kafka.UUID{1: 7}
	s.topic("a", id, 2)
	apply := func(r coordinator.Record) {
		s.log = append(s.log, logged{Record: r, producer: coordinator.NoStamp})
		s.apply(s.m, len(s.log)-1)
	}
	m := newConsumerMember("A")
	m.clientID, m.clientHost, m.topics, m.epoch, m.previous = "c", "/127.0.0.1", []string{"a"}, 3, 3
	m.state = 77 // a state that only a newer program knows
	m.assigned = heldAt(partitions{id: {0, 1}}, 3)
	apply(memberRecord("g", m))
	apply(epochRecord("g", 3, 1))
	apply(coordinator.Record{Key: consumerKey(keyConsumerPartition, "g"), Value: []byte{0, 0, 1, 0}}) // before KIP-1101
	apply(targetRecord("g", "A", partitions{id: {0, 1}}))
	apply(targetMetadataRecord("g", 3, 0))
	old := []byte{0, 0, 0, 0, 0, 3, 0, 0, 0, 3, 127, 2} // before KIP-1251: no assignment epochs
	old = append(appendPartitions(old, id, []int32{0, 1}), 0, 1, 0)
	apply(coordinator.Record{Key: consumerKey(keyCurrentMember, "g", "A"), Value: old})
	s.checkReplay()

	c := s.m.groups["g"].kind.(*consumerGroup)
	if got := c.roster["A"]; got.state != memberUnknown || got.assigned[id][1] != 3 || !c.oldMetadata {
		t.Fatalf("read as %s, old metadata %v", dumpMember(c, got), c.oldMetadata)
	}
	script := &consumerScript{consumerShard: s, topics: map[string]kafka.UUID{"a": id}}
	if got, want := script.command([]string{"hb", "A", "3"}), "FENCED_MEMBER_EPOCH: The state of member A is not known here: "+
		"it must give up all its partitions and join again.\n"; got != want {
		t.Errorf("stays: %s", got)
	}
	if got, want := script.command([]string{"hb", "A", "0", "names=a"}), "A epoch=4 has [a:0,1]\n"; got != want {
		t.Errorf("joins again: %s", got)
	}
	if c.oldMetadata {
		t.Error("the record of the old program is still there")
	}
	s.checkReplay()
}

// FuzzConsumerRecord: no record, however damaged, breaks the machine, and one that is understood reads the same again.
func FuzzConsumerRecord(f *testing.F) {
	files, _ := filepath.Glob("testdata/consumer/golden/*.jsonl")
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			f.Fatal(err)
		}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			var l goldenLine
			if json.Unmarshal(lines.Bytes(), &l) != nil {
				continue
			}
			for _, r := range l.Records {
				if r[1] != "-" {
					f.Add(goldenBytes(f, r[0]), goldenBytes(f, r[1]))
				}
			}
		}
		file.Close()
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		m := New(Options{}, nil)
		if m.Apply(coordinator.Record{Key: key, Value: value}, coordinator.Origin{}) != nil {
			return
		}
		for _, id := range m.ids() {
			c, ok := m.groups[id].kind.(*consumerGroup)
			if !ok {
				continue
			}
			for _, r := range append(c.records(), regexRecords(c)...) {
				if err := m.Apply(r, coordinator.Origin{}); err != nil {
					t.Fatalf("our own record: %v", err)
				}
			}
			before := dumpConsumer(m)
			for _, r := range c.records() {
				if err := m.Apply(r, coordinator.Origin{}); err != nil {
					t.Fatal(err)
				}
			}
			if after := dumpConsumer(m); after != before {
				t.Fatalf("was\n%s\nis\n%s", before, after)
			}
			for _, r := range c.tombstones() {
				if err := m.Apply(r, coordinator.Origin{}); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

func regexRecords(c *consumerGroup) []coordinator.Record {
	var out []coordinator.Record
	for p, r := range c.regexes {
		out = append(out, regexRecord(c.id, p, r))
	}
	return out
}
