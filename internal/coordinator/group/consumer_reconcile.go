package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// owned is what a member says it has, nil when it says nothing.
func owned(topics []kmsg.ConsumerGroupHeartbeatRequestTopic) partitions {
	if topics == nil {
		return nil
	}
	p := make(partitions, min(len(topics), 64))
	for _, t := range topics {
		p[t.TopicID] = append(p[t.TopicID], t.Partitions...)
	}
	return p.normal()
}

// within says whether a member may have all of the partitions.
func (p partitions) within(h held) bool {
	for topic, numbers := range p {
		for _, n := range numbers {
			if !h.has(topic, n) {
				return false
			}
		}
	}
	return true
}

// touches says whether some of the partitions are among those that are to be given up. A member that does not say what it
// has may still have all of them.
func (p partitions) touches(h held) bool {
	if p == nil {
		return true
	}
	for topic, numbers := range p {
		for _, n := range numbers {
			if h.has(topic, n) {
				return true
			}
		}
	}
	return false
}

// reconcile moves the member one step towards its target assignment, if it is not there yet or subscribes to something
// else, and writes what it has now. That a partition never has two owners is decided here: it is given to a member only
// when nobody else has it, and a member has it until it has said that it gave it up, or is out of the group.
func (t *consumerTurn) reconcile(m *consumerMember, target partitions, owned partitions, subscription bool) (*consumerMember, error) {
	epoch := t.assignmentEpoch
	if !subscription && m.reconciled(epoch) {
		return m, nil
	}
	s := step{t: t, m: m, epoch: epoch, target: target, owned: owned, topics: t.g.topicSet(t.m.image, m)}
	next, err := s.next(subscription)
	if err != nil || next.sameCurrent(m) {
		return m, err
	}
	t.write(currentRecord(t.g.id, next))
	if next.classic == nil { // those of the classic protocol have timers for joining and syncing
		t.timers = append(t.timers, t.revocationTimer(next))
	}
	return next, nil
}

// step is one step of a member.
type step struct {
	t      *consumerTurn
	m      *consumerMember
	epoch  int32 // of the target
	target partitions
	owned  partitions
	topics topicSet // that the member subscribes to
}

func (s step) next(subscription bool) (*consumerMember, error) {
	m := s.m
	switch m.state {
	case memberStable:
		if m.epoch != s.epoch {
			return s.compute(m.epoch), nil
		}
		if subscription {
			return s.unsubscribe(), nil
		}
		return m, nil
	case memberUnrevoked:
		if s.owned.touches(m.revoking) {
			if subscription {
				return s.unsubscribe(), nil
			}
			return m, nil
		}
		// It has given up everything, and so is as far as the next epoch, unless it has been asked to because of its own
		// subscription and there is no newer target yet.
		return s.compute(min(m.epoch+1, s.epoch)), nil
	case memberUnreleased:
		return s.compute(m.epoch), nil
	}
	if s.owned == nil || len(s.owned) > 0 {
		return nil, kafka.Errorf(kafka.FencedMemberEpoch,
			"The state of member %s is not known here: it must give up all its partitions and join again.", m.id)
	}
	return s.compute(s.epoch), nil
}

// unsubscribe takes the partitions of topics from the member that it does not subscribe to any more, without waiting for
// the next target.
func (s step) unsubscribe() *consumerMember {
	next := *s.m
	next.assigned, next.revoking = s.m.assigned.clone(), s.m.revoking.clone()
	changed := false
	for topic, numbers := range s.m.assigned {
		if s.topics[topic] != nil {
			continue
		}
		changed = true
		delete(next.assigned, topic)
		for n, epoch := range numbers {
			next.revoking.put(topic, n, epoch)
		}
	}
	switch {
	case !changed:
		return s.m
	case s.owned.touches(next.revoking):
		next.state = memberUnrevoked
	default: // it does not have them any more; where it was revoking others before, it would have come to compute
		next.revoking = s.m.revoking
	}
	next.at(s.m.epoch)
	return &next
}

// compute gives the member what it keeps of what it has; then, if it must give something up that it may still have, only
// that; else the rest of its target that nobody else has.
func (s step) compute(epoch int32) *consumerMember {
	next := *s.m
	next.assigned, next.revoking = held{}, held{}
	for topic, numbers := range s.m.assigned {
		for n, since := range numbers {
			if s.topics[topic] != nil && s.target.has(topic, n) {
				next.assigned.put(topic, n, since)
			} else {
				next.revoking.put(topic, n, since)
			}
		}
	}
	if len(next.revoking) > 0 && s.owned.touches(next.revoking) {
		next.state = memberUnrevoked
		next.at(epoch)
		return &next
	}
	next.revoking = nil
	next.state = memberStable
	for topic, numbers := range s.target {
		if s.topics[topic] == nil {
			continue
		}
		for _, n := range numbers {
			switch {
			case next.assigned.has(topic, n):
			case s.taken(topic, n):
				next.state = memberUnreleased
			default:
				next.assigned.put(topic, n, s.epoch)
			}
		}
	}
	next.at(s.epoch)
	return &next
}

// taken says whether somebody else has a partition, or has not given it up. What the member itself was giving up it may
// have again at once; a static member that is being replaced is the member itself.
func (s step) taken(topic kafka.UUID, number int32) bool {
	holder := s.t.g.holder(topic, number)
	return holder != "" && holder != s.m.id && holder != s.t.targetOf(s.m)
}
