package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestNearest(t *testing.T) {
	words := []string{"topic", "produce", "consume", "config", "cluster", "completion"}
	for typed, want := range map[string]string{
		"topc": "topic", "tpoic": "topic", "prodcue": "produce", "conf": "config", "zzz": "", "x": "", "clustr": "cluster",
	} {
		if got := nearest(typed, words); got != want {
			t.Errorf("nearest(%q) = %q, want %q", typed, got, want)
		}
	}
}

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for s, want := range map[string]time.Time{
		"15m": now.Add(-15 * time.Minute), "7d": now.Add(-7 * 24 * time.Hour), "1.5d": now.Add(-36 * time.Hour),
		"1700000000000": time.UnixMilli(1700000000000), "2026-03-04T11:00:00Z": now.Add(-time.Hour), "0": time.UnixMilli(0),
	} {
		got, err := parseSince(s, now)
		if err != nil || !got.Equal(want) {
			t.Errorf("parseSince(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "yesterday", "-5m", "d"} {
		if got, err := parseSince(s, now); err == nil {
			t.Errorf("parseSince(%q) = %v, want an error", s, got)
		}
	}
}

func TestFormat(t *testing.T) {
	r := &kgo.Record{Topic: "t", Partition: 3, Offset: 7, Key: []byte("k"), Timestamp: time.UnixMilli(1500),
		Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b"}}}
	print, err := parseFormat(`%t/%p@%o %k=%v %T %D [%h] 100%%\t\\n\n`, "NULL")
	if err != nil {
		t.Fatal(err)
	}
	got, err := print(nil, r)
	if err != nil {
		t.Fatal(err)
	}
	want := "t/3@7 k=NULL 1500 1970-01-01T00:00:01.500Z [a=1,b=] 100%\t\\n\n"
	if string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, bad := range []string{"%", "%x"} {
		if _, err := parseFormat(bad, ""); err == nil {
			t.Errorf("parseFormat(%q) succeeds", bad)
		}
	}
}

// TestJSONRecordRoundTrip holds produce to reading what consume wrote, bytes that are no text included.
func TestJSONRecordRoundTrip(t *testing.T) {
	for _, r := range []*kgo.Record{
		{Key: []byte("k"), Value: []byte("v"), Timestamp: time.UnixMilli(42)},
		{Value: []byte("<a href=\"x\">\n\t\x00 ö"), Timestamp: time.UnixMilli(0)},
		{Key: []byte{0xff, 0}, Value: []byte{}, Timestamp: time.UnixMilli(1),
			Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{0x80}}, {Key: "h", Value: nil}, {Key: "", Value: []byte("x")}}},
		{Key: []byte{}, Timestamp: time.UnixMilli(5)},
	} {
		line, err := appendJSON(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(line), "\n") != 1 {
			t.Errorf("%q is not one line", line)
		}
		got, err := parseJSON(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if diff := cmp.Diff([]any{r.Key, r.Value, r.Headers, r.Timestamp.UnixMilli()},
			[]any{got.Key, got.Value, got.Headers, got.Timestamp.UnixMilli()}); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
}

func TestParseAssignment(t *testing.T) {
	got, err := parseAssignment("0:1,1:2,2")
	if diff := cmp.Diff([][]int32{{0, 1}, {1, 2}, {2}}, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if _, err := parseAssignment("0:x"); err == nil {
		t.Error("a broker id that is no number is taken")
	}
}

func TestPosition(t *testing.T) {
	b := bounds{10, 20}
	for _, c := range []struct {
		at   position
		want int64
	}{
		{position{}, 10}, {position{end: true}, 20}, {position{end: true, back: 3}, 17}, {position{end: true, back: 99}, 10},
		{position{absolute: 15, explicit: true}, 15}, {position{absolute: 20, explicit: true}, 20},
	} {
		if got, err := c.at.in(b); err != nil || got != c.want {
			t.Errorf("%+v: got %d, %v; want %d", c.at, got, err, c.want)
		}
	}
	for _, n := range []int64{9, 21} {
		if _, err := (position{absolute: n, explicit: true}).in(b); err == nil {
			t.Errorf("offset %d is taken", n)
		}
	}
}

func TestProcessStart(t *testing.T) {
	if age := time.Since(processStart()); age < 0 || age > time.Hour {
		t.Errorf("the process is said to be %s old", age)
	}
}

// TestPaceIsOpenLoop holds the clock of bench latency to the schedule, whatever happened before.
func TestPaceIsOpenLoop(t *testing.T) {
	p := newPace(100)
	if d := p.due(50).Sub(p.begun); d != 500*time.Millisecond {
		t.Errorf("record 50 is due after %s", d)
	}
}
