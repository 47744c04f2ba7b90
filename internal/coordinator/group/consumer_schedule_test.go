package group

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// place is a partition.
type place struct {
	topic  kafka.UUID
	number int32
}

// world plays random histories of one group: members of both protocols come, stay, crash, change what they subscribe to,
// lose answers; topics come, grow and go; the coordinator starts anew and fails to write.
//
// A member owns a partition from when it is told that it has it until the coordinator has handled a request in which it
// says that it has it no more, or until it is out of the group. No partition ever has two owners.
type world struct {
	*consumerShard
	rnd    *rand.Rand
	topics []string
	ids    map[string]kafka.UUID
	actors []*actor
	named  int
	calm   bool // nothing goes wrong any more
	trace  []string
}

// actor is a member as a client is one.
type actor struct {
	name     string
	classic  bool
	keeps    bool // cooperative: goes on with what it has while it joins again (KIP-429)
	instance *string
	topics   []string
	regex    string

	alive   bool
	id      string // what the group knows it by; "" of a classic one that has not joined
	epoch   int32  // or the generation
	has     map[place]bool
	drop    map[place]bool // asked to give up, and not done yet
	full    bool           // it must tell everything, as it does not know what the coordinator knows
	waits   *coordinator.Pending
	protos  string
	nextHB  time.Time
	away    bool // a static member that said it will be back
	syncing bool
}

const worldGroup = "g"

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{consumerShard: newConsumerShard(t, seed), rnd: rand.New(rand.NewPCG(seed, 7)), ids: map[string]kafka.UUID{}}
	w.settings.MinSession = time.Second
	w.settings.InitialRebalanceDelay = time.Duration(w.rnd.IntN(2)) * time.Second
	w.conf.Session = 10 * time.Second
	w.conf.AssignmentInterval = time.Duration(w.rnd.IntN(3)) * 500 * time.Millisecond
	for range 2 {
		w.createTopic()
	}
	return w
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%6.1f ", w.now.Sub(time.UnixMilli(1_700_000_000_000)).Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) fatal(format string, args ...any) {
	w.t.Helper()
	tail := w.trace[max(0, len(w.trace)-60):]
	w.t.Fatalf("%s\n%s\n%s", fmt.Sprintf(format, args...), strings.Join(tail, "\n"), dumpConsumer(w.m))
}

func (w *world) createTopic() {
	w.named++
	name := fmt.Sprintf("t%d", w.named)
	id := kafka.UUID{0: byte(w.named), 1: 9}
	w.topics = append(w.topics, name)
	w.ids[name] = id
	w.topic(name, id, 1+w.rnd.IntN(8))
	w.note("topic %s", name)
}

func (w *world) chance(percent int) bool { return !w.calm && w.rnd.IntN(100) < percent }

// step lets a random thing happen, and time pass.
func (w *world) step() {
	switch n := w.rnd.IntN(100); {
	case n < 12 && len(w.actors) < 100:
		w.come()
	case n < 14 && len(w.topics) < 8:
		w.createTopic()
	case n < 15:
		name := w.topics[w.rnd.IntN(len(w.topics))]
		if t, ok := w.image.Topic(name); ok && t.NumPartitions() < 20 {
			w.topic(name, w.ids[name], t.NumPartitions()+1+w.rnd.IntN(3))
			w.note("%s grows", name)
		}
	case n == 15 && len(w.topics) > 2:
		name := w.topics[0]
		w.topics = w.topics[1:]
		w.topic(name, w.ids[name], 0)
		w.note("%s is removed", name)
	case n == 16:
		w.restart()
		w.note("the coordinator starts anew")
		w.forgetParked()
	}
	if len(w.actors) > 0 {
		w.misbehave(w.actors[w.rnd.IntN(len(w.actors))])
	}
	w.pass(time.Duration(w.rnd.IntN(700)) * time.Millisecond)
}

// forgetParked: who waited for an answer is told to look for the coordinator again.
func (w *world) forgetParked() {
	for _, a := range w.actors {
		if a.waits != nil {
			a.waits = nil
			a.syncing = false
		}
	}
}

