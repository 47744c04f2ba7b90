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

// A hundred clients join, leave, crash, come back, dawdle and lose their coordinator, in virtual time. Whatever happens no
// partition has two owners in one generation, the log always holds what the machine says it holds, nobody waits without a
// deadline, and once the trouble is over the group comes to rest with everybody in it.
func TestClassicSchedules(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newClassicWorld(t, seed, 100)
			w.trouble = w.now.Add(4 * time.Minute)
			w.until(w.trouble)
			for _, c := range w.clients {
				if !c.alive {
					c.start()
				}
			}
			w.until(w.now.Add(4 * time.Minute))
			w.rested()
		})
	}
}

const schedulePartitions = 150

// classicWorld is a coordinator and its clients.
type classicWorld struct {
	*classicBench
	clients  []*classicClient
	of       map[*coordinator.Pending]*classicClient
	todo     []classicAct
	trouble  time.Time // until then things go wrong
	owner    map[int32]map[int32]*classicClient
	parts    map[int32]string // all assignments of a generation, as written
	events   int
	reloaded bool
	dice     *rand.Rand
}

type classicAct struct {
	at  time.Time
	do  func()
	who string
}

// classicClient is a consumer with one request under way at most, but for what it forgot by crashing.
type classicClient struct {
	w        *classicWorld
	name     string
	instance *string
	version  int16
	topics   string
	member   string
	typeName string
	protocol string
	gen      int32
	life     int // counts the starts: what an earlier one planned does not happen
	alive    bool
	asked    *coordinator.Pending
	owned    []int32
}

func newClassicWorld(t *testing.T, seed uint64, n int) *classicWorld {
	w := &classicWorld{
		classicBench: newClassicBench(t, seed), of: map[*coordinator.Pending]*classicClient{},
		owner: map[int32]map[int32]*classicClient{}, parts: map[int32]string{}, dice: rand.New(rand.NewPCG(seed, 1)),
	}
	w.settings.InitialRebalanceDelay = time.Duration(w.dice.IntN(2)) * 3 * time.Second
	w.answered = w.onAnswer
	w.wrote = w.onWrite
	for i := range n {
		c := &classicClient{w: w, name: fmt.Sprintf("c%02d", i), version: int16(3 + w.dice.IntN(7)), topics: "t"}
		if c.version >= 5 && w.dice.IntN(3) == 0 {
			instance := "i" + c.name
			c.instance = &instance
		}
		w.clients = append(w.clients, c)
		w.plan(time.Duration(w.dice.IntN(60_000))*time.Millisecond, c.name, c.start)
	}
	w.plan(time.Second, "world", w.mischief)
	return w
}

func (w *classicWorld) troubled() bool { return w.now.Before(w.trouble) }

// mischief breaks something every other second.
func (w *classicWorld) mischief() {
	if !w.troubled() {
		return
	}
	w.plan(time.Duration(w.dice.IntN(4000))*time.Millisecond, "world", w.mischief)
	c := w.clients[w.dice.IntN(len(w.clients))]
	switch w.dice.IntN(12) {
	case 0, 1, 2:
		c.crash()
	case 3:
		c.leave()
	case 4:
		c.topics += "x"
	case 5:
		w.fail = kafka.UnknownServerError
	case 6:
		if w.dice.IntN(3) == 0 {
			w.reload()
			w.reloaded = true
		}
	default:
		if !c.alive {
			c.start()
		}
	}
}

func (w *classicWorld) plan(in time.Duration, who string, do func()) {
	w.todo = append(w.todo, classicAct{at: w.now.Add(in), do: do, who: who})
}

// until lets clients and timers act in the order of their times.
func (w *classicWorld) until(end time.Time) {
	for {
		next := -1
		for i, a := range w.todo {
			if next < 0 || a.at.Before(w.todo[next].at) {
				next = i
			}
		}
		at := end
		if next >= 0 && w.todo[next].at.Before(end) {
			at = w.todo[next].at
		}
		w.advance(at.Sub(w.now))
		if at.Equal(end) {
			w.sound()
			return
		}
		do := w.todo[next].do
		w.todo = slices.Delete(w.todo, next, next+1)
		do()
		w.sound()
	}
}

