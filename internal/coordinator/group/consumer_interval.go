package group

import "time"

// heartbeatSpacing is the time between two heartbeats of a group that unsettled members aim at, at least.
const heartbeatSpacing = time.Millisecond

// interval is when a member shall send its next heartbeat. Members learn of what concerns them by asking only, so one that
// waits for an assignment, or for partitions that another has to give up, asks more often; and so does everybody while the
// last change of the group is younger than a regular interval: a change seldom comes alone, and the next one may take
// partitions away that others wait for.
func (t *consumerTurn) interval(m *consumerMember) time.Duration {
	if t.conf.Unsettled <= 0 || t.epoch == t.assignmentEpoch && m.reconciled(t.assignmentEpoch) && !t.moved() {
		return t.conf.Heartbeat
	}
	spaced := time.Duration(len(t.g.roster)) * heartbeatSpacing
	return min(max(t.conf.Unsettled, spaced), t.conf.Heartbeat)
}

// moved says whether the group's epoch has grown within the last regular interval. It is not known after a load.
func (t *consumerTurn) moved() bool {
	if len(t.notes) > 0 {
		return true
	}
	g := t.m.groups[t.g.id]
	if g == nil || len(g.history) == 0 {
		return false
	}
	return t.now.Before(g.history[len(g.history)-1].At.Add(t.conf.Heartbeat))
}
