package sim

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"moldau/internal/cluster/controller"
	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
)

var modelNodes = []kafka.NodeID{1, 2, 3}

// modelBounds say how far a search goes.
type modelBounds struct {
	records, crashes int
	epoch            kafka.LeaderEpoch    // the last leader epoch
	version          kafka.PartitionEpoch // the last partition epoch: each change of leader or in-sync set takes one
	behind           int                  // how many images somebody may lag behind
}

// model searches every order in which anything can happen to three replicas of one partition, and the real controller.
//
// What a node does depends on its own state and on what happens to it and on nothing else. So each pair of both is run
// once, by the real code on a real log, and remembered; the search over whole clusters only combines what is known.
type model struct {
	bounds   modelBounds
	settings *controller.Settings
	rnd      *rand.Rand
	topic    kafka.UUID

	images    []*metadata.Image
	imageOf   map[string]int32
	diffs     map[[2]int32]*metadata.Diff
	decisions map[decisionKey]controlResult
	messages  []modelMessage
	messageOf map[modelMessage]int32
	locals    []local
	localOf   map[string]int32
	outcomes  map[localStep]stepResult

	seen    map[[2]uint64]struct{}
	hash    [2]maphash.Seed
	queue   []cluster
	parents []parent
	broken  string
	told    bool // broken says how it came about
	buffer  []byte
}

// local is the state of a node, and what has led to it.
type local struct {
	id    kafka.NodeID
	steps []step
	view  modelView
	spare *modelNode // in this state, for whoever needs it first
}

type localStep struct {
	local int32
	step  step
}

// stepResult is what a step makes of a node.
type stepResult struct {
	local int32
	sent  []int32
	acks  []acknowledgement
}

// cluster is one state of everything.
type cluster struct {
	nodes  [3]int32
	at     [3]uint8 // which of the images each has
	images []int32  // from the oldest that is still to come to somebody, to the controller's
	sent   []int32  // messages under way
	// committed is the history: two bytes for each record, leader epoch and value.
	committed        string
	leaders          [8]uint8 // of each epoch
	records, crashes uint8
	number           int32
}

type parent struct {
	number int32
	what   action
}

// action is what happens to a cluster: a step of a node, or a decision.
type action struct {
	node    int8 // the place of the node, -1 for the controller
	step    step
	control controlKind
}

