package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// The suite of hostile clients. Every case is sent on a connection of its own to a whole node. After each, another
// client must be served as if nothing had happened, and after all of them the node must have no more memory and
// goroutines than before. Expectations are what Apache Kafka 4.4 does, unless a case says otherwise.

// long runs every part at full length.
func long() bool { return os.Getenv("MOLDAU_LONG") != "" }

// hostile is one case.
type hostile struct {
	name string
	// send gives the bytes that the connection sends.
	send func(s *suite) []byte
	// want looks at what came back.
	want func(s *suite, c *wire) error
}

// suite is a node under attack, and the client that must not notice.
type suite struct {
	t      testing.TB
	node   *Node
	addr   string
	errors *errorLog
	random *rand.Rand
	good   *wire
	next   int64 // offset of the healthy client's next record
}

// errorLog fails the test when the node logs an error: no client must be able to cause one.
type errorLog struct {
	slog.Handler
	mu   sync.Mutex
	seen []string
}

func (h *errorLog) Enabled(context.Context, slog.Level) bool { return true }

func (h *errorLog) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError {
		text := r.Message
		r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
		h.mu.Lock()
		h.seen = append(h.seen, text)
		h.mu.Unlock()
	}
	return nil
}

func (h *errorLog) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *errorLog) WithGroup(string) slog.Handler      { return h }

func (h *errorLog) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.seen
	h.seen = nil
	return out
}

// newSuite starts a node with the shortest timeouts and the smallest limits on bombs that it allows, so that the cases are
// quick.
func newSuite(t testing.TB, settings map[string]string) *suite {
	t.Helper()
	values := map[string]string{
		"log.dirs": "/data", "listeners": "PLAINTEXT://127.0.0.1:0", "num.partitions": "1",
		"moldau.request.progress.timeout.ms": "1000", "moldau.response.progress.timeout.ms": "1000",
		"moldau.request.pressed.timeout.ms": "1000",
		"moldau.batch.expanded.max.bytes":   "1048576", "moldau.batch.expanded.max.ratio": "1",
		"auto.create.topics.enable": "false",
	}
	for k, v := range settings {
		values[k] = v
	}
	static, err := config.Load([]config.Layer{config.MapLayer("test", values)}, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{t: t, errors: &errorLog{}, random: rand.New(rand.NewPCG(7, 7))}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	s.node, err = Start(ctx, Options{Config: static, FS: vfs.NewMem(vfs.MemOptions{}), Log: slog.New(s.errors), NoAdmin: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.node.Kill)
	s.addr = s.node.Addresses()[0].String()
	s.good = s.dial()
	s.create("healthy")
	return s
}

// wire is a connection of a client that writes bytes rather than requests.
type wire struct {
	net.Conn
	next int32
}

func (s *suite) dial() *wire {
	s.t.Helper()
	c, err := net.DialTimeout("tcp", s.addr, 5*time.Second)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return &wire{Conn: c}
}

// patience is how long an answer or an end may take.
const patience = 10 * time.Second

// frame encodes a request.
func frame(r kmsg.Request, correlation int32) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("tester")).AppendRequest(nil, r, correlation)
}

// raw makes a frame of an API key, a version and the rest of header and body.
func raw(key, version int16, rest ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(rest)))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, 1)
	return append(b, rest...)
}

// receive reads one reply: its correlation id and what follows.
func (c *wire) receive() (int32, []byte, error) {
	_ = c.SetReadDeadline(time.Now().Add(patience))
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 4 || size > 64<<20 {
		return 0, nil, fmt.Errorf("a reply of %d bytes", size)
	}
	b := make([]byte, size-4)
	_, err := io.ReadFull(c, b)
	return int32(binary.BigEndian.Uint32(head[4:])), b, err
}

// read reads the reply to r.
func (c *wire) read(r kmsg.Request, correlation int32) (kmsg.Response, error) {
	id, b, err := c.receive()
	if err != nil {
		return nil, err
	}
	if id != correlation {
		return nil, fmt.Errorf("reply %d instead of %d", id, correlation)
	}
	resp := r.ResponseKind()
	if r.IsFlexible() && r.Key() != 18 {
		if len(b) == 0 || b[0] != 0 {
			return nil, errors.New("no tag section in the header of the reply")
		}
		b = b[1:]
	}
	return resp, resp.ReadFrom(b)
}

