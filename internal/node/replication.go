package node

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/edge/peer"
	"moldau/internal/kafka"
	"moldau/internal/promise"
	"moldau/internal/storage/log"
)

// replication has this node's replicas follow their leaders: one fetcher for each leader, log directory and shard of
// num.replica.fetchers. A slow directory holds up no other, and a lone node has none.
type replication struct {
	n *Node
	// send asks a broker over the lane's own connection.
	send func(to kafka.NodeID, lane string, r kmsg.Request) *promise.Promise[peer.Answer]

	mu       sync.Mutex
	closed   bool
	pool     *peer.Pool // made with the first fetcher
	shards   int
	fetchers map[fetcherKey]*fetcher
	places   map[placeKey]place
}

type fetcherKey struct {
	leader kafka.NodeID
	dir    *log.Dir
	shard  int
}

type placeKey struct {
	topic     kafka.UUID
	partition int32
}

// place is where a replica is followed.
type place struct {
	p   *replica.Partition
	key fetcherKey
}

func newReplication(n *Node) *replication {
	r := &replication{n: n, fetchers: map[fetcherKey]*fetcher{}, places: map[placeKey]place{}}
	r.send = r.overNetwork
	return r
}

// changed follows an image that the partitions have followed; with a nil diff any role may have changed.
func (r *replication) changed(image *metadata.Image, diff *metadata.Diff) {
	shards := int(resolver(r.n.config, r.n.self, image).Broker("num.replica.fetchers").Int64())
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if diff == nil || shards != r.shards {
		r.shards = shards
		for ref := range image.ReplicasOn(r.n.self.ID) {
			r.arrange(placeKey{ref.Topic.ID, ref.Index})
		}
	}
	for change := range diff.Topics() {
		for index := range change.Partitions() {
			r.arrange(placeKey{change.ID, index})
		}
	}
}

// arrange brings one replica to the fetcher that it belongs to. The caller holds r.mu.
func (r *replication) arrange(k placeKey) {
	p, err := r.n.manager.GetByID(k.topic, k.partition)
	old, had := r.places[k]
	var key fetcherKey
	follows := err == nil && p.Role() == replica.Follower
	if follows {
		leader, _ := p.Leadership()
		key = fetcherKey{leader, p.Log().Dir(), shardOf(p.TopicPartition(), r.shards)}
	}
	if had && (!follows || old.p != p || old.key != key) {
		r.drop(k, old)
	}
	if !follows {
		return
	}
	r.places[k] = place{p, key}
	f := r.fetchers[key]
	if f == nil {
		f = r.newFetcher(key)
	}
	f.replicas[k] = true
	f.post(func() { f.pump.Follow(p) })
}

// moved has a replica followed by the fetcher of the directory that it lies in now.
func (r *replication) moved(p *replica.Partition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.arrange(placeKey{p.TopicID(), p.TopicPartition().Partition})
	}
}

// again has all replicas of a directory fetched anew, so that their leaders tell how far they are although nothing moves.
func (r *replication) again(d *log.Dir) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range r.places { // the order does not show
		if at.key.dir == d && !r.closed {
			f := r.fetchers[at.key]
			f.post(func() {
				f.pump.Drop(at.p)
				f.pump.Follow(at.p)
			})
		}
	}
}

// drop ends following for a replica; a fetcher that has nothing left ends. The caller holds r.mu.
func (r *replication) drop(k placeKey, old place) {
	delete(r.places, k)
	f := r.fetchers[old.key]
	delete(f.replicas, k)
	f.post(func() { f.pump.Drop(old.p) })
	if len(f.replicas) == 0 {
		delete(r.fetchers, old.key)
		f.end()
	}
}

// shardOf spreads partitions over fetchers as Kafka does.
func shardOf(tp kafka.TopicPartition, shards int) int {
	hash := int32(0)
	for _, c := range tp.Topic {
		hash = 31*hash + c
	}
	return int(uint32(31*hash+tp.Partition)&0x7fffffff) % max(shards, 1)
}

func (r *replication) newFetcher(key fetcherKey) *fetcher {
	c, n := r.n.config, r.n
	f := &fetcher{r: r, leader: key.leader, replicas: map[placeKey]bool{}, wake: make(chan struct{}, 1),
		lane: fmt.Sprintf("fetch-%d-%d", slices.Index(n.dirs.online, key.dir), key.shard)}
	ms := func(key string) time.Duration { return time.Duration(c.Int64(key)) * time.Millisecond }
	f.pump = replica.NewFetcher(replica.FetcherOptions{Self: n.self.ID, Leader: key.leader, Epoch: n.imageEpoch,
		Quota: n.throttles.follower, Wake: f.poke, Failed: f.failed, Copied: n.metrics.replicas.CopiedBytes.Add,
		MaxWait: ms("replica.fetch.wait.max.ms"), MinBytes: int32(c.Int64("replica.fetch.min.bytes")),
		MaxBytes: int32(c.Int64("replica.fetch.response.max.bytes")), PartitionBytes: int32(c.Int64("replica.fetch.max.bytes")),
		Backoff: ms("replica.fetch.backoff.ms")})
	r.fetchers[key] = f
	if r.pool == nil {
		r.pool = peer.NewPool(peer.Options{ClientID: fmt.Sprintf("broker-%d", n.self.ID), Dial: n.o.Dial, Log: n.log,
			MaxFrameBytes: int(c.Int64("replica.fetch.response.max.bytes")) + c.Int("socket.request.max.bytes")})
	}
	n.metrics.replicas.Fetchers.Add(1)
	n.loops.Go(f.run)
	return f
}

