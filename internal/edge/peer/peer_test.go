package peer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"moldau/internal/kafka"
	"moldau/internal/promise"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var there = Address{Host: "peer", Port: 9092}

// broker is the other side: it answers ApiVersions with what it has, and leaves the rest to handle.
type broker struct {
	apis   []kmsg.ApiVersionsResponseApiKey
	newest int16 // ApiVersions
	handle func(c net.Conn, q question) bool
}

type question struct {
	id     int32
	client string
	body   kmsg.Request
}

func api(key, least, most int16) kmsg.ApiVersionsResponseApiKey {
	return kmsg.ApiVersionsResponseApiKey{ApiKey: key, MinVersion: least, MaxVersion: most}
}

func newBroker(handle func(c net.Conn, q question) bool) *broker {
	return &broker{apis: []kmsg.ApiVersionsResponseApiKey{api(3, 0, 12), api(18, 0, 4), api(52, 0, 2), api(12, 0, 4)},
		newest: 4, handle: handle}
}

func readQuestion(in io.Reader) (question, error) {
	frame, err := new(frames).read(in, 1<<20)
	if err != nil {
		return question{}, err
	}
	r := kbin.Reader{Src: frame}
	body := kmsg.RequestForKey(r.Int16())
	body.SetVersion(r.Int16())
	q := question{id: r.Int32(), body: body}
	if client := r.NullableString(); client != nil {
		q.client = *client
	}
	if body.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	return q, body.ReadFrom(r.Src)
}

func frameOf(q question, body kmsg.Response) []byte {
	b := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 0}, uint32(q.id))
	if body.IsFlexible() && body.Key() != 18 {
		b = append(b, 0)
	}
	b = body.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func reply(c net.Conn, q question, body kmsg.Response) bool {
	_, err := c.Write(frameOf(q, body))
	return err == nil
}

// echo answers Heartbeat with the generation that was asked, so that answers can be told apart.
func echo(c net.Conn, q question) bool {
	resp := q.body.ResponseKind()
	if h, ok := resp.(*kmsg.HeartbeatResponse); ok {
		h.ThrottleMillis = q.body.(*kmsg.HeartbeatRequest).Generation
	}
	return reply(c, q, resp)
}

func (b *broker) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		q, err := readQuestion(in)
		if err != nil {
			return
		}
		if _, ok := q.body.(*kmsg.ApiVersionsRequest); ok {
			resp := kmsg.NewPtrApiVersionsResponse()
			resp.ApiKeys = b.apis
			if resp.Version = q.body.GetVersion(); resp.Version > b.newest {
				resp.Version, resp.ErrorCode = 0, int16(kafka.UnsupportedVersion)
			}
			if !reply(c, q, resp) {
				return
			}
		} else if !b.handle(c, q) {
			return
		}
	}
}

// dial makes pipes to the broker.
func (b *broker) dial(context.Context, string, string) (net.Conn, error) {
	here, other := net.Pipe()
	go b.serve(other)
	return here, nil
}

func heartbeat(n int32) *kmsg.HeartbeatRequest {
	r := kmsg.NewPtrHeartbeatRequest()
	r.Version, r.Generation = 4, n
	return r
}

func wait(t *testing.T, p *promise.Promise[Answer]) Answer {
	t.Helper()
	a, err := p.Wait(t.Context())
	if err != nil {
		t.Fatal("no answer at all: ", err)
	}
	return a
}

// wantError checks how a request failed.
func wantError(t *testing.T, a Answer, sent bool, code kafka.Code) {
	t.Helper()
	e, ok := errors.AsType[*Error](a.Err)
	if !ok || a.Body != nil || e.Sent != sent || MayHaveArrived(a.Err) != sent || kafka.CodeOf(a.Err) != code {
		t.Errorf("got %+v; want an error with sent=%v and %s", a, sent, code.Name())
	}
}

