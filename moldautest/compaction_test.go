package moldautest_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/moldautest"
)

// TestCompaction runs a node whose cleaner never rests: readers see the newest value of each key the whole time, the log
// gets small, and neither a stop nor a power cut brings anything back.
func TestCompaction(t *testing.T) {
	n := moldautest.Start(t, moldautest.Config("log.cleaner.backoff.ms", "5"), moldautest.Seed(1))
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	one := func(s string) *string { return &s }
	_, err := kadm.NewClient(n.Client(t)).CreateTopic(ctx, 1, 1, map[string]*string{"cleanup.policy": one("compact"),
		"segment.ms": one("1"), "min.cleanable.dirty.ratio": one("0.01"), "delete.retention.ms": one("0"),
		"file.delete.delay.ms": one("0")}, "table")
	if err != nil {
		t.Fatal(err)
	}
	want, written := map[string]string{}, 0
	at := time.Now().Add(-time.Hour)
	put := func(c *kgo.Client) {
		t.Helper()
		at = at.Add(time.Second) // a segment of its own
		key := fmt.Sprint("key-", written%7)
		r := &kgo.Record{Topic: "table", Key: []byte(key), Timestamp: at}
		if written%11 != 0 {
			r.Value = fmt.Append(nil, written)
			want[key] = string(r.Value)
		} else {
			delete(want, key)
		}
		if err := c.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		written++
	}
	check := func(when string) int {
		t.Helper()
		got, records := readTable(ctx, t, n, written)
		if !maps.Equal(got, want) {
			t.Fatalf("%s: %v, want %v", when, got, want)
		}
		return records
	}
	for name, end := range map[string]func(){"stop": func() { n.Stop(t) }, "power cut": n.PowerCut} {
		c := n.Client(t)
		for range 60 {
			put(c)
		}
		check("while compacting")
		for records := check(name); records > 20; records = check(name) {
			if ctx.Err() != nil {
				t.Fatalf("%d records of %d are left", records, written)
			}
			time.Sleep(10 * time.Millisecond)
		}
		end()
		n.Restart(t)
		check("after a " + name)
	}
}

// readTable reads the whole topic, of which the last record has offset end-1, and gives the newest values and how many
// records there are.
func readTable(ctx context.Context, t *testing.T, n *moldautest.Node, end int) (map[string]string, int) {
	t.Helper()
	c := n.Client(t, kgo.ConsumeTopics("table"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer c.Close()
	out, records, last := map[string]string{}, 0, int64(-1)
	for last < int64(end-1) {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset <= last {
				t.Fatalf("offset %d after %d", r.Offset, last)
			}
			last = r.Offset
			records++
			if r.Value == nil {
				delete(out, string(r.Key))
			} else {
				out[string(r.Key)] = string(r.Value)
			}
		})
	}
	return out, records
}
