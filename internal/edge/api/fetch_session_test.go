package api

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// reader is a client with a fetch session.
type reader struct {
	f       *fixture
	version int16
	id      int32
	epoch   int32
	wait    int32
	minimum int32
}

func newReader(f *fixture, version int16) *reader { return &reader{f: f, version: version, minimum: 1} }

func (r *reader) request(topics ...kmsg.FetchRequestTopic) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = r.version, r.wait, r.minimum, 1<<20
	req.SessionID, req.SessionEpoch, req.Topics = r.id, r.epoch, topics
	return req
}

// send sends the session's next request.
func (r *reader) send(topics ...kmsg.FetchRequestTopic) (*kmsg.FetchRequest, *promise.Promise[server.Reply]) {
	req := r.request(topics...)
	_, p := r.f.start(req)
	if r.epoch++; r.epoch < 0 {
		r.epoch = 1
	}
	return req, p
}

// fetch sends the session's next request, which must be answered at once without a top-level error.
func (r *reader) fetch(topics ...kmsg.FetchRequestTopic) *kmsg.FetchResponse {
	r.f.t.Helper()
	req, p := r.send(topics...)
	return r.take(req, p)
}

func (r *reader) take(req *kmsg.FetchRequest, p *promise.Promise[server.Reply]) *kmsg.FetchResponse {
	r.f.t.Helper()
	resp := r.f.body(req, r.f.reply(p)).(*kmsg.FetchResponse)
	if resp.ErrorCode != 0 {
		r.f.t.Fatalf("fetch: %v", kafka.Code(resp.ErrorCode))
	}
	r.id = resp.SessionID
	return resp
}

func (f *fixture) fetchCode(req *kmsg.FetchRequest) kafka.Code {
	f.t.Helper()
	return kafka.Code(ask[*kmsg.FetchResponse](f, req).ErrorCode)
}

// told says what a response holds: topic-partition:values or :CODE.
func told(t testing.TB, r *kmsg.FetchResponse) []string {
	t.Helper()
	out := []string{}
	for _, x := range r.Topics {
		for _, p := range x.Partitions {
			s := fmt.Sprintf("%s%d:%v", x.Topic, p.Partition, valuesIn(t, p.RecordBatches))
			if p.ErrorCode != 0 {
				s = fmt.Sprintf("%s%d:%s", x.Topic, p.Partition, kafka.Code(p.ErrorCode).Name())
			}
			out = append(out, s)
		}
	}
	return out
}

func wantTold(t testing.TB, r *kmsg.FetchResponse, want ...string) {
	t.Helper()
	if got := told(t, r); !slices.Equal(got, want) && len(got)+len(want) > 0 {
		t.Fatalf("told %q, want %q", got, want)
	}
}

func TestSessionTellsWhatChanged(t *testing.T) {
	f := newFixture(t)
	f.create("a", 2)
	f.produce("a", 0, "x", "y")
	r := newReader(f, 12)
	wantTold(t, r.fetch(fetchTopic("a", fetchPartition(0, 0))), "a0:[x y]")
	if r.id == 0 {
		t.Fatal("no session was made")
	}
	wantTold(t, r.fetch(), "a0:[x y]") // not read on: again
	wantTold(t, r.fetch(fetchTopic("a", fetchPartition(0, 2))))
	wantTold(t, r.fetch())
	f.produce("a", 0, "z")
	wantTold(t, r.fetch(), "a0:[z]")
	wantTold(t, r.fetch(fetchTopic("a", fetchPartition(0, 3), fetchPartition(1, 0))), "a1:[]")
	wantTold(t, r.fetch())

	wrong := r.request()
	wrong.SessionEpoch = r.epoch + 3
	if code := f.fetchCode(wrong); code != kafka.InvalidFetchSessionEpoch {
		t.Fatalf("wrong epoch: %v", code)
	}
	f.produce("a", 0, "unseen")
	forget := r.request()
	gone := kmsg.NewFetchRequestForgottenTopic()
	gone.Topic, gone.Partitions = "a", []int32{0}
	forget.ForgottenTopics = append(forget.ForgottenTopics, gone)
	wantTold(t, ask[*kmsg.FetchResponse](f, forget))
	r.epoch++
	byID := r.request()
	byID.Version = 13
	if code := f.fetchCode(byID); code != kafka.FetchSessionTopicIDError {
		t.Fatalf("ids in a session of names: %v", code)
	}
	f.produce("a", 1, "seen")
	wantTold(t, r.fetch(), "a1:[seen]")

	end := r.request()
	end.SessionEpoch = -1
	if resp := ask[*kmsg.FetchResponse](f, end); resp.ErrorCode != 0 || resp.SessionID != 0 {
		t.Fatalf("closing: %+v", resp)
	}
	if code := f.fetchCode(r.request()); code != kafka.FetchSessionIDNotFound {
		t.Fatalf("after closing: %v", code)
	}
}