// come adds a member.
func (w *world) come() {
	w.named++
	a := &actor{name: fmt.Sprintf("a%d", w.named), alive: true, has: map[place]bool{}, drop: map[place]bool{}}
	a.classic = w.rnd.IntN(3) == 0
	a.keeps = a.classic && w.rnd.IntN(2) == 0
	a.id = a.name
	if a.classic {
		a.id = ""
	}
	if w.rnd.IntN(4) == 0 {
		s := fmt.Sprintf("i%d", w.rnd.IntN(12))
		if !slices.ContainsFunc(w.actors, func(o *actor) bool { return o.instance != nil && *o.instance == s }) {
			a.instance = &s
		}
	}
	w.subscribe(a)
	w.actors = append(w.actors, a)
	w.note("%s comes: classic=%v static=%v %v %s", a.name, a.classic, a.instance != nil, a.topics, a.regex)
}

func (w *world) subscribe(a *actor) {
	a.topics, a.regex = nil, ""
	if !a.classic && w.rnd.IntN(5) == 0 {
		a.regex = fmt.Sprintf("t[%d-9]", w.rnd.IntN(4))
		return
	}
	for _, name := range w.topics {
		if w.rnd.IntN(3) > 0 {
			a.topics = append(a.topics, name)
		}
	}
}

// misbehave has a member leave, crash, or change its mind.
func (w *world) misbehave(a *actor) {
	switch n := w.rnd.IntN(100); {
	case !a.alive || w.calm:
	case n < 4:
		w.note("%s crashes", a.name)
		a.alive = false
	case n < 9 && !a.classic && a.epoch > 0:
		w.leave(a, epochLeave)
	case n < 12 && !a.classic && a.epoch > 0 && a.instance != nil:
		w.leave(a, epochLeaveStatic)
	case n < 12 && a.classic && a.id != "" && a.waits == nil:
		w.classicLeave(a)
	case n < 20:
		w.subscribe(a)
		a.full = true
		w.note("%s subscribes to %v %s", a.name, a.topics, a.regex)
	}
}

func (w *world) leave(a *actor, epoch int32) {
	w.note("%s leaves %d", a.name, epoch)
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.MemberEpoch, r.InstanceID = 1, worldGroup, a.id, epoch, a.instance
	if a2 := w.send(r); a2.Err == nil {
		a.alive, a.away = false, epoch == epochLeaveStatic
		clear(a.has) // it closes its consumer before it says so
		if a.away {
			// somebody takes its place soon
			w.named++
			w.actors = append(w.actors, &actor{name: fmt.Sprintf("a%d", w.named), id: fmt.Sprintf("a%d", w.named), alive: true,
				instance: a.instance, topics: a.topics, regex: a.regex, has: map[place]bool{}, drop: map[place]bool{}})
			w.note("a%d follows", w.named)
		}
	}
}

func (w *world) classicLeave(a *actor) {
	w.note("%s leaves", a.name)
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Version, r.Group = 5, worldGroup
	r.Members = []kmsg.LeaveGroupRequestMember{{MemberID: a.id, InstanceID: a.instance}}
	if w.send(r).Err == nil {
		a.alive = false
		clear(a.has)
	}
}

// send sends a request, whose append may fail, and gives its answer if there is one at once.
func (w *world) send(r kmsg.Request) coordinator.Answer {
	p := coordinator.NewPending(coordinator.Call{ClientID: "c", ClientHost: "/127.0.0.1"}, r)
	if w.chance(2) {
		w.fail = kafka.CoordinatorNotAvailable
	}
	w.event(p)
	w.fail = nil
	a, _ := p.Answer().Get()
	return a
}

// pass lets time go by: members act when it is time for them.
func (w *world) pass(d time.Duration) {
	until := w.now.Add(d)
	for w.now.Before(until) {
		w.advance(min(100*time.Millisecond, until.Sub(w.now)))
		for _, a := range slices.Clone(w.actors) {
			w.checkFenced(a)
			if a.alive && (a.waits != nil || !w.now.Before(a.nextHB)) {
				a.nextHB = w.now.Add(time.Duration(300+w.rnd.IntN(1500)) * time.Millisecond)
				if a.classic {
					w.classicTurn(a)
				} else {
					w.consumerHeartbeat(a)
				}
			}
		}
		w.checkState()
	}
	w.actors = slices.DeleteFunc(w.actors, func(a *actor) bool { return !a.alive && len(a.has) == 0 })
}

// checkFenced: who is out of the group owns nothing any more, whether it knows or not.
func (w *world) checkFenced(a *actor) {
	if len(a.has) > 0 && !w.isMember(a) {
		w.note("%s is out", a.name)
		clear(a.has)
	}
}

