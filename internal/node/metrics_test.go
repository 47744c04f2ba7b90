package node

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
	"moldau/internal/telemetry"
)

// quiet are the metrics that a healthy node never moves, or that are back at nothing when all is done. Every other one
// has to move in TestEveryMetricIsFed: a declared metric that no code feeds looks like good news for ever.
var quiet = map[string]string{
	"moldau_responses_dropped_total":            "a client that leaves while it is being answered",
	"moldau_memory_used_bytes":                  "back at nothing",
	"moldau_memory_waiting_connections":         "memory is exhausted",
	"moldau_waiting_requests":                   "back at nothing",
	"moldau_fetch_session_evictions_total":      "more than two minutes of disuse",
	"moldau_dir_offline":                        "a disk fails",
	"moldau_dir_full":                           "a disk is full",
	"moldau_flush_errors_total":                 "a disk fails",
	"moldau_recovery_partitions":                "back at nothing",
	"moldau_recovery_cut_bytes_total":           "a torn batch",
	"moldau_scrub_errors_total":                 "damage",
	"moldau_damaged_batches_total":              "damage",
	"moldau_cleaner_running_partitions":         "back at nothing",
	"moldau_cleaner_uncleanable_partitions":     "damage",
	"moldau_cleaner_failures_total":             "a disk fails",
	"moldau_producer_ids":                       "back at nothing",
	"moldau_under_replicated_partitions":        "several brokers",
	"moldau_under_min_isr_partitions":           "several brokers",
	"moldau_isr_changes_total":                  "several brokers",
	"moldau_replica_fetchers":                   "several brokers",
	"moldau_replica_max_lag_records":            "several brokers",
	"moldau_replica_copied_bytes_total":         "several brokers",
	"moldau_replica_sent_bytes_total":           "several brokers",
	"moldau_replica_lag_records":                "comes and goes with several brokers",
	"moldau_replica_fetch_errors_total":         "several brokers",
	"moldau_offline_replicas":                   "damage",
	"moldau_controller_queue_length":            "back at nothing",
	"moldau_controller_offline_partitions":      "back at nothing",
	"moldau_controller_imbalanced_partitions":   "several brokers",
	"moldau_controller_heartbeats_missed_total": "a broker dies",
	"moldau_metadata_lag_records":               "back at nothing",
	"moldau_metadata_errors_total":              "damage",
	"moldau_group_lag_hidden_partitions":        "more partitions with offsets than are served",
	"moldau_hanging_transactions":               "a transaction that nobody verified",
	"moldau_coordinator_parked_requests":        "back at nothing",
	"moldau_coordinator_waiting_requests":       "back at nothing",
	"moldau_coordinator_load_bad_records_total": "damage",
	"moldau_coordinator_load_failures_total":    "a disk fails",
	"moldau_coordinator_append_errors_total":    "a disk fails",
	"moldau_coordinator_commit_timeouts_total":  "several brokers",
}

// rounds is a node whose life shows in its metrics.
type rounds struct {
	t        *testing.T
	fs       *vfs.Mem
	skew     atomic.Int64 // by which the node's clock is ahead
	node     *Node
	registry *telemetry.Registry
	client   *wire
}

