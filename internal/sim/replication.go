package sim

import (
	"bytes"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
)

// fetchLink is a follower's connection to one leader, with the fetcher that uses it. Requests and answers keep their
// order; one that is lost breaks the connection and takes the others with it.
type fetchLink struct {
	b       *broker
	leader  *machine
	f       *replica.Fetcher
	number  int // of this connection
	waiting int // requests without an answer
	// sent and answered count requests over all connections: answers come in the order of the requests.
	sent, answered int
	sentAt         time.Duration
	wakeAt         time.Duration
}

// follow brings the fetchers up to date with the roles of the partitions.
func (b *broker) follow() {
	for _, p := range b.manager.All() {
		leader, epoch := p.Leadership()
		now := term{leader, epoch}
		if p.Role() != replica.Follower {
			now = term{leader: kafka.NoNode}
		}
		was, known := b.follows[p]
		if known && was == now {
			continue
		}
		if known && was.leader != now.leader && was.leader != kafka.NoNode {
			b.links[was.leader].f.Drop(p)
		}
		b.follows[p] = now
		if now.leader != kafka.NoNode {
			b.link(now.leader).f.Follow(p)
		}
	}
}

func (b *broker) link(leader kafka.NodeID) *fetchLink {
	if l := b.links[leader]; l != nil {
		return l
	}
	l := &fetchLink{b: b, leader: b.world.machineOf(leader)}
	l.f = replica.NewFetcher(replica.FetcherOptions{Self: b.m.id, Leader: leader,
		Epoch: func() kafka.BrokerEpoch { return b.epoch }, Wake: func() {},
		Failed: func(p *replica.Partition, err error) {
			b.m.fail("%s cannot be copied from %d: %v", p.TopicPartition(), leader, err)
		},
		MaxWait: 500 * time.Millisecond, MinBytes: 1, MaxBytes: 1 << 20, PartitionBytes: 600, Backoff: time.Second})
	b.links[leader] = l
	return l
}

// fetch lets every fetcher send what it has to send.
func (b *broker) fetch() {
	for _, m := range b.world.machines {
		if l := b.links[m.id]; l != nil {
			l.next()
		}
	}
}

func (l *fetchLink) next() {
	w, m := l.b.world, l.b.m
	for {
		r, wake := l.f.Next(m.time())
		if r == nil {
			if d := m.clock.until(w.now, wake); !wake.IsZero() && (l.wakeAt <= w.now || w.now+d < l.wakeAt) {
				l.wakeAt = w.now + d
				m.after(d, func() {})
			}
			return
		}
		l.send(r)
	}
}

// linkTimeout is how long a follower waits for an answer: longer than the leader may hold it.
const linkTimeout = 4 * time.Second

func (l *fetchLink) send(r kmsg.Request) {
	w, m, connection := l.b.world, l.b.m, l.number
	l.waiting++
	l.sent++
	sequence := l.sent
	broken := func() { l.broken(connection) }
	left := l.waiting
	m.after(linkTimeout, func() {
		if l.number == connection && l.waiting >= left {
			broken()
		}
	})
	if !w.passes(m, l.leader) || !w.calm && w.plan.has(faultDrop) && w.chance(w.plan.drop) {
		w.lose(m, broken)
		return
	}
	life := m.life
	l.sentAt = max(l.sentAt+1, w.now+w.latency())
	w.stats.Messages++
	w.after(l.sentAt-w.now, func() {
		if !l.leader.up() || !w.passes(m, l.leader) {
			if m.life == life {
				w.lose(m, broken)
			}
			return
		}
		l.leader.happen(l.leader.life, func() {
			l.leader.process.(*broker).leading.request(r, &caller{link: l, machine: m, life: life, connection: connection, sequence: sequence})
		})
	})
}

// broken fails everything that is under way on the connection.
func (l *fetchLink) broken(connection int) {
	if l.number != connection {
		return
	}
	l.number++
	l.answered = l.sent
	for ; l.waiting > 0; l.waiting-- {
		l.f.Answered(l.b.m.time(), nil, kafka.NetworkException, l.b)
	}
}

// caller is where the answer of a fetch goes.
type caller struct {
	link       *fetchLink
	machine    *machine
	life       int
	connection int
	sequence   int
}