// isMember says whether the group counts on a member. In a classic group those do not count any more that were not there
// when the present generation began.
func (w *world) isMember(a *actor) bool {
	g := w.m.groups[worldGroup]
	if g == nil {
		return false
	}
	switch k := g.kind.(type) {
	case *consumerGroup:
		return k.roster[a.id] != nil
	case *classicGroup:
		return k.byID[a.id] != nil && (k.phase == phasePreparing || k.generationID == a.epoch || a.waits != nil)
	}
	return false
}

// consumerHeartbeat is one heartbeat of a member of the consumer protocol, and what it does with the answer.
func (w *world) consumerHeartbeat(a *actor) {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.MemberEpoch, r.RebalanceTimeoutMillis = 1, worldGroup, a.id, a.epoch, -1
	r.InstanceID = a.instance
	gaveUp := map[place]bool{}
	if w.rnd.IntN(3) > 0 || w.calm { // the listener of the consumer has done its work
		for p := range a.drop {
			gaveUp[p] = true
		}
	}
	tells := a.full || a.epoch == 0 || len(gaveUp) > 0
	if tells {
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		for _, p := range sortedPlaces(a.has) {
			if !gaveUp[p] && a.epoch != 0 {
				r.Topics = append(r.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: p.topic, Partitions: []int32{p.number}})
			}
		}
	}
	if a.full || a.epoch == 0 {
		r.RebalanceTimeoutMillis = 6000
		r.SubscribedTopicNames = append([]string{}, a.topics...)
		r.SubscribedTopicRegex = &a.regex
	}
	ans := w.send(r)
	if ans.Err != nil {
		w.consumerError(a, kafka.CodeOf(ans.Err))
		return
	}
	if tells {
		for p := range gaveUp {
			delete(a.has, p)
			delete(a.drop, p)
		}
	}
	if w.chance(8) {
		w.note("%s does not get its answer", a.name)
		a.full = true
		return
	}
	resp := ans.Body.(*kmsg.ConsumerGroupHeartbeatResponse)
	a.full = false
	a.epoch = resp.MemberEpoch
	if resp.Assignment == nil {
		return
	}
	told := map[place]bool{}
	for _, t := range resp.Assignment.Topics {
		for _, n := range t.Partitions {
			told[place{t.TopicID, n}] = true
		}
	}
	w.told(a, told)
	w.note("%s at %d has %d, gives up %d", a.name, a.epoch, len(a.has), len(a.drop))
}

func (w *world) consumerError(a *actor, code kafka.Code) {
	w.note("%s: %s", a.name, code.Name())
	switch code {
	case kafka.FencedMemberEpoch, kafka.UnknownMemberID, kafka.GroupIDNotFound:
		clear(a.has) // it gives everything up and begins anew
		clear(a.drop)
		a.epoch = 0
		if code == kafka.GroupIDNotFound && w.rnd.IntN(2) == 0 {
			a.alive = false
		}
	case kafka.UnreleasedInstanceID:
		if w.m.groups[worldGroup] != nil && w.isMember(a) { // its own join, whose answer was lost: fatal in Kafka's client
			a.alive = false
		}
	case kafka.FencedInstanceID:
		clear(a.has)
		a.alive = false
	case kafka.CoordinatorNotAvailable:
		a.full = true
	case kafka.GroupMaxSizeReached:
		a.alive = false
	default:
		w.fatal("%s was answered %s", a.name, code.Name())
	}
}

// told takes over what a member is told that it has.
func (w *world) told(a *actor, told map[place]bool) {
	for _, p := range sortedPlaces(told) {
		for _, o := range w.actors {
			if w.checkFenced(o); o != a && o.has[p] {
				w.fatal("%s is told that it has %v, which %s has", a.name, p, o.name)
			}
		}
		a.has[p] = true
		delete(a.drop, p)
	}
	for p := range a.has {
		if !told[p] {
			a.drop[p] = true
		}
	}
}

func sortedPlaces(m map[place]bool) []place {
	return slices.SortedFunc(maps.Keys(m), func(a, b place) int {
		if c := compareUUID(a.topic, b.topic); c != 0 {
			return c
		}
		return int(a.number - b.number)
	})
}