func TestPipelined(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns atomic.Int32
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			served.Go(func() { newBroker(echo).serve(c) })
		}
	})
	defer served.Wait()
	defer l.Close()
	addr := l.Addr().(*net.TCPAddr)
	p := NewPool(Options{ClientID: "broker-1"})
	defer p.Close()
	var clients sync.WaitGroup
	for lane := range 3 {
		for range 4 {
			clients.Go(func() {
				var pending []*promise.Promise[Answer]
				for i := range 200 {
					pending = append(pending, p.Send(Address{"127.0.0.1", addr.Port}, fmt.Sprint("lane", lane), heartbeat(int32(i)), 10*time.Second))
				}
				for i, x := range pending {
					a := wait(t, x)
					if h, ok := a.Body.(*kmsg.HeartbeatResponse); !ok || h.ThrottleMillis != int32(i) {
						t.Errorf("answer %d is %+v", i, a)
						return
					}
				}
			})
		}
	}
	clients.Wait()
	if n := conns.Load(); n != 3 {
		t.Errorf("%d connections for three lanes", n)
	}
}

// preVote is a request with a floor.
type preVote struct{ *kmsg.VoteRequest }

func (preVote) LowestVersion() int16 { return 2 }

func TestVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []question
		b := newBroker(func(c net.Conn, q question) bool { asked = append(asked, q); return echo(c, q) })
		b.apis = []kmsg.ApiVersionsResponseApiKey{api(3, 5, 7), api(52, 0, 1)}
		b.newest = 0 // an old broker, which knows version 0 of ApiVersions only
		p := NewPool(Options{ClientID: "broker-1", Dial: b.dial})
		defer p.Close()
		newer := kmsg.NewPtrMetadataRequest()
		newer.Version = 12
		a := wait(t, p.Send(there, "quorum", newer, time.Second))
		if m, ok := a.Body.(*kmsg.MetadataResponse); !ok || m.Version != 7 {
			t.Errorf("got %+v, want Metadata v7", a)
		}
		older := kmsg.NewPtrMetadataRequest()
		older.Version = 4
		wantError(t, wait(t, p.Send(there, "quorum", older, time.Second)), false, kafka.UnsupportedVersion)
		wantError(t, wait(t, p.Send(there, "quorum", heartbeat(1), time.Second)), false, kafka.UnsupportedVersion)
		vote := kmsg.NewPtrVoteRequest()
		vote.Version = 2
		wantError(t, wait(t, p.Send(there, "quorum", preVote{vote}, time.Second)), false, kafka.UnsupportedVersion)
		if a := wait(t, p.Send(there, "quorum", vote, time.Second)); a.Err != nil || a.Body.GetVersion() != 1 {
			t.Errorf("got %+v, want Vote v1", a)
		}
		// Versions can also be asked for like anything else; what answers must not be taken apart like anything else.
		b.newest, b.apis = 4, append(b.apis, api(18, 0, 4))
		ask := kmsg.NewPtrApiVersionsRequest()
		ask.Version = 4
		if a := wait(t, p.Send(there, "other", ask, time.Second)); a.Err != nil || len(a.Body.(*kmsg.ApiVersionsResponse).ApiKeys) != 3 {
			t.Errorf("got %+v", a)
		}
		if len(asked) != 2 || asked[0].client != "broker-1-quorum" {
			t.Errorf("the broker was asked %+v", asked)
		}
	})
}

func TestRefusedThenReachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var dials []time.Duration
		b := newBroker(echo)
		up := false
		p := NewPool(Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials = append(dials, time.Since(start))
			if network != "tcp" || addr != "peer:9092" {
				t.Errorf("dials %s %s", network, addr)
			}
			if !up {
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			return b.dial(ctx, network, addr)
		}})
		defer p.Close()
		for range 9 {
			a := wait(t, p.Send(there, "x", heartbeat(1), time.Minute))
			wantError(t, a, false, kafka.NetworkException)
			if !errors.Is(a.Err, ErrRefused) {
				t.Errorf("%v is no refusal", a.Err)
			}
		}
		var want []time.Duration
		for i, ms := range []time.Duration{0, 20, 40, 80, 160, 320, 640, 1000, 1000} {
			want = append(want, ms*time.Millisecond)
			if i > 0 {
				want[i] += want[i-1]
			}
		}
		if !slices.Equal(dials, want) {
			t.Errorf("dialled at %v, want %v", dials, want)
		}
		// A request that runs out of time before the next dial was never sent.
		wantError(t, wait(t, p.Send(there, "x", heartbeat(1), time.Millisecond)), false, kafka.RequestTimedOut)
		up = true
		if a := wait(t, p.Send(there, "x", heartbeat(5), time.Minute)); a.Err != nil {
			t.Error(a.Err)
		}
	})
}

