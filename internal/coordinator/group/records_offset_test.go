package group

import (
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"

	"moldau/internal/cluster/metadata"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// goldenOffsets are records that Apache Kafka 4.4 wrote for commits of these values, read from its __consumer_offsets.
var goldenOffsets = []struct {
	name, group, topic, key, value string
	c                              committed
}{{
	name: "without a leader epoch, by name", group: "g", topic: "a",
	key:   "000100016700016100000000",
	value: "00040000000000000005ffffffff026d000001a22dbdeaf101001096c745a0b6ec4f8bad45e912489bc5cb",
	c:     committed{offset: 5, leaderEpoch: -1, metadata: "m", commitMs: 0x1a22dbdeaf1, expireMs: noExpiry},
}, {
	name: "without metadata", group: "g", topic: "a",
	key:   "000100016700016100000002",
	value: "000400000000000000070000000301000001a22dbdec3301001096c745a0b6ec4f8bad45e912489bc5cb",
	c:     committed{offset: 7, partition: 2, leaderEpoch: 3, commitMs: 0x1a22dbdec33, expireMs: noExpiry},
}, {
	name: "by id", group: "g3", topic: "a",
	key:   "00010002673300016100000000",
	value: "000400000000000000080000000407c3a9f09d849e000001a22dbdec3801001096c745a0b6ec4f8bad45e912489bc5cb",
	c:     committed{offset: 8, leaderEpoch: 4, metadata: "é\U0001D11E", commitMs: 0x1a22dbdec38, expireMs: noExpiry},
}, {
	name: "of the group without a name", group: "", topic: "a",
	key:   "0001000000016100000000",
	value: "000400000000000000010000000101000001a22dbdecc901001096c745a0b6ec4f8bad45e912489bc5cb",
	c:     committed{offset: 1, leaderEpoch: 1, commitMs: 0x1a22dbdecc9, expireMs: noExpiry},
}, {
	name: "with a retention", group: "g2", topic: "a",
	key:   "00010002673200016100000001",
	value: "0001000000000000000600016d000001a22dbdebf9000001a22dbed659",
	c: committed{offset: 6, partition: 1, leaderEpoch: -1, metadata: "m", commitMs: 0x1a22dbdebf9,
		expireMs: 0x1a22dbdebf9 + 60000},
}, {
	name: "in a transaction", group: "tg", topic: "a",
	key:   "00010002746700016100000001",
	value: "0004000000000000000cffffffff01000001a22dbdf46c01001096c745a0b6ec4f8bad45e912489bc5cb",
	c:     committed{offset: 12, partition: 1, leaderEpoch: -1, commitMs: 0x1a22dbdf46c, expireMs: noExpiry},
}}

func goldenTopicID(t *testing.T) kafka.UUID {
	b, err := hex.DecodeString("96c745a0b6ec4f8bad45e912489bc5cb")
	if err != nil {
		t.Fatal(err)
	}
	return kafka.UUID(b)
}

func TestOffsetRecordsAreKafkas(t *testing.T) {
	for _, x := range goldenOffsets {
		t.Run(x.name, func(t *testing.T) {
			if x.c.expireMs == noExpiry {
				x.c.topicID = goldenTopicID(t)
			}
			r := offsetRecord(x.group, x.topic, &x.c)
			if got := hex.EncodeToString(r.Key); got != x.key {
				t.Errorf("key\n%s, want\n%s", got, x.key)
			}
			if got := hex.EncodeToString(r.Value); got != x.value {
				t.Errorf("value\n%s, want\n%s", got, x.value)
			}
			m := New(Options{}, metadata.New())
			if err := m.Apply(r, coordinator.Origin{Offset: 4, Producer: coordinator.NoStamp}); err != nil {
				t.Fatal(err)
			}
			want := x.c
			want.record = 4
			got, ok := m.groups[x.group].offsets.get(x.topic, x.c.partition)
			if !ok || *got != want {
				t.Errorf("read back %+v, want %+v", got, want)
			}
		})
	}
}

// TestOffsetRecordsOfOldBrokers reads the versions that Kafka has written since 0.8.2.
func TestOffsetRecordsOfOldBrokers(t *testing.T) {
	for _, x := range []struct {
		name, key, value string
		want             committed
	}{{
		name: "version 0", key: "000000016700016100000001", value: "0000" + "0000000000000005" + "00016d" + "0000000000000007",
		want: committed{offset: 5, leaderEpoch: -1, metadata: "m", commitMs: 7, expireMs: noExpiry},
	}, {
		name: "version 1", key: "000100016700016100000001",
		value: "0001" + "0000000000000005" + "00016d" + "0000000000000007" + "0000000000000009",
		want:  committed{offset: 5, leaderEpoch: -1, metadata: "m", commitMs: 7, expireMs: 9},
	}, {
		name: "version 1 without an expiry", key: "000100016700016100000001",
		value: "0001" + "0000000000000005" + "00016d" + "0000000000000007" + "ffffffffffffffff",
		want:  committed{offset: 5, leaderEpoch: -1, metadata: "m", commitMs: 7, expireMs: noExpiry},
	}, {
		name: "version 2", key: "000100016700016100000001", value: "0002" + "0000000000000005" + "0000" + "0000000000000007",
		want: committed{offset: 5, leaderEpoch: -1, commitMs: 7, expireMs: noExpiry},
	}, {
		name: "version 3", key: "000100016700016100000001",
		value: "0003" + "0000000000000005" + "00000002" + "00016d" + "0000000000000007",
		want:  committed{offset: 5, leaderEpoch: 2, metadata: "m", commitMs: 7, expireMs: noExpiry},
	}, {
		name: "version 4 with a tag of a later program", key: "000100016700016100000001",
		value: "0004" + "0000000000000005" + "00000002" + "026d" + "0000000000000007" + "01" + "0902abcd",
		want:  committed{offset: 5, leaderEpoch: 2, metadata: "m", commitMs: 7, expireMs: noExpiry},
	}} {
		t.Run(x.name, func(t *testing.T) {
			m := New(Options{}, metadata.New())
			r := coordinator.Record{Key: unhex(t, x.key), Value: unhex(t, x.value)}
			if err := m.Apply(r, coordinator.Origin{Producer: coordinator.NoStamp}); err != nil {
				t.Fatal(err)
			}
			x.want.partition = 1
			got, _ := m.groups["g"].offsets.get("a", 1)
			if diff := cmp.Diff(&x.want, got, cmp.AllowUnexported(committed{})); diff != "" {
				t.Error(diff)
			}
			// what is cut short is an error and leaves no trace
			for n := range len(r.Value) {
				m := New(Options{}, metadata.New())
				short := coordinator.Record{Key: r.Key, Value: r.Value[:n]}
				if m.Apply(short, coordinator.Origin{Producer: coordinator.NoStamp}) == nil || len(m.groups) > 0 {
					t.Errorf("a value of %d of %d bytes was read", n, len(r.Value))
				}
			}
			for n := range len(r.Key) {
				m := New(Options{}, metadata.New())
				short := coordinator.Record{Key: r.Key[:n], Value: r.Value}
				if m.Apply(short, coordinator.Origin{Producer: coordinator.NoStamp}) == nil || len(m.groups) > 0 {
					t.Errorf("a key of %d of %d bytes was read", n, len(r.Key))
				}
			}
		})
	}
}

func TestOffsetRecordOfALaterVersion(t *testing.T) {
	m := New(Options{}, metadata.New())
	r := coordinator.Record{Key: unhex(t, "000100016700016100000001"), Value: unhex(t, "0005"+"0000000000000005"+"00000000")}
	if m.Apply(r, coordinator.Origin{Producer: coordinator.NoStamp}) == nil || len(m.groups) > 0 {
		t.Error("a version that is not known was read")
	}
	// keys of group types that are not known are left alone (share and streams groups)
	for _, key := range []string{"000900016700", "00ff", "7fff"} {
		if err := m.Apply(coordinator.Record{Key: unhex(t, key)}, coordinator.Origin{}); err != nil {
			t.Errorf("key %s: %v", key, err)
		}
	}
}

func unhex(t *testing.T, s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func FuzzApplyOffset(f *testing.F) {
	for _, x := range goldenOffsets {
		k, _ := hex.DecodeString(x.key)
		v, _ := hex.DecodeString(x.value)
		f.Add(k, v, int64(-1))
		f.Add(k, v, int64(7))
		f.Add(k, []byte(nil), int64(-1))
	}
	f.Fuzz(func(t *testing.T, key, value []byte, producer int64) {
		if len(key) < 2 || key[0] != 0 || key[1] > 1 {
			return
		}
		m := New(Options{}, metadata.New())
		at := coordinator.Origin{Producer: coordinator.Stamp{ID: kafka.ProducerID(producer)}}
		if m.Apply(coordinator.Record{Key: key, Value: value}, at) != nil || value == nil || producer != -1 {
			return
		}
		for id, g := range m.groups { // one
			for topic, c := range g.offsets.all() {
				again := New(Options{}, metadata.New())
				r := offsetRecord(id, topic, c)
				if err := again.Apply(r, at); err != nil {
					t.Fatal(err)
				}
				got, _ := again.groups[id].offsets.get(topic, c.partition)
				want := *c
				if want.expireMs != noExpiry { // the version with an expiry has neither
					want.leaderEpoch, want.topicID = kafka.NoEpoch, kafka.UUID{}
				}
				if *got != want {
					t.Fatalf("%+v became %+v", want, *got)
				}
			}
		}
	})
}
