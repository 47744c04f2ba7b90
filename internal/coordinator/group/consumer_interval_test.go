package group

import (
	"fmt"
	"testing"
	"time"
)

// TestIntervalOfLargeGroups: however many members a group has, they send no more than a heartbeat a millisecond while it is
// not settled, and never less often than their regular interval asks for.
func TestIntervalOfLargeGroups(t *testing.T) {
	s := newConsumerShard(t, 1)
	s.conf.Unsettled = 500 * time.Millisecond
	for members, want := range map[int]time.Duration{1: 500 * time.Millisecond, 500: 500 * time.Millisecond,
		2000: 2 * time.Second, 5001: 5 * time.Second} {
		g := newConsumerGroup("g")
		g.epoch = 2 // an assignment is due
		for i := range members {
			g.put(newConsumerMember(fmt.Sprint(i)))
		}
		if got := s.m.newConsumerTurn(s.now, g).interval(g.roster["0"]); got != want {
			t.Errorf("%d members: %v, want %v", members, got, want)
		}
	}
}