// TestTimeout: an answer that does not come ends what stands behind it; what is asked afterwards has a new connection.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials, silent := 0, true
		b := newBroker(func(c net.Conn, q question) bool { return silent || echo(c, q) })
		p := NewPool(Options{Dial: func(ctx context.Context, n, a string) (net.Conn, error) {
			dials++
			return b.dial(ctx, n, a)
		}})
		defer p.Close()
		first := p.Send(there, "x", heartbeat(1), time.Second)
		second := p.Send(there, "x", heartbeat(2), time.Minute)
		start := time.Now()
		wantError(t, wait(t, first), true, kafka.RequestTimedOut)
		wantError(t, wait(t, second), true, kafka.NetworkException)
		if d := time.Since(start); d != time.Second {
			t.Errorf("ended after %v", d)
		}
		synctest.Wait()
		silent = false
		if a := wait(t, p.Send(there, "x", heartbeat(3), time.Minute)); a.Err != nil || dials != 2 {
			t.Errorf("%v after %d dials", a.Err, dials)
		}
	})
}

// TestLostAndRedialled: a peer that goes away takes with it what it had received. Idle connections that end cost nothing.
func TestLostAndRedialled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		b := newBroker(func(c net.Conn, q question) bool {
			n := q.body.(*kmsg.HeartbeatRequest).Generation
			return n != 13 && echo(c, q) && n != 7
		})
		p := NewPool(Options{Dial: func(ctx context.Context, n, a string) (net.Conn, error) {
			dials++
			return b.dial(ctx, n, a)
		}})
		defer p.Close()
		for i, n := range []int32{7, 13, 1, 7, 1} {
			start := time.Now()
			a := wait(t, p.Send(there, "x", heartbeat(n), time.Minute))
			if n == 13 {
				wantError(t, a, true, kafka.NetworkException)
			} else if a.Err != nil {
				t.Error(a.Err)
			}
			synctest.Wait()
			if d := time.Since(start); n != 1 && d != 0 || d > firstRedial {
				t.Errorf("request %d took %v", i, d)
			}
		}
		if dials != 4 {
			t.Errorf("%d dials", dials)
		}
	})
}

func TestHostilePeers(t *testing.T) {
	whole := func(q question) []byte { return frameOf(q, q.body.ResponseKind()) }
	for name, f := range map[string]func(q question) []byte{
		"too large":    func(question) []byte { return []byte{0x7f, 0xff, 0xff, 0xff, 0} },
		"negative":     func(question) []byte { return []byte{0xff, 0xff, 0xff, 0xff, 0} },
		"empty":        func(question) []byte { return []byte{0, 0, 0, 0} },
		"id cut off":   func(question) []byte { return []byte{0, 0, 0, 2, 0, 0} },
		"body cut off": func(q question) []byte { return []byte{0, 0, 0, 5, 0, 0, 0, byte(q.id), 0} },
		"wrong id":     func(q question) []byte { q.id++; return whole(q) },
		"tags without end": func(q question) []byte {
			return append([]byte{0, 0, 0, 9, 0, 0, 0, byte(q.id)}, 255, 255, 255, 255, 15)
		},
		"an answer too few": func(question) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBroker(func(c net.Conn, q question) bool {
					_, err := c.Write(f(q))
					return err == nil
				})
				p := NewPool(Options{Dial: b.dial, MaxFrameBytes: 1 << 20})
				defer p.Close()
				code := kafka.NetworkException
				if f(question{body: heartbeat(1)}) == nil {
					code = kafka.RequestTimedOut
				}
				wantError(t, wait(t, p.Send(there, "x", heartbeat(1), time.Second)), true, code)
			})
		})
	}
	t.Run("an answer too many", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBroker(func(c net.Conn, q question) bool {
				_, err := c.Write(slices.Concat(whole(q), whole(q)))
				return err == nil
			})
			p := NewPool(Options{Dial: b.dial})
			defer p.Close()
			if a := wait(t, p.Send(there, "x", heartbeat(1), time.Second)); a.Err != nil {
				t.Error(a.Err)
			}
			synctest.Wait()
			if l := p.links[linkKey{there, "x"}]; l.conn != nil {
				t.Error("the connection was kept")
			}
		})
	})
}