// ask sends a request and reads its reply.
func (c *wire) ask(r kmsg.Request) (kmsg.Response, error) {
	c.next++
	if _, err := c.Write(frame(r, c.next)); err != nil {
		return nil, err
	}
	return c.read(r, c.next)
}

// closed wants the connection to end without an answer.
func closed(_ *suite, c *wire) error {
	_ = c.SetReadDeadline(time.Now().Add(patience))
	var b [64]byte
	n, err := c.Read(b[:])
	switch {
	case n > 0:
		return fmt.Errorf("answered with % x", b[:n])
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("the connection stays open")
	}
	return nil
}

// answered wants n replies with the correlation id of raw, and a connection that goes on.
func answered(n int) func(*suite, *wire) error {
	return func(s *suite, c *wire) error {
		for i := range n {
			id, _, err := c.receive()
			if err != nil {
				return fmt.Errorf("reply %d: %w", i, err)
			}
			if id != 1 {
				return fmt.Errorf("reply %d has the correlation id %d", i, id)
			}
		}
		return goesOn(s, c)
	}
}

// goesOn wants the connection's next answer to be that to an ordinary request: nothing was answered before, and it is
// still served.
func goesOn(_ *suite, c *wire) error {
	r := kmsg.NewPtrApiVersionsRequest()
	c.next += 1000
	resp, err := c.ask(r)
	if err != nil {
		return fmt.Errorf("the connection does not go on: %w", err)
	}
	if code := resp.(*kmsg.ApiVersionsResponse).ErrorCode; code != 0 {
		return fmt.Errorf("the connection goes on with %v", kafka.Code(code))
	}
	return nil
}

// either accepts an answer as well as an end: the case is about the others. The client has nothing more to say, so the
// connection must end soon.
func either(_ *suite, c *wire) error {
	_ = c.Conn.(*net.TCPConn).CloseWrite() // fails if the node was quicker
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("the connection stays although the client has ended it")
	}
	return nil
}

// request is a case of a request that can be encoded, and of a look at its answer.
func request(name string, r kmsg.Request, look func(resp kmsg.Response) error) hostile {
	return hostile{name: name,
		send: func(*suite) []byte { return frame(r, 1) },
		want: func(s *suite, c *wire) error {
			resp, err := c.read(r, 1)
			if err != nil {
				return err
			}
			if err := look(resp); err != nil {
				return err
			}
			return goesOn(s, c)
		}}
}

// codes compares the error codes of an answer.
func codes(want ...kafka.Code) func(got []int16) error {
	return func(got []int16) error {
		for i, g := range got {
			if i >= len(want) || kafka.Code(g) != want[i] {
				return fmt.Errorf("codes %v instead of %v", kafkaCodes(got), want)
			}
		}
		if len(got) != len(want) {
			return fmt.Errorf("codes %v instead of %v", kafkaCodes(got), want)
		}
		return nil
	}
}

func kafkaCodes(raw []int16) []kafka.Code {
	out := make([]kafka.Code, len(raw))
	for i, r := range raw {
		out[i] = kafka.Code(r)
	}
	return out
}

// check runs one case and proves that nobody else was hurt.
func (s *suite) check(h hostile) {
	s.t.Helper()
	c := s.dial()
	defer c.Close()
	if _, err := c.Write(h.send(s)); err != nil && !errors.Is(err, net.ErrClosed) && !broken(err) {
		s.t.Errorf("%s: sending: %v", h.name, err)
	}
	if err := h.want(s, c); err != nil {
		s.t.Errorf("%s: %v", h.name, err)
	}
	s.healthy(h.name)
}

// broken says that the peer closed while we were writing, which a refused request may cause.
func broken(err error) bool {
	return strings.Contains(err.Error(), "broken pipe") || strings.Contains(err.Error(), "reset by peer") ||
		strings.Contains(err.Error(), "aborted") || strings.Contains(err.Error(), "forcibly closed")
}

