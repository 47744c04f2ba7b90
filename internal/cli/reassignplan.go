package cli

import (
	"cmp"
	"fmt"
	"slices"
)

// placedPartition is a partition and where it lies.
type placedPartition struct {
	Topic     string
	Partition int32
	Replicas  []int32 // the preferred leader first
	SizeBytes int64   // of one replica; -1: not known
}

// planBroker is a broker that may have replicas.
type planBroker struct {
	ID   int32
	Rack string
}

// planInput is what a plan is made from.
type planInput struct {
	partitions []placedPartition
	brokers    []planBroker // what lies elsewhere must move
	// closed are brokers that keep what they have and get nothing new.
	closed []int32
	// factor is how many replicas each partition shall have, 0 to keep what it has.
	factor int
	// level says that replicas and leaders are also moved to make the brokers even; else only what must move does.
	level bool
	// load is how many replicas each broker has of partitions that are not in the plan.
	load map[int32]int
}

// plannedMove is one partition that changes.
type plannedMove struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	From      []int32 `json:"from"`
	To        []int32 `json:"to"`
	Bytes     int64   `json:"bytes"` // to be copied, -1: not known
}

// adds lists the brokers that get a replica they do not have.
func (m plannedMove) adds() []int32 {
	return slices.DeleteFunc(slices.Clone(m.To), func(id int32) bool { return slices.Contains(m.From, id) })
}

// planner spreads partitions over brokers and moves as little as it can: what may stay stays, what is missing goes to the
// broker with the fewest replicas, into racks that the partition is not in yet.
type planner struct {
	planInput
	racks map[int32]string
	loads map[int32]int
	leads map[int32]int
}

// plan gives the partitions that change, in order of topic and number.
func plan(in planInput) ([]plannedMove, error) {
	p := &planner{planInput: in, racks: map[int32]string{}, loads: map[int32]int{}, leads: map[int32]int{}}
	slices.SortFunc(p.brokers, func(a, b planBroker) int { return cmp.Compare(a.ID, b.ID) })
	for _, b := range p.brokers {
		p.racks[b.ID], p.loads[b.ID] = b.Rack, in.load[b.ID]
	}
	slices.SortFunc(p.partitions, func(a, b placedPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	targets := make([][]int32, len(p.partitions))
	for i, x := range p.partitions {
		targets[i] = p.keep(x, cmp.Or(p.factor, len(x.Replicas)))
	}
	for i, x := range p.partitions {
		factor, ok := cmp.Or(p.factor, len(x.Replicas)), false
		if targets[i], ok = p.fill(targets[i], factor); !ok {
			return nil, fmt.Errorf("partition %s-%d shall have %s, and there are only %s for them", x.Topic, x.Partition,
				count(factor, "replica"), count(len(targets[i]), "broker"))
		}
	}
	if p.level {
		p.levelReplicas(targets)
	}
	p.lead(targets)
	return p.moves(targets), nil
}

// keep gives the replicas that may stay.
func (p *planner) keep(x placedPartition, factor int) []int32 {
	var out []int32
	for _, id := range x.Replicas {
		if _, ok := p.racks[id]; ok && len(out) < factor {
			out = append(out, id)
			p.loads[id]++
		}
	}
	return out
}

// fill adds replicas until there are enough; ok is false when no broker is left for one.
func (p *planner) fill(target []int32, factor int) (filled []int32, ok bool) {
	for len(target) < factor {
		best, found := int32(0), false
		for _, b := range p.brokers {
			if !slices.Contains(target, b.ID) && !slices.Contains(p.closed, b.ID) && (!found || p.better(target, b.ID, best)) {
				best, found = b.ID, true
			}
		}
		if !found {
			return target, false
		}
		target = append(target, best)
		p.loads[best]++
	}
	return target, true
}

// better says whether a is a better place than b beside others: in a rack with fewer of them, or with fewer replicas.
func (p *planner) better(others []int32, a, b int32) bool {
	return cmp.Or(cmp.Compare(p.inRack(others, a), p.inRack(others, b)), cmp.Compare(p.loads[a], p.loads[b])) < 0
}

// inRack counts the replicas in a broker's rack.
func (p *planner) inRack(replicas []int32, id int32) (n int) {
	for _, other := range replicas {
		if p.racks[other] == p.racks[id] {
			n++
		}
	}
	return n
}

// maxLevelRounds bounds how often the partitions are gone through to make brokers even.
const maxLevelRounds = 10

// levelReplicas moves replicas from brokers with many to those with few, as long as racks allow.
func (p *planner) levelReplicas(targets [][]int32) {
	for range maxLevelRounds {
		changed := false
		for _, target := range targets {
			for i := range target {
				if p.replace(target, i) {
					changed = true
				}
			}
		}
		if !changed {
			return
		}
	}
}

// replace moves the i-th replica to the broker with the fewest, if that has two less at least and lies no worse.
func (p *planner) replace(target []int32, i int) bool {
	from := target[i]
	others := slices.Delete(slices.Clone(target), i, i+1)
	best := from
	for _, b := range p.brokers {
		if !slices.Contains(target, b.ID) && !slices.Contains(p.closed, b.ID) && p.inRack(others, b.ID) <= p.inRack(others, from) && p.loads[b.ID] < p.loads[best] {
			best = b.ID
		}
	}
	if p.loads[from]-p.loads[best] < 2 {
		return false
	}
	target[i] = best
	p.loads[from]--
	p.loads[best]++
	return true
}

// lead chooses the preferred leaders: the one there is stays if it can, and else, or to make the brokers even, it is the
// replica whose broker leads the fewest.
func (p *planner) lead(targets [][]int32) {
	var open []int
	for i, target := range targets {
		if old := p.partitions[i].Replicas; len(old) > 0 && slices.Contains(target, old[0]) {
			front(target, old[0])
			p.leads[old[0]]++
		} else {
			open = append(open, i)
		}
	}
	for _, i := range open {
		best := slices.MinFunc(targets[i], func(a, b int32) int { return cmp.Compare(p.leads[a], p.leads[b]) })
		front(targets[i], best)
		p.leads[best]++
	}
	for range maxLevelRounds {
		changed := false
		for i := range targets {
			first := targets[i][0]
			best := slices.MinFunc(targets[i], func(a, b int32) int { return cmp.Compare(p.leads[a], p.leads[b]) })
			if p.level && p.leads[first]-p.leads[best] >= 2 {
				front(targets[i], best)
				p.leads[first]--
				p.leads[best]++
				changed = true
			}
		}
		if !changed {
			return
		}
	}
}

// front brings one replica to the front and leaves the others in their order.
func front(replicas []int32, id int32) {
	at := slices.Index(replicas, id)
	copy(replicas[1:], replicas[:at])
	replicas[0] = id
}

func (p *planner) moves(targets [][]int32) []plannedMove {
	out := []plannedMove{}
	for i, x := range p.partitions {
		if slices.Equal(x.Replicas, targets[i]) {
			continue
		}
		m := plannedMove{Topic: x.Topic, Partition: x.Partition, From: x.Replicas, To: targets[i], Bytes: -1}
		if added := int64(len(m.adds())); added == 0 {
			m.Bytes = 0
		} else if x.SizeBytes >= 0 {
			m.Bytes = x.SizeBytes * added
		}
		out = append(out, m)
	}
	return out
}
