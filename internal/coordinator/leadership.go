package coordinator

import (
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/telemetry"
)

// Changed brings a newer image, after the partitions have followed it: shards of partitions that this node leads now are
// loaded, those that it does not lead any more are dropped, and the machines that stay hear of the change. Calls must not
// overlap.
//
// A shard stays through a new term of the same leader: this node never followed anybody in between, so its log is what it
// was.
func (r *Runtime) Changed(image *metadata.Image, diff *metadata.Diff) {
	gone, fresh := r.follow(image)
	for _, s := range gone {
		s.close()
	}
	for _, s := range fresh {
		s.startLoad()
	}
	for _, s := range r.table.Load().shards {
		if s != nil {
			s.imageChanged(image, diff)
		}
	}
}

// follow makes the table what image says, and gives the shards that are not in it any more and those that are new.
func (r *Runtime) follow(image *metadata.Image) (gone, fresh []*shard) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, nil
	}
	old := r.table.Load()
	next := &table{image: image}
	topic, ok := image.Topic(r.o.Topic)
	if ok {
		next.topicID, next.shards = topic.ID, make([]*shard, topic.NumPartitions())
	}
	for i, s := range old.shards {
		switch {
		case s == nil:
		case next.topicID == old.topicID && i < len(next.shards) && r.leads(topic, int32(i)):
			next.shards[i] = s
		default:
			gone = append(gone, s)
		}
	}
	for i := range next.shards {
		if next.shards[i] == nil && r.leads(topic, int32(i)) {
			next.shards[i] = newShard(r, topic.ID, int32(i))
			fresh = append(fresh, next.shards[i])
		}
	}
	r.table.Store(next)
	return gone, fresh
}

func (r *Runtime) leads(topic *metadata.Topic, partition int32) bool {
	p, ok := topic.Partition(partition)
	return ok && p.Leader == r.o.Self
}

// restart puts a new shard in the place of one that lost its log, to be loaded after a while.
func (r *Runtime) restart(old *shard, tries int) {
	s := newShard(r, old.topicID, old.tp.Partition)
	s.phase, s.tries = failed, tries
	r.mu.Lock()
	t := r.table.Load()
	at := int(old.tp.Partition)
	if r.closed || at >= len(t.shards) || t.shards[at] != old {
		r.mu.Unlock()
		return
	}
	next := *t
	next.shards = append([]*shard(nil), t.shards...)
	next.shards[at] = s
	r.table.Store(&next)
	r.mu.Unlock()
	s.retryLater()
}

// How long a load that failed waits before it is tried again: twice as long every time.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
)

func retryAfter(tries int) time.Duration {
	return min(firstRetry<<min(tries, 16), lastRetry)
}

// ShardInfo describes a shard.
type ShardInfo struct {
	Partition int32
	State     string // "loading", "active" or "failed"
	Parked    int    // requests that the machine keeps
	Waiting   int    // requests that wait for a commit
}

// Shards describes the shards that this node leads, in the order of partitions.
func (r *Runtime) Shards() []ShardInfo {
	var out []ShardInfo
	for _, s := range r.table.Load().shards {
		if s != nil {
			out = append(out, s.info())
		}
	}
	return out
}

// Counts adds the shards and requests up, for metrics.
func (r *Runtime) Counts() telemetry.CoordinatorCounts {
	var out telemetry.CoordinatorCounts
	for _, s := range r.Shards() {
		switch s.State {
		case loading.String():
			out.Loading++
		case active.String():
			out.Active++
		case failed.String():
			out.Failed++
		}
		out.Parked += s.Parked
		out.Waiting += s.Waiting
	}
	return out
}

// image is the newest that Changed brought.
func (r *Runtime) image() *metadata.Image { return r.table.Load().image }

func partitionName(topic string, partition int32) kafka.TopicPartition {
	return kafka.TopicPartition{Topic: topic, Partition: partition}
}
