package replica

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

// station is a node of a test: partitions of its own file system, and a desk whose syncs are done on demand.
type station struct {
	t     *testing.T
	id    kafka.NodeID
	dir   *log.Dir
	desk  *desk
	parts []*Partition
	lag   time.Duration
}

func newStation(t *testing.T, id kafka.NodeID, partitions int) *station {
	s := &station{t: t, id: id, dir: openDir(t, vfs.NewMem(vfs.MemOptions{})), desk: &desk{}}
	for i := range partitions {
		c := log.DefaultConfig()
		c.MinInsyncReplicas = 1
		tp := kafka.TopicPartition{Topic: "orders", Partition: int32(i)}
		l, err := s.dir.Create(tp, &c, log.CreateOptions{TopicID: topic}, t0)
		if err != nil {
			t.Fatal(err)
		}
		s.parts = append(s.parts, newPartition(id, tp, topic, l, 0, &Limits{}))
	}
	return s
}

// assign tells the station what an image says of one partition.
func (s *station) assign(i int, leader kafka.NodeID, epoch kafka.LeaderEpoch, isr ...kafka.NodeID) {
	s.desk.run(s.parts[i].Assign(t0, Assignment{State: &metadata.Partition{Replicas: []kafka.NodeID{1, 2, 3}, ISR: isr,
		Leader: leader, LeaderEpoch: epoch, PartitionEpoch: kafka.PartitionEpoch(epoch), Directories: make([]kafka.UUID, 3)}}))
}

func (s *station) produce(i int, values ...string) {
	s.t.Helper()
	w := &AppendWaiter{Done: func(*AppendWaiter) {}}
	e, err := s.parts[i].Append(t0, AppendRequest{Batch: batch(s.t, values...), Acks: AcksLeader,
		LeaderEpoch: kafka.NoEpoch, Producer: log.ProducerCheck{Origin: log.FromClient}}, w)
	if err != nil {
		s.t.Fatal(err)
	}
	s.desk.run(e)
}

func (s *station) end(i int) kafka.Offset { return s.parts[i].Info().End }

// bytesOf gives the whole log of a partition.
func (s *station) bytesOf(i int) []byte {
	s.t.Helper()
	v := s.parts[i].Log().View()
	if v.Start == v.End {
		return nil
	}
	x, err := v.Read(v.Start, v.End, 1<<30, true)
	if err != nil {
		s.t.Fatal(err)
	}
	defer x.Release()
	b, err := x.ReadAll()
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// leaderSide answers a fetcher as a leader would, with sessions that hold everything that was named.
type leaderSide struct {
	*station
	session map[int32]kmsg.FetchRequestTopicPartition
	id      int32
	epoch   int32
	named   int // partitions named by the last request
	max     int
	corrupt bool
	errors  map[int32]kafka.Code
}

func (l *leaderSide) serve(r kmsg.Request) kmsg.Response {
	if r, ok := r.(*kmsg.ListOffsetsRequest); ok {
		return l.listOffsets(r)
	}
	return l.fetch(r.(*kmsg.FetchRequest))
}

func (l *leaderSide) fetch(r *kmsg.FetchRequest) kmsg.Response {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = r.Version
	switch {
	case r.SessionEpoch == 0:
		l.id, l.epoch, l.session = l.id+1, 1, map[int32]kmsg.FetchRequestTopicPartition{}
	case r.SessionID != l.id:
		resp.ErrorCode = int16(kafka.FetchSessionIDNotFound)
		return resp
	case r.SessionEpoch != l.epoch:
		resp.ErrorCode = int16(kafka.InvalidFetchSessionEpoch)
		return resp
	default:
		l.epoch++
	}
	resp.SessionID, l.named = l.id, 0
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			l.session[p.Partition] = p
			l.named++
		}
	}
	for _, t := range r.ForgottenTopics {
		for _, p := range t.Partitions {
			delete(l.session, p)
		}
	}
	t := kmsg.NewFetchResponseTopic()
	t.TopicID = topic
	for i := range int32(len(l.parts)) {
		if p, ok := l.session[i]; ok {
			t.Partitions = append(t.Partitions, l.read(r, &p))
		}
	}
	resp.Topics = append(resp.Topics, t)
	return resp
}