func newModel(b modelBounds) (*model, error) {
	m := &model{bounds: b, imageOf: map[string]int32{}, diffs: map[[2]int32]*metadata.Diff{},
		decisions: map[decisionKey]controlResult{}, messageOf: map[modelMessage]int32{}, localOf: map[string]int32{},
		outcomes: map[localStep]stepResult{}, seen: map[[2]uint64]struct{}{},
		hash: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	if err := m.found(); err != nil {
		return nil, err
	}
	first := cluster{images: []int32{0}}
	for i, id := range modelNodes {
		n := m.newNode(id)
		n.do(step{stepStart, 0})
		n.do(step{kind: stepFlush})
		if n.err != nil {
			return nil, n.err
		}
		first.nodes[i] = m.internLocal(n, []step{{stepStart, 0}, {kind: stepFlush}})
	}
	first.leaders[m.partition(0).LeaderEpoch] = 1
	m.add(&first, parent{number: -1})
	return m, nil
}

func (m *model) fail(format string, args ...any) {
	if m.broken == "" {
		m.broken = fmt.Sprintf(format, args...)
	}
}

func (m *model) internMessage(x modelMessage) int32 {
	if n, ok := m.messageOf[x]; ok {
		return n
	}
	n := int32(len(m.messages))
	m.messageOf[x] = n
	m.messages = append(m.messages, x)
	return n
}

func (m *model) internLocal(n *modelNode, steps []step) int32 {
	key := n.fingerprint()
	if at, ok := m.localOf[key]; ok {
		return at
	}
	at := int32(len(m.locals))
	m.localOf[key] = at
	m.locals = append(m.locals, local{id: n.id, steps: steps, view: n.view(), spare: n})
	return at
}

// stepResult runs a step of a node, unless it is known.
func (m *model) stepResult(at int32, s step) stepResult {
	key := localStep{at, s}
	if o, ok := m.outcomes[key]; ok {
		return o
	}
	l := &m.locals[at]
	n := l.spare
	l.spare = nil
	if n == nil {
		n = m.newNode(l.id)
		for _, before := range l.steps {
			n.do(before)
		}
	}
	steps := append(slices.Clip(l.steps), s)
	n.do(s)
	o := stepResult{acks: n.acks}
	for _, x := range n.sent {
		o.sent = append(o.sent, m.internMessage(x))
	}
	o.local = m.internLocal(n, steps)
	if n.err != nil {
		m.fail("node %d: %v", n.id, n.err)
	}
	m.outcomes[key] = o
	return o
}

// add takes a state into the search if it is new.
func (m *model) add(c *cluster, p parent) {
	m.normalise(c)
	b := m.buffer[:0]
	for i := range c.nodes {
		b = binary.LittleEndian.AppendUint32(b, uint32(c.nodes[i]))
		b = append(b, c.at[i])
	}
	b = append(b, c.records, c.crashes, uint8(len(c.images)), uint8(len(c.sent)))
	b = append(b, c.leaders[:]...)
	for _, x := range c.images {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	for _, x := range c.sent {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	b = append(b, c.committed...)
	m.buffer = b
	key := [2]uint64{maphash.Bytes(m.hash[0], b), maphash.Bytes(m.hash[1], b)}
	if _, known := m.seen[key]; known {
		return
	}
	m.seen[key] = struct{}{}
	c.number = int32(len(m.parents))
	m.parents = append(m.parents, p)
	m.queue = append(m.queue, *c)
}

// search looks at everything in reach, breadth first, and says what it found wrong.
func (m *model) search() error {
	for at := 0; at < len(m.queue); at++ {
		c := m.queue[at]
		m.queue[at] = cluster{}
		m.expand(&c)
		if m.broken != "" {
			return fmt.Errorf("%s", m.broken)
		}
		if at == 1<<16 { // let go of what was looked at
			m.queue = slices.Clone(m.queue[at+1:])
			at = -1
		}
	}
	return nil
}

// expand makes everything happen that can.
func (m *model) expand(c *cluster) {
	newest := c.images[len(c.images)-1]
	for i := range c.nodes {
		l := &m.locals[c.nodes[i]]
		m.expandNode(c, i, &l.view)
		m.expandControl(c, i, &l.view, newest)
	}
	for k, x := range c.sent {
		m.deliver(c, k, x)
	}
}

// expandNode makes happen what can happen to a node by itself.
func (m *model) expandNode(c *cluster, i int, v *modelView) {
	do := func(kind stepKind, n int32) { m.stepNode(c, i, step{kind, n}, -1) }
	if !v.up {
		return
	}
	if int(c.at[i])+1 < len(c.images) {
		do(stepImage, c.images[c.at[i]+1])
	}
	if v.role == replica.Leader {
		if int(c.records) < m.bounds.records {
			do(stepAppend, int32('a'+c.records))
		}
		do(stepTick, 0)
	}
	if v.dirty {
		do(stepFlush, 0)
	}
	if int(c.crashes) < m.bounds.crashes {
		do(stepLose, 0)
		if v.dirty {
			do(stepKill, 0)
		}
	}
}

// normalise sends the fetches that can be sent, since one that is sent late is one that arrives late, and drops messages
// that cannot change anything any more.
func (m *model) normalise(c *cluster) {
	p := m.partition(c.images[len(c.images)-1])
	c.sent = slices.DeleteFunc(c.sent, func(x int32) bool { return m.idle(c, p, &m.messages[x]) })
	for i := range c.nodes {
		if v := &m.locals[c.nodes[i]].view; v.up && v.fetches && !m.awaits(c, &v.ask) {
			c.sent = append(c.sent, m.internMessage(modelMessage{kind: messageFetch, fetch: v.ask}))
		}
	}
	slices.Sort(c.sent)
}

// awaits says whether a follower waits for an answer in its term.
func (m *model) awaits(c *cluster, f *fetchAsk) bool {
	return slices.ContainsFunc(c.sent, func(x int32) bool {
		y := &m.messages[x]
		return y.kind <= messageAnswer && y.fetch.from == f.from && y.fetch.broker == f.broker && y.fetch.epoch == f.epoch
	})
}

// idle says whether a message can do nothing, whenever it arrives: who would hear it has gone on.
func (m *model) idle(c *cluster, newest *metadata.Partition, x *modelMessage) bool {
	switch x.kind {
	case messageFetch:
		v := &m.locals[c.nodes[x.fetch.to-1]].view
		return v.up && v.epoch > x.fetch.epoch || !v.up && newest.LeaderEpoch > x.fetch.epoch
	case messageAnswer:
		v := &m.locals[c.nodes[x.fetch.from-1]].view
		return !v.up || v.broker != x.fetch.broker || v.ask.epoch != x.fetch.epoch || v.ask.offset != x.fetch.offset ||
			v.role != replica.Follower || x.answer.code != kafka.None && x.answer.code != kafka.OffsetOutOfRange
	case messagePropose:
		return x.propose.version < newest.PartitionEpoch
	}
	v := &m.locals[c.nodes[x.propose.from-1]].view
	return !v.up || v.broker != x.propose.broker || x.decision.code == kafka.None && x.decision.version > x.propose.version ||
		v.epoch != x.propose.epoch
}

// expandControl makes happen what can happen between a node and the controller.
func (m *model) expandControl(c *cluster, i int, v *modelView, newest int32) {
	b, _ := m.images[newest].Broker(modelNodes[i])
	switch {
	case !b.Fenced:
		m.stepControl(c, i, controlExpire, int32(b.ID), -1)
	case v.up && v.broker == b.Epoch:
		m.stepControl(c, i, controlRevive, int32(b.ID), -1)
	}
	if !v.up {
		m.stepControl(c, i, controlRegister, int32(b.ID), -1)
	}
}

// deliver delivers a message, or loses the answer to a fetch: what is never delivered is lost as well.
func (m *model) deliver(c *cluster, k int, x int32) {
	y := &m.messages[x]
	switch y.kind {
	case messageFetch:
		if i := int(y.fetch.to) - 1; m.locals[c.nodes[i]].view.up {
			m.stepNode(c, i, step{stepServe, x}, k)
		}
	case messageAnswer:
		m.stepNode(c, int(y.fetch.from)-1, step{stepTake, x}, k)
		next := *c
		next.sent = slices.Delete(slices.Clone(c.sent), k, k+1)
		m.add(&next, parent{c.number, action{node: -1, step: step{stepTake, x}}})
	case messagePropose:
		m.stepControl(c, int(y.propose.from)-1, controlPropose, x, k)
	case messageDecision:
		m.stepNode(c, int(y.propose.from)-1, step{stepDecided, x}, k)
	}
}

// stepNode lets something happen to a node. taken is the place of the message that it takes, -1 for none.
func (m *model) stepNode(c *cluster, i int, s step, taken int) {
	o := m.stepResult(c.nodes[i], s)
	next := *c
	next.nodes[i] = o.local
	next.sent = slices.Clone(c.sent)
	if taken >= 0 {
		next.sent = slices.Delete(next.sent, taken, taken+1)
	}
	switch s.kind {
	case stepImage:
		next.at[i]++
	case stepAppend:
		next.records++
	case stepLose, stepKill:
		next.crashes++
	}
	next.sent = append(next.sent, o.sent...)
	before, after := m.locals[c.nodes[i]].view, m.locals[o.local].view
	what := action{node: int8(i), step: s}
	if before.up && after.up {
		m.check(&next, i, &before, &after)
	}
	for _, a := range o.acks {
		if at := int(a.at) * 2; at >= len(next.committed) || next.committed[at+1] != byte(a.value) {
			m.fail("%c is acknowledged at offset %d, where it is not committed", rune(a.value), a.at)
		}
	}
	m.checkInSync(&next)
	m.finish(c, &next, what)
}

// stepControl lets the controller decide, within the bounds.
func (m *model) stepControl(c *cluster, i int, kind controlKind, n int32, taken int) {
	newest := c.images[len(c.images)-1]
	r := m.control(decisionKey{newest, kind, n})
	if p := m.partition(r.image); p.LeaderEpoch > m.bounds.epoch || p.PartitionEpoch > m.bounds.version {
		return
	}
	next := *c
	next.sent = slices.Clone(c.sent)
	if taken >= 0 {
		next.sent = slices.Delete(next.sent, taken, taken+1)
	}
	if r.image != newest {
		if len(c.images) > m.bounds.behind {
			return
		}
		next.images = append(slices.Clip(c.images), r.image)
	}
	if kind == controlPropose {
		next.sent = append(next.sent, m.internMessage(modelMessage{kind: messageDecision, propose: m.messages[n].propose,
			decision: r.answer}))
	}
	what := action{node: -1, control: kind, step: step{n: n}}
	if kind == controlRegister {
		next.at[i] = uint8(len(next.images) - 1)
		next.nodes[i] = m.stepResult(c.nodes[i], step{stepStart, r.image}).local
	}
	m.checkInSync(&next)
	m.finish(c, &next, what)
}

// finish drops the images that everybody has, and adds the state.
func (m *model) finish(c, next *cluster, what action) {
	oldest := uint8(len(next.images) - 1)
	for i := range next.nodes {
		if m.locals[next.nodes[i]].view.up {
			oldest = min(oldest, next.at[i])
		} else {
			next.at[i] = uint8(len(next.images) - 1)
		}
	}
	if oldest > 0 {
		next.images = next.images[oldest:]
		for i := range next.at {
			next.at[i] -= oldest
		}
	}
	if m.broken != "" {
		if !m.told {
			m.broken, m.told = m.broken+m.story(c.number, what), true
		}
		return
	}
	m.add(next, parent{c.number, what})
}

// check holds a node against the history after something has happened to it.
func (m *model) check(c *cluster, i int, before, after *modelView) {
	if after.epoch < before.epoch {
		m.fail("node %d goes from leader epoch %d back to %d", modelNodes[i], before.epoch, after.epoch)
	}
	sameTerm := before.epoch == after.epoch && before.role == after.role
	if sameTerm && after.role == replica.Leader && after.visible < before.visible {
		m.fail("the high watermark of node %d falls from %d to %d", modelNodes[i], before.visible, after.visible)
	}
	if after.visible > after.end {
		m.fail("node %d shows %d records of %d", modelNodes[i], after.visible, after.end)
		return
	}
	if after.role == replica.Leader && !sameTerm {
		if other := c.leaders[after.epoch]; other != 0 && int(other) != i+1 {
			m.fail("nodes %d and %d lead epoch %d", other, i+1, after.epoch)
		}
		c.leaders[after.epoch] = uint8(i + 1)
		m.checkLeader(c, i, after)
	}
	shown := after.entries[:2*after.visible]
	switch common := min(len(shown), len(c.committed)); {
	case shown[:common] != c.committed[:common]:
		m.fail("node %d shows %q, committed was %q", modelNodes[i], shown, c.committed)
	case len(shown) > len(c.committed) && after.role == replica.Leader:
		c.committed = shown
	case len(shown) > len(c.committed):
		m.fail("node %d, which follows, shows %q, and only %q is committed", modelNodes[i], shown, c.committed)
	}
}

// checkLeader wants a new leader to have all that was committed, unless a later one has been elected by then.
func (m *model) checkLeader(c *cluster, i int, v *modelView) {
	if m.partition(c.images[len(c.images)-1]).LeaderEpoch == v.epoch && !strings.HasPrefix(v.entries, c.committed) {
		m.fail("node %d leads epoch %d with %q, committed was %q", modelNodes[i], v.epoch, v.entries, c.committed)
	}
}

// checkInSync wants all that is committed on the disk of everybody in the true in-sync set, and everybody who may be
// elected from outside of it (KIP-966).
func (m *model) checkInSync(c *cluster) {
	p := m.partition(c.images[len(c.images)-1])
	for _, id := range slices.Concat(p.ISR, p.ELR) {
		v := &m.locals[c.nodes[id-1]].view
		durable := min(v.entriesOnDisk(), len(v.entries))
		if !strings.HasPrefix(v.entries[:durable], c.committed) {
			m.fail("%q is committed, and node %d, which may lead (in sync %v, eligible %v), has %q on its disk", c.committed, id,
				p.ISR, p.ELR, v.entries[:durable])
		}
	}
}

func (v *modelView) entriesOnDisk() int { return 2 * int(v.durable) }

// story tells how a state came about.
func (m *model) story(number int32, last action) string {
	lines := []string{m.tell(last)}
	for number > 0 {
		p := m.parents[number]
		lines = append(lines, m.tell(p.what))
		number = p.number
	}
	slices.Reverse(lines)
	return "\n  " + strings.Join(lines, "\n  ")
}

func (m *model) tell(a action) string {
	if a.node < 0 && a.step.kind == stepTake {
		return fmt.Sprintf("lost: %+v", m.messages[a.step.n].answer)
	}
	if a.node < 0 {
		what := [...]string{"the session of %d ends", "%d starts again", "%d is back", "proposal %d arrives"}[a.control]
		return fmt.Sprintf(what, a.step.n)
	}
	names := [...]string{"starts", "hears of", "appends", "syncs", "serves", "takes", "looks after its followers", "is told",
		"loses power", "is killed"}
	out := fmt.Sprintf("%d %s", modelNodes[a.node], names[a.step.kind])
	switch a.step.kind {
	case stepImage:
		p := m.partition(a.step.n)
		out += fmt.Sprintf(" leader %d in %d/%d, in sync %v, eligible %v", p.Leader, p.LeaderEpoch, p.PartitionEpoch, p.ISR, p.ELR)
	case stepServe:
		out += fmt.Sprintf(" %+v", m.messages[a.step.n].fetch)
	case stepTake:
		if a.step.n < 0 {
			return fmt.Sprintf("%d fetches", modelNodes[a.node])
		}
		out += fmt.Sprintf(" %+v", m.messages[a.step.n].answer)
	case stepDecided:
		out += fmt.Sprintf(" %+v: %+v", m.messages[a.step.n].propose, m.messages[a.step.n].decision)
	}
	return out
}

// TestEveryOrder searches small clusters whole; with MOLDAU_LONG the one of two records, three epochs and a crash.
func TestEveryOrder(t *testing.T) {
	bounds := modelBounds{records: 1, epoch: 1, version: 1, behind: 1}
	if testing.Short() {
		bounds.epoch, bounds.version = 0, 0
	}
	if os.Getenv("MOLDAU_LONG") != "" {
		bounds = modelBounds{records: 2, epoch: 2, version: 2, behind: 1}
	}
	m, err := newModel(bounds)
	if err == nil {
		err = m.search()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d states of a cluster, from %d of single nodes, %d images and %d steps of the real code", len(m.parents),
		len(m.locals), len(m.images), len(m.outcomes)+len(m.decisions))
}
