package telemetry

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"moldau/internal/kafka"
)

func TestReferenceIsFresh(t *testing.T) {
	const path = "../../docs/reference/metrics.md"
	if os.Getenv("MOLDAU_WRITE_DOCS") != "" {
		if err := os.WriteFile(path, []byte(Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != Reference() {
		t.Error("docs/reference/metrics.md is stale: run MOLDAU_WRITE_DOCS=1 go test ./internal/telemetry")
	}
}

// TestTable holds the rows to Prometheus' naming rules.
func TestTable(t *testing.T) {
	form := regexp.MustCompile(`^moldau_[a-z_]+[a-z]$`)
	seen := map[string]bool{}
	for _, r := range Rows() {
		if !form.MatchString(r.Name) || seen[r.Name] {
			t.Errorf("%s: wrong name, or twice", r.Name)
		}
		seen[r.Name] = true
		if (r.Kind == CounterKind) != strings.HasSuffix(r.Name, "_total") {
			t.Errorf("%s: counters and only they end in _total", r.Name)
		}
		if (r.Kind == HistogramKind) != (len(r.Buckets) > 0) {
			t.Errorf("%s: histograms and only they have buckets", r.Name)
		}
		if !strings.HasSuffix(r.Help, ".") {
			t.Errorf("%s: help is no sentence", r.Name)
		}
	}
}

// scrape gives the served lines without comments.
func scrape(t *testing.T, r *Registry) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != 200 {
		t.Fatal(w.Code, err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(body)) {
		line = strings.TrimSpace(line)
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			out[line[:i]] = line[i+1:]
		}
	}
	return out
}

func expect(t *testing.T, got map[string]string, want map[string]string) {
	t.Helper()
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %q, want %q", k, got[k], v)
		}
	}
}

func TestRequests(t *testing.T) {
	r := NewRegistry()
	q := NewRequests(r, map[int16]string{0: "Produce", 18: "ApiVersions"})
	q.Done(Request{Key: 0, RequestBytes: 100, ReplyBytes: 10, Phases: Phases{Memory: time.Second,
		Handle:  time.Millisecond,
		Pending: 2 * time.Millisecond}})
	q.Done(Request{Key: 0, Code: kafka.NotEnoughReplicas, Dropped: true})
	q.Done(Request{Key: 0, Code: kafka.UnknownServerError})
	q.Done(Request{Key: 0, Code: 3000})
	q.Done(Request{Key: 5})
	q.Done(Request{Key: 99})
	q.Done(Request{Key: -1})
	expect(t, scrape(t, r), map[string]string{
		`moldau_requests_total{api="Produce"}`:                                   "4",
		`moldau_requests_total{api="ApiVersions"}`:                               "0",
		`moldau_request_errors_total{api="Produce",code="NOT_ENOUGH_REPLICAS"}`:  "1",
		`moldau_request_errors_total{api="Produce",code="UNKNOWN_SERVER_ERROR"}`: "1",
		`moldau_request_bytes_total{api="Produce"}`:                              "100",
		`moldau_response_bytes_total{api="Produce"}`:                             "10",
		`moldau_responses_dropped_total{api="Produce"}`:                          "1",
		`moldau_request_seconds_count{api="Produce"}`:                            "4",
		`moldau_request_seconds_sum{api="Produce"}`:                              "0.003",
		`moldau_request_phase_seconds_total{api="Produce",phase="memory"}`:       "1",
		`moldau_request_phase_seconds_total{api="Produce",phase="pending"}`:      "0.002",
		`moldau_request_seconds_bucket{api="Produce",le="0.005"}`:                "4",
		`moldau_request_errors_total{api="Produce",code="UNKNOWN_CODE_3000"}`:    "1",
	})
}

func TestConnectionsAndMemory(t *testing.T) {
	r := NewRegistry()
	c := NewConnections(r, "PLAINTEXT")
	c.Opened()
	c.Opened()
	c.Closed("peer")
	c.Refused("too-many-by-ip")
	used := int64(7)
	WatchMemory(r, []Memory{{"bulk", 100, func() int64 { return used }}, {"small", 10, func() int64 { return 1 }}},
		func() int { return 3 })
	used = 8
	expect(t, scrape(t, r), map[string]string{
		`moldau_connections{listener="PLAINTEXT"}`:                                       "1",
		`moldau_connections_opened_total{listener="PLAINTEXT"}`:                          "2",
		`moldau_connections_closed_total{listener="PLAINTEXT",reason="peer"}`:            "1",
		`moldau_connections_refused_total{listener="PLAINTEXT",reason="too-many-by-ip"}`: "1",
		`moldau_memory_limit_bytes{pool="bulk"}`:                                         "100",
		`moldau_memory_used_bytes{pool="bulk"}`:                                          "8",
		`moldau_memory_used_bytes{pool="small"}`:                                         "1",
		`moldau_memory_waiting_connections`:                                              "3",
	})
}

