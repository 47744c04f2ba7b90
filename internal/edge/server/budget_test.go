package server

import (
	"bytes"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/promise"
)

// TestBudgetClasses: a class draws on its own pool, then on the lower ones, and never on a higher one.
func TestBudgetClasses(t *testing.T) {
	b := NewBudget(BudgetOptions{RequestBytes: 100, SmallBytes: 50, InternalBytes: 30})
	never := make(chan struct{})
	var ls [8]Lease
	for i, tc := range []struct {
		class class
		n     int64
		want  BudgetUse
	}{
		{classInternal, 20, BudgetUse{Internal: 20}},
		{classInternal, 20, BudgetUse{Internal: 20, Small: 20}},
		{classSmall, 30, BudgetUse{Internal: 20, Small: 50}},
		{classSmall, 30, BudgetUse{Internal: 20, Small: 50, Bulk: 30}},
		{classBulk, 70, BudgetUse{Internal: 20, Small: 50, Bulk: 100}},
		{classInternal, 10, BudgetUse{Internal: 30, Small: 50, Bulk: 100}},
	} {
		if !b.start(&ls[i], tc.class, tc.n, never, never) || b.Use() != tc.want {
			t.Fatalf("step %d: %+v, want %+v", i, b.Use(), tc.want)
		}
	}
	for i := range ls {
		ls[i].Release()
	}
	if b.Use() != (BudgetUse{}) {
		t.Fatalf("left: %+v", b.Use())
	}
}

// TestBudgetWaits: who asks for more than is left waits, in order, until it is there or the connection ends.
func TestBudgetWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(BudgetOptions{RequestBytes: 100, SmallBytes: 10, InternalBytes: 10})
		never, done := make(chan struct{}), make(chan struct{})
		var first, second, third, fourth Lease
		b.start(&first, classBulk, 80, never, never)
		var got2, got3 bool
		go func() { got2 = b.start(&second, classBulk, 50, never, never) }()
		synctest.Wait()
		go func() { got3 = b.start(&third, classBulk, 10, never, never) }()
		synctest.Wait()
		go func() {
			if b.start(&fourth, classBulk, 10, never, done) {
				t.Error("granted after the connection ended")
			}
		}()
		synctest.Wait()
		if got2 || got3 || b.Use().Waiting != 3 || !b.pressed() { // 10 would fit, but who came first is served first
			t.Fatalf("%v %v %+v", got2, got3, b.Use())
		}
		close(done)
		synctest.Wait()
		if b.Use().Waiting != 2 {
			t.Fatalf("%+v", b.Use())
		}
		first.Release()
		synctest.Wait()
		if !got2 || !got3 || b.Use() != (BudgetUse{Bulk: 60}) {
			t.Fatalf("%v %v %+v", got2, got3, b.Use())
		}
		second.Release()
		third.Release()
		fourth.Release()
		// Longer than the pool: alone.
		var huge Lease
		if !b.start(&huge, classBulk, 1000, never, never) {
			t.Fatal("a frame longer than the pool must get in when it is empty")
		}
		huge.Release()
	})
}

// TestBudgetGrowing: frames that grow go before new ones, and one may overdraw, so that half-read frames
// cannot wait for each other for ever.
func TestBudgetGrowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(BudgetOptions{RequestBytes: 100, SmallBytes: 10, InternalBytes: 10})
		never := make(chan struct{})
		var one, two, three Lease
		b.start(&one, classBulk, 50, never, never)
		b.start(&two, classBulk, 50, never, never)
		granted := make([]bool, 4)
		go func() { granted[1] = b.grow(&one, 200, never, never) }()
		synctest.Wait()
		if granted[1] {
			t.Fatal("granted while another holder may give back")
		}
		go func() { granted[2] = b.grow(&two, 40, never, never) }()
		synctest.Wait()
		go func() { granted[3] = b.start(&three, classBulk, 60, never, never) }()
		synctest.Wait()
		if !granted[1] || granted[2] || granted[3] || b.Use().Bulk != 300 {
			t.Fatalf("the first must overdraw when all wait: %v %+v", granted, b.Use())
		}
		b.grow(&one, 10, never, never) // the one that has overdrawn goes on
		one.Release()
		synctest.Wait()
		if !granted[2] || granted[3] || b.Use().Bulk != 90 {
			t.Fatalf("what grows goes first: %v %+v", granted, b.Use())
		}
		two.Release()
		synctest.Wait()
		if !granted[3] {
			t.Fatal("the new frame is never granted")
		}
		three.Release()
		if b.Use() != (BudgetUse{}) || b.overrun {
			t.Fatalf("left: %+v", b.Use())
		}
	})
}

