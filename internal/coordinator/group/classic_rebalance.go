package group

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// rebalance begins a join phase, or looks whether the running one may end now. member and reason say who caused it and
// why.
func (t *turn) rebalance(member, reason string) {
	if t.c.phase == phasePreparing {
		t.maybeComplete()
		return
	}
	t.prepare(member, reason)
}

// maybeComplete ends a join phase that misses nobody. The first one of a group lasts as long as it is meant to
// (group.initial.rebalance.delay.ms): more members are likely to come.
func (t *turn) maybeComplete() {
	if t.c.phase == phasePreparing && !t.c.initial && t.c.allJoined() {
		t.completeJoin()
	}
}

// prepare begins a join phase. Whoever waits for an assignment is sent back to join.
func (t *turn) prepare(member, reason string) {
	c := t.c
	if c.phase == phaseCompleting {
		t.resetAssignments(kafka.RebalanceInProgress)
	}
	t.endSync()
	t.g.note(Rebalance{At: t.now, Generation: c.generationID + 1, Member: member, Reason: reason})
	c.initial, c.grown = c.phase == phaseEmpty, false
	c.enter(t.now, phasePreparing)
	switch {
	case c.initial:
		c.delay = t.m.o.Settings().InitialRebalanceDelay
		c.left = max(c.rebalanceTimeout()-c.delay, 0)
		t.joinUntil(t.now.Add(c.delay))
	case c.allJoined():
		t.completeJoin()
	default:
		t.joinUntil(t.now.Add(c.rebalanceTimeout()))
	}
}

// leastJoinPhase is the least time after which a join phase that nobody could lead is looked at again.
const leastJoinPhase = time.Second

func (t *turn) joinUntil(at time.Time) {
	t.c.joinBy = at
	t.arm(timerJoin, "", at)
}

// joinTimeout is told that the time of the join phase is up.
func (t *turn) joinTimeout() {
	c := t.c
	if c.phase != phasePreparing {
		return
	}
	if !c.initial || !c.grown || c.left == 0 {
		t.completeJoin()
		return
	}
	c.grown = false
	delay := min(t.m.o.Settings().InitialRebalanceDelay, c.left)
	c.left = max(c.left-c.delay, 0)
	c.delay = delay
	t.joinUntil(t.now.Add(delay))
}

// completeJoin ends the join phase: dynamic members that did not come back are out, static ones stay until their session
// ends, and the rest is a new generation. While nobody came back who could lead, the phase goes on.
func (t *turn) completeJoin() {
	c := t.c
	t.arm(timerJoin, "", time.Time{})
	t.expelLaggards()
	if len(c.roster) > 0 && !t.electJoined() {
		// Static members may ask for no rebalance timeout at all, and their sessions last long.
		t.joinUntil(t.now.Add(max(c.rebalanceTimeout(), leastJoinPhase)))
		return
	}
	c.initial, c.joinBy = false, time.Time{}
	c.generationID++
	if len(c.roster) == 0 {
		c.protocol, c.topics = "", nil
		c.enter(t.now, phaseEmpty)
		// If this cannot be written, the generation before comes back at a failover and its members run out of time.
		t.Records = append(t.Records, groupMetadataRecord(t.g.id, c.metadata(nil)))
		return
	}
	c.protocol = c.choose()
	c.topics = c.subscriptions()
	c.enter(t.now, phaseCompleting)
	c.unsynced = 0
	for _, m := range c.roster {
		t.answerJoin(m, c.joined(m))
		m.fresh, m.owesSync = false, true
		c.unsynced++
		t.extend(m, m.session())
	}
	c.syncBy = t.now.Add(c.rebalanceTimeout())
	t.arm(timerSync, "", c.syncBy)
}

func (t *turn) expelLaggards() {
	var late []string
	for _, m := range slices.Clone(t.c.roster) {
		if m.join == nil && m.instance == nil {
			late = append(late, m.id)
			t.expel(m)
		}
	}
	t.amend(late, "did not join again in time")
}