func (r *rounds) start() {
	r.t.Helper()
	static, err := config.Load([]config.Layer{config.MapLayer("test", map[string]string{
		"log.dirs": "/data", "listeners": "PLAINTEXT://127.0.0.1:0", "max.connections.per.ip": "3",
		"moldau.producer.ids.max": "1", "log.segment.bytes": "1048576", "metadata.log.max.snapshot.interval.ms": "1",
	})}, config.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	r.registry = telemetry.NewRegistry()
	r.node, err = Start(ctx, Options{Config: static, FS: r.fs, Log: slog.New(slog.NewTextHandler(r.t.Output(), nil)),
		NoAdmin: true, Metrics: r.registry, Now: func() time.Time { return time.Now().Add(time.Duration(r.skew.Load())) }, Version: "test"})
	if err != nil {
		r.t.Fatal(err)
	}
	c, err := net.Dial("tcp", r.node.Addresses()[0].String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.client = &wire{Conn: c}
}

func (r *rounds) ask(q kmsg.Request) kmsg.Response {
	r.t.Helper()
	resp, err := r.client.ask(q)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp
}

func (r *rounds) create(topic string, configs ...string) {
	r.t.Helper()
	q := kmsg.NewPtrCreateTopicsRequest()
	q.SetVersion(6)
	x := kmsg.NewCreateTopicsRequestTopic()
	x.Topic, x.NumPartitions, x.ReplicationFactor = topic, 1, 1
	for i := 0; i < len(configs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = configs[i], &configs[i+1]
		x.Configs = append(x.Configs, c)
	}
	q.Topics = append(q.Topics, x)
	if code := r.ask(q).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; code != 0 {
		r.t.Fatalf("%s: %v", topic, kafka.Code(code))
	}
}

func (r *rounds) produce(topic string, batch []byte, want kafka.Code) {
	r.t.Helper()
	q := kmsg.NewPtrProduceRequest()
	q.SetVersion(9)
	q.Acks, q.TimeoutMillis = -1, 10_000
	x := kmsg.NewProduceRequestTopic()
	x.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = batch
	x.Partitions = append(x.Partitions, p)
	q.Topics = append(q.Topics, x)
	if code := kafka.Code(r.ask(q).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode); code != want {
		r.t.Fatalf("produce to %s: %v", topic, code)
	}
}

// fetch reads a topic from offset in a new session, waiting a moment for more than there is.
func (r *rounds) fetch(topic string, offset int64) {
	r.t.Helper()
	q := kmsg.NewPtrFetchRequest()
	q.SetVersion(12)
	q.MaxWaitMillis, q.MinBytes, q.MaxBytes, q.SessionEpoch = 20, 1<<20, 1<<20, 0
	x := kmsg.NewFetchRequestTopic()
	x.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes = offset, 1<<20
	x.Partitions = append(x.Partitions, p)
	q.Topics = append(q.Topics, x)
	if code := r.ask(q).(*kmsg.FetchResponse).ErrorCode; code != 0 {
		r.t.Fatal(kafka.Code(code))
	}
}

// crowd connects until somebody is turned away.
func (r *rounds) crowd() {
	r.t.Helper()
	var all []net.Conn
	for range 4 {
		c, err := net.Dial("tcp", r.node.Addresses()[0].String())
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, c)
	}
	_ = all[3].SetReadDeadline(time.Now().Add(patience))
	if _, err := all[3].Read(make([]byte, 1)); err == nil {
		r.t.Fatal("a connection too many is served")
	}
	for _, c := range all {
		_ = c.Close()
	}
}

func encoded(t *testing.T, size int, p *record.Producer) []byte {
	t.Helper()
	return encodedWith(t, nil, size, p)
}

func encodedWith(t *testing.T, key []byte, size int, p *record.Producer) []byte {
	t.Helper()
	b := record.NewBuilder(record.Options{Producer: p})
	b.Append(time.Now().UnixMilli(), key, make([]byte, size), nil)
	out, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// deleteRecords moves the start of a topic's log to its end.
func (r *rounds) deleteRecords(topic string) {
	r.t.Helper()
	q := kmsg.NewPtrDeleteRecordsRequest()
	q.SetVersion(2)
	q.TimeoutMillis = 10_000
	x := kmsg.NewDeleteRecordsRequestTopic()
	x.Topic = topic
	x.Partitions = append(x.Partitions, kmsg.DeleteRecordsRequestTopicPartition{Partition: 0, Offset: -1})
	q.Topics = append(q.Topics, x)
	if code := r.ask(q).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
		r.t.Fatal(kafka.Code(code))
	}
}

// commit commits an offset.
func (r *rounds) commit() {
	r.t.Helper()
	if err := commit(r.t, r.node, "g", "plain", 1); err != nil {
		r.t.Fatal(err)
	}
}

// compact lets the cleaner work on a topic whose one key was written several times.
func (r *rounds) compact() {
	r.t.Helper()
	for range 3 {
		r.produce("keyed", encodedWith(r.t, []byte("k"), 600<<10, nil), kafka.None)
	}
	c, u := newCleaner(r.node), r.node.upkeep
	p, dirt := c.pick(u)
	if p == nil {
		r.t.Fatal("nothing to compact")
	}
	c.clean(u, p, dirt, c.settings())
	c.release(p)
}

// live does what moves the metrics of a node.
func (r *rounds) live() {
	r.t.Helper()
	r.produce("plain", encoded(r.t, 100, nil), kafka.None)
	known := &record.Producer{ID: 77}
	r.produce("plain", encoded(r.t, 100, known), kafka.None)
	r.produce("plain", encoded(r.t, 100, known), kafka.None) // a duplicate
	r.produce("plain", encoded(r.t, 100, &record.Producer{ID: 78}), kafka.PolicyViolation)
	r.produce("packed", encoded(r.t, 100, nil), kafka.None)
	for range 3 {
		r.produce("plain", encoded(r.t, 600<<10, nil), kafka.None)
	}
	r.compact()
	r.fetch("plain", 0)
	r.fetch("plain", 5)
	r.crowd()
	r.commit()
	for range 200 { // the snapshot is written beside everything else
		if r.value("moldau_snapshots_total") > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	u := r.node.upkeep
	u.lag.compute()
	u.scrubPass(r.node.dirs.online[0], 1<<40)
	r.deleteRecords("plain")
	u.retain()
	u.survey()
	u.space()
	if n := r.value("moldau_producer_ids"); n != 1 {
		r.t.Errorf("%g producer ids are remembered instead of one", n)
	}
	r.skew.Store(int64(48 * time.Hour))
	u.expire()
	if n := r.node.producerCount.Load(); n != 0 {
		r.t.Errorf("%d producer ids are remembered after their time", n)
	}
	createTransactions(r.t, r.node)
	begin(r.t, r.node, "etl", "plain")
	r.skew.Add(int64(time.Second))
	u.txns.compute(r.node.o.Now())
	r.node.log.Info("the day is over")
}

// TestEveryMetricIsFed lives through a node's ordinary and less ordinary moments. Afterwards each declared metric must be
// served, and each that a healthy lone node moves must have moved.
func TestEveryMetricIsFed(t *testing.T) {
	r := &rounds{t: t, fs: vfs.NewMem(vfs.MemOptions{})}
	r.start()
	r.create("plain")
	r.create("packed", "compression.type", "gzip")
	r.create("keyed", "cleanup.policy", "compact")
	r.produce("plain", encoded(t, 100, nil), kafka.None)
	createOffsets(t, r.node, 1)
	r.commit()
	r.fs.Crash()
	r.node.Kill()
	r.fs = r.fs.KillClone()
	r.start()
	defer func() { r.node.Kill() }()
	r.live()
	served := r.scrape()
	for _, row := range telemetry.Rows() {
		v, ok := served[row.Name]
		if why, healthy := quiet[row.Name]; !ok && strings.HasPrefix(why, "comes and goes") {
			continue
		} else if !ok {
			t.Errorf("%s is declared and not served", row.Name)
		} else if v == 0 && !healthy {
			t.Errorf("%s has not moved", row.Name)
		} else if v != 0 && healthy && strings.HasPrefix(why, "several") {
			t.Errorf("%s is %g on a lone node", row.Name, v)
		}
		delete(served, row.Name)
	}
	for name := range served {
		t.Errorf("%s is served and not declared", name)
	}
}

func (r *rounds) value(name string) float64 { return r.scrape()[name] }

// scrape gives the largest value of each family, of histograms the count.
func (r *rounds) scrape() map[string]float64 { return scrape(r.t, r.registry) }

func scrape(t *testing.T, registry *telemetry.Registry) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	registry.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != 200 {
		t.Fatal(w.Code, err)
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		series, number, ok := strings.Cut(strings.TrimSpace(line), " ")
		if i := strings.LastIndexByte(line, ' '); i > 0 {
			series, number = line[:i], strings.TrimSpace(line[i:])
		}
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		name, _, _ := strings.Cut(series, "{")
		if strings.HasSuffix(name, "_bucket") || strings.HasSuffix(name, "_sum") {
			continue
		}
		v, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		name = strings.TrimSuffix(name, "_count")
		out[name] = max(out[name], v)
	}
	return out
}