// overNetwork asks a broker at the endpoint it registered for its peers.
func (r *replication) overNetwork(to kafka.NodeID, lane string, req kmsg.Request) *promise.Promise[peer.Answer] {
	b, ok := r.n.publisher.Image().Broker(to)
	if !ok {
		return promise.Done(peer.Answer{Err: kafka.BrokerNotAvailable})
	}
	e, ok := b.Endpoint(r.n.self.InterBroker)
	if !ok {
		return promise.Done(peer.Answer{Err: kafka.BrokerNotAvailable})
	}
	timeout := time.Duration(r.n.config.Int64("replica.socket.timeout.ms")) * time.Millisecond
	return r.pool.Send(peer.Address{Host: e.Host, Port: int(e.Port)}, lane, req, timeout)
}

// close ends all fetchers. Their loops end soon after.
func (r *replication) close() {
	r.mu.Lock()
	pool, fetchers := r.pool, r.fetchers
	r.closed, r.fetchers = true, nil
	r.mu.Unlock()
	for _, f := range fetchers {
		f.end()
	}
	if pool != nil {
		pool.Close()
	}
}

// regained tells the controller where a replica lies that had lost records and has them again.
func (r *replication) regained(p *replica.Partition) {
	r.n.log.Info("a replica that had lost records has them again", "partition", p.TopicPartition().String())
	if report, ok := r.n.manager.Regained(r.n.publisher.Image(), p); ok {
		r.n.reportDirectories([]replica.DirReport{report})
	}
}

// imageEpoch is the epoch of this broker's registration as its image shows it, -1 before the first.
func (n *Node) imageEpoch() kafka.BrokerEpoch {
	if b, ok := n.publisher.Image().Broker(n.self.ID); ok {
		return b.Epoch
	}
	return -1
}

// fetcher runs one replica.Fetcher on a goroutine of its own, because appending what came takes a disk's time.
type fetcher struct {
	r        *replication
	pump     *replica.Fetcher
	leader   kafka.NodeID
	lane     string
	replicas map[placeKey]bool // under replication.mu

	mu     sync.Mutex
	inbox  []func()
	closed bool
	wake   chan struct{}

	warned time.Time // the loop's own
}

func (f *fetcher) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// post hands do to the loop. It never blocks.
func (f *fetcher) post(do func()) {
	f.mu.Lock()
	f.inbox = append(f.inbox, do)
	f.mu.Unlock()
	f.poke()
}

func (f *fetcher) end() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.poke()
}

func (f *fetcher) take() ([]func(), bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.inbox
	f.inbox = nil
	return out, f.closed
}

func (f *fetcher) run() {
	n := f.r.n
	defer n.metrics.replicas.Fetchers.Add(-1)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		work, closed := f.take()
		if closed {
			f.pump.Close()
			return
		}
		for _, do := range work {
			do()
		}
		req, due := f.pump.Next(n.o.Now())
		if req != nil {
			f.r.send(f.leader, f.lane, req).OnDone(func(a peer.Answer) { f.post(func() { f.answered(a) }) })
			continue
		}
		var waited <-chan time.Time
		if !due.IsZero() {
			timer.Reset(max(due.Sub(n.o.Now()), 0))
			waited = timer.C
		}
		select {
		case <-f.wake:
		case <-waited:
		}
	}
}

func (f *fetcher) answered(a peer.Answer) {
	if a.Err != nil {
		f.r.n.metrics.replicas.FetchErrors.Inc()
	}
	for _, p := range f.pump.Answered(f.r.n.o.Now(), a.Body, a.Err, f.r.n) {
		f.r.regained(p)
	}
	a.Release() // the records are in the log
}

// copyWarning is how often what keeps replicas from being copied is worth a line.
const copyWarning = 10 * time.Second

func (f *fetcher) failed(p *replica.Partition, err error) {
	n := f.r.n
	n.metrics.replicas.FetchErrors.Inc()
	if now := n.o.Now(); now.Sub(f.warned) >= copyWarning {
		f.warned = now
		n.log.Warn("a replica cannot be copied from its leader", "partition", p.TopicPartition().String(), "leader", f.leader,
			"error", err)
	}
}
