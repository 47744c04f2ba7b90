package server

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// TestPipelinedOrder completes requests in random order and expects the replies in the order of the requests.
func TestPipelinedOrder(t *testing.T) {
	const n = 60
	p := newParker()
	h := newHarness(t)
	h.produce = p.handle
	c := h.start().tcp()
	for range n {
		c.send(produce("t", []byte("x")))
	}
	p.wait(n - 1)
	for _, i := range rand.Perm(n) {
		go p.wait(i).Set(produced())
	}
	for i := range int32(n) {
		if id, _ := c.recv(); id != i+1 {
			t.Fatalf("reply %d in place %d", id, i+1)
		}
	}
}

// TestQueueLimit checks that a connection with too many unanswered requests is not read on.
func TestQueueLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParker()
		h := newHarness(t)
		h.opt.MaxQueuedRequests = 3
		h.produce = p.handle
		c := h.startMemory().memory()
		for range 10 {
			c.send(produce("t", nil))
		}
		synctest.Wait()
		if n := len(p.ps); n != 3 {
			t.Fatalf("%d requests handled, want 3", n)
		}
		p.ps[1].Set(produced()) // not the head: no room yet
		synctest.Wait()
		if n := len(p.ps); n != 3 {
			t.Fatalf("%d requests handled, want 3", n)
		}
		p.ps[0].Set(produced())
		synctest.Wait()
		if n := len(p.ps); n != 5 {
			t.Fatalf("%d requests handled, want 5", n)
		}
		h.s.Close()
	})
}

func TestNoReplyAndClose(t *testing.T) {
	h := newHarness(t)
	n := 0
	h.produce = func(*Call, kmsg.Request) *promise.Promise[Reply] {
		n++
		return promise.Done(Reply{None: true, Close: n == 3})
	}
	c := h.start().tcp()
	c.send(produce("t", nil))
	c.send(produce("t", nil))
	c.works() // the third correlation id, with nothing before it
	c.send(metadata(1, "last"))
	c.send(produce("t", nil))
	if id, _ := c.recv(); id != 4 {
		t.Fatalf("reply %d, want 4", id)
	}
	c.closed()
}

func TestPanicClosesOnlyItsConnection(t *testing.T) {
	h, seen := newHarness(t), &reasons{}
	h.opt.Observer = seen
	var log bytes.Buffer
	h.opt.Log = logTo(&log)
	h.produce = func(*Call, kmsg.Request) *promise.Promise[Reply] { panic("boom") }
	h.fetch = func(*Call, kmsg.Request) *promise.Promise[Reply] { return nil }
	h.start()
	for _, r := range []kmsg.Request{produce("t", nil), fetch()} {
		witness, c := h.tcp(), h.tcp()
		c.send(metadata(1, "before"))
		c.send(r)
		if id, _ := c.recv(); id != 1 {
			t.Fatalf("reply %d", id)
		}
		c.closed()
		witness.works()
		eventually(t, "the reason", func() bool { return seen.last() == "panic" })
	}
	h.s.Close()
	if !strings.Contains(log.String(), "boom") || h.s.Budget().Use() != (BudgetUse{}) {
		t.Fatalf("log %q, budget %+v", log.String(), h.s.Budget().Use())
	}
}

// badBody panics while it is encoded.
type badBody struct{ *kmsg.ProduceResponse }

func (badBody) AppendTo([]byte) []byte { panic("cannot encode") }

func TestPanicWhileEncoding(t *testing.T) {
	h := newHarness(t)
	h.produce = func(*Call, kmsg.Request) *promise.Promise[Reply] {
		return promise.Done(Reply{Body: badBody{kmsg.NewPtrProduceResponse()}})
	}
	c := h.start().tcp()
	c.send(metadata(1, "before"))
	c.send(produce("t", nil))
	if id, _ := c.recv(); id != 1 {
		t.Fatalf("reply %d", id)
	}
	c.closed()
	h.tcp().works()
}

