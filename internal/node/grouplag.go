package node

import (
	"cmp"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"moldau/internal/cluster/replica"
	"moldau/internal/coordinator"
	"moldau/internal/coordinator/group"
	"moldau/internal/kafka"
	"moldau/internal/telemetry"
)

// groupLagEvery is how often the lag of groups is computed.
const groupLagEvery = 10 * time.Second

// groupLag computes how far the groups coordinated here are behind in the partitions that this node has.
type groupLag struct {
	n      *Node
	max    int // moldau.group.lag.partitions.max
	newest atomic.Pointer[[]telemetry.GroupLag]
	hidden telemetry.Gauge
}

func newGroupLag(n *Node) *groupLag {
	l := &groupLag{n: n, max: n.config.Int("moldau.group.lag.partitions.max")}
	l.newest.Store(&[]telemetry.GroupLag{})
	l.hidden = telemetry.WatchGroupLag(n.o.Metrics, func() []telemetry.GroupLag { return *l.newest.Load() })
	return l
}

// lagging is one partition of a group.
type lagging struct {
	group     string
	partition *replica.Partition
	at        kafka.Offset
	records   int64
}

// compute renews what the metrics serve. Counting records costs no I/O and is done for all; the age of the oldest
// takes a read and is found for those that are served.
func (l *groupLag) compute() {
	all := l.gather()
	slices.SortStableFunc(all, func(a, b lagging) int { return cmp.Compare(b.records, a.records) })
	served := all[:min(l.max, len(all))]
	l.hidden.Set(int64(len(all) - len(served)))
	out, now := make([]telemetry.GroupLag, 0, len(served)), l.n.o.Now()
	for _, x := range served {
		tp := x.partition.TopicPartition()
		out = append(out, telemetry.GroupLag{Group: x.group, Topic: tp.Topic, Partition: strconv.Itoa(int(tp.Partition)),
			Records: x.records, Seconds: x.age(now)})
	}
	l.newest.Store(&out)
}

// gather lists the committed offsets of partitions that are here.
func (l *groupLag) gather() []lagging {
	var all []lagging
	l.n.coordinators.groups.InspectAll(func(_ int32, m coordinator.Machine) {
		m.(*group.Machine).EachOffset(func(name, topic string, id kafka.UUID, partition int32, at kafka.Offset, _ int64) {
			p, err := l.n.manager.Get(kafka.TopicPartition{Topic: topic, Partition: partition})
			if err != nil || !id.IsZero() && id != p.TopicID() || p.Log() == nil {
				return
			}
			all = append(all, lagging{group: name, partition: p, at: at})
		})
	})
	for i := range all {
		x := &all[i]
		x.at = max(x.at, x.partition.Log().View().Start)
		x.records = int64(max(x.partition.HighWatermark()-x.at, 0))
	}
	return all
}

// age is how long the first record that is not committed has been there, by the header of its batch: the time of the
// batch's first record, or of its newest when the first is committed. Negative when it cannot be told.
func (x lagging) age(now time.Time) float64 {
	if x.records == 0 {
		return 0
	}
	head, ok := headerAt(x.partition.Log().View(), x.at, x.partition.HighWatermark())
	if !ok {
		return -1
	}
	written := head.MaxTimestamp()
	if head.BaseOffset() >= x.at && !head.IsLogAppendTime() && !head.HasDeleteHorizon() {
		written = head.BaseTimestamp()
	}
	return max(now.Sub(time.UnixMilli(written)).Seconds(), 0)
}
