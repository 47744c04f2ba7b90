package api

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
	"moldau/internal/storage/record"
)

func (f *fixture) wantWaiting(p *promise.Promise[server.Reply], what string) {
	f.t.Helper()
	if r, ok := p.Get(); ok {
		f.t.Fatalf("%s: answered already: %+v", what, r)
	}
}

// TestFetchWaits: with and without a session a fetch waits for data, its deadline or the end of its
// connection.
func TestFetchWaits(t *testing.T) {
	for _, session := range []int32{-1, 0} {
		for v := int16(7); v <= 18; v++ {
			f := newFixture(t)
			f.poison = true
			f.create("fe", 2)
			ask1 := func() (*kmsg.FetchRequest, *server.Call, *promise.Promise[server.Reply]) {
				req := fetchRequest(v, "fe", 0, 0)
				req.SessionEpoch = session
				req.Topics[0].Partitions = append(req.Topics[0].Partitions, fetchPartition(1, 0))
				c, p := f.start(req)
				return req, c, p
			}
			req, _, p := ask1()
			f.wantWaiting(p, "nothing is there")
			f.advance(199 * time.Millisecond)
			f.wantWaiting(p, "before the deadline")
			f.advance(time.Millisecond)
			if r := f.body(req, f.reply(p)).(*kmsg.FetchResponse); len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 2 {
				t.Fatalf("version %d at the deadline: %+v", v, r)
			}

			_, c, p := ask1()
			c.Cancel()
			f.reply(p)

			req, _, p = ask1()
			f.produce("fe", 1, "x")
			r := f.body(req, f.reply(p)).(*kmsg.FetchResponse)
			if len(valuesIn(t, r.Topics[0].Partitions[1].RecordBatches)) != 1 || len(r.Topics[0].Partitions) != 2 {
				t.Fatalf("version %d after data came: %+v", v, r)
			}
			if n := f.waits().count.Load(); n != 0 {
				t.Fatalf("%d requests wait", n)
			}
		}
	}
}

func TestFetchWaitsForMinBytes(t *testing.T) {
	f := newFixture(t)
	f.create("fe", 3)
	f.produce("fe", 0, "before")
	size := len(f.fetched(fetchRequest(12, "fe", 0, 0)).RecordBatches)
	for _, session := range []int32{-1, 0} {
		f := newFixture(t)
		f.create("fe", 3)
		f.produce("fe", 0, "before")
		req := fetchRequest(12, "fe", 0, 0)
		req.SessionEpoch, req.MinBytes = session, int32(3*size)
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, fetchPartition(1, 0), fetchPartition(2, 0))
		_, p := f.start(req)
		f.wantWaiting(p, "one of three")
		f.produce("fe", 1, "second")
		f.wantWaiting(p, "two of three")
		f.produce("fe", 2, "third.")
		r := f.body(req, f.reply(p)).(*kmsg.FetchResponse)
		wantTold(t, r, "fe0:[before]", "fe1:[second]", "fe2:[third.]")
	}
}

func TestFetchMinBytesAtTheDeadline(t *testing.T) {
	f := newFixture(t)
	f.create("fe", 1)
	r := newReader(f, 12)
	r.wait, r.minimum = 100, 1<<19
	req, p := r.send(fetchTopic("fe", fetchPartition(0, 0)))
	f.produce("fe", 0, "x")
	f.wantWaiting(p, "too little")
	f.advance(100 * time.Millisecond)
	wantTold(t, r.take(req, p), "fe0:[x]")
	req, p = r.send(fetchTopic("fe", fetchPartition(0, 1)))
	f.wantWaiting(p, "nothing new")
	f.advance(100 * time.Millisecond)
	wantTold(t, r.take(req, p))
}

// TestFetchTellsAtTheDeadline what changed without being worth an answer of its own.
func TestFetchTellsAtTheDeadline(t *testing.T) {
	f := newFixture(t)
	f.create("fe", 1)
	r := newReader(f, 12)
	r.fetch(fetchTopic("fe", fetchPartition(0, 0)))
	f.produce("fe", 0, "x")
	r.wait = 100
	req, p := r.send(fetchTopic("fe", fetchPartition(0, 1)))
	f.wantWaiting(p, "there is a new high watermark and nothing to read")
	f.advance(100 * time.Millisecond)
	resp := r.take(req, p)
	if wantTold(t, resp, "fe0:[]"); resp.Topics[0].Partitions[0].HighWatermark != 1 {
		t.Fatalf("%+v", resp)
	}
}

func TestFetchWaitEndsWithErrors(t *testing.T) {
	for _, session := range []int32{-1, 0} {
		f := newFixture(t)
		f.create("fe", 1)
		req := fetchRequest(12, "fe", 0, 0)
		req.SessionEpoch = session
		_, p := f.start(req)
		f.DirFailed(f.dir, kafka.KafkaStorageError)
		wantTold(t, f.body(req, f.reply(p)).(*kmsg.FetchResponse), "fe0:KAFKA_STORAGE_ERROR")
	}
}

// TestFetchWaitGoesOnWithUnknownTopics: what is not there is told, but it does not make the reader spin.
func TestFetchWaitGoesOnWithUnknownTopics(t *testing.T) {
	f := newFixture(t)
	f.create("fe", 1)
	req := fetchRequest(12, "fe", 0, 0)
	req.Topics = append(req.Topics, fetchTopic("none", fetchPartition(0, 0)))
	_, p := f.start(req)
	f.wantWaiting(p, "an unknown topic beside a known one")
	f.advance(time.Second)
	wantTold(t, f.body(req, f.reply(p)).(*kmsg.FetchResponse), "fe0:[]", "none0:UNKNOWN_TOPIC_OR_PARTITION")
}

