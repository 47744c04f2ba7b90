package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// layout is where the replicas of a cluster lie.
type layout struct {
	brokers    []planBroker // in service
	cordoned   []int32      // of them, those that take nothing new
	partitions []placedPartition
	sizes      map[replicaAt]int64
}

// replicaAt names a replica.
type replicaAt struct {
	topic     string
	partition int32
	broker    int32
}

// layout asks where everything lies and how large it is. Sizes that a broker does not tell are not known.
func (s *session) layout(parent context.Context) (*layout, error) {
	ctx, cancel := s.bound(parent)
	defer cancel()
	meta, err := s.admin.Metadata(ctx)
	if err != nil {
		return nil, s.about("cluster", err)
	}
	l := &layout{}
	for _, b := range meta.Brokers {
		x := planBroker{ID: b.NodeID}
		if b.Rack != nil {
			x.Rack = *b.Rack
		}
		l.brokers = append(l.brokers, x)
	}
	l.sizes, l.cordoned = s.replicaSizes(ctx, idsOfBrokers(l.brokers), nil)
	for _, t := range meta.Topics {
		if t.Err != nil {
			continue
		}
		for _, p := range t.Partitions {
			l.partitions = append(l.partitions, placedPartition{Topic: t.Topic, Partition: p.Partition, Replicas: p.Replicas,
				SizeBytes: l.sizeOf(t.Topic, p)})
		}
	}
	return l, nil
}

// sizeOf is the size of the leader's replica, or of the largest that is known; -1 for none.
func (l *layout) sizeOf(topic string, p kadm.PartitionDetail) int64 {
	if n, ok := l.sizes[replicaAt{topic, p.Partition, p.Leader}]; ok {
		return n
	}
	largest := int64(-1)
	for _, id := range p.Replicas {
		if n, ok := l.sizes[replicaAt{topic, p.Partition, id}]; ok {
			largest = max(largest, n)
		}
	}
	return largest
}

func idsOfBrokers(brokers []planBroker) []int32 {
	out := make([]int32, 0, len(brokers))
	for _, b := range brokers {
		out = append(out, b.ID)
	}
	return out
}

// replicaSizes asks brokers for the sizes of the replicas of some topics (nil: of all), and which of the brokers take
// nothing new (KIP-1066). A broker that does not answer is left out.
func (s *session) replicaSizes(ctx context.Context, brokers []int32, topics []string) (map[replicaAt]int64, []int32) {
	sizes := map[replicaAt]int64{}
	var cordoned []int32
	for _, id := range brokers {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		for _, name := range topics {
			t := kmsg.NewDescribeLogDirsRequestTopic()
			t.Topic = name
			req.Topics = append(req.Topics, t)
		}
		answer, err := s.Broker(int(id)).Request(ctx, req)
		resp, ok := answer.(*kmsg.DescribeLogDirsResponse)
		if err != nil || !ok {
			continue
		}
		open := 0
		for _, d := range resp.Dirs {
			if d.ErrorCode == 0 && !d.IsCordoned {
				open++
			}
			for _, t := range d.Topics {
				for _, p := range t.Partitions {
					if !p.IsFuture {
						sizes[replicaAt{t.Topic, p.Partition, id}] = p.Size
					}
				}
			}
		}
		if open == 0 && len(resp.Dirs) > 0 {
			cordoned = append(cordoned, id)
		}
	}
	return sizes, cordoned
}

// choose parts the partitions into those of the wanted topics (none: all) and the rest.
func (l *layout) choose(topics []string) (chosen, rest []placedPartition, err error) {
	for _, name := range topics {
		if !slices.ContainsFunc(l.partitions, func(p placedPartition) bool { return p.Topic == name }) {
			return nil, nil, fmt.Errorf("topic %s: there is none; moldau topic list shows what exists", name)
		}
	}
	for _, p := range l.partitions {
		if len(topics) == 0 || slices.Contains(topics, p.Topic) {
			chosen = append(chosen, p)
		} else {
			rest = append(rest, p)
		}
	}
	return chosen, rest, nil
}

// targets are the brokers that may have replicas: those asked for, or all that are in service and take something.
func (l *layout) targets(wanted []int32) ([]planBroker, error) {
	var out []planBroker
	for _, id := range wanted {
		if !slices.ContainsFunc(l.brokers, func(b planBroker) bool { return b.ID == id }) {
			return nil, fmt.Errorf("broker %d is not in service; moldau cluster brokers shows what there is", id)
		}
		if slices.Contains(l.cordoned, id) {
			return nil, fmt.Errorf("broker %d takes no replicas (cordoned.log.dirs); open it again with moldau broker undrain %d", id, id)
		}
	}
	for _, b := range l.brokers {
		if len(wanted) == 0 && !slices.Contains(l.cordoned, b.ID) || slices.Contains(wanted, b.ID) {
			out = append(out, b)
		}
	}
	return out, nil
}

// loadOf counts the replicas of partitions by broker.
func loadOf(partitions []placedPartition) map[int32]int {
	out := map[int32]int{}
	for _, p := range partitions {
		for _, id := range p.Replicas {
			out[id]++
		}
	}
	return out
}
