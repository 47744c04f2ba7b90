package api

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestDeadlines holds the heap against a plain list: what is due fires, nothing else, and earliest first.
func TestDeadlines(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		f := newFixture(t)
		d := &deadlines{now: f.clock, after: f.after}
		type one struct {
			deadline
			fired bool
		}
		var open []*one
		var order []time.Time
		for range 300 {
			switch rnd.IntN(4) {
			case 0, 1:
				x := &one{}
				x.fire = func() { x.fired = true; order = append(order, x.at) }
				d.add(&x.deadline, f.clock().Add(time.Duration(rnd.IntN(1000))*time.Millisecond))
				open = append(open, x)
			case 2:
				if len(open) == 0 {
					continue
				}
				i := rnd.IntN(len(open))
				if !d.remove(&open[i].deadline) {
					t.Fatalf("seed %d: a deadline that has not fired could not be removed", seed)
				}
				open = slices.Delete(open, i, i+1)
			case 3:
				order = nil
				f.advance(time.Duration(rnd.IntN(300)) * time.Millisecond)
				if !slices.IsSortedFunc(order, time.Time.Compare) {
					t.Fatalf("seed %d: fired out of order", seed)
				}
				open = slices.DeleteFunc(open, func(x *one) bool {
					due := !x.at.After(f.clock())
					if due != x.fired {
						t.Fatalf("seed %d: due %v, fired %v", seed, due, x.fired)
					}
					return due && !d.remove(&x.deadline)
				})
			}
			if len(d.heap) != len(open) {
				t.Fatalf("seed %d: %d in the heap, want %d", seed, len(d.heap), len(open))
			}
		}
	}
}