// TestBudgetRandom lets many goroutines start, grow, refund and end at random: nobody may hang, nothing may
// be left.
func TestBudgetRandom(t *testing.T) {
	b := NewBudget(BudgetOptions{RequestBytes: 1000, SmallBytes: 200, InternalBytes: 100})
	never := make(chan struct{})
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(7, uint64(g)))
			for range 2000 {
				var l Lease
				done := make(chan struct{})
				if rnd.IntN(5) == 0 {
					close(done)
				}
				if b.start(&l, class(rnd.IntN(3)), 1+rnd.Int64N(400), never, done) {
					for rnd.IntN(2) == 0 && b.grow(&l, 1+rnd.Int64N(800), never, done) {
						b.refund(&l, 10)
					}
				}
				l.Release()
			}
		})
	}
	wg.Wait()
	if b.Use() != (BudgetUse{}) {
		t.Fatalf("left: %+v", b.Use())
	}
}

// TestMemoryStopsReading fills the budget with produces that do not end: further ones wait, on their own
// connections, while small requests are served.
func TestMemoryStopsReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParker()
		h := newHarness(t)
		h.produce = p.handle
		h.opt.Budget = NewBudget(BudgetOptions{RequestBytes: 300 << 10})
		h.startMemory()
		records := make([]byte, 100<<10)
		for range 4 {
			c := h.memory()
			go c.Write(c.frame(produce("t", records)))
		}
		synctest.Wait()
		if n, use := len(p.ps), h.s.Budget().Use(); n != 2 || use.Waiting != 2 || use.Bulk > 300<<10 {
			t.Fatalf("%d handled, %+v", n, use)
		}
		h.memory().works()
		p.calls[0].Lease.Release() // before the reply
		synctest.Wait()
		if n := len(p.ps); n != 3 {
			t.Fatalf("%d handled", n)
		}
		for i := range 4 {
			p.wait(i).Set(produced())
		}
		synctest.Wait()
		if use := h.s.Budget().Use(); use != (BudgetUse{}) {
			t.Fatalf("memory still charged: %+v", use)
		}
		h.s.Close()
	})
}

// TestAnnouncingCostsLittle: a frame of 60 MiB of which little comes holds little.
func TestAnnouncingCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t).startMemory()
		c := h.memory()
		frame := c.frame(produce("t", make([]byte, 60<<20)))
		done := make(chan int)
		go func() {
			c.Write(frame[:100])
			<-done
			c.Write(frame[100 : 100<<10])
			<-done
			c.Write(frame[100<<10:])
		}()
		synctest.Wait()
		if use := h.s.Budget().Use(); use.Bulk > 70<<10 {
			t.Fatalf("100 bytes hold %d", use.Bulk)
		}
		done <- 1
		synctest.Wait()
		if use := h.s.Budget().Use(); use.Bulk > 300<<10 {
			t.Fatalf("100 KiB hold %d", use.Bulk)
		}
		done <- 1
		c.recv()
		synctest.Wait()
		if use := h.s.Budget().Use(); use != (BudgetUse{}) {
			t.Fatalf("memory still charged: %+v", use)
		}
		h.s.Close()
	})
}

// TestLongFrameArrivesWhole checks the bytes of frames that are received in steps.
func TestLongFrameArrivesWhole(t *testing.T) {
	h := newHarness(t)
	got := make(chan []byte, 1)
	h.produce = func(_ *Call, r kmsg.Request) *promise.Promise[Reply] {
		got <- bytes.Clone(r.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records)
		return promise.Done(produced())
	}
	c := h.start().tcp()
	rnd := rand.NewChaCha8([32]byte{1})
	for _, n := range []int{1, 1000, 1024, 65 << 10, 1 << 20, 2<<20 + 1, 9 << 20} {
		want := make([]byte, n)
		_, _ = rnd.Read(want)
		c.ask(produce("t", want))
		if !bytes.Equal(<-got, want) {
			t.Fatalf("%d bytes arrived changed", n)
		}
	}
}

// TestDecodingIsPaidFor: what decoding allocates is charged, and refused beyond the limit.
func TestDecodingIsPaidFor(t *testing.T) {
	h, seen := newHarness(t), &reasons{}
	h.opt.Observer = seen
	h.opt.MaxDecodedBytes = 1 << 20
	var use BudgetUse
	h.extra = []API{{Key: 12, Max: 4, Listener: BrokerListener, Handle: answerProduce}}
	h.fetch = func(c *Call, r kmsg.Request) *promise.Promise[Reply] {
		use = h.s.Budget().Use()
		return answerProduce(c, r)
	}
	h.startMemory()
	c := h.memory()
	r := fetch()
	r.Topics = make([]kmsg.FetchRequestTopic, 5000)
	c.ask(r)
	if use.Small < 200_000 {
		t.Fatalf("15 KB that decode to 5,000 structs are charged with %+v", use)
	}
	r.Topics = make([]kmsg.FetchRequestTopic, 50_000)
	c.send(r)
	c.closed()
	c.Close()
	eventually(t, "the reason", func() bool { return seen.last() == "too-large" })
}

func TestSizeClasses(t *testing.T) {
	p := newBuffers()
	last := -1
	for n := 1; n <= maxPooled+10; n += 1 + n/37 {
		class, size := sizeClass(n)
		if size < n || n > 512 && size > n+n/4+1 || class >= numBuffers || class >= 0 && class < last {
			t.Fatalf("%d bytes: class %d of %d bytes", n, class, size)
		}
		last = class
		b := p.get(n)
		if len(b.b) != size {
			t.Fatalf("%d bytes: buffer of %d, class says %d", n, len(b.b), size)
		}
		p.put(b)
		if again, size2 := sizeClass(size); again != class || size2 != size {
			t.Fatalf("class of %d is not its own", size)
		}
	}
}