// A peer that accepts and says nothing holds nobody longer than the dial may take.
func TestSilentPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(Options{DialTimeout: 3 * time.Second, MaxDialTimeout: 8 * time.Second, Dial: func(context.Context, string, string) (net.Conn, error) {
			here, other := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, other) }()
			return here, nil
		}})
		defer p.Close()
		start := time.Now()
		short := p.Send(there, "x", heartbeat(1), time.Second)
		long := p.Send(there, "x", heartbeat(2), time.Minute)
		wantError(t, wait(t, short), false, kafka.RequestTimedOut)
		if d := time.Since(start); d != time.Second {
			t.Errorf("after %v", d)
		}
		wantError(t, wait(t, long), false, kafka.NetworkException)
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("after %v", d)
		}
		// It takes longer when it has failed before, within limits.
		for _, want := range []time.Duration{6, 8, 8} {
			start, pause := time.Now(), time.Until(p.links[linkKey{there, "x"}].redialAt)
			wantError(t, wait(t, p.Send(there, "x", heartbeat(2), time.Minute)), false, kafka.NetworkException)
			if d := time.Since(start) - pause; d != want*time.Second {
				t.Errorf("after %v, want %v s", d, want)
			}
		}
	})
}

// TestMemoryFollowsBytes: a length costs the peer its bytes before it costs us memory.
func TestMemoryFollowsBytes(t *testing.T) {
	r, w := io.Pipe()
	go func() {
		_, _ = w.Write([]byte{0x05, 0, 0, 0})
		_, _ = w.Write(make([]byte, 100<<10))
		_ = w.Close()
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := new(frames).read(r, 100<<20)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, io.ErrUnexpectedEOF) || n > 3<<20 {
		t.Errorf("%d bytes for 100 KiB: %v", n, err)
	}
}

func TestWholeFrames(t *testing.T) {
	f := &frames{poison: true}
	for _, n := range []int{4, 100, 64 << 10, 64<<10 + 1, 1 << 20, 3<<20 + 17, 2 << 20, 4, 70 << 10, 3<<20 + 17} {
		want := make([]byte, n+4)
		for i := range want {
			want[i] = byte(i * 7)
		}
		binary.BigEndian.PutUint32(want, uint32(n))
		r, w := net.Pipe()
		go func() { _, _ = w.Write(want) }()
		got, err := f.read(r, 3<<20+17)
		if err != nil || string(got) != string(want[4:]) {
			t.Errorf("%d bytes: %d, %v", n, len(got), err)
		}
		x := f.owned(got)
		x.release()
		x.release() // once is enough
	}
}

// TestClose: whatever state a link is in, Close ends all requests and leaves nothing behind.
func TestClose(t *testing.T) {
	silent := newBroker(func(net.Conn, question) bool { return true })
	for name, x := range map[string]struct {
		dial func(ctx context.Context, network, addr string) (net.Conn, error)
		sent bool
	}{
		"dialling": {func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, false},
		"dialled too late": {func(ctx context.Context, n, a string) (net.Conn, error) {
			<-ctx.Done()
			return silent.dial(ctx, n, a)
		}, false},
		"versions": {func(context.Context, string, string) (net.Conn, error) {
			here, other := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, other) }()
			return here, nil
		}, false},
		"in flight": {silent.dial, true},
		"not taken": {func(ctx context.Context, n, a string) (net.Conn, error) {
			b := newBroker(func(net.Conn, question) bool { <-ctx.Done(); return false })
			return b.dial(ctx, n, a)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := NewPool(Options{Dial: x.dial, DialTimeout: time.Hour})
				var pending []*promise.Promise[Answer]
				for i := range int32(3) {
					pending = append(pending, p.Send(there, "x", heartbeat(i), time.Hour))
					synctest.Wait()
				}
				p.Close()
				for i, x1 := range pending {
					a, ok := x1.Get()
					if !ok {
						t.Fatal("not answered")
					}
					if i == 0 {
						wantError(t, a, x.sent, kafka.NetworkException)
					}
				}
				wantError(t, wait(t, p.Send(there, "x", heartbeat(1), time.Hour)), false, kafka.NetworkException)
			})
		})
	}
	t.Run("backing off", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := NewPool(Options{Dial: func(context.Context, string, string) (net.Conn, error) { return nil, io.EOF }})
			wantError(t, wait(t, p.Send(there, "x", heartbeat(1), time.Hour)), false, kafka.NetworkException)
			waits := p.Send(there, "x", heartbeat(1), time.Hour)
			p.Close()
			wantError(t, wait(t, waits), false, kafka.NetworkException)
		})
	})
}