func (c *classicClient) later(in time.Duration, do func()) {
	life := c.life
	c.w.plan(in, c.name, func() {
		if c.alive && c.life == life {
			do()
		}
	})
}

// soon is when a client gets round to something; in troubled times that may be late, or too late.
func (c *classicClient) soon() time.Duration {
	d := time.Duration(c.w.dice.IntN(300)) * time.Millisecond
	if c.w.troubled() && c.w.dice.IntN(60) == 0 {
		d += time.Duration(c.w.dice.IntN(40)) * time.Second
	}
	return d
}

func (c *classicClient) start() {
	c.life++
	c.alive, c.member, c.gen, c.owned, c.asked = true, "", -1, nil, nil
	c.join()
	c.later(3*time.Second, c.beat)
}

func (c *classicClient) crash() {
	if c.alive {
		c.alive, c.asked, c.owned = false, nil, nil // what it asked stays parked
	}
}

func (c *classicClient) leave() {
	if !c.alive || c.asked != nil {
		return
	}
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Version, r.Group, r.MemberID = min(c.version, 5), "g", c.member
	r.Members = []kmsg.LeaveGroupRequestMember{{MemberID: c.member, InstanceID: c.instance}}
	c.alive, c.owned = false, nil
	c.w.request(c.name, r)
}

func (c *classicClient) ask(body kmsg.Request) {
	p := coordinator.NewPending(coordinator.Call{ClientID: c.name, ClientHost: "/h"}, body)
	c.w.of[p], c.asked = c, p
	c.w.submit(p)
}

func (c *classicClient) join() {
	if c.asked != nil {
		return
	}
	c.owned = nil
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID = c.version, "g", c.member, c.instance
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis, r.ProtocolType = 10_000, 20_000, "consumer"
	r.Protocols = []kmsg.JoinGroupRequestProtocol{
		{Name: "range", Metadata: []byte(c.topics)}, {Name: "sticky", Metadata: []byte(c.topics)},
	}
	if c.name > "c50" {
		slices.Reverse(r.Protocols)
	}
	c.ask(r)
}

func (c *classicClient) sync(assignment []kmsg.SyncGroupRequestGroupAssignment) {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation = min(c.version, 5), "g", c.member, c.instance, c.gen
	r.GroupAssignment, r.ProtocolType, r.Protocol = assignment, &c.typeName, &c.protocol
	c.ask(r)
}

func (c *classicClient) beat() {
	c.later(3*time.Second, c.beat)
	if c.gen < 0 {
		return
	}
	r := kmsg.NewPtrHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation = min(c.version, 4), "g", c.member, c.instance, c.gen
	p := coordinator.NewPending(coordinator.Call{ClientID: c.name, ClientHost: "/h"}, r)
	c.w.of[p] = c
	c.w.submit(p)
}

func (w *classicWorld) onAnswer(p *coordinator.Pending, a coordinator.Answer) {
	c := w.of[p]
	delete(w.of, p)
	if c == nil {
		return
	}
	if _, beat := p.Body.(*kmsg.HeartbeatRequest); beat {
		c.onBeat(p.Body.(*kmsg.HeartbeatRequest), a)
		return
	}
	if c.asked != p {
		return // of an earlier life
	}
	c.asked = nil
	code := kafka.CodeOf(a.Err)
	switch r := a.Body.(type) {
	case *kmsg.JoinGroupResponse:
		if code = kafka.Code(r.ErrorCode); code == kafka.MemberIDRequired {
			c.member = r.MemberID
		} else if code == kafka.None {
			c.joined(r)
			return
		}
	case *kmsg.SyncGroupResponse:
		if code = kafka.Code(r.ErrorCode); code == kafka.None {
			c.own(p.Body.(*kmsg.SyncGroupRequest).Generation, r.MemberAssignment)
			return
		}
	}
	c.fix(code)
}