// amend adds to the history what became of members during the last rebalance.
func (t *turn) amend(members []string, what string) {
	n := len(t.g.history)
	if n == 0 || len(members) == 0 {
		return
	}
	switch last := &t.g.history[n-1]; {
	case len(last.Reason) < longReason:
		last.Reason = clip(fmt.Sprintf("%s; %s %s", last.Reason, list(members), what))
	case !strings.HasSuffix(last.Reason, andSoOn):
		last.Reason += andSoOn
	}
}

// electJoined makes sure that a member that has joined leads, and reports whether there is one.
func (t *turn) electJoined() bool {
	c := t.c
	if c.byID[c.leader].join != nil {
		return true
	}
	for _, m := range c.roster {
		if m.join != nil {
			c.leader = m.id
			return true
		}
	}
	return false
}

// resetAssignments takes the assignments of a generation back that was never stable, and tells whoever waits for one.
func (t *turn) resetAssignments(code kafka.Code) {
	for _, m := range t.c.roster {
		m.assignment = nil
		if t.answerSync(m, syncError(code)) {
			t.extend(m, m.session())
		}
	}
}

// endSync forgets who owes a SyncGroup.
func (t *turn) endSync() {
	c := t.c
	for _, m := range c.roster {
		m.owesSync = false
	}
	c.unsynced = 0
	t.stopSync()
}

func (t *turn) stopSync() {
	if !t.c.syncBy.IsZero() {
		t.c.syncBy = time.Time{}
		t.arm(timerSync, "", time.Time{})
	}
}

// syncTimeout expels members that were given a generation and never asked for their part of it.
func (t *turn) syncTimeout() {
	c := t.c
	if c.unsynced == 0 || c.phase != phaseCompleting && c.phase != phaseStable {
		return
	}
	var late []string
	for _, m := range slices.Clone(c.roster) {
		if m.owesSync {
			late = append(late, m.id)
			t.expel(m)
		}
	}
	t.prepare(late[0], list(late)+" did not sync within the rebalance timeout")
}

// sessionTimeout is told that a member's timer fired.
func (t *turn) sessionTimeout(id string) {
	m := t.c.byID[id]
	if m == nil {
		return
	}
	m.armed = time.Time{}
	if t.now.Before(m.deadline) {
		t.extend(m, m.deadline.Sub(t.now))
		return
	}
	if !m.silent() {
		return // its session begins anew when the request is answered
	}
	t.drop(m, "no heartbeat of "+id+" within its session timeout")
}

// drop expels one member and lets the others go on without it.
func (t *turn) drop(m *classicMember, reason string) {
	t.expel(m)
	switch c := t.c; c.phase {
	case phaseStable, phaseCompleting:
		t.prepare(m.id, reason)
	case phasePreparing:
		t.amend([]string{m.id}, "gave no sign of life")
		if c.allJoined() {
			t.completeJoin()
		}
	}
}

// pendingTimeout is told that an id that was handed out was not used in time.
func (t *turn) pendingTimeout(id string) {
	if !t.c.isPending(id) {
		return
	}
	t.c.unpend(id)
	if t.c.phase == phasePreparing && t.c.allJoined() {
		t.completeJoin()
	}
}

// assign takes the leader's assignment over: it is written first, and only then anybody learns of it. Members that the
// leader forgot get nothing.
func (t *turn) assign(given []kmsg.SyncGroupRequestGroupAssignment) {
	parts := make(map[string][]byte, len(given))
	for _, a := range given {
		parts[a.MemberID] = a.MemberAssignment
	}
	stored := t.c.metadata(func(m *classicMember) []byte { return parts[m.id] })
	t.Records = append(t.Records, groupMetadataRecord(t.g.id, stored))
	t.Then = func(now time.Time, err error) coordinator.Result {
		t := t.m.turn(now, t.g, nil)
		if err != nil {
			code := kafka.CodeOf(err)
			t.resetAssignments(code)
			t.prepare(t.c.leader, "the assignment could not be stored: "+code.Name())
			return t.Result
		}
		t.c.enter(now, phaseStable)
		for i, m := range t.c.roster {
			m.assignment = t.c.stored.members[i].assignment // the request's memory can go
			if t.answerSync(m, t.c.synced(m)) {
				t.extend(m, m.session())
			}
		}
		return t.Result
	}
}