func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(Options{Dial: func(ctx context.Context, _, addr string) (net.Conn, error) {
			if addr == there.String() {
				<-ctx.Done()
			}
			return nil, io.EOF
		}})
		defer p.Close()
		for i := range int32(maxWaiting) {
			if _, ok := p.Send(there, "x", heartbeat(i), time.Hour).Get(); ok {
				t.Fatal("answered")
			}
		}
		wantError(t, wait(t, p.Send(there, "x", heartbeat(1), time.Hour)), false, kafka.NetworkException)
		// Links that nothing uses are forgotten.
		for i := range 4 * maxLinks {
			wait(t, p.Send(Address{"peer", i}, "x", heartbeat(1), time.Hour))
			synctest.Wait()
		}
		if n := len(p.links); n > maxLinks {
			t.Errorf("%d links", n)
		}
	})
}

// TestRandomly lets requests, timeouts and failing connections meet: every request ends exactly once, in time, and an
// answer is always the one that was asked for.
func TestRandomly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		b := newBroker(func(c net.Conn, q question) bool {
			switch n.Add(1) % 37 {
			case 3:
				time.Sleep(50 * time.Millisecond)
			case 11:
				return false
			case 23:
				_, _ = c.Write([]byte{0, 0})
				return false
			}
			return echo(c, q)
		})
		p := NewPool(Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if n.Add(1)%5 == 0 {
				return nil, io.EOF
			}
			return b.dial(ctx, network, addr)
		}})
		var senders sync.WaitGroup
		var good, bad atomic.Int32
		for s := range 8 {
			senders.Go(func() {
				for i := range int32(300) {
					start, timeout := time.Now(), time.Duration(1+(i+int32(s))%60)*time.Millisecond
					a := wait(t, p.Send(there, fmt.Sprint(s%2), heartbeat(i), timeout))
					if d := time.Since(start); d > timeout {
						t.Errorf("%v for a timeout of %v", d, timeout)
					}
					if a.Err != nil {
						bad.Add(1)
						continue
					}
					good.Add(1)
					if got := a.Body.(*kmsg.HeartbeatResponse).ThrottleMillis; got != i {
						t.Errorf("answer %d to question %d", got, i)
					}
				}
			})
		}
		senders.Wait()
		p.Close()
		time.Sleep(time.Second) // brokers in their sleep
		if good.Load() < 300 || bad.Load() < 20 {
			t.Errorf("%d answered, %d failed: not much of a test", good.Load(), bad.Load())
		}
	})
}

// TestReleasedMemoryIsUsedAgain, and only when nobody needs it.
func TestReleasedMemoryIsUsedAgain(t *testing.T) {
	records := func(n int32) []byte { return bytes.Repeat([]byte{byte(n)}, 200<<10) }
	b := newBroker(func(c net.Conn, q question) bool {
		resp := q.body.ResponseKind().(*kmsg.FetchResponse)
		topic, part := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
		part.RecordBatches = records(q.body.(*kmsg.FetchRequest).MaxWaitMillis)
		topic.Partitions = append(topic.Partitions, part)
		resp.Topics = append(resp.Topics, topic)
		return reply(c, q, resp)
	})
	b.apis = append(b.apis, api(1, 4, 18))
	p := NewPool(Options{Dial: b.dial})
	defer p.Close()
	p.frames.poison = true
	var kept []Answer
	for i := range int32(40) {
		r := kmsg.NewPtrFetchRequest()
		r.Version, r.MaxWaitMillis = 18, i
		a := wait(t, p.Send(there, "fetch", r, 10*time.Second))
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		if kept = append(kept, a); i%3 == 0 {
			continue
		}
		got := a.Body.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches
		if !bytes.Equal(got, records(i)) {
			t.Fatalf("answer %d is damaged", i)
		}
		a.Release()
		if got[0] == byte(i) {
			t.Fatal("the memory was not given back")
		}
	}
	for i, a := range kept {
		if i%3 == 0 && !bytes.Equal(a.Body.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches, records(int32(i))) {
			t.Errorf("answer %d was overwritten", i)
		}
	}
	Answer{}.Release()
}
