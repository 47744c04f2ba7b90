package controller

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"moldau/internal/kafka"
)

// layout registers brokers in racks, a name for each broker ("" for no rack, a leading ! for a fenced one).
func layout(t testing.TB, racks []string) *world {
	w := newWorld(t, founded())
	for i, name := range racks {
		id := kafka.NodeID(i + 1)
		r := w.registration(id, 1, -1)
		fenced := name != "" && name[0] == '!'
		if fenced {
			name = name[1:]
		}
		if name != "" {
			r.Rack = kmsg.StringPtr(name)
		}
		w.do(r)
		if !fenced {
			w.beat(id, false, false)
		}
	}
	return w
}

// TestPlacementRules holds placements in random clusters to the rules: no broker twice, a live leader, live
// brokers before fenced ones, as many racks as possible.
func TestPlacementRules(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		racks := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "!a", "!b", ""}), 1, 9).Draw(rt, "racks")
		w := layout(t, racks)
		p := newTurn(w.now, w.state(), w.rnd).newPlacer()
		rf := rapid.IntRange(1, len(racks)+1).Draw(rt, "rf")
		live, liveRacks := 0, map[string]bool{}
		for _, r := range racks {
			if r == "" || r[0] != '!' {
				live++
				liveRacks[r] = true
			}
		}
		if err := p.check(rf); err != nil {
			if live > 0 && rf <= len(racks) {
				rt.Fatal(err)
			}
			return
		}
		if live == 0 || rf > len(racks) {
			rt.Fatal("placed where nothing can be")
		}
		for range 12 {
			replicas := p.place(rf)
			if len(replicas) != rf || repeats(replicas) {
				rt.Fatalf("%v", replicas)
			}
			fenced, seen := 0, map[string]bool{}
			for i, id := range replicas {
				r := racks[id-1]
				if r != "" && r[0] == '!' {
					fenced++
					continue
				}
				seen[r] = true
				if fenced > 0 || i == 0 && fenced > 0 {
					rt.Fatalf("a live broker behind a fenced one: %v", replicas)
				}
			}
			if fenced != max(0, rf-live) || len(seen) != min(rf, len(liveRacks)) {
				rt.Fatalf("%v of %v: %d fenced, racks %v", replicas, racks, fenced, seen)
			}
		}
	})
}

// TestPlacementIsEven counts: over whole rounds every broker leads as often as any other, and has about as many replicas.
func TestPlacementIsEven(t *testing.T) {
	for _, racks := range [][]string{
		{"", "", ""}, {"", "", "", "", ""}, {"a", "a", "b", "b"}, {"a", "b", "c"}, {"a", "a", "b", "b", "c", "c"},
		{"a", "a", "a", "b", "b", "b"},
	} {
		for rf := 1; rf <= 3; rf++ {
			w := layout(t, racks)
			p := newTurn(w.now, w.state(), w.rnd).newPlacer()
			leads, has, pairs := map[kafka.NodeID]int{}, map[kafka.NodeID]int{}, map[string]bool{}
			rounds := 20
			for range rounds * len(racks) {
				replicas := p.place(rf)
				leads[replicas[0]]++
				for _, id := range replicas {
					has[id]++
				}
				pairs[fmt.Sprint(replicas[:min(rf, 2)])] = true
			}
			for i := range racks {
				id := kafka.NodeID(i + 1)
				if leads[id] != rounds {
					t.Errorf("%v rf %d: broker %d leads %d of %d", racks, rf, id, leads[id], rounds)
				}
				if has[id] < rounds*rf-2 || has[id] > rounds*rf+2 {
					t.Errorf("%v rf %d: broker %d has %d replicas, even would be %d", racks, rf, id, has[id], rounds*rf)
				}
			}
			if slices.Equal(racks, []string{"", "", ""}) && rf == 2 && len(pairs) != 6 {
				t.Errorf("a leader always has the same follower: %v", pairs)
			}
		}
	}
}