func TestStorageAndTopics(t *testing.T) {
	r := NewRegistry()
	d := NewDir(r, "/d\xff")
	d.FlushSeconds.Observe(3 * time.Millisecond)
	d.FlushPartitions.ObserveCount(100)
	d.FileSystemSyncs.Inc()
	d.Offline.SetBool(true)
	d.ScrubProgress.SetFloat(0.25)
	logs := NewLogs(r)
	logs.Bytes.Add(1 << 20)
	logs.DeletedByTime.Segments.Inc()
	logs.Rejected(kafka.InvalidRecord)
	topics := NewTopics(r)
	topics.Of("a").Bytes.Add(5)
	topics.Of("a").Bytes.Add(5)
	topics.Of("b").FetchedBytes.Add(1)
	expect(t, scrape(t, r), map[string]string{
		`moldau_flush_partitions_bucket{dir="/d?",le="128"}`:   "1",
		`moldau_flush_seconds_count{dir="/d?"}`:                "1",
		`moldau_flush_syncs_total{call="syncfs",dir="/d?"}`:    "1",
		`moldau_dir_offline{dir="/d?"}`:                        "1",
		`moldau_scrub_progress_ratio{dir="/d?"}`:               "0.25",
		`moldau_appended_bytes_total`:                          "1.048576e+06",
		`moldau_segments_deleted_total{reason="time"}`:         "1",
		`moldau_rejected_batches_total{code="INVALID_RECORD"}`: "1",
		`moldau_topic_appended_bytes_total{topic="a"}`:         "10",
		`moldau_topic_fetched_bytes_total{topic="b"}`:          "1",
	})
	old := topics.Of("a")
	topics.Forget("a")
	topics.Forget("never")
	old.Bytes.Add(1)
	if got := scrape(t, r); got[`moldau_topic_appended_bytes_total{topic="a"}`] != "" || got[`moldau_topic_appended_bytes_total{topic="b"}`] != "0" {
		t.Error("a deleted topic stays, or another goes")
	}
	topics.Of("a").Bytes.Add(2)
	expect(t, scrape(t, r), map[string]string{`moldau_topic_appended_bytes_total{topic="a"}`: "2"})
}

// TestGroupLagComesAndGoes: series follow what is watched, and an unknown age has none.
func TestGroupLagComesAndGoes(t *testing.T) {
	r := NewRegistry()
	lags := []GroupLag{{Group: "g", Topic: "t", Partition: "0", Records: 7, Seconds: 1.5},
		{Group: "g\xff", Topic: "t", Partition: "1", Records: 2, Seconds: -1}}
	WatchGroupLag(r, func() []GroupLag { return lags }).Set(3)
	got := scrape(t, r)
	expect(t, got, map[string]string{
		`moldau_group_lag_records{group="g",partition="0",topic="t"}`:  "7",
		`moldau_group_lag_seconds{group="g",partition="0",topic="t"}`:  "1.5",
		`moldau_group_lag_records{group="g?",partition="1",topic="t"}`: "2",
		`moldau_group_lag_seconds{group="g?",partition="1",topic="t"}`: "",
		`moldau_group_lag_hidden_partitions`:                           "3",
	})
	lags = nil
	if got := scrape(t, r); got[`moldau_group_lag_records{group="g",partition="0",topic="t"}`] != "" {
		t.Error("the lag of a group that is gone is still served")
	}
}

// TestEveryRowHasAHandle makes every group of handles and finds every metric of the table served.
func TestEveryRowHasAHandle(t *testing.T) {
	r := NewRegistry().WithProcess()
	NewRequests(r, map[int16]string{0: "Produce"}).Done(Request{Code: kafka.InvalidRecord})
	NewTransactions(r)
	c := NewConnections(r, "L")
	c.Closed("peer")
	c.Refused("x")
	WatchMemory(r, []Memory{{"bulk", 1, func() int64 { return 0 }}}, func() int { return 0 })
	NewWaiting(r, "fetch")
	NewFetchSessions(r)
	NewDir(r, "d")
	NewLogs(r).Rejected(kafka.CorruptMessage)
	NewTopics(r).Of("t")
	NewCleaner(r)
	NewPartitions(r)
	NewReplicas(r)
	NewController(r)
	zero := func() int64 { return 0 }
	WatchLogs(r, zero, zero, zero)
	WatchControl(r, zero, zero)
	NewQuorum(r)
	NewCoordinator(r, "group", func() CoordinatorCounts { return CoordinatorCounts{} })
	NewProcess(r, "v", time.Unix(5, 0))
	NewLogger(io.Discard, LogOptions{Registry: r})
	WatchGroupLag(r, func() []GroupLag { return []GroupLag{{Group: "g"}} })
	WatchReplicaLag(r, func() []ReplicaLag { return []ReplicaLag{{Topic: "t"}} })
	got := scrape(t, r)
	for _, row := range Rows() {
		name := row.Name
		if row.Kind == HistogramKind {
			name += "_count"
		}
		found := false
		for series := range got {
			base, _, _ := strings.Cut(series, "{")
			found = found || base == name
		}
		if !found {
			t.Errorf("%s is declared and nobody makes it", row.Name)
		}
	}
	if got["moldau_start_time_seconds"] != "5" || got["go_goroutines"] == "" {
		t.Error("the process is not described")
	}
}