// TestCloseCancels checks what happens to requests whose connection goes away: their waits are canceled,
// their replies' resources released, their memory given back only when their handlers have finished.
func TestCloseCancels(t *testing.T) {
	p := newParker()
	h := newHarness(t)
	h.produce, h.fetch = p.handle, p.handle
	c := h.start().tcp()
	c.send(produce("t", make([]byte, 1000)))
	c.send(fetch())
	p.wait(1)
	canceled, closed := make(chan int, 2), make(chan int, 1)
	for i, call := range p.calls {
		call.OnCancel(func() { canceled <- i })
	}
	remove := p.calls[0].Conn.OnClose(func() { t.Error("a removed hook ran") })
	p.calls[0].Conn.OnClose(func() { closed <- 1 })
	remove()
	c.Close()
	<-canceled
	<-canceled
	<-closed
	p.calls[0].OnCancel(func() { canceled <- 7 })
	if got := <-canceled; got != 7 {
		t.Fatalf("got %d", got)
	}
	if use := h.s.Budget().Use(); use.Bulk == 0 || use.Small == 0 {
		t.Fatalf("memory was given back under a running handler: %+v", use)
	}
	released := make(chan int, 1)
	p.ps[0].Set(Reply{Body: kmsg.NewPtrProduceResponse(), Release: func() { released <- 1 }})
	p.ps[1].Set(Reply{None: true})
	<-released
	if use := h.s.Budget().Use(); use != (BudgetUse{}) {
		t.Fatalf("memory still charged: %+v", use)
	}
}

// TestThrottle: the throttled reply leaves at once, the next request waits (KIP-219).
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		h.produce = func(c *Call, r kmsg.Request) *promise.Promise[Reply] {
			return promise.Done(Reply{Body: r.ResponseKind(), ThrottleMs: 3000})
		}
		c := h.startMemory().memory()
		start := time.Now()
		resp := c.ask(produce("t", nil)).(*kmsg.ProduceResponse)
		if d := time.Since(start); d != 0 || resp.ThrottleMillis != 3000 {
			t.Fatalf("reply after %v with throttle %d", d, resp.ThrottleMillis)
		}
		c.works()
		if d := time.Since(start); d != 3*time.Second {
			t.Fatalf("next request handled after %v", d)
		}
		h.s.Close()
	})
}

// TestAliasIsPoisoned shows that keeping request bytes past the lease is found: the server overwrites them.
func TestAliasIsPoisoned(t *testing.T) {
	h := newHarness(t)
	var kept string
	h.produce = func(c *Call, r kmsg.Request) *promise.Promise[Reply] {
		kept = r.(*kmsg.ProduceRequest).Topics[0].Topic
		if kept != "aliased" || !bytes.Contains(c.Frame(), []byte("aliased")) {
			t.Errorf("topic %q in frame %q", kept, c.Frame())
		}
		c.Lease.Release()
		c.Lease.Release() // once more does nothing
		return promise.Done(produced())
	}
	h.startMemory()
	h.s.buffers.scribble = func(b []byte) {
		for i := range b {
			b[i] = '#'
		}
	}
	c := h.memory()
	c.ask(produce("aliased", nil))
	if kept != "#######" {
		t.Fatalf("kept %q", kept)
	}
	// A reply may alias the request while the server holds the lease.
	c.works()
}

// TestConnInfo checks what handlers learn about their connection.
func TestConnInfo(t *testing.T) {
	p := newParker()
	h := newHarness(t)
	h.produce = p.handle
	c := h.start().tcp()
	v := kmsg.NewPtrApiVersionsRequest()
	v.Version, v.ClientSoftwareName, v.ClientSoftwareVersion = 4, "franz-go", "1.22.3"
	c.ask(v)
	c.send(produce("t", nil))
	p.wait(0)
	call := p.calls[0]
	info := call.Conn
	if info.Listener != "TCP" || info.Kind != BrokerListener || info.Local.String() != h.addr ||
		info.Remote.String() != c.LocalAddr().String() || info.RemoteIP.String() != "127.0.0.1" ||
		info.Principal != kafka.Anonymous || info.ClientID() != "tester" || call.ClientID != "tester" ||
		info.Software() != (Software{"franz-go", "1.22.3"}) || call.CorrelationID != 2 || call.Now.IsZero() {
		t.Fatalf("%+v %+v", call, info)
	}
	p.ps[0].Set(produced())
	c.recv()
}

