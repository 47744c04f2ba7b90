package metadata

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"moldau/internal/kafka"
)

// The files in testdata were written by Apache Kafka 4.4.0: the metadata log of a cluster of two combined nodes on
// which topics, configs, quotas, ACLs, credentials and a reassignment were made, a snapshot of it at offset 78, and
// what Kafka's dump tool prints of the two ("offset json" per data record).

// logRecord is a data record of a metadata log.
type logRecord struct {
	offset      int64
	value       []byte
	epoch       int32
	timestampMs int64
}

// readLog cuts uncompressed batches into data records; control batches are left out. It trusts its input.
func readLog(t testing.TB, b []byte) []logRecord {
	t.Helper()
	var all []logRecord
	for len(b) > 0 {
		batch := b[:12+binary.BigEndian.Uint32(b[8:])]
		b = b[len(batch):]
		if batch[22]&0x20 != 0 {
			continue
		}
		base := int64(binary.BigEndian.Uint64(batch))
		records := batch[61:]
		for range binary.BigEndian.Uint32(batch[57:]) {
			next := func() int64 {
				n, size := binary.Varint(records)
				records = records[size:]
				return n
			}
			next()                // length
			records = records[1:] // attributes
			next()                // timestamp delta
			r := logRecord{
				offset:      base + next(),
				epoch:       int32(binary.BigEndian.Uint32(batch[12:])),
				timestampMs: int64(binary.BigEndian.Uint64(batch[27:])),
			}
			next() // key length, -1
			n := next()
			r.value, records = records[:n], records[n:]
			next() // header count
			all = append(all, r)
		}
	}
	return all
}

func readGolden(t testing.TB, name string) ([]logRecord, []string) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	return readLog(t, b), strings.Split(strings.TrimSpace(string(text)), "\n")
}

func TestGoldenRecords(t *testing.T) {
	for _, file := range []string{"cluster.log", "cluster.checkpoint"} {
		records, dumped := readGolden(t, file)
		if len(records) != len(dumped) || len(records) < 20 {
			t.Fatalf("%s: %d records, %d dumped", file, len(records), len(dumped))
		}
		for i, lr := range records {
			r, version, err := DecodeVersioned(lr.value)
			if err != nil {
				t.Fatalf("%s offset %d: %v", file, lr.offset, err)
			}
			if got := Encode(nil, r, version); !bytes.Equal(got, lr.value) {
				t.Errorf("%s offset %d: encoded again\n%x\nwant\n%x", file, lr.offset, got, lr.value)
			}
			if got := VersionFor(r, LatestMetadataVersion); got != version {
				t.Errorf("%s offset %d: version for %s is %d, Kafka wrote %d", file, lr.offset, r.Type(), got, version)
			}
			if got := fmt.Sprintf("%d %s", lr.offset, Dump(r, version)); got != dumped[i] {
				t.Errorf("%s: dumped\n%s\nwant\n%s", file, got, dumped[i])
			}
		}
	}
}

// applyEach applies records one by one, which also proves that transactions may span calls.
func applyEach(t testing.TB, i *Image, records []logRecord) *Image {
	t.Helper()
	for _, lr := range records {
		r, err := Decode(lr.value)
		if err != nil {
			t.Fatal(err)
		}
		next, _, err := i.Apply([]Record{r})
		if err != nil {
			t.Fatalf("offset %d: %v", lr.offset, err)
		}
		i = next.WithPosition(kafka.Offset(lr.offset), kafka.LeaderEpoch(lr.epoch), lr.timestampMs)
	}
	return i
}

// snapshotLines is an image as the dump of its snapshot, one record a line.
func snapshotLines(i *Image) []string {
	var lines []string
	mv := max(i.MetadataVersion(), MinMetadataVersion)
	for r := range i.Records(mv) {
		lines = append(lines, Dump(r, VersionFor(r, mv)))
	}
	return lines
}

// canonical is a record of a snapshot of Kafka's as an image would give it: feature ranges sorted by name.
func canonical(t *testing.T, value []byte) string {
	t.Helper()
	r, version, err := DecodeVersioned(value)
	if err != nil {
		t.Fatal(err)
	}
	switch r := r.(type) {
	case *RegisterBrokerRecord:
		r.Features = byName(r.Features)
	case *RegisterControllerRecord:
		r.Features = byName(r.Features)
	}
	return Dump(r, version)
}

func TestGoldenImage(t *testing.T) {
	log, _ := readGolden(t, "cluster.log")
	checkpoint, _ := readGolden(t, "cluster.checkpoint")
	n := slices.IndexFunc(log, func(r logRecord) bool { return r.offset >= 78 })
	got := snapshotLines(applyEach(t, nil, log[:n]))
	if d := cmp.Diff(snapshotLines(applyEach(t, nil, checkpoint)), got); d != "" {
		t.Errorf("image of the snapshot against image of the log:\n%s", d)
	}

	// Kafka's order within a kind of record is that of a hash map; that of kinds is fixed.
	var want []string
	for _, lr := range checkpoint {
		want = append(want, canonical(t, lr.value))
	}
	kinds := func(lines []string) (out []string) {
		for _, line := range lines {
			kind, _, _ := strings.Cut(line, ",")
			out = append(out, kind)
		}
		return out
	}
	if d := cmp.Diff(kinds(want), kinds(got)); d != "" {
		t.Errorf("kinds of records against Kafka's:\n%s", d)
	}
	if got[0] != want[0] {
		t.Errorf("first record %s, Kafka's %s", got[0], want[0])
	}
	slices.Sort(want)
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("snapshot against Kafka's:\n%s", d)
	}
}

func TestGoldenState(t *testing.T) {
	log, _ := readGolden(t, "cluster.log")
	i := applyEach(t, nil, log)
	alpha, ok := i.Topic("alpha")
	if !ok || alpha.NumPartitions() != 4 || i.TopicCount() != 1 || i.PartitionCount() != 4 {
		t.Fatalf("topics: %+v", alpha)
	}
	p, _ := alpha.Partition(0)
	if p.Leader != 2 || p.LeaderEpoch != 3 || p.PartitionEpoch != 8 || !slices.Equal(p.ISR, []kafka.NodeID{1, 2}) ||
		p.ELR != nil || p.Reassigning() {
		t.Errorf("alpha-0: %+v", p)
	}
	if i.MetadataVersion() != 33 || i.NextProducerID() != 1000 || i.Offset() != 83 || i.Epoch() != 5 {
		t.Errorf("metadata.version %d, next producer id %d, offset %d, epoch %d", i.MetadataVersion(),
			i.NextProducerID(), i.Offset(), i.Epoch())
	}
	b, _ := i.Broker(2)
	if b == nil || b.Epoch != 75 || !b.Active() || b.Cordoned == nil || len(b.LogDirs) != 1 {
		t.Errorf("broker 2: %+v", b)
	}
}
