package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"moldau/internal/promise"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type handler = func(*Call, kmsg.Request) *promise.Promise[Reply]

// harness is a server with Produce, Fetch and Metadata, whose handlers a test may replace before it starts.
type harness struct {
	t       testing.TB
	opt     Options
	listen  ListenerOptions
	produce handler
	fetch   handler
	extra   []API

	s    *Server
	l    *Listener
	mem  *MemoryListener
	addr string
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func newHarness(t testing.TB) *harness {
	return &harness{t: t, opt: Options{Log: quiet()}, produce: answerProduce, fetch: answerProduce}
}

// answerProduce answers with an empty response at once.
func answerProduce(_ *Call, r kmsg.Request) *promise.Promise[Reply] {
	return promise.Done(Reply{Body: r.ResponseKind()})
}

// answerMetadata echoes the topics' names.
func answerMetadata(_ *Call, r kmsg.Request) *promise.Promise[Reply] {
	resp := kmsg.NewPtrMetadataResponse()
	for _, t := range r.(*kmsg.MetadataRequest).Topics {
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic = t.Topic
		resp.Topics = append(resp.Topics, topic)
	}
	return promise.Done(Reply{Body: resp})
}

func (h *harness) table() *Table {
	rows := append([]API{
		{Key: 0, Min: 3, Max: 13, Listener: BrokerListener, Handle: func(c *Call, r kmsg.Request) *promise.Promise[Reply] { return h.produce(c, r) }},
		{Key: 1, Min: 4, Max: 18, Listener: BothListeners, Handle: func(c *Call, r kmsg.Request) *promise.Promise[Reply] { return h.fetch(c, r) }},
		{Key: 3, Min: 0, Max: 13, Listener: BrokerListener, Handle: answerMetadata},
	}, h.extra...)
	t, err := NewTable(VersionInfo{}, rows...)
	if err != nil {
		h.t.Fatal(err)
	}
	return t
}

// start serves on a TCP port and in memory, until the test ends.
func (h *harness) start() *harness {
	h.t.Helper()
	if h.opt.Table == nil {
		h.opt.Table = h.table()
	}
	h.startMemory()
	o := h.listen
	o.Name, o.Address = "TCP", "127.0.0.1:0"
	l, err := h.s.Listen(o)
	if err != nil {
		h.t.Fatal(err)
	}
	h.l, h.addr = l, l.Addr().String()
	if err := l.Start(); err != nil {
		h.t.Fatal(err)
	}
	return h
}

// startMemory serves in memory only, which a synctest bubble can wait for.
func (h *harness) startMemory() *harness {
	h.t.Helper()
	if h.opt.Table == nil {
		h.opt.Table = h.table()
	}
	s, err := New(h.opt)
	if err != nil {
		h.t.Fatal(err)
	}
	h.s = s
	h.t.Cleanup(s.Close)
	h.mem = NewMemoryListener("broker:9092")
	o := h.listen
	o.Name, o.Net = "MEMORY", h.mem
	ml, err := s.Listen(o)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := ml.Start(); err != nil {
		h.t.Fatal(err)
	}
	return h
}

// client is a connection of a test.
type client struct {
	net.Conn
	t    testing.TB
	next int32
}

func (h *harness) tcp() *client {
	h.t.Helper()
	c, err := net.Dial("tcp", h.addr)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.client(c)
}

func (h *harness) memory() *client {
	h.t.Helper()
	c, err := h.mem.Dial(context.Background())
	if err != nil {
		h.t.Fatal(err)
	}
	return h.client(c)
}

func (h *harness) client(c net.Conn) *client {
	h.t.Cleanup(func() { c.Close() })
	return &client{Conn: c, t: h.t}
}

// frame encodes a request with the client's next correlation id.
func (c *client) frame(r kmsg.Request) []byte {
	c.next++
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("tester")).AppendRequest(nil, r, c.next)
}

func (c *client) send(r kmsg.Request) {
	c.t.Helper()
	if _, err := c.Write(c.frame(r)); err != nil {
		c.t.Fatal(err)
	}
}

// recv reads one reply: its correlation id and what follows.
func (c *client) recv() (int32, []byte) {
	c.t.Helper()
	id, b, err := c.tryRecv()
	if err != nil {
		c.t.Fatalf("receiving: %v", err)
	}
	return id, b
}

func (c *client) tryRecv() (int32, []byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return 0, nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:])-4)
	_, err := io.ReadFull(c, b)
	return int32(binary.BigEndian.Uint32(head[4:])), b, err
}

// ask sends a request and decodes its reply.
func (c *client) ask(r kmsg.Request) kmsg.Response {
	c.t.Helper()
	c.send(r)
	return c.answer(r)
}

