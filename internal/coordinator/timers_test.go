package coordinator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestTimersFireInTime(t *testing.T) {
	w := newWorld(t, worldOptions{})
	for _, x := range []string{"a 500", "b 300", "c 400", "d 300", "c 100", "a 900", "d 0", "e 600", "e 0", "e 700"} {
		w.expect("set", w.ask("timer %s", x))
	}
	w.advance(2 * time.Second)
	want := []string{"loaded", "timer c at 100", "timer b at 300", "timer e at 700", "timer a at 900"}
	if got := w.machines[0].log; !slices.Equal(got, want) {
		t.Fatalf("fired %q, want %q", got, want)
	}
}

// TestTimersAgainstAList holds the heap with its late repairs against a list that is searched.
func TestTimersAgainstAList(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		var ts timers
		list := map[TimerKey]time.Time{}
		now := t0
		for range 300 {
			k := TimerKey{Scope: fmt.Sprint(rnd.IntN(20))}
			switch rnd.IntN(6) {
			case 0:
				ts.set(Timer{Key: k})
				delete(list, k)
			case 1:
				now = now.Add(time.Duration(rnd.IntN(10)) * time.Millisecond)
				for {
					k, ok := ts.pop(now)
					if !ok {
						break
					}
					if at, known := list[k]; !known || at.After(now) {
						t.Fatalf("seed %d: %v fired at %v, is due at %v", seed, k, now, at)
					}
					delete(list, k)
				}
				for k, at := range list {
					if !at.After(now) {
						t.Fatalf("seed %d: %v did not fire", seed, k)
					}
					if ts.next().After(at) {
						t.Fatalf("seed %d: nothing is due before %v, but %v at %v", seed, ts.next(), k, at)
					}
				}
			default:
				at := now.Add(time.Duration(rnd.IntN(40)) * time.Millisecond)
				ts.set(Timer{Key: k, At: at})
				list[k] = at
			}
			if len(ts.byKey) != len(list) || len(ts.heap.all) != len(list) {
				t.Fatalf("seed %d: %d timers, want %d", seed, len(ts.heap.all), len(list))
			}
		}
	}
}

// TestOneTimerAtATime: a shard whose sessions are prolonged all the time asks for few timers.
func TestOneTimerAtATime(t *testing.T) {
	w := newWorld(t, worldOptions{})
	for range 1000 {
		w.ask("timer session 10000")
		w.advance(10 * time.Millisecond)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.timers); n > 2 {
		t.Fatalf("%d timers are armed", n)
	}
}