// TestHandlesAreComplete: no field of a group is left without a metric.
func TestHandlesAreComplete(t *testing.T) {
	r := NewRegistry()
	for _, group := range []any{*NewDir(r, "d"), *NewLogs(r), *NewTopics(r).Of("t"), NewCleaner(r), NewPartitions(r), NewReplicas(r),
		NewController(r), NewQuorum(r),
		NewWaiting(r, "fetch"), NewFetchSessions(r), NewProcess(r, "v", time.Now())} {
		v := reflect.ValueOf(group)
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Errorf("%s.%s has no metric", v.Type(), v.Type().Field(i).Name)
			}
		}
	}
}

func TestZeroHandlesAreSafe(t *testing.T) {
	var d Dir
	d.Flushes.Inc()
	d.Flushes.Add(2)
	d.Flushes.AddSeconds(time.Second)
	d.FlushSeconds.Observe(time.Second)
	d.FlushPartitions.ObserveCount(1)
	d.Offline.SetBool(true)
	d.Bytes.Set(1)
	d.Bytes.Add(1)
	d.RecoverySeconds.SetSeconds(time.Second)
}

func TestFuncs(t *testing.T) {
	r := NewRegistry()
	n := 1.0
	r.CounterFunc(func() float64 { return n }, "moldau_snapshots_total")
	n = 4
	expect(t, scrape(t, r), map[string]string{"moldau_snapshots_total": "4"})
}

func TestConcurrentUse(t *testing.T) {
	r := NewRegistry()
	q := NewRequests(r, map[int16]string{0: "Produce"})
	topics := NewTopics(r)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				q.Done(Request{Code: kafka.InvalidRecord, Phases: Phases{Handle: time.Microsecond}})
				topics.Of("t").Records.Inc()
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			scrape(t, r)
		}
	})
	wg.Wait()
	expect(t, scrape(t, r),
		map[string]string{`moldau_request_errors_total{api="Produce",code="INVALID_RECORD"}`: "1600",
			`moldau_topic_appended_records_total{topic="t"}`: "1600"})
}

func TestLogger(t *testing.T) {
	r := NewRegistry()
	var text, line bytes.Buffer
	level := new(slog.LevelVar)
	log := NewLogger(&text, LogOptions{Level: level, Registry: r}).With("partition", 3)
	log.Debug("hidden")
	log.Info("shown", "took", 1500*time.Microsecond)
	level.Set(slog.LevelDebug)
	log.WithGroup("g").Debug("now shown", "time", 5)
	log.Error("broken")
	got := regexp.MustCompile(`time=\S+`).ReplaceAllString(text.String(), "time=T")
	want := "time=T level=INFO msg=shown partition=3 took=1.5ms\ntime=T level=DEBUG msg=\"now shown\" partition=3 g.time=T\n" +
		"time=T level=ERROR msg=broken partition=3\n"
	if want = strings.Replace(want, "g.time=T", "g.time=5", 1); strings.ReplaceAll(got, "g.time=T",
		"g.time=5") != want {
		t.Errorf("got\n%s", got)
	}
	if !regexp.MustCompile(`^time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[Z+-]`).MatchString(text.String()) {
		t.Error(text.String())
	}
	expect(t, scrape(t, r), map[string]string{`moldau_log_messages_total{level="info"}`: "1",
		`moldau_log_messages_total{level="debug"}`: "1", `moldau_log_messages_total{level="error"}`: "1"})
	NewLogger(&line, LogOptions{JSON: true}).Warn("w", "took", time.Second)
	var fields map[string]any
	if err := json.Unmarshal(line.Bytes(),
		&fields); err != nil || fields["level"] != "WARN" || fields["took"] != "1s" {
		t.Error(err, line.String())
	}
	if _, err := ParseLevel("loud"); err == nil {
		t.Error("loud is a level")
	}
	if l, err := ParseLevel(" warn"); err != nil || l != slog.LevelWarn {
		t.Error(l, err)
	}
}

func BenchmarkDone(b *testing.B) {
	q := NewRequests(NewRegistry(), map[int16]string{0: "Produce"})
	x := Request{RequestBytes: 16384, ReplyBytes: 100, Phases: Phases{Handle: time.Microsecond,
		Pending: time.Millisecond, Send: time.Microsecond}}
	b.ReportAllocs()
	for b.Loop() {
		q.Done(x)
	}
}

func BenchmarkCounter(b *testing.B) {
	c := NewRegistry().Counter("moldau_appended_bytes_total")
	for b.Loop() {
		c.Add(16384)
	}
}