func (l *leaderSide) read(r *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) kmsg.FetchResponseTopicPartition {
	out := kmsg.NewFetchResponseTopicPartition()
	out.Partition = p.Partition
	if out.ErrorCode = int16(l.errors[p.Partition]); out.ErrorCode != 0 {
		return out
	}
	part := l.parts[p.Partition]
	id := kafka.NodeID(r.ReplicaState.ID)
	read := part.Read(ReadSpec{Replica: id, Offset: kafka.Offset(p.FetchOffset), MaxBytes: cmpOr(l.max, 1<<20), WholeBatch: true,
		LeaderEpoch: kafka.LeaderEpoch(p.CurrentLeaderEpoch), LastEpoch: kafka.LeaderEpoch(p.LastFetchedEpoch)})
	if read.Err != nil {
		out.ErrorCode = int16(kafka.CodeOf(read.Err))
		return out
	}
	defer read.Extents.Release()
	out.HighWatermark, out.LogStartOffset = int64(read.HighWatermark), int64(read.LogStart)
	if read.DivergingEpoch != kafka.NoEpoch {
		out.DivergingEpoch.Epoch, out.DivergingEpoch.EndOffset = int32(read.DivergingEpoch), int64(read.DivergingEnd)
		return out
	}
	b, err := read.Extents.ReadAll()
	if err != nil {
		l.t.Fatal(err)
	}
	if b = bytes.Clone(b); l.corrupt && len(b) > 0 {
		b[len(b)-1] ^= 1
	}
	out.RecordBatches = b
	l.desk.run(part.Fetched(t0, FollowerFetch{Replica: id, Epoch: kafka.BrokerEpoch(r.ReplicaState.Epoch),
		LeaderEpoch: read.LeaderEpoch, Offset: kafka.Offset(p.FetchOffset), Start: kafka.Offset(p.LogStartOffset)}, nil))
	return out
}

func cmpOr(a, b int) int {
	if a != 0 {
		return a
	}
	return b
}