// healthy proves that a client whose connection is older than the case produces and fetches, and that nothing panicked.
func (s *suite) healthy(after string) {
	s.t.Helper()
	value := fmt.Sprint("after ", after)
	resp, err := s.good.ask(produceRequest(9, "healthy", 0, -1, batchOf(value).bytes()))
	if err != nil {
		s.t.Fatalf("after %s: the healthy client cannot produce: %v", after, err)
	}
	p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if p.ErrorCode != 0 || p.BaseOffset != s.next {
		s.t.Fatalf("after %s: the healthy client's record: %v at %d instead of %d", after, kafka.Code(p.ErrorCode),
			p.BaseOffset, s.next)
	}
	resp, err = s.good.ask(fetchRequest(11, "healthy", 0, s.next))
	if err != nil {
		s.t.Fatalf("after %s: the healthy client cannot fetch: %v", after, err)
	}
	s.next++
	f := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	b, _, err := record.Split(f.RecordBatches)
	if f.ErrorCode != 0 || err != nil {
		s.t.Fatalf("after %s: the healthy client fetches %v, %v", after, kafka.Code(f.ErrorCode), err)
	}
	for r, err := range b.Records(record.Limits{}) {
		if err != nil || string(r.Value) != value {
			s.t.Fatalf("after %s: the healthy client fetches %q, %v", after, r.Value, err)
		}
	}
	for _, e := range s.errors.take() {
		s.t.Errorf("after %s the node logged: %s", after, e)
	}
}

// create makes topics of one partition.
func (s *suite) create(topics ...string) {
	s.t.Helper()
	for _, t := range topics {
		s.createWith(t, 1)
	}
}

func (s *suite) createWith(topic string, partitions int32, settings ...string) {
	s.t.Helper()
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version, r.TimeoutMillis = 5, 10_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, partitions, 1
	for pair := range slices.Chunk(settings, 2) {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = pair[0], &pair[1]
		t.Configs = append(t.Configs, c)
	}
	r.Topics = append(r.Topics, t)
	resp, err := s.good.ask(r)
	if err != nil {
		s.t.Fatal(err)
	}
	if code := resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; code != 0 {
		s.t.Fatalf("topic %s: %v", topic, kafka.Code(code))
	}
}

// usage is what must not grow.
type usage struct {
	heap       uint64
	goroutines int
}

func measure() usage {
	runtime.GC()
	runtime.GC() // the second frees what finalizers and pools let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{m.HeapInuse, runtime.NumGoroutine()}
}

// settled waits until no more is used than before, but for an allowance: connections close on their own time, and the disk
// is in memory too.
func (s *suite) settled(before usage) {
	s.t.Helper()
	heap := uint64(24 << 20)
	if long() {
		heap = 96 << 20
	}
	var now usage
	began := time.Now()
	defer func() {
		s.t.Logf("heap %d KiB before and %d after, goroutines %d and %d, settled in %v", before.heap>>10, now.heap>>10,
			before.goroutines, now.goroutines, time.Since(began).Round(time.Millisecond))
	}()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if now = measure(); now.goroutines <= before.goroutines+4 && now.heap <= before.heap+heap {
			return
		}
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	s.t.Errorf("before: %d goroutines, %d KiB of heap; after: %d and %d\n%s", before.goroutines, before.heap>>10,
		now.goroutines, now.heap>>10, stacks[:min(len(stacks), 20_000)])
}

func TestMalformed(t *testing.T) {
	s := newSuite(t, nil)
	s.create("m", "id")
	s.createWith("m-compact", 1, "cleanup.policy", "compact")
	s.createWith("m-small", 1, "max.message.bytes", "300")
	s.createWith("m-time", 1, "message.timestamp.before.max.ms", "1000", "message.timestamp.after.max.ms", "1000")
	s.createWith("m-large", 1, "max.message.bytes", "20000000")
	s.healthy("the start")
	before := measure()
	cases := 0
	for _, group := range []struct {
		name  string
		cases []hostile
	}{
		{"framing", framingCases()}, {"header", headerCases()}, {"layout", layoutCases()}, {"every API", everyAPICases(s)},
		{"produce", produceCases()}, {"records", recordsCases()}, {"idempotent", idempotentCases()}, {"bombs", bombCases()},
		{"fetch", fetchCases(s)}, {"admin", adminCases()}, {"mutations", mutationCases(s)},
	} {
		t.Run(group.name, func(t *testing.T) {
			s.t = t
			defer func() { s.t = nil }()
			for _, h := range group.cases {
				s.check(h)
			}
		})
		cases += len(group.cases)
	}
	s.t = t
	t.Logf("%d cases", cases)
	s.settled(before)
}