// classicTurn is what a member of the classic protocol does next.
func (w *world) classicTurn(a *actor) {
	if a.waits != nil {
		ans, ok := a.waits.Answer().Get()
		if !ok {
			return
		}
		a.waits = nil
		if a.syncing {
			w.synced(a, ans)
		} else {
			w.joined(a, ans)
		}
		return
	}
	if a.id == "" || a.epoch <= 0 || a.full {
		w.join(a)
		return
	}
	r := kmsg.NewPtrHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.Generation, r.InstanceID = 4, worldGroup, a.id, a.epoch, a.instance
	ans := w.send(r)
	code := kafka.CodeOf(ans.Err)
	if ans.Err == nil {
		code = kafka.Code(ans.Body.(*kmsg.HeartbeatResponse).ErrorCode)
	}
	w.classicCode(a, code)
}

func (w *world) classicCode(a *actor, code kafka.Code) {
	if code != kafka.None && code != kafka.RebalanceInProgress {
		w.note("%s: %s", a.name, code.Name())
	}
	switch code {
	case kafka.None:
	case kafka.RebalanceInProgress:
		a.full = true
	case kafka.UnknownMemberID:
		clear(a.has)
		a.id, a.epoch = "", 0
	case kafka.IllegalGeneration:
		clear(a.has)
		a.epoch = 0
	case kafka.FencedInstanceID:
		clear(a.has)
		a.alive = false
	case kafka.CoordinatorNotAvailable, kafka.NotCoordinator:
	case kafka.InconsistentGroupProtocol, kafka.GroupMaxSizeReached:
		a.alive = false
	default:
		w.fatal("%s was answered %s", a.name, code.Name())
	}
}

// join joins, or joins again. An eager member has given up everything before, a cooperative one what it was asked to.
func (w *world) join(a *actor) {
	m := kmsg.NewConsumerMemberMetadata()
	m.Version, m.Topics, m.Generation = 2, a.topics, a.epoch
	for _, p := range sortedPlaces(a.has) {
		if t, ok := w.image.TopicByID(p.topic); !a.keeps || a.drop[p] || !ok {
			delete(a.has, p)
		} else {
			m.OwnedPartitions = append(m.OwnedPartitions,
				kmsg.ConsumerMemberMetadataOwnedPartition{Topic: t.Name, Partitions: []int32{p.number}})
		}
	}
	clear(a.drop)
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID = 7, worldGroup, a.id, a.instance
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis, r.ProtocolType = 10000, 6000, consumerProtocol
	r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: m.AppendTo(nil)}}
	p := coordinator.NewPending(coordinator.Call{ClientID: "c", ClientHost: "/127.0.0.1"}, r)
	w.event(p)
	a.waits, a.syncing, a.full = p, false, false
}

func (w *world) joined(a *actor, ans coordinator.Answer) {
	code := kafka.CodeOf(ans.Err)
	var resp *kmsg.JoinGroupResponse
	if ans.Err == nil {
		resp = ans.Body.(*kmsg.JoinGroupResponse)
		code = kafka.Code(resp.ErrorCode)
	}
	if code == kafka.MemberIDRequired {
		a.id = resp.MemberID
		return
	}
	if code != kafka.None {
		a.full = true
		w.classicCode(a, code)
		return
	}
	a.id, a.epoch = resp.MemberID, resp.Generation
	r := kmsg.NewPtrSyncGroupRequest()
	r.Version, r.Group, r.MemberID, r.Generation, r.InstanceID = 5, worldGroup, a.id, a.epoch, a.instance
	r.ProtocolType, r.Protocol = kmsg.StringPtr(consumerProtocol), kmsg.StringPtr("range")
	if resp.LeaderID == a.id {
		r.GroupAssignment = w.lead(resp.Members)
	}
	p := coordinator.NewPending(coordinator.Call{ClientID: "c", ClientHost: "/127.0.0.1"}, r)
	w.event(p)
	a.waits, a.syncing = p, true
}

// lead assigns the partitions of a classic group, one after the other; what somebody else still has is nobody's this time.
func (w *world) lead(members []kmsg.JoinGroupResponseMember) []kmsg.SyncGroupRequestGroupAssignment {
	takes := map[string][]string{} // topic -> members
	owner := map[string]string{}
	for _, m := range members {
		s, _ := readSubscription(m.ProtocolMetadata)
		for _, t := range s.Topics {
			takes[t] = append(takes[t], m.MemberID)
		}
		for _, o := range s.OwnedPartitions {
			owner[fmt.Sprint(o.Topic, o.Partitions)] = m.MemberID
		}
	}
	given := map[string]*kmsg.ConsumerMemberAssignment{}
	for _, m := range members {
		given[m.MemberID] = &kmsg.ConsumerMemberAssignment{Version: 1}
	}
	for _, name := range slices.Sorted(maps.Keys(takes)) {
		t, ok := w.image.Topic(name)
		if !ok {
			continue
		}
		for n := range t.NumPartitions() {
			id := takes[name][n%len(takes[name])]
			if o := owner[fmt.Sprint(name, []int32{int32(n)})]; o != "" && o != id {
				continue
			}
			given[id].Topics = append(given[id].Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: name, Partitions: []int32{int32(n)}})
		}
	}
	var out []kmsg.SyncGroupRequestGroupAssignment
	for _, m := range members {
		out = append(out, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.MemberID, MemberAssignment: given[m.MemberID].AppendTo(nil)})
	}
	return out
}