func (l *leaderSide) listOffsets(r *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := kmsg.NewPtrListOffsetsResponse()
	for _, t := range r.Topics {
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			at, err := l.parts[p.Partition].ListOffset(OffsetSpec{TimestampMs: p.Timestamp, Replica: kafka.NodeID(r.ReplicaID),
				LeaderEpoch: kafka.LeaderEpoch(p.CurrentLeaderEpoch)})
			x := kmsg.NewListOffsetsResponseTopicPartition()
			x.Partition, x.ErrorCode, x.Offset = p.Partition, int16(kafka.CodeOf(err)), int64(at.Offset)
			out.Partitions = append(out.Partitions, x)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// pair is a leader, node 1, and a follower, node 2, with its fetcher.
type pair struct {
	t        *testing.T
	leader   *leaderSide
	follower *station
	f        *Fetcher
	now      time.Time
	reported []error
	woken    int
}

func newPair(t *testing.T, partitions int) *pair {
	p := &pair{t: t, now: t0, leader: &leaderSide{station: newStation(t, 1, partitions), errors: map[int32]kafka.Code{}},
		follower: newStation(t, 2, partitions)}
	p.f = NewFetcher(FetcherOptions{Self: 2, Leader: 1, Epoch: func() kafka.BrokerEpoch { return 40 },
		Wake: func() { p.woken++ }, MaxWait: time.Second / 2, MinBytes: 1, MaxBytes: 10 << 20, PartitionBytes: 1 << 20,
		Backoff: time.Second, Failed: func(_ *Partition, err error) { p.reported = append(p.reported, err) }})
	for i := range partitions {
		p.term(i, 3)
	}
	return p
}

// term begins a term of node 1 on both nodes.
func (p *pair) term(i int, epoch kafka.LeaderEpoch) {
	p.leader.assign(i, 1, epoch, 1, 2)
	p.follower.assign(i, 1, epoch, 1, 2)
	p.f.Follow(p.follower.parts[i])
}

// step sends one request and applies its answer; false: nothing was to be sent.
func (p *pair) step() bool {
	p.t.Helper()
	r, _ := p.f.Next(p.now)
	if r == nil {
		return false
	}
	p.f.Answered(p.now, p.leader.serve(r), nil, p.follower.desk)
	return true
}

// settle syncs and steps until both have the same and the leader knows it.
func (p *pair) settle() {
	p.t.Helper()
	for range 200 {
		p.leader.desk.flush(p.t, p.now)
		p.follower.desk.flush(p.t, p.now)
		if !p.step() {
			p.now = p.now.Add(time.Second)
		}
		p.now = p.now.Add(10 * time.Millisecond)
		if p.same() == nil {
			return
		}
	}
	p.t.Fatalf("the follower does not catch up: %v; reported %v", p.same(), p.reported)
}

func (p *pair) same() error {
	for i := range p.leader.parts {
		a, b := p.leader.parts[i].Info(), p.follower.parts[i].Info()
		if a.End != b.End || a.Start != b.Start || a.HighWatermark != a.End || b.HighWatermark != a.HighWatermark {
			return fmt.Errorf("partition %d: leader %d..%d hw %d, follower %d..%d hw %d", i, a.Start, a.End, a.HighWatermark,
				b.Start, b.End, b.HighWatermark)
		}
		if !bytes.Equal(p.leader.bytesOf(i), p.follower.bytesOf(i)) {
			return fmt.Errorf("partition %d: bytes differ", i)
		}
	}
	return nil
}

func TestFetchIsSentAfterTheSync(t *testing.T) {
	p := newPair(t, 1)
	p.leader.produce(0, "a", "b")
	if !p.step() || p.follower.end(0) != 2 {
		t.Fatal("nothing was copied")
	}
	if r, _ := p.f.Next(p.now); r != nil {
		t.Fatal("a position was told that is not on the disk")
	}
	woken := p.woken
	p.follower.desk.flush(t, p.now)
	if p.woken == woken {
		t.Fatal("the sync woke nobody")
	}
	r, _ := p.f.Next(p.now)
	fetch := r.(*kmsg.FetchRequest)
	if fetch.Topics[0].Partitions[0].FetchOffset != 2 || fetch.Topics[0].Partitions[0].LastFetchedEpoch != 3 {
		t.Fatalf("asks for %+v", fetch.Topics)
	}
	if again, _ := p.f.Next(p.now); again != nil {
		t.Fatal("two requests under way")
	}
	p.leader.serve(r)
	p.leader.desk.flush(t, p.now)
	if hw := p.leader.parts[0].HighWatermark(); hw != 2 {
		t.Fatalf("high watermark %d", hw)
	}
}

func TestIncrementalFetchNamesWhatChanged(t *testing.T) {
	p := newPair(t, 5)
	p.settle()
	if p.leader.named != 5 {
		t.Fatalf("the first request named %d", p.leader.named)
	}
	p.step()
	if p.leader.named != 0 {
		t.Fatalf("an idle request named %d", p.leader.named)
	}
	p.leader.produce(3, "x")
	p.settle()
	if p.leader.named > 1 {
		t.Fatalf("one partition moved, %d were named", p.leader.named)
	}
	p.f.Drop(p.follower.parts[1])
	p.step()
	if len(p.leader.session) != 4 {
		t.Fatalf("the session has %d partitions after one was dropped", len(p.leader.session))
	}
	p.leader.id++ // the leader has lost the session
	p.step()
	p.leader.produce(3, "y")
	p.f.Follow(p.follower.parts[1])
	p.settle()
}

func TestNewTermOvertakesAParkedFetch(t *testing.T) {
	p := newPair(t, 2)
	p.f.Drop(p.follower.parts[1])
	p.settle()
	parked, _ := p.f.Next(p.now) // the leader holds it
	if r, _ := p.f.Next(p.now); r != nil {
		t.Fatal("overtaken without a reason")
	}
	p.leader.produce(1, "x")
	p.f.Follow(p.follower.parts[1])
	r, _ := p.f.Next(p.now)
	if r == nil {
		t.Fatal("a new replica waits for a parked fetch")
	}
	if third, _ := p.f.Next(p.now); third != nil {
		t.Fatal("a third request under way")
	}
	answer := p.leader.serve(parked)
	stale := p.leader.serve(r)
	refused := kmsg.NewPtrFetchResponse()
	refused.ErrorCode = int16(kafka.InvalidFetchSessionEpoch)
	_ = answer // a leader of ours refuses what was overtaken
	p.f.Answered(p.now, refused, nil, p.follower.desk)
	p.f.Answered(p.now, stale, nil, p.follower.desk)
	if p.follower.end(1) != 1 {
		t.Fatal("the new replica was not copied")
	}
	p.settle()
	if p.leader.id != 1 {
		t.Fatal("the session was given up")
	}
}

func TestErrorsPauseOneReplica(t *testing.T) {
	p := newPair(t, 2)
	p.leader.errors[0] = kafka.UnknownLeaderEpoch
	p.step()
	if len(p.reported) != 0 {
		t.Fatalf("metadata that is on its way was reported: %v", p.reported)
	}
	p.leader.produce(0, "a")
	p.leader.produce(1, "b")
	p.step()
	if len(p.leader.session) != 1 || p.follower.end(1) != 1 {
		t.Fatal("the other replica was held up")
	}
	p.follower.desk.flush(t, p.now)
	r, _ := p.f.Next(p.now)
	if wait := r.(*kmsg.FetchRequest).MaxWaitMillis; wait > 20 {
		t.Fatalf("a parked fetch of %d ms outlasts the pause", wait)
	}
	p.f.Answered(p.now, p.leader.serve(r), nil, p.follower.desk)
	p.leader.errors[0] = 0
	p.settle()

	p.leader.errors[0] = kafka.KafkaStorageError
	p.step()
	if len(p.reported) != 1 {
		t.Fatalf("reported %v", p.reported)
	}
}

func TestLostConnectionStartsOver(t *testing.T) {
	p := newPair(t, 2)
	p.settle()
	pauses := []time.Duration{}
	for range 8 {
		r, wake := p.f.Next(p.now)
		for r == nil {
			pauses = append(pauses, wake.Sub(p.now))
			p.now = wake
			r, wake = p.f.Next(p.now)
		}
		p.f.Answered(p.now, nil, kafka.NetworkException, p.follower.desk)
	}
	if pauses[0] > 50*time.Millisecond || pauses[len(pauses)-1] > time.Second || pauses[0] >= pauses[len(pauses)-1] {
		t.Fatalf("pauses %v", pauses)
	}
	p.leader.produce(1, "x")
	p.now = p.now.Add(time.Second)
	p.settle()
}

func TestRotIsNotCopied(t *testing.T) {
	p := newPair(t, 1)
	p.leader.produce(0, "a", "b")
	p.leader.corrupt = true
	p.step()
	if p.follower.end(0) != 0 || len(p.reported) != 1 || kafka.CodeOf(p.reported[0]) != kafka.CorruptMessage {
		t.Fatalf("end %d, reported %v", p.follower.end(0), p.reported)
	}
	p.leader.corrupt = false
	p.settle()
}

func TestCutBatchAndLaterEpochStayOut(t *testing.T) {
	a, b := batch(t, "first"), batch(t, "second")
	a.SetLeaderEpoch(3)
	b.SetLeaderEpoch(4)
	both := slices.Concat(a, b)
	for _, c := range []struct {
		fetched []byte
		epoch   kafka.LeaderEpoch
		want    int
	}{{both, 4, len(both)}, {both, 3, len(a)}, {both[:len(both)-1], 4, len(a)}, {both[:len(a)+5], 4, len(a)}, {a[:0], 4, 0}} {
		got, err := intact(c.fetched, c.epoch)
		if err != nil || len(got) != c.want {
			t.Fatalf("%d bytes in epoch %d: %d, %v; want %d", len(c.fetched), c.epoch, len(got), err, c.want)
		}
	}
	if _, err := intact(both[:9], 4); kafka.CodeOf(err) != kafka.CorruptMessage {
		t.Fatalf("a first batch that is cut: %v", err)
	}
	both[len(a)+20] ^= 1
	if _, err := intact(both, 4); kafka.CodeOf(err) != kafka.CorruptMessage {
		t.Fatal(err)
	}
}

func TestOutOfRange(t *testing.T) {
	t.Run("the leader begins later", func(t *testing.T) {
		p := newPair(t, 1)
		p.settle()
		p.f.Drop(p.follower.parts[0])
		p.leader.assign(0, 1, 4, 1)
		for range 5 {
			p.leader.produce(0, "a", "b")
		}
		p.leader.desk.flush(t, p.now)
		_, e, err := p.leader.parts[0].DeleteRecords(p.now, 5) // within a batch
		if err != nil {
			t.Fatal(err)
		}
		p.leader.desk.run(e)
		p.term(0, 5)
		p.settle()
		if start := p.follower.parts[0].Info().Start; start != 5 {
			t.Fatalf("the follower begins at %d", start)
		}
	})
	t.Run("the leader ends earlier", func(t *testing.T) {
		p := newPair(t, 1)
		p.follower.assign(0, 2, 4, 2)
		for range 5 {
			p.follower.produce(0, "a", "b")
		}
		p.leader.assign(0, 1, 5, 1) // unclean
		p.leader.produce(0, "c")
		p.follower.assign(0, 1, 5, 1, 2)
		p.leader.assign(0, 1, 6, 1, 2)
		p.term(0, 6)
		p.settle()
	})
}

func TestLostReplicaIsRegained(t *testing.T) {
	p := newPair(t, 1)
	p.leader.produce(0, "a")
	p.follower.parts[0].lost = true
	var regained []*Partition
	for range 20 {
		p.leader.desk.flush(t, p.now)
		p.follower.desk.flush(t, p.now)
		if r, _ := p.f.Next(p.now); r != nil {
			regained = append(regained, p.f.Answered(p.now, p.leader.serve(r), nil, p.follower.desk)...)
		}
	}
	if len(regained) != 1 || p.follower.end(0) != 1 {
		t.Fatalf("regained %d times, end %d", len(regained), p.follower.end(0))
	}
}

// TestFetcherModel swaps two nodes' leaderships at random, with lost answers, late syncs and records that only one of
// them has; in the end both logs must be the same and nothing of what both acknowledged is gone.
func TestFetcherModel(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { fetcherModel(t, rand.New(rand.NewPCG(seed, 11))) })
	}
}

