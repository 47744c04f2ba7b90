package coordinator

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

// history is what clients were told, for the comparison with what a new run loads.
type history struct {
	w     *world
	sets  map[string][]int // key: values that were sent, in order
	acked map[string]int   // key: how many of them were known to be acknowledged
	bigs  map[string]bool  // batches of 5 records: acknowledged or not
	txns  map[string]int   // transactions of 2 records: what is known of their end
}

// What is known of the end of a transaction. One that was to be aborted is never seen.
const (
	unknownEnd = iota
	committedEnd
	abortedEnd
)

func (h *history) set(key string, value int) {
	h.sets[key] = append(h.sets[key], value)
	n := len(h.sets[key])
	h.w.send("set %s %d", key, value).Answer().OnDone(func(a Answer) {
		if a.Err == nil {
			h.acked[key] = max(h.acked[key], n)
		}
	})
}

func (h *history) run(rnd *rand.Rand) {
	w := h.w
	for i := range 40 {
		switch rnd.IntN(8) {
		case 0:
			name := fmt.Sprintf("big%d", i)
			h.bigs[name] = false
			w.send("big %s 5 40", name).Answer().OnDone(func(a Answer) {
				if a.Err == nil {
					h.bigs[name] = true
				}
			})
		case 1:
			p := Stamp{ID: 5, Epoch: 0}
			name := fmt.Sprintf("txn%d", i)
			w.send("txn %s-1 1 5 0", name)
			w.send("txn %s-2 1 5 0", name)
			commit := rnd.IntN(3) > 0
			h.txns[name] = unknownEnd
			if !commit {
				h.txns[name] = abortedEnd
			}
			w.EndTransaction(Marker{Producer: p, Commit: commit}).OnDone(func(err error) {
				if err == nil && commit {
					h.txns[name] = committedEnd
				}
			})
		case 2:
			w.hold()
		case 3:
			w.flush()
		case 4:
			if rnd.IntN(4) == 0 {
				w.reload()
			}
		default:
			h.set(fmt.Sprintf("k%d", rnd.IntN(3)), i)
		}
	}
	w.flush()
}

// check holds what was loaded after a crash against what was acknowledged.
func (h *history) check(t *testing.T, m *toy, where string) {
	t.Helper()
	for key, values := range h.sets {
		got, ok := m.values[key]
		if !ok && h.acked[key] == 0 {
			continue
		}
		at := -1
		for i, v := range values {
			if fmt.Sprint(v) == got {
				at = i
			}
		}
		if at < h.acked[key]-1 || at < 0 {
			t.Fatalf("%s: %s is %q, of %v the first %d were acknowledged", where, key, got, values, h.acked[key])
		}
	}
	count := func(prefix string) (n int) {
		for k := range m.values {
			if strings.HasPrefix(k, prefix+"-") {
				n++
			}
		}
		return n
	}
	for name, acked := range h.bigs {
		if n := count(name); n != 5 && (n != 0 || acked) {
			t.Fatalf("%s: %d of the 5 records of %s (acknowledged: %v)", where, n, name, acked)
		}
	}
	for name, end := range h.txns {
		if n := count(name); (n != 0 && n != 2) || (n == 0 && end == committedEnd) || (n == 2 && end == abortedEnd) {
			t.Fatalf("%s: %d of the 2 records of %s (end: %d)", where, n, name, end)
		}
	}
}

// TestCrashAnywhere cuts the power at every call to the disk, and loads what is left.
func TestCrashAnywhere(t *testing.T) {
	small := func(c *log.Config) { c.SegmentBytes = 1200 }
	const seeds = 3
	for seed := range uint64(seeds) {
		for n := int64(1); ; n++ {
			rnd := rand.New(rand.NewPCG(seed, uint64(n)))
			w := newWorld(t, worldOptions{configure: small})
			w.mem.CrashAt(w.mem.Calls() + n)
			h := &history{w: w, sets: map[string][]int{}, acked: map[string]int{}, bigs: map[string]bool{}, txns: map[string]int{}}
			h.run(rand.New(rand.NewPCG(seed, 0)))
			where := fmt.Sprintf("seed %d, crash at call %d", seed, n)
			left := w.mem.CrashClone(rnd, vfs.KeepSome(rnd))
			again := newWorld(t, worldOptions{configure: small, mem: left})
			if c := again.Counts(); c.Active != 1 {
				t.Fatalf("%s: %+v", where, c)
			}
			h.check(t, again.machines[0], where)
			again.expect("ok 1", again.ask("set after 1"))
			if !w.mem.Crashed() {
				if n < 20 {
					t.Fatalf("only %d calls", n)
				}
				break
			}
		}
	}
}
