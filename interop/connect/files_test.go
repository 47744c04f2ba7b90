package connect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/interop/broker"
	"moldau/interop/committed"
	"moldau/interop/kafka"
	"moldau/interop/process"
)

// worker is a distributed worker of Connect.
type worker struct {
	*process.Program
	t   *testing.T
	url string
}

// newWorker describes a worker for n that keeps the offsets of sources in the transactions of their records.
func newWorker(t *testing.T, n *process.Node) *worker {
	t.Helper()
	dir := t.TempDir()
	url := fmt.Sprintf("http://127.0.0.1:%d", process.FreePort(t))
	file := kafka.WriteProperties(t, dir, map[string]string{
		"bootstrap.servers":                 n.Addr,
		"group.id":                          "workers",
		"listeners":                         url,
		"key.converter":                     "org.apache.kafka.connect.storage.StringConverter",
		"value.converter":                   "org.apache.kafka.connect.storage.StringConverter",
		"config.storage.topic":              "connect-configs",
		"offset.storage.topic":              "connect-offsets",
		"status.storage.topic":              "connect-status",
		"config.storage.replication.factor": "1",
		"offset.storage.replication.factor": "1",
		"status.storage.replication.factor": "1",
		"offset.storage.partitions":         "3",
		"status.storage.partitions":         "2",
		"exactly.once.source.support":       "enabled",
		"offset.flush.interval.ms":          "500",
		"consumer.isolation.level":          "read_committed",
		"consumer.auto.offset.reset":        "earliest",
		// A dead worker is missed soon, and its work is not kept for it.
		"session.timeout.ms":               "3000",
		"heartbeat.interval.ms":            "500",
		"rebalance.timeout.ms":             "5000",
		"scheduled.rebalance.max.delay.ms": "0",
		"producer.transaction.timeout.ms":  "10000",
		"consumer.session.timeout.ms":      "3000",
		"consumer.heartbeat.interval.ms":   "500",
	})
	return &worker{t: t, url: url, Program: process.NewProgram(t, dir, func() *exec.Cmd {
		return kafka.Connect(t, "org.apache.kafka.connect.cli.ConnectDistributed", file)
	})}
}

