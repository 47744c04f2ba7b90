package api

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/storage/record"
)

// sized makes a batch of about n bytes of records of 1 KiB.
func sized(t testing.TB, n int) record.Batch {
	b := record.NewBuilder(record.Options{})
	for i := range n / 1024 {
		b.Append(t0.UnixMilli()+int64(i), nil, make([]byte, 1010), nil)
	}
	out, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// produceLoop gives a function that sends one batch of n bytes through the handler, as the server would.
func produceLoop(t testing.TB, n int) func() {
	f := newFixture(t)
	f.create("b", 1, "retention.bytes", "1")
	handle := f.row(int16(kmsg.Produce)).Handle
	req := produceRequest(9, "b", 0, -1, sized(t, n))
	wire := req.AppendTo(nil)
	pristine := append([]byte(nil), wire...)
	decoded := kmsg.NewPtrProduceRequest()
	c := f.call(req)
	out := make([]byte, 0, 1024)
	return func() {
		copy(wire, pristine) // the broker stamps offsets into the request
		*decoded = kmsg.ProduceRequest{Version: 9}
		if err := decoded.UnsafeReadFrom(wire); err != nil {
			t.Fatal(err)
		}
		r, ok := handle(c, decoded).Get()
		if !ok || r.Code != 0 {
			t.Fatal("not answered with success")
		}
		r.Body.SetVersion(9)
		out = r.Body.AppendTo(out[:0])
		r.Release()
	}
}

func BenchmarkProduce16K(b *testing.B) {
	send := produceLoop(b, 16<<10)
	b.SetBytes(16 << 10)
	b.ReportAllocs()
	for b.Loop() {
		send()
	}
}

func BenchmarkProduce256K(b *testing.B) {
	send := produceLoop(b, 256<<10)
	b.SetBytes(256 << 10)
	b.ReportAllocs()
	for b.Loop() {
		send()
	}
}

// fetchLoop gives a function that fetches the same batch again and again.
func fetchLoop(t testing.TB, session bool, partitions int32) func() {
	f := newFixture(t)
	f.create("b", partitions)
	for range 4 {
		f.one("b", 0, sized(t, 256<<10))
	}
	handle := newFetchHandler(f.Broker).handle
	req := fetchRequest(12, "b", 0, 0)
	for p := int32(1); p < partitions; p++ {
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, fetchPartition(p, 0))
	}
	if session {
		req.SessionEpoch = 0
	}
	c := f.call(req)
	take := func(r server.Reply) int {
		n := 0
		for _, s := range r.Segments {
			if n += len(s.Bytes); s.Extents != nil {
				n += s.Extents.Size()
			}
		}
		r.Release()
		return n
	}
	if !session {
		return func() {
			if r, ok := handle(c, req).Get(); !ok || take(r) < 256<<10 {
				t.Fatal("no data")
			}
		}
	}
	id := f.body(req, f.reply(handle(c, req))).(*kmsg.FetchResponse).SessionID
	next := kmsg.NewPtrFetchRequest()
	next.Version, next.MinBytes, next.MaxBytes, next.SessionID = 12, 1, 1<<20, id
	next.MaxWaitMillis, next.SessionEpoch = int32(time.Second/time.Millisecond), 0
	return func() {
		next.SessionEpoch = nextEpoch(next.SessionEpoch)
		if r, ok := handle(c, next).Get(); !ok || take(r) < 256<<10 {
			t.Fatal("no data")
		}
	}
}

func BenchmarkFetch(b *testing.B)        { benchFetch(b, false, 1) }
func BenchmarkFetchSession(b *testing.B) { benchFetch(b, true, 1) }

// BenchmarkFetchWideSession reads one busy partition of 10,000 in a session: what is idle costs nothing.
func BenchmarkFetchWideSession(b *testing.B) { benchFetch(b, true, 10_000) }

func benchFetch(b *testing.B, session bool, partitions int32) {
	read := fetchLoop(b, session, partitions)
	b.ReportAllocs()
	for b.Loop() {
		read()
	}
}