// fix does what clients do about an error: join again, as nobody if the coordinator does not know them.
func (c *classicClient) fix(code kafka.Code) {
	switch code {
	case kafka.UnknownMemberID:
		c.member, c.gen = "", -1
	case kafka.FencedInstanceID:
		if !c.w.reloaded {
			c.w.t.Fatalf("%s is fenced, but there is no other one", c.name)
		}
		// The id it was given in the last rebalance was not written before the coordinator moved. As in Kafka this is fatal,
		// and somebody restarts the client.
		c.crash()
		c.w.plan(c.soon(), c.name, c.start)
		return
	}
	c.later(c.soon(), c.join)
}

func (c *classicClient) onBeat(r *kmsg.HeartbeatRequest, a coordinator.Answer) {
	if !c.alive || r.MemberID != c.member || r.Generation != c.gen || c.asked != nil {
		return
	}
	code := kafka.CodeOf(a.Err)
	if a.Err == nil {
		code = kafka.Code(a.Body.(*kmsg.HeartbeatResponse).ErrorCode)
	}
	if code != kafka.None {
		c.fix(code)
	}
}

func (c *classicClient) joined(r *kmsg.JoinGroupResponse) {
	c.member, c.gen, c.typeName, c.protocol = r.MemberID, r.Generation, *r.ProtocolType, *r.Protocol
	var assignment []kmsg.SyncGroupRequestGroupAssignment
	if r.LeaderID == r.MemberID && !r.SkipAssignment {
		byMember := make([][]byte, len(r.Members))
		for p := range schedulePartitions {
			i := p % len(r.Members)
			byMember[i] = fmt.Appendf(byMember[i], "%d ", p)
		}
		for i, m := range r.Members {
			assignment = append(assignment, kmsg.SyncGroupRequestGroupAssignment{
				MemberID: m.MemberID, MemberAssignment: byMember[i],
			})
		}
	}
	gen := c.gen
	c.later(c.soon(), func() {
		if c.asked == nil && c.gen == gen {
			c.sync(assignment)
		}
	})
}

// own checks that nobody else owns, or owned, these partitions in this generation.
func (c *classicClient) own(gen int32, assignment []byte) {
	w := c.w
	if w.owner[gen] == nil {
		w.owner[gen] = map[int32]*classicClient{}
	}
	c.owned = nil
	for f := range strings.FieldsSeq(string(assignment)) {
		var p int32
		_, _ = fmt.Sscan(f, &p)
		if o := w.owner[gen][p]; o != nil && o != c {
			w.t.Fatalf("generation %d gives partition %d to %s and %s", gen, p, o.name, c.name)
		}
		w.owner[gen][p] = c
		c.owned = append(c.owned, p)
	}
	if c.alive && c.topics != "t" && w.dice.IntN(2) == 0 { // a change of its subscription
		c.later(c.soon(), c.join)
	}
}

// onWrite checks that one generation has one assignment, and that the log is what the machine thinks it is.
func (w *classicWorld) onWrite() {
	s := w.m.groups["g"].classic().stored
	var parts []string
	for _, m := range s.members {
		parts = append(parts, string(m.assignment))
	}
	all := strings.Join(parts, "|")
	if was, ok := w.parts[s.generation]; ok && len(s.members) > 0 && was != all {
		w.t.Fatalf("generation %d was assigned twice:\n%s\n%s", s.generation, was, all)
	}
	w.parts[s.generation] = all
	if w.events++; w.events%10 == 0 {
		if live, log := stored(w.m), stored(w.replay()); live != log {
			w.t.Fatalf("the log holds\n%s\nand the machine thinks it holds\n%s", log, live)
		}
	}
}

// sound checks what must hold between any two events.
func (w *classicWorld) sound() {
	g := w.m.groups["g"]
	if g == nil {
		return
	}
	if problem := w.unsound(g.classic()); problem != "" {
		w.t.Fatalf("at %s: %s", w.now, problem)
	}
}