// answer carries an answer back, behind those before it.
func (c *caller) answer(from *machine, at *time.Duration, resp kmsg.Response) {
	w := from.world
	w.stats.Messages++
	*at = max(*at+1, w.now+w.latency())
	w.after(*at-w.now, func() {
		m := c.machine
		if m.life != c.life || !m.up() || !w.passes(from, m) {
			return // it will time out
		}
		m.happen(c.life, func() {
			if c.link.number != c.connection {
				return
			}
			if c.sequence != c.link.answered+1 { // what a connection has lost, nothing can overtake on it
				c.link.broken(c.connection)
				return
			}
			c.link.answered++
			c.link.waiting--
			c.link.f.Answered(m.time(), resp, nil, c.link.b)
		})
	})
}

// leaderSide answers the fetches of followers, with sessions as KIP-227 has them.
type leaderSide struct {
	b        *broker
	watcher  replica.Watcher
	moved    bool
	sessions map[kafka.NodeID]*fetchSession
	parked   []*parkedFetch
	lastID   int32
}

type fetchSession struct {
	id, epoch int32
	wants     []wanted
	backAt    time.Duration
}

// wanted is one partition of a session.
type wanted struct {
	topic kafka.UUID
	kmsg.FetchRequestTopicPartition
	// told is the high watermark that the follower was told last.
	told kafka.Offset
}

type parkedFetch struct {
	r       *kmsg.FetchRequest
	to      *caller
	session *fetchSession
	// id and epoch are those of its session when it came: another process of the same follower may have begun one since.
	id, epoch int32
	over      bool
}

func (s *leaderSide) begin(b *broker) {
	s.b, s.sessions = b, map[kafka.NodeID]*fetchSession{}
	s.watcher = replica.Watcher{Replica: true, OnMove: func(*replica.Partition) { s.moved = true }}
}

// request takes a follower's request.
func (s *leaderSide) request(r kmsg.Request, to *caller) {
	switch r := r.(type) {
	case *kmsg.ListOffsetsRequest:
		s.session(kafka.NodeID(r.ReplicaID)).answer(s, to, s.listOffsets(r))
	case *kmsg.FetchRequest:
		s.fetch(r, to)
	}
}

func (s *leaderSide) session(id kafka.NodeID) *fetchSession {
	if s.sessions[id] == nil {
		s.sessions[id] = &fetchSession{id: -1}
	}
	return s.sessions[id]
}

func (x *fetchSession) answer(s *leaderSide, to *caller, resp kmsg.Response) {
	to.answer(s.b.m, &x.backAt, resp)
}

func (s *leaderSide) fetch(r *kmsg.FetchRequest, to *caller) {
	x := s.session(kafka.NodeID(r.ReplicaState.ID))
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = r.Version
	switch {
	case r.SessionEpoch == 0:
		s.lastID++
		x.id, x.epoch, x.wants = s.lastID, 0, nil
	case r.SessionID != x.id:
		resp.ErrorCode = int16(kafka.FetchSessionIDNotFound)
	case r.SessionEpoch != x.epoch+1:
		resp.ErrorCode = int16(kafka.InvalidFetchSessionEpoch)
	default:
		x.epoch++
	}
	if resp.ErrorCode != 0 {
		x.answer(s, to, resp)
		return
	}
	s.update(x, r)
	f := &parkedFetch{r: r, to: to, session: x, id: x.id, epoch: x.epoch}
	s.parked = append(s.parked, f)
	s.moved = true
	s.b.m.after(time.Duration(r.MaxWaitMillis)*time.Millisecond, func() { f.over, s.moved = true, true })
}

// update takes over what a request says about its session.
func (s *leaderSide) update(x *fetchSession, r *kmsg.FetchRequest) {
	for _, t := range r.ForgottenTopics {
		x.wants = slices.DeleteFunc(x.wants, func(q wanted) bool {
			return q.topic == t.TopicID && slices.Contains(t.Partitions, q.Partition)
		})
	}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			x.wants = slices.DeleteFunc(x.wants, func(q wanted) bool { return q.topic == t.TopicID && q.Partition == p.Partition })
			x.wants = append(x.wants, wanted{topic: t.TopicID, FetchRequestTopicPartition: p, told: -2})
		}
	}
}

// serve looks at the fetches that wait: after anything has moved.
func (s *leaderSide) serve() {
	if !s.moved {
		return
	}
	s.moved = false
	waiting := s.parked
	s.parked = nil
	for _, f := range waiting {
		resp := kmsg.NewPtrFetchResponse()
		resp.Version, resp.SessionID = f.r.Version, f.id
		if f.id != f.session.id {
			resp.ErrorCode = int16(kafka.FetchSessionIDNotFound)
		} else if f.epoch != f.session.epoch {
			resp.ErrorCode = int16(kafka.InvalidFetchSessionEpoch)
		} else if !s.collect(f, resp) && !f.over {
			s.parked = append(s.parked, f)
			continue
		}
		f.session.answer(s, f.to, resp)
	}
}

