package group

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// consumerDescribe answers ConsumerGroupDescribe for the one group of the request.
func (m *Machine) consumerDescribe(p *coordinator.Pending, r *kmsg.ConsumerGroupDescribeRequest) coordinator.Result {
	a := r.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
	var id string
	for _, id = range r.Groups {
		a.Groups = append(a.Groups, m.describeConsumer(id))
	}
	return coordinator.Result{Scope: id, Replies: []coordinator.Reply{{To: p, Answer: coordinator.Answer{Body: a}}}}
}

func (m *Machine) describeConsumer(id string) kmsg.ConsumerGroupDescribeResponseGroup {
	d := kmsg.NewConsumerGroupDescribeResponseGroup()
	d.Group = id
	g, err := m.consumer(id)
	if id == "" {
		err = kafka.Errorf(kafka.InvalidGroupID, "the group id is empty")
	}
	if err != nil {
		d.ErrorCode, d.ErrorMessage = int16(kafka.CodeOf(err)), kmsg.StringPtr(kafka.MessageOf(err))
		return d
	}
	d.State, d.Epoch, d.AssignmentEpoch = g.state(), g.epoch, g.assignmentEpoch
	d.AssignorName = pickAssignor(m.o.Settings().Assignors, g.everybody()).Name()
	for _, id := range sortedMembers(g) {
		d.Members = append(d.Members, m.describeMember(g, g.roster[id]))
	}
	return d
}

func (m *Machine) describeMember(g *consumerGroup, member *consumerMember) kmsg.ConsumerGroupDescribeResponseGroupMember {
	d := kmsg.NewConsumerGroupDescribeResponseGroupMember()
	d.MemberID, d.InstanceID, d.RackID, d.MemberEpoch = member.id, member.instance, member.rack, member.epoch
	d.ClientID, d.ClientHost = member.clientID, member.clientHost
	d.SubscribedTopics, d.SubscribedTopicRegex = slices.Clone(member.topics), kmsg.StringPtr(member.regex)
	d.Assignment.TopicPartitions = describePartitions(m.image, member.has())
	d.TargetAssignment.TopicPartitions = describePartitions(m.image, g.targets[member.id])
	d.MemberType = 1
	if member.classic != nil {
		d.MemberType = 0
	}
	return d
}

// describePartitions names partitions; those of a topic that is gone have no name and are left out.
func describePartitions(image *metadata.Image, p partitions) []kmsg.AssignmentTopicPartition {
	var out []kmsg.AssignmentTopicPartition
	for _, id := range p.topics() {
		if t, ok := image.TopicByID(id); ok {
			out = append(out, kmsg.AssignmentTopicPartition{TopicID: id, Topic: t.Name, Partitions: slices.Clone(p[id])})
		}
	}
	return out
}

// waits says of each member what it waits for, or the group for it.
func (g *consumerGroup) waits(time.Time) []MemberWait {
	var out []MemberWait
	for _, id := range sortedMembers(g) {
		m := g.roster[id]
		w := MemberWait{Member: id, ClientID: m.clientID, ClientHost: m.clientHost, Protocol: "consumer", Epoch: m.epoch,
			Waits: g.waitOf(m)}
		if m.instance != nil {
			w.Instance = *m.instance
		}
		if m.classic != nil {
			w.Protocol = "classic"
		}
		out = append(out, w)
	}
	return out
}

// nameAssigned adds what each member has, by the names of topics that exist.
func (g *consumerGroup) nameAssigned(members []MemberWait, image *metadata.Image) {
	for i := range members {
		w := &members[i]
		w.Assigned = map[string][]int32{}
		for _, t := range describePartitions(image, g.roster[w.Member].has()) {
			w.Assigned[t.Topic] = t.Partitions
		}
	}
}

func (g *consumerGroup) waitOf(m *consumerMember) string {
	switch {
	case m.epoch == epochLeaveStatic:
		return "static member is away; it keeps its partitions until it is back or its session ends"
	case m.classic != nil && g.rejoining[m.id]:
		return "was told to join again, and has not"
	case m.state == memberUnrevoked:
		return "must give up " + partitionCount(m.revoking) + " and say so in a heartbeat, within " +
			m.rebalanceTimeout().String()
	case m.state == memberUnreleased:
		if who := g.blockers(m); len(who) > 0 {
			return "waits for partitions that " + strings.Join(who, ", ") + " must give up first"
		}
		return "all partitions that it waited for are free: its next heartbeat brings them"
	case m.epoch < g.assignmentEpoch:
		return fmt.Sprintf("its next heartbeat brings it from epoch %d to %d", m.epoch, g.assignmentEpoch)
	case g.assignmentEpoch < g.epoch:
		return fmt.Sprintf("the group waits for the assignment of epoch %d, made at the next heartbeat after the"+
			" assignment interval", g.epoch)
	}
	return ""
}

func partitionCount(h held) string {
	n := 0
	for _, numbers := range h {
		n += len(numbers)
	}
	if n == 1 {
		return "1 partition"
	}
	return fmt.Sprintf("%d partitions", n)
}

// blockers are the members that have partitions of a member's target, sorted.
func (g *consumerGroup) blockers(m *consumerMember) []string {
	var ids []string
	target := g.targets[m.id]
	for topic, numbers := range target {
		for _, n := range numbers {
			if holder := g.holder(topic, n); holder != "" && holder != m.id && !slices.Contains(ids, holder) {
				ids = append(ids, holder)
			}
		}
	}
	slices.Sort(ids)
	return ids
}