func (w *world) synced(a *actor, ans coordinator.Answer) {
	a.syncing = false
	code := kafka.CodeOf(ans.Err)
	var resp *kmsg.SyncGroupResponse
	if ans.Err == nil {
		resp = ans.Body.(*kmsg.SyncGroupResponse)
		code = kafka.Code(resp.ErrorCode)
	}
	if code != kafka.None {
		a.full = true
		w.classicCode(a, code)
		return
	}
	told := map[place]bool{}
	if len(resp.MemberAssignment) > 0 {
		var m kmsg.ConsumerMemberAssignment
		if err := m.ReadFrom(resp.MemberAssignment); err != nil {
			w.fatal("assignment of %s: %v", a.name, err)
		}
		for _, t := range m.Topics {
			for _, n := range t.Partitions {
				if topic, ok := w.image.Topic(t.Topic); ok {
					told[place{topic.ID, n}] = true
				}
			}
		}
	}
	w.told(a, told)
	a.full = a.full || len(a.drop) > 0 // it has to say that it gave them up
	w.note("%s synced at %d has %d", a.name, a.epoch, len(a.has))
}

// checkState: the group's own account has one holder of each partition, and agrees with its members.
func (w *world) checkState() {
	g := w.m.groups[worldGroup]
	if g == nil {
		return
	}
	c, ok := g.kind.(*consumerGroup)
	if !ok {
		return
	}
	seen := map[place]string{}
	for _, id := range sortedMembers(c) {
		m := c.roster[id]
		for _, h := range []held{m.assigned, m.revoking} {
			for topic, numbers := range h {
				for n := range numbers {
					if o := seen[place{topic, n}]; o != "" {
						w.fatal("%s and %s both hold %d", o, id, n)
					}
					seen[place{topic, n}] = id
					if c.holder(topic, n) != id {
						w.fatal("%s holds %d but the account says %q", id, n, c.holder(topic, n))
					}
				}
			}
		}
	}
	for topic, numbers := range c.holders {
		for n, id := range numbers {
			if seen[place{topic, n}] != id {
				w.fatal("the account says that %s holds %d", id, n)
			}
		}
	}
}

// settle lets everything calm down and expects the group to be stable, with each partition that somebody wants at one of
// those who want it.
func (w *world) settle() {
	w.calm = true
	w.note("calm")
	w.pass(60 * time.Second)
	g := w.m.groups[worldGroup]
	living := 0
	want := map[place]bool{}
	for _, a := range w.actors {
		if !a.alive {
			continue
		}
		living++
		for t := range w.image.Topics() {
			if slices.Contains(a.topics, t.Name) || a.regex != "" && slices.Contains(matchingTopics(w.image, a.regex), t.Name) {
				for n := range t.NumPartitions() {
					want[place{t.ID, int32(n)}] = true
				}
			}
		}
	}
	if living == 0 {
		return
	}
	if s := g.kind.state(); s != "Stable" {
		w.fatal("the group is %s", s)
	}
	for _, a := range w.actors {
		for p := range a.has {
			if a.drop[p] {
				w.fatal("%s still has to give up %v", a.name, p)
			}
			delete(want, p)
		}
	}
	if len(want) > 0 {
		w.fatal("nobody has %v", sortedPlaces(want))
	}
}

func TestConsumerSchedules(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed)
			w.play(150)
		})
	}
}

// TestConsumerCrowd begins with a hundred members.
func TestConsumerCrowd(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed)
			for range 6 {
				w.createTopic()
			}
			for range 100 {
				w.come()
			}
			w.play(40)
		})
	}
}

func (w *world) play(steps int) {
	for i := range steps {
		w.step()
		if i%25 == 0 {
			w.checkReplay()
		}
	}
	w.settle()
	w.checkReplay()
}
