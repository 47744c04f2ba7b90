package api

import (
	"math"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

func (b *Broker) describeTopicPartitionsRow() server.API {
	return server.API{Key: int16(kmsg.DescribeTopicPartitions), Min: 0, Max: 0, Listener: server.BrokerListener,
		Handle: b.describeTopicPartitions}
}

// describeTopicPartitions lists partitions page by page, in the order of topic names (KIP-966). A page ends at the
// client's or the broker's limit and names where the next begins.
func (b *Broker) describeTopicPartitions(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.DescribeTopicPartitionsRequest)
	p := partitionPage{clusterView: b.view(c.Conn),
		resp: kmsg.NewPtrDescribeTopicPartitionsResponse(), cursor: req.Cursor, all: len(req.Topics) == 0}
	limit := int32(b.Config.Int64("max.request.partition.size.limit"))
	p.left = int(max(min(limit, req.ResponsePartitionLimit), 1))
	names, err := p.names(req)
	if err != nil {
		return answer(server.Reply{Body: refuseDescribeTopicPartitions(req, err), Code: kafka.CodeOf(err)})
	}
	for _, name := range names {
		if !p.add(name) {
			break
		}
	}
	return answer(server.Reply{Body: p.resp})
}

func refuseDescribeTopicPartitions(req *kmsg.DescribeTopicPartitionsRequest, err error) kmsg.Response {
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	for i := range req.Topics {
		t := kmsg.NewDescribeTopicPartitionsResponseTopic()
		t.Topic, t.ErrorCode = new(strings.Clone(req.Topics[i].Topic)), int16(kafka.CodeOf(err))
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// partitionPage fills one page.
type partitionPage struct {
	clusterView
	resp   *kmsg.DescribeTopicPartitionsResponse
	cursor *kmsg.DescribeTopicPartitionsRequestCursor
	all    bool // no topic was named: those that are gone meanwhile are left out
	left   int  // partitions that still fit
}

// names lists the topics from the cursor on, once each, in order.
func (p *partitionPage) names(req *kmsg.DescribeTopicPartitionsRequest) ([]string, error) {
	from := ""
	if p.cursor != nil {
		if from = p.cursor.Topic; p.cursor.Partition < 0 {
			return nil, kafka.Errorf(kafka.InvalidRequest, "the cursor is at partition %d", p.cursor.Partition)
		}
	}
	var names []string
	if p.all {
		for t := range p.image.Topics() {
			if t.Name >= from {
				names = append(names, t.Name)
			}
		}
		return names, nil
	}
	for i := range req.Topics {
		if name := req.Topics[i].Topic; name >= from {
			names = append(names, strings.Clone(name))
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if p.cursor != nil && !slices.Contains(names, from) {
		return nil, kafka.Errorf(kafka.InvalidRequest, "the topic of the cursor is not among those asked for")
	}
	return names, nil
}

// add puts a topic on the page, or as much of it as fits; false: the page is full.
func (p *partitionPage) add(name string) bool {
	if p.left == 0 {
		p.next(name, 0)
		return false
	}
	out := kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.Topic, out.IsInternal, out.AuthorizedOperations = &name, isInternal(name), allTopicOperations
	if name == "" {
		out.AuthorizedOperations = math.MinInt32 // nothing that anybody could do something with
	}
	t, ok := p.image.Topic(name)
	if !ok {
		out.ErrorCode = int16(kafka.UnknownTopicOrPartition)
		if err := checkTopicName(name); err != nil {
			out.ErrorCode = int16(kafka.CodeOf(err))
		}
		p.resp.Topics = append(p.resp.Topics, out)
		return true
	}
	out.TopicID = t.ID
	first := int32(0)
	if p.cursor != nil && p.cursor.Topic == name {
		first = p.cursor.Partition
	}
	index := first
	for ; p.left > 0 && int64(index) < int64(t.NumPartitions()); index++ {
		if q, ok := t.Partition(index); ok {
			out.Partitions = append(out.Partitions, p.describe(index, q))
			p.left--
		}
	}
	p.resp.Topics = append(p.resp.Topics, out)
	if int64(index) < int64(t.NumPartitions()) {
		p.next(name, index)
		return false
	}
	return true
}

func (p *partitionPage) next(topic string, partition int32) {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, partition
	p.resp.NextCursor = &c
}

func (p *partitionPage) describe(
	index int32, q *metadata.Partition,
) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	out := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	leader, _ := p.leader(q) // a partition without one is described like any other
	out.Partition, out.LeaderID, out.LeaderEpoch = index, int32(leader), int32(q.LeaderEpoch)
	out.Replicas, out.ISR, out.OfflineReplicas = wireIDs(q.Replicas), wireIDs(q.ISR), p.offline(q)
	out.EligibleLeaderReplicas, out.LastKnownELR = wireIDs(q.ELR), wireIDs(q.LastKnownELR)
	return out
}