func TestStats(t *testing.T) {
	h, seen := newHarness(t), &reasons{}
	h.opt.Observer = seen
	c := h.start().tcp()
	c.ask(produce("t", make([]byte, 5000)))
	c.Close()
	h.s.Close()
	if len(seen.done) != 1 {
		t.Fatalf("%d requests done", len(seen.done))
	}
	s := seen.done[0]
	if s.Key != 0 || s.Version != 11 || s.RequestBytes < 5000 || s.ReplyBytes < 10 || s.Dropped || s.Send < 0 || s.Queue < 0 ||
		s.Handle < 0 || s.Receive < 0 || s.Pending < 0 {
		t.Fatalf("%+v", s)
	}
}

// deny refuses everything but one operation.
type deny struct{ but kmsg.ACLOperation }

func (d deny) Authorize(_ *Call, checks []AccessCheck) []bool {
	out := make([]bool, len(checks))
	for i, c := range checks {
		out[i] = c.Operation == d.but
	}
	return out
}

func TestAuthorize(t *testing.T) {
	h := newHarness(t)
	var got []bool
	h.extra = []API{{
		Key: 12, Max: 4, Listener: BrokerListener,
		Authorize: func(*Call, kmsg.Request) []AccessCheck {
			return []AccessCheck{{Operation: kmsg.ACLOperationRead}, {Operation: kmsg.ACLOperationWrite}}
		},
		Handle: func(c *Call, r kmsg.Request) *promise.Promise[Reply] {
			got = []bool{c.Allowed(0), c.Allowed(1)}
			return answerProduce(c, r)
		},
	}}
	h.opt.Authorizer = deny{kmsg.ACLOperationWrite}
	h.startMemory().memory().ask(kmsg.NewPtrHeartbeatRequest())
	if len(got) != 2 || got[0] || !got[1] {
		t.Fatalf("allowed %v", got)
	}
}

func TestDrain(t *testing.T) {
	p := newParker()
	h := newHarness(t)
	h.produce, h.fetch = p.handle, p.handle
	c, idle := h.start().tcp(), h.memory()
	c.send(produce("t", nil))
	c.send(fetch())
	p.wait(1)
	p.calls[1].OnCancel(func() { go p.ps[1].Set(Reply{Body: kmsg.NewPtrFetchResponse()}) })
	drained := make(chan error)
	go func() { drained <- h.s.Drain(context.Background()) }()
	idle.closed() // nothing was owed to it
	if _, err := c.Write(c.frame(metadata(1, "late"))); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	select {
	case err := <-drained:
		t.Fatalf("drained with a request unanswered: %v", err)
	default:
	}
	p.ps[0].Set(produced())
	for i := range int32(2) {
		if id, _ := c.recv(); id != i+1 {
			t.Fatalf("reply %d", id)
		}
	}
	c.closed()
	c.Close()
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
	if _, err := h.s.Listen(ListenerOptions{Address: "127.0.0.1:0"}); err != ErrClosed {
		t.Fatalf("Listen after Drain: %v", err)
	}
	if _, err := h.mem.Dial(context.Background()); err == nil {
		t.Fatal("Dial after Drain works")
	}
}

func TestDrainDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParker()
		h := newHarness(t)
		h.produce = p.handle
		c := h.startMemory().memory()
		c.send(produce("t", nil))
		p.wait(0)
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		start := time.Now()
		if err := h.s.Drain(ctx); err != context.DeadlineExceeded || time.Since(start) != 7*time.Second {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
		c.closed()
		p.ps[0].Set(produced()) // dropped
		if use := h.s.Budget().Use(); use != (BudgetUse{}) {
			t.Fatalf("memory still charged: %+v", use)
		}
	})
}
