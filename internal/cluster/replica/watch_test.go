package replica

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// TestWatchersModel holds the set of watchers against a plain list, with wakes in between that keep the old array.
func TestWatchersModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	p := &Partition{}
	all := make([]*Watcher, 8)
	woken := map[*Watcher]int{}
	for i := range all {
		w := &Watcher{}
		w.OnMove = func(*Partition) { woken[w]++ }
		all[i] = w
	}
	var model []*Watcher // with repetitions
	for step := range 3000 {
		w := all[rnd.IntN(len(all))]
		switch rnd.IntN(5) {
		case 0, 1:
			p.Watch(w)
			model = append(model, w)
		case 2, 3:
			p.Unwatch(w)
			if i := slices.Index(model, w); i >= 0 {
				model = slices.Delete(model, i, i+1)
			}
		default:
			clear(woken)
			p.watchers.wake(p, movedRole)
			for _, w := range all {
				if got, want := woken[w] == 1, slices.Contains(model, w); got != want || woken[w] > 1 {
					t.Fatalf("step %d: woken %d times, registered %t", step, woken[w], want)
				}
			}
		}
		distinct := map[*Watcher]bool{}
		for _, w := range model {
			distinct[w] = true
		}
		if p.Watching() != len(distinct) {
			t.Fatalf("step %d: %d watch instead of %d", step, p.Watching(), len(distinct))
		}
	}
}

// TestUnwatchWhileWoken: a wake that is under way sees the watchers that there were, whoever leaves meanwhile.
func TestUnwatchWhileWoken(t *testing.T) {
	p := &Partition{}
	var all []*Watcher
	var once sync.Once
	seen := map[*Watcher]bool{}
	for range 5 {
		w := &Watcher{}
		w.OnMove = func(*Partition) {
			seen[w] = true
			once.Do(func() {
				for _, x := range all {
					p.Unwatch(x)
				}
			})
		}
		all = append(all, w)
		p.Watch(w)
	}
	p.watchers.wake(p, movedRole)
	if len(seen) != 5 || p.Watching() != 0 {
		t.Fatalf("%d woken, %d still watch", len(seen), p.Watching())
	}
}

// BenchmarkLeave is n readers of one partition that leave one after the other.
func BenchmarkLeave(b *testing.B) {
	for b.Loop() {
		p := &Partition{}
		all := make([]Watcher, 20_000)
		for i := range all {
			p.Watch(&all[i])
		}
		for i := range all {
			p.Unwatch(&all[i])
		}
	}
}