func TestSessionForgettingAllEndsIt(t *testing.T) {
	f := newFixture(t)
	f.create("a", 1)
	r := newReader(f, 12)
	r.fetch(fetchTopic("a", fetchPartition(0, 0)))
	id := r.id
	forget := r.request()
	gone := kmsg.NewFetchRequestForgottenTopic()
	gone.Topic, gone.Partitions = "a", []int32{0}
	forget.ForgottenTopics = append(forget.ForgottenTopics, gone)
	if resp := ask[*kmsg.FetchResponse](f, forget); resp.SessionID != 0 || resp.ErrorCode != 0 {
		t.Fatalf("%+v", resp)
	}
	r.id, r.epoch = id, 2
	if code := f.fetchCode(r.request()); code != kafka.FetchSessionIDNotFound {
		t.Fatal(code)
	}
}

func TestSessionTakesTurns(t *testing.T) {
	f := newFixture(t)
	f.create("a", 3)
	for p := range int32(3) {
		f.produce("a", p, "first")
	}
	r := newReader(f, 12)
	whole := r.request(fetchTopic("a", fetchPartition(0, 0), fetchPartition(1, 0), fetchPartition(2, 0)))
	whole.MaxBytes = 1
	r.epoch++
	first := r.take(whole, second(f.start(whole)))
	wantTold(t, first, "a0:[first]", "a1:[]", "a2:[]")
	for _, want := range []string{"a1:[first]", "a2:[first]", "a0:[first]", "a1:[first]"} {
		req := r.request()
		req.MaxBytes = 1
		r.epoch++
		wantTold(t, r.take(req, second(f.start(req))), want)
	}
}

func second[A, B any](_ A, b B) B { return b }

func TestSessionTellsErrorsUntilTheyAreGone(t *testing.T) {
	f := newFixture(t)
	f.create("a", 1)
	r := newReader(f, 12)
	wantTold(t, r.fetch(fetchTopic("a", fetchPartition(0, 0)), fetchTopic("b", fetchPartition(0, 0))),
		"a0:[]", "b0:UNKNOWN_TOPIC_OR_PARTITION")
	wantTold(t, r.fetch(), "b0:UNKNOWN_TOPIC_OR_PARTITION")
	f.create("b", 1)
	wantTold(t, r.fetch(), "b0:[]")
	wantTold(t, r.fetch())
	f.produce("b", 0, "x")
	wantTold(t, r.fetch(), "b0:[x]")
}

func TestSessionFollowsATopicById(t *testing.T) {
	f := newFixture(t)
	id := f.create("a", 1)
	f.produce("a", 0, "x")
	r := newReader(f, 13)
	wantTold(t, r.fetch(fetchTopic("a", fetchPartition(0, 0))), "0:[x]")
	wantTold(t, r.fetch(fetchTopic("a", fetchPartition(0, 1))))
	f.remove(id)
	wantTold(t, r.fetch(), "0:UNKNOWN_TOPIC_OR_PARTITION")
	f.createAs("a", kafka.UUID{0: 99, 15: 99}, 1)
	wantTold(t, r.fetch(), "0:INCONSISTENT_TOPIC_ID")
	f.createAs("again", id, 1)
	wantTold(t, r.fetch(), "0:OFFSET_OUT_OF_RANGE")
	wantTold(t, r.fetch(fetchTopic("a", fetchPartition(0, 0))), "0:[]")
	f.produce("again", 0, "y")
	wantTold(t, r.fetch(), "0:[y]")
}

func TestSessionByNameMovesToTheNewTopic(t *testing.T) {
	f := newFixture(t)
	f.create("a", 1)
	f.produce("a", 0, "x")
	r := newReader(f, 12)
	r.fetch(fetchTopic("a", fetchPartition(0, 0)))
	wantTold(t, r.fetch(fetchTopic("a", fetchPartition(0, 1))))
	f.remove(topicID("a"))
	f.createAs("a", kafka.UUID{0: 99, 15: 99}, 1)
	wantTold(t, r.fetch(fetchTopic("a", fetchPartition(0, 0))), "a0:[]")
	f.produce("a", 0, "new")
	wantTold(t, r.fetch(), "a0:[new]")
}

func TestSessionEpochWrapsToOne(t *testing.T) {
	if nextEpoch(math.MaxInt32) != 1 || nextEpoch(7) != 8 {
		t.Fatal("epochs run from 1 to the largest and start again")
	}
}

// sessions tells how many sessions are cached.
func (c *fetchSessions) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byID)
}