func fetcherModel(t *testing.T, rnd *rand.Rand) {
	now := t0
	nodes := []*leaderSide{}
	fetchers := []*Fetcher{}
	for id := range kafka.NodeID(2) {
		nodes = append(nodes, &leaderSide{station: newStation(t, id+1, 1), errors: map[int32]kafka.Code{}})
		fetchers = append(fetchers, NewFetcher(FetcherOptions{Self: id + 1, Leader: 2 - id, Wake: func() {},
			Epoch: func() kafka.BrokerEpoch { return -1 }, MaxWait: time.Second, MinBytes: 1, MaxBytes: 1 << 20, PartitionBytes: 1 << 20,
			Backoff: time.Second}))
	}
	epoch, leader := kafka.LeaderEpoch(0), 0
	var committed kafka.Offset
	elect := func(n int) {
		epoch++
		leader = n
		for _, i := range rnd.Perm(2) {
			nodes[i].assign(0, kafka.NodeID(n+1), epoch, 1, 2)
			fetchers[i].Drop(nodes[i].parts[0])
			if i != n {
				fetchers[i].Follow(nodes[i].parts[0])
			}
		}
	}
	step := func(lossy bool) {
		follower := 1 - leader
		r, _ := fetchers[follower].Next(now)
		if r == nil {
			now = now.Add(time.Duration(rnd.IntN(1000)) * time.Millisecond)
			return
		}
		if lossy && rnd.IntN(5) == 0 {
			if rnd.IntN(2) == 0 {
				nodes[leader].serve(r)
			}
			fetchers[follower].Answered(now, nil, kafka.NetworkException, nodes[follower].desk)
			return
		}
		fetchers[follower].Answered(now, nodes[leader].serve(r), nil, nodes[follower].desk)
	}
	elect(0)
	for range 200 {
		switch rnd.IntN(8) {
		case 0, 1:
			nodes[leader].produce(0, fmt.Sprint("v", rnd.IntN(1000)))
		case 2:
			nodes[rnd.IntN(2)].desk.flush(t, now)
		case 3:
			if rnd.IntN(3) == 0 {
				elect(rnd.IntN(2))
			}
		default:
			step(true)
		}
		hw := nodes[leader].parts[0].HighWatermark()
		committed = max(committed, hw)
		for i, n := range nodes {
			if n.end(0) < hw {
				t.Fatalf("node %d ends at %d below the high watermark %d", i+1, n.end(0), hw)
			}
		}
	}
	for range 300 {
		nodes[0].desk.flush(t, now)
		nodes[1].desk.flush(t, now)
		step(false)
	}
	if a, b := nodes[0].bytesOf(0), nodes[1].bytesOf(0); !bytes.Equal(a, b) || nodes[0].end(0) < committed {
		t.Fatalf("logs differ or lost something: %d and %d bytes, ends %d and %d, committed %d", len(a), len(b), nodes[0].end(0),
			nodes[1].end(0), committed)
	}
}