func (w *classicWorld) unsound(c *classicGroup) string {
	takes, ids := int64(0), int64(0)
	for _, m := range c.roster {
		takes += m.bytes()
	}
	for id := range c.pending {
		ids += pendingBytes(id)
		if !slices.Contains(c.handedOut, id) {
			return id + " cannot be forgotten"
		}
	}
	if takes != c.bytes || ids != c.idBytes {
		return fmt.Sprintf("members take %d bytes and not %d, ids %d and not %d", takes, c.bytes, ids, c.idBytes)
	}
	joining, unsynced, votes := 0, 0, map[string]int{}
	for _, m := range c.roster {
		at, armed := w.timers[c.sessionTimer(m.id)]
		switch {
		case c.byID[m.id] != m:
			return m.id + " is not found by its id"
		case m.instance != nil && c.static[*m.instance] != m:
			return m.id + " is not found by its instance"
		case armed != !m.armed.IsZero() || armed && !at.Equal(m.armed):
			return m.id + " is mistaken about its timer"
		case !armed && m.silent():
			return m.id + " may be silent for ever"
		case m.join != nil && c.phase != phasePreparing, m.sync != nil && c.phase != phaseCompleting:
			return m.id + " waits for what does not come"
		case m.join != nil && !w.isParked(m.join), m.sync != nil && !w.isParked(m.sync):
			return m.id + " waits with a request that was answered"
		}
		if m.join != nil {
			joining++
		}
		if m.owesSync {
			unsynced++
		}
		for _, n := range names(m.protocols) {
			votes[n]++
		}
	}
	_, joinTimer := w.timers[coordinator.TimerKey{Kind: timerJoin, Scope: "g"}]
	_, syncTimer := w.timers[coordinator.TimerKey{Kind: timerSync, Scope: "g"}]
	switch {
	case joining != c.joining || unsynced != c.unsynced || len(c.byID) != len(c.roster):
		return "members are miscounted"
	case !maps.Equal(votes, c.votes):
		return fmt.Sprintf("votes are miscounted: %v, not %v", c.votes, votes)
	case (len(c.roster) == 0) != (c.leader == "") || c.leader != "" && c.byID[c.leader] == nil:
		return "the leader is no member"
	case c.phase == phasePreparing != joinTimer:
		return fmt.Sprintf("%s and join timer %v", c.state(), joinTimer)
	case c.phase == phaseCompleting && unsynced > 0 && !syncTimer:
		return "nobody waits for those that must sync"
	case c.phase == phaseEmpty && len(c.roster) > 0 || c.phase == phaseStable && len(c.roster) == 0:
		return fmt.Sprintf("%s with %d members", c.state(), len(c.roster))
	}
	return w.unsoundWaits(c)
}

func (w *classicWorld) unsoundWaits(c *classicGroup) string {
	held := 0
	for _, m := range c.roster {
		if m.join != nil {
			held++
		}
		if m.sync != nil {
			held++
		}
	}
	if held != len(w.parked) {
		return fmt.Sprintf("%d requests are parked, %d known to the group", len(w.parked), held)
	}
	for id := range c.pending {
		if _, ok := w.timers[c.pendingTimer(id)]; !ok || c.byID[id] != nil {
			return "the id " + id + " waits for ever"
		}
	}
	return ""
}

// rested checks that everybody is in the group and owns its part, after it was left in peace.
func (w *classicWorld) rested() {
	c := w.m.groups["g"].classic()
	if c.phase != phaseStable || len(c.roster) != len(w.clients) {
		w.t.Fatalf("%s with %d members", c.state(), len(c.roster))
	}
	var owned []int32
	for _, x := range w.clients {
		if x.gen != c.generationID {
			w.t.Fatalf("%s is in generation %d, not %d", x.name, x.gen, c.generationID)
		}
		owned = append(owned, x.owned...)
	}
	slices.Sort(owned)
	if len(owned) != schedulePartitions || len(slices.Compact(owned)) != schedulePartitions {
		w.t.Fatalf("%d partitions are owned", len(owned))
	}
	if len(w.parked) > 0 {
		w.t.Fatalf("%d requests are parked", len(w.parked))
	}
}