func TestFetchDeletedWhileWaiting(t *testing.T) {
	f := newFixture(t)
	id := f.create("fe", 1)
	req := fetchRequest(12, "fe", 0, 0)
	_, p := f.start(req)
	f.remove(id)
	// The partition ends a moment before the image says that the topic has.
	wantTold(t, f.body(req, f.reply(p)).(*kmsg.FetchResponse), "fe0:NOT_LEADER_OR_FOLLOWER")
	wantTold(t, ask[*kmsg.FetchResponse](f, req), "fe0:UNKNOWN_TOPIC_OR_PARTITION")
}

func TestFetchWaitsAreBounded(t *testing.T) {
	f := newFixture(t, "moldau.request.wait.max", "100")
	f.create("fe", 1)
	var waiting []*promise.Promise[server.Reply]
	for range 100 {
		_, p := f.start(fetchRequest(12, "fe", 0, 0))
		waiting = append(waiting, p)
	}
	f.reply(second(f.start(fetchRequest(12, "fe", 0, 0)))) // the one too many is answered at once
	for _, p := range waiting {
		f.wantWaiting(p, "below the limit")
	}
	f.produce("fe", 0, "x")
	for _, p := range waiting {
		f.reply(p).Release()
	}
	if n := f.waits().count.Load(); n != 0 {
		t.Fatalf("%d requests wait", n)
	}
}

// TestFetchOverlappingInASession: a second request of a session ends the first, which learns that it is out
// of date.
func TestFetchOverlappingInASession(t *testing.T) {
	f := newFixture(t)
	f.create("fe", 1)
	r := newReader(f, 12)
	r.fetch(fetchTopic("fe", fetchPartition(0, 0)))
	r.wait = 1000
	first, p1 := r.send()
	f.wantWaiting(p1, "nothing is there")
	second, p2 := r.send()
	resp := f.body(first, f.reply(p1)).(*kmsg.FetchResponse)
	if kafka.Code(resp.ErrorCode) != kafka.InvalidFetchSessionEpoch {
		t.Fatalf("%+v", resp)
	}
	f.produce("fe", 0, "x")
	wantTold(t, r.take(second, p2), "fe0:[x]")
}

func TestFetchOfAnEndedSession(t *testing.T) {
	f := newFixture(t)
	f.create("fe", 1)
	r := newReader(f, 12)
	r.fetch(fetchTopic("fe", fetchPartition(0, 0)))
	r.wait = 1000
	req, p := r.send()
	f.wantWaiting(p, "nothing is there")
	end := r.request()
	end.SessionEpoch = -1
	ask[*kmsg.FetchResponse](f, end)
	f.body(req, f.reply(p))
}

// TestFetchEverything lets producers, readers with and without sessions, a slow disk and real timers run at
// once: every reader sees every record of its partitions once and in order. The race detector watches.
func TestFetchEverything(t *testing.T) {
	const partitions, perPartition, readers = 4, 60, 6
	f := newFixture(t)
	f.create("fe", partitions)
	f.After = func(d time.Duration, fn func()) func() {
		timer := time.AfterFunc(d, fn)
		return func() { timer.Stop() }
	}
	f.Now = time.Now
	rows := f.Rows()
	handle := func(req kmsg.Request) server.Reply {
		for _, row := range rows {
			if row.Key == req.Key() {
				r, err := row.Handle(&server.Call{Conn: f.conn, Key: req.Key(), Version: req.GetVersion(), ClientID: "c",
					Now: time.Now()}, req).Wait(t.Context())
				if err != nil {
					t.Error(err)
				}
				return r
			}
		}
		return server.Reply{}
	}
	var wg sync.WaitGroup
	for p := range int32(partitions) {
		wg.Go(func() {
			for i := range perPartition {
				r := handle(produceRequest(9, "fe", p, -1, batchOf(t, record.Options{}, fmt.Sprint(i))))
				if r.Code != 0 {
					t.Error(r.Code)
				}
				r.Release()
				time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
			}
		})
	}
	for n := range readers {
		wg.Go(func() { readEverything(t, f, handle, n, partitions, perPartition) })
	}
	wg.Wait()
}

func readEverything(t *testing.T, f *fixture, handle func(kmsg.Request) server.Reply, n, partitions, records int) {
	version := []int16{7, 11, 12, 13, 16, 18}[n%6]
	session := n%2 == 0
	offsets := make([]int64, partitions)
	seen := make([][]string, partitions)
	var id, epoch int32
	for slices.ContainsFunc(offsets, func(o int64) bool { return o < int64(records) }) {
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.SessionEpoch = version, -1
		req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(1+rand.IntN(30)), 1, 900
		if session {
			req.SessionID, req.SessionEpoch = id, epoch
			epoch++
		}
		var ps []kmsg.FetchRequestTopicPartition
		for p := range offsets {
			ps = append(ps, fetchPartition(int32(p), offsets[p]))
		}
		req.Topics = append(req.Topics, fetchTopic("fe", ps...))
		r := handle(req)
		resp := f.body(req, r).(*kmsg.FetchResponse)
		id = resp.SessionID
		if resp.ErrorCode != 0 {
			t.Error(kafka.Code(resp.ErrorCode))
			return
		}
		for _, x := range resp.Topics {
			for _, p := range x.Partitions {
				values := valuesIn(t, p.RecordBatches)
				seen[p.Partition] = append(seen[p.Partition], values...)
				offsets[p.Partition] += int64(len(values))
			}
		}
	}
	for p, values := range seen {
		for i, v := range values {
			if v != fmt.Sprint(i) {
				t.Errorf("reader %d, partition %d: record %d is %s", n, p, i, v)
				return
			}
		}
	}
}