func (c *client) answer(r kmsg.Request) kmsg.Response {
	c.t.Helper()
	_, b := c.recv()
	if r.IsFlexible() && r.Key() != 18 {
		b = b[1:]
	}
	resp := r.ResponseKind()
	if err := resp.ReadFrom(b); err != nil {
		c.t.Fatalf("decoding %T: %v", resp, err)
	}
	return resp
}

// closed waits for the end of the connection and fails if anything else comes first.
func (c *client) closed() {
	c.t.Helper()
	b, err := io.ReadAll(c)
	if len(b) > 0 || err != nil && !isReset(err) {
		c.t.Fatalf("got %d bytes and %v, want the end", len(b), err)
	}
}

func isReset(err error) bool {
	var e *net.OpError
	return errors.As(err, &e)
}

func metadata(version int16, topics ...string) *kmsg.MetadataRequest {
	r := kmsg.NewPtrMetadataRequest()
	r.Version = version
	for _, t := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(t)
		r.Topics = append(r.Topics, topic)
	}
	return r
}

func produce(topic string, records []byte) *kmsg.ProduceRequest {
	r := kmsg.NewPtrProduceRequest()
	r.Version, r.Acks = 11, -1
	r.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: records}}}}
	return r
}

func fetch() *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.Version = 12
	return r
}

// works checks that the server serves on this connection.
func (c *client) works() {
	c.t.Helper()
	resp := c.ask(metadata(9, "alive")).(*kmsg.MetadataResponse)
	if len(resp.Topics) != 1 || *resp.Topics[0].Topic != "alive" {
		c.t.Fatalf("got %+v", resp)
	}
}

// parker is a handler that lets a test complete requests by hand, in order of arrival.
type parker struct {
	mu    sync.Mutex
	calls []*Call
	ps    []*promise.Promise[Reply]
	came  chan int
}

func newParker() *parker { return &parker{came: make(chan int, 1000)} }

func (p *parker) handle(c *Call, _ kmsg.Request) *promise.Promise[Reply] {
	pr := &promise.Promise[Reply]{}
	p.mu.Lock()
	p.calls, p.ps = append(p.calls, c), append(p.ps, pr)
	n := len(p.ps)
	p.mu.Unlock()
	p.came <- n
	return pr
}

// wait gives the n-th promise (from 0) once its request has come.
func (p *parker) wait(n int) *promise.Promise[Reply] {
	for {
		p.mu.Lock()
		if n < len(p.ps) {
			defer p.mu.Unlock()
			return p.ps[n]
		}
		p.mu.Unlock()
		<-p.came
	}
}

func produced() Reply { return Reply{Body: kmsg.NewPtrProduceResponse()} }

// file is an operating system's file as a vfs.File.
type file struct {
	vfs.File
	f        *os.File
	sendable bool
}

func (f *file) ReadAt(b []byte, pos int64) (int, error) { return f.f.ReadAt(b, pos) }
func (f *file) Sendable() (uintptr, bool)               { return f.f.Fd(), f.sendable }

// extents are ranges of one file.
type extents struct {
	f     vfs.File
	parts [][2]int64 // position, length
}

func (e *extents) Size() (n int) {
	for _, p := range e.parts {
		n += int(p[1])
	}
	return n
}

func (e *extents) Parts() iter.Seq2[vfs.File, log.Range] {
	return func(yield func(vfs.File, log.Range) bool) {
		for _, p := range e.parts {
			if !yield(e.f, log.Range{Pos: p[0], Len: int(p[1])}) {
				return
			}
		}
	}
}

func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for range 2000 {
		if f() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("never: " + what)
}

// uncharged waits until no request holds memory.
func (h *harness) uncharged() {
	h.t.Helper()
	eventually(h.t, "all memory given back", func() bool { return h.s.Budget().Use() == BudgetUse{} })
}

// reasons collects why connections closed.
type reasons struct {
	mu   sync.Mutex
	why  []CloseReason
	done []Stats
	no   []CloseReason
}

func (r *reasons) ConnectionOpened(*ConnInfo) {}
func (r *reasons) ConnectionClosed(_ *ConnInfo, why CloseReason) {
	r.mu.Lock()
	r.why = append(r.why, why)
	r.mu.Unlock()
}
func (r *reasons) ConnectionRefused(_ string, why CloseReason) {
	r.mu.Lock()
	r.no = append(r.no, why)
	r.mu.Unlock()
}
func (r *reasons) RequestDone(s Stats) {
	r.mu.Lock()
	r.done = append(r.done, s)
	r.mu.Unlock()
}

func (r *reasons) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.why) == 0 {
		return ""
	}
	return fmt.Sprint(r.why[len(r.why)-1])
}

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