// collect reads what there is for a fetch, and says whether it is worth an answer.
func (s *leaderSide) collect(f *parkedFetch, resp *kmsg.FetchResponse) bool {
	something := false
	for i := range f.session.wants {
		q := &f.session.wants[i]
		out := kmsg.NewFetchResponseTopicPartition()
		out.Partition = q.Partition
		urgent := s.read(f.r, q, &out)
		something = something || urgent
		if !urgent && !f.over && kafka.Offset(out.HighWatermark) == q.told {
			continue
		}
		t := kmsg.NewFetchResponseTopic()
		t.TopicID = q.topic
		t.Partitions = append(t.Partitions, out)
		resp.Topics = append(resp.Topics, t)
	}
	if !something && !f.over {
		return false
	}
	for _, t := range resp.Topics {
		for i := range f.session.wants {
			if q := &f.session.wants[i]; q.topic == t.TopicID && q.Partition == t.Partitions[0].Partition {
				q.told = kafka.Offset(t.Partitions[0].HighWatermark)
			}
		}
	}
	return true
}

// read reads for one partition; true: the follower must hear of it now.
func (s *leaderSide) read(r *kmsg.FetchRequest, q *wanted, out *kmsg.FetchResponseTopicPartition) bool {
	b, id := s.b, kafka.NodeID(r.ReplicaState.ID)
	p, err := b.manager.GetByID(q.topic, q.Partition)
	if err != nil {
		out.ErrorCode = int16(kafka.CodeOf(err))
		return true
	}
	p.Unwatch(&s.watcher)
	p.Watch(&s.watcher)
	got := p.Read(replica.ReadSpec{Replica: id, Offset: kafka.Offset(q.FetchOffset), MaxBytes: int(q.PartitionMaxBytes),
		WholeBatch: true, LeaderEpoch: kafka.LeaderEpoch(q.CurrentLeaderEpoch),
		LastEpoch: kafka.LeaderEpoch(q.LastFetchedEpoch)})
	if got.Err != nil {
		out.ErrorCode = int16(kafka.CodeOf(got.Err))
		return true
	}
	defer got.Extents.Release()
	out.LogStartOffset = int64(got.LogStart)
	if got.DivergingEpoch != kafka.NoEpoch {
		out.DivergingEpoch.Epoch, out.DivergingEpoch.EndOffset = int32(got.DivergingEpoch), int64(got.DivergingEnd)
		out.HighWatermark = int64(got.HighWatermark)
		return true
	}
	e := p.Fetched(b.m.time(), replica.FollowerFetch{Replica: id, Epoch: kafka.BrokerEpoch(r.ReplicaState.Epoch),
		LeaderEpoch: got.LeaderEpoch, Offset: kafka.Offset(q.FetchOffset), Start: kafka.Offset(q.LogStartOffset)},
		b.eligible)
	e.Run(b)
	raw, err := got.Extents.ReadAll()
	if err != nil {
		b.m.fail("%s cannot be read: %v", p.TopicPartition(), err)
		return true
	}
	out.RecordBatches = bytes.Clone(raw)
	out.HighWatermark = int64(p.HighWatermark())
	return len(raw) > 0
}

// eligible says whether a broker may be in an in-sync set, and its epoch.
func (b *broker) eligible(id kafka.NodeID) (kafka.BrokerEpoch, bool) {
	x, ok := b.published.Broker(id)
	if !ok || x.Fenced || x.InControlledShutdown {
		return -1, false
	}
	return x.Epoch, true
}

func (s *leaderSide) listOffsets(r *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := kmsg.NewPtrListOffsetsResponse()
	resp.Version = r.Version
	for _, t := range r.Topics {
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = t.Topic
		for _, q := range t.Partitions {
			x := kmsg.NewListOffsetsResponseTopicPartition()
			x.Partition = q.Partition
			p, err := s.b.manager.Get(kafka.TopicPartition{Topic: t.Topic, Partition: q.Partition})
			if err == nil {
				var at replica.OffsetAt
				at, err = p.ListOffset(replica.OffsetSpec{TimestampMs: q.Timestamp, Replica: kafka.NodeID(r.ReplicaID),
					LeaderEpoch: kafka.LeaderEpoch(q.CurrentLeaderEpoch)})
				x.Offset = int64(at.Offset)
			}
			x.ErrorCode = int16(kafka.CodeOf(err))
			out.Partitions = append(out.Partitions, x)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