// TestSlowAndIdle has one row per limit on time, in virtual time.
func TestSlowAndIdle(t *testing.T) {
	for _, tc := range []struct {
		name string
		play func(h *harness, c *client)
		want string
		from time.Duration // the connection must end in [from, to]
		to   time.Duration
	}{
		{"idle", func(*harness, *client) {}, "idle", 600 * time.Second, 602 * time.Second},
		{"idle after work", func(_ *harness, c *client) {
			time.Sleep(500 * time.Second)
			c.works()
		}, "idle", 1100 * time.Second, 1102 * time.Second},
		{"length never completed", func(_ *harness, c *client) { c.Write([]byte{0, 0}) }, "slow-sender", 30 * time.Second, 33 * time.Second},
		{"frame stops", func(_ *harness, c *client) {
			time.Sleep(50 * time.Second)
			c.Write(c.frame(produce("t", make([]byte, 5000)))[:3000])
		}, "slow-sender", 80 * time.Second, 83 * time.Second},
		{"a byte a second", func(_ *harness, c *client) {
			for _, b := range c.frame(produce("t", make([]byte, 1000))) {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}, "slow-sender", 30 * time.Second, 33 * time.Second},
		{"slow but above the rate", func(_ *harness, c *client) {
			f := c.frame(produce("t", make([]byte, 200_000)))
			for len(f) > 0 {
				n := min(len(f), 1200)
				c.Write(f[:n])
				f = f[n:]
				time.Sleep(time.Second)
			}
			c.recv()
		}, "idle", 766 * time.Second, 770 * time.Second},
		{"parked requests are not idle", func(h *harness, c *client) {
			p := newParker()
			h.produce = p.handle
			c.send(produce("t", nil))
			p.wait(0)
			time.Sleep(2000 * time.Second)
			p.ps[0].Set(produced())
			c.recv()
		}, "idle", 2600 * time.Second, 2602 * time.Second},
		{"replies not read", func(h *harness, c *client) {
			h.produce = func(*Call, kmsg.Request) *promise.Promise[Reply] {
				return promise.Done(Reply{Segments: []Segment{{Bytes: make([]byte, 1<<20)}}})
			}
			c.send(produce("t", nil))
		}, "slow-receiver", 30 * time.Second, 33 * time.Second},
		{"replies read slowly", func(h *harness, c *client) {
			h.produce = func(*Call, kmsg.Request) *promise.Promise[Reply] {
				return promise.Done(Reply{Segments: []Segment{{Bytes: make([]byte, 1<<20)}}})
			}
			c.send(produce("t", nil))
			b := make([]byte, 40<<10)
			left := 8 + 1<<20
			for range 25 {
				time.Sleep(25 * time.Second)
				n, _ := c.Read(b)
				left -= n
			}
			io.ReadFull(c, make([]byte, left))
		}, "idle", 1225 * time.Second, 1230 * time.Second},
		{"slow while others wait for memory", func(h *harness, c *client) {
			p := newParker()
			h.produce = p.handle
			other, third := h.memory(), h.memory()
			go other.Write(other.frame(produce("t", make([]byte, 800<<10))))
			p.wait(0)
			f := c.frame(produce("t", make([]byte, 120<<10)))
			var writing sync.WaitGroup
			defer writing.Wait()
			writing.Go(func() { // 2 KiB/s: enough in quiet times
				for len(f) > 2048 {
					if _, err := c.Write(f[:2048]); err != nil {
						return
					}
					f = f[2048:]
					time.Sleep(time.Second)
				}
			})
			time.Sleep(20 * time.Second)
			go third.Write(third.frame(produce("t", make([]byte, 60<<10))))
			for i := range 2 {
				time.Sleep(10 * time.Second)
				p.wait(i).Set(produced())
			}
		}, "slow-sender", 25 * time.Second, 28 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, seen := newHarness(t), &reasons{}
				h.opt.Observer = seen
				h.opt.Budget = NewBudget(BudgetOptions{RequestBytes: 1 << 20})
				h.startMemory()
				c := h.memory()
				start := time.Now()
				var playing sync.WaitGroup
				playing.Go(func() { tc.play(h, c) })
				var ended time.Time
				var why CloseReason
				for ended.IsZero() && time.Since(start) < time.Hour {
					time.Sleep(500 * time.Millisecond)
					seen.mu.Lock()
					if len(seen.why) > 0 {
						ended, why = time.Now(), seen.why[0]
					}
					seen.mu.Unlock()
				}
				if d := ended.Sub(start); why.String() != tc.want || d < tc.from || d > tc.to {
					t.Errorf("%v after %v", why, d)
				}
				h.s.Close()
				c.Close()
				playing.Wait()
			})
		})
	}
}