func TestSessionCacheEvictsAsKafkaDoes(t *testing.T) {
	f := newFixture(t, "max.incremental.fetch.session.cache.slots", "2")
	f.create("a", 4)
	open := func(partitions int32) int32 {
		var ps []kmsg.FetchRequestTopicPartition
		for p := range partitions {
			ps = append(ps, fetchPartition(p, 0))
		}
		r := newReader(f, 12)
		r.fetch(fetchTopic("a", ps...))
		return r.id
	}
	alive := func(id, epoch int32) bool {
		r := &reader{f: f, version: 12, id: id, epoch: epoch, minimum: 1}
		code := f.fetchCode(r.request())
		return code != kafka.FetchSessionIDNotFound
	}
	one, two := open(1), open(2)
	if one == 0 || two == 0 {
		t.Fatal("there was room")
	}
	if id := open(4); id != 0 {
		t.Fatal("a young session was evicted for a larger one")
	}
	f.advance(sessionEviction / 2)
	if !alive(one, 1) || !alive(two, 1) {
		t.Fatal("a session is gone")
	}
	f.advance(sessionEviction/2 + time.Second)
	if !alive(one, 2) || !alive(two, 2) { // used, and old enough by now to make room for larger ones
		t.Fatal("a session is gone")
	}
	if id := open(1); id != 0 {
		t.Fatal("a session was evicted for one of its own size")
	}
	three := open(3)
	if three == 0 || alive(one, 3) || !alive(two, 3) {
		t.Fatalf("the smallest old session should have made room (new: %d)", three)
	}
	f.advance(sessionEviction + time.Second)
	four := open(1) // whatever was unused for so long goes, sizes do not matter
	if four == 0 || alive(three, 1) {
		t.Fatal("an unused session should have made room")
	}
}

func TestSessionOfFollowerEvictsConsumers(t *testing.T) {
	f := newFixture(t, "max.incremental.fetch.session.cache.slots", "1")
	f.create("a", 2)
	consumer := newReader(f, 12)
	consumer.fetch(fetchTopic("a", fetchPartition(0, 0), fetchPartition(1, 0)))
	follower := newReader(f, 12)
	req := follower.request(fetchTopic("a", fetchPartition(0, 0)))
	req.ReplicaID = 2
	if id := follower.take(req, second(f.start(req))).SessionID; id == 0 {
		t.Fatal("a follower found no room beside a consumer")
	}
	if code := f.fetchCode(consumer.request()); code != kafka.FetchSessionIDNotFound {
		t.Fatal(code)
	}
	other := newReader(f, 12)
	other.fetch(fetchTopic("a", fetchPartition(0, 0), fetchPartition(1, 0)))
	if other.id != 0 {
		t.Fatal("a consumer evicted a follower")
	}
}

func TestSessionPartitionsAreBounded(t *testing.T) {
	f := newFixture(t, "moldau.fetch.session.partitions.max", "1000")
	f.create("a", 1)
	many := func(n int32, topic string) kmsg.FetchRequestTopic {
		var ps []kmsg.FetchRequestTopicPartition
		for p := range n {
			ps = append(ps, fetchPartition(p, 0))
		}
		return fetchTopic(topic, ps...)
	}
	big := newReader(f, 12)
	big.fetch(many(1001, "a"))
	if big.id != 0 {
		t.Fatal("a session above the limit was made")
	}
	r := newReader(f, 12)
	r.fetch(many(600, "a"))
	if r.id == 0 {
		t.Fatal("no session")
	}
	req := r.request(many(600, "b"))
	if code := f.fetchCode(req); code != kafka.FetchSessionIDNotFound {
		t.Fatalf("growing beyond the limit: %v", code)
	}
	again := newReader(f, 12)
	again.fetch(many(1000, "a"))
	if again.id == 0 {
		t.Fatal("the ended session is still counted")
	}
}

func TestFetchLeavesNoRegistrationsBehind(t *testing.T) {
	f := newFixture(t)
	f.create("a", 2)
	h := newFetchHandler(f.Broker)
	req := fetchRequest(12, "a", 0, 0)
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, fetchPartition(1, 0))
	req.SessionEpoch = 0
	p := h.handle(f.call(req), req)
	set := h.sessions.newest.set
	if len(set.moving) != 2 {
		t.Fatalf("the session is registered with %d partitions", len(set.moving))
	}
	f.advance(time.Second)
	id := f.body(req, f.reply(p)).(*kmsg.FetchResponse).SessionID
	end := kmsg.NewPtrFetchRequest()
	end.Version, end.SessionID, end.SessionEpoch = 12, id, -1
	f.body(end, f.reply(h.handle(f.call(end), end)))
	if len(set.moving) != 0 || !set.closed || h.sessions.count() != 0 || h.sessions.partitions != 0 {
		t.Fatalf("left behind: %d registrations, %d sessions, %d partitions", len(set.moving), h.sessions.count(),
			h.sessions.partitions)
	}

	op := h.begin(f.call(req), req)
	req.SessionEpoch = -1
	h.sessions.attach(op, req)
	op.park(time.Second)
	if len(op.set.moving) != 2 {
		t.Fatalf("the parked fetch is registered with %d partitions", len(op.set.moving))
	}
	f.advance(2 * time.Second)
	if len(op.set.moving) != 0 || f.waits().count.Load() != 0 {
		t.Fatal("the answered fetch is still registered")
	}
}