// configure creates a connector or leaves one that is there as it is, as soon as the worker is up.
func (w *worker) configure(ctx context.Context, name string, config map[string]string) {
	w.t.Helper()
	body, err := json.Marshal(config)
	if err != nil {
		w.t.Fatal(err)
	}
	for {
		code, answer := w.put(ctx, "/connectors/"+name+"/config", body)
		if code == http.StatusCreated || code == http.StatusOK {
			return
		}
		w.MustRun()
		if ctx.Err() != nil {
			w.t.Fatalf("connector %s: %d %s\n%s", name, code, answer, w.Tail())
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (w *worker) put(ctx context.Context, path string, body []byte) (code int, answer string) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, w.url+path, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// lineOf is one line of the files, of fixed width: a worker that dies may leave one without its end.
var lineOf = regexp.MustCompile(`line-(\d{9})`)

// TestFiles: lines that are added to a file go to a topic and from there to another file. Workers and the broker are
// killed meanwhile: readers of committed records see each line once and in order, and the last file misses none.
func TestFiles(t *testing.T) {
	kafka.ConnectLibs(t)
	lines, rnd := setup(t, 20_000, 4000)
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute+time.Duration(lines)*time.Millisecond)
	defer cancel()
	n := broker.Start(t, "group.min.session.timeout.ms=1000")
	createTopics(ctx, t, n, 1, "lines")
	next := 0
	o := committed.Watch(t, n.Addr, func(r *kgo.Record) error {
		if want := fmt.Sprintf("line-%09d", next); string(r.Value) != want {
			return fmt.Errorf("offset %d is %q, want %q", r.Offset, r.Value, want)
		}
		next++
		return nil
	}, "lines")
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	written := make(chan error, 1)
	go func() { written <- addLines(ctx, in, lines) }()

	workers := []*worker{newWorker(t, n), newWorker(t, n)}
	workers[0].Start()
	workers[0].configure(ctx, "source", map[string]string{
		"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "tasks.max": "1",
		"file": in, "topic": "lines", "exactly.once.support": "required",
	})
	workers[0].configure(ctx, "sink", map[string]string{
		"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "tasks.max": "1",
		"file": out, "topics": "lines",
	})
	if !testing.Short() {
		workers[1].Start()
	}
	killWorkers(ctx, rnd, n, workers, o, lines)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	waitForSink(ctx, t, out, lines)
	for _, w := range workers {
		w.End(syscall.SIGTERM)
	}
	o.Finish(ctx, t)
	if o.Count() != lines {
		t.Errorf("%d lines in the topic, want %d", o.Count(), lines)
	}
	n.Stop(t)
}

// addLines adds lines over some twenty seconds, each 100 in one write.
func addLines(ctx context.Context, name string, lines int) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for i := 0; i < lines && ctx.Err() == nil; i += 100 {
		var b []byte
		for k := i; k < min(i+100, lines); k++ {
			b = fmt.Appendf(b, "line-%09d\n", k)
		}
		if _, err := f.Write(b); err != nil {
			return err
		}
		time.Sleep(20 * time.Second * 100 / time.Duration(lines))
	}
	return ctx.Err()
}

// killWorkers kills a worker each time that more lines are committed, or now and then the broker, until all are.
func killWorkers(ctx context.Context, rnd *rand.Rand, n *process.Node, workers []*worker, o *committed.Reader, lines int) {
	w := workers[0]
	w.t.Helper()
	share := lines / 6
	if testing.Short() {
		share = lines / 3
	}
	for kills := 0; ; kills++ {
		enough := min(lines, o.Count()+share+rnd.IntN(share))
		for ; o.Count() < enough; time.Sleep(20 * time.Millisecond) {
			if err := o.Err(); err != nil {
				w.t.Fatal(err)
			}
			if ctx.Err() != nil {
				w.t.Fatalf("%d of %d lines are committed\n%s", o.Count(), lines, w.Tail())
			}
		}
		if enough == lines {
			w.t.Logf("%d kills", kills)
			return
		}
		w.t.Logf("kill with %d of %d lines committed", o.Count(), lines)
		if kills%3 == 2 {
			n.Kill()
			n.Start(w.t)
			continue
		}
		running := len(workers)
		if testing.Short() {
			running = 1
		}
		victim := workers[rnd.IntN(running)]
		victim.End(syscall.SIGKILL)
		victim.Start()
	}
}

// waitForSink waits until every line is in the file. What comes again must be a line that was there before.
func waitForSink(ctx context.Context, t *testing.T, name string, lines int) {
	t.Helper()
	for {
		b, err := os.ReadFile(name)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		next, again := 0, 0
		for _, m := range lineOf.FindAllSubmatch(b, -1) {
			switch k, _ := strconv.Atoi(string(m[1])); {
			case k == next:
				next++
			case k < next:
				again++
			default:
				t.Fatalf("the sink has line %d after %d", k, next-1)
			}
		}
		if next == lines {
			t.Logf("the sink has %d lines again", again)
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("the sink has %d of %d lines", next, lines)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// setup tells how many records go through.
func setup(t *testing.T, usual, short int) (records int, rnd *rand.Rand) {
	t.Helper()
	if testing.Short() {
		usual = short
	}
	records = setting(t, "CONNECT_RECORDS", usual)
	seed := setting(t, "CONNECT_SEED", int(time.Now().UnixNano()%100000))
	t.Logf("CONNECT_RECORDS=%d CONNECT_SEED=%d", records, seed)
	return records, rand.New(rand.NewPCG(uint64(seed), 1))
}

func setting(t *testing.T, name string, usual int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return usual
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func createTopics(ctx context.Context, t *testing.T, n *process.Node, partitions int32, topics ...string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	made, err := kadm.NewClient(cl).CreateTopics(ctx, partitions, 1, nil, topics...)
	if err == nil {
		err = made.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}
