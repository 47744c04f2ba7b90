package coordinator

import (
	"testing"
)

func TestWritesAreReadAfterTheyAreCommitted(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.expect("ok 1", w.ask("set a 1"))
	w.expect("1", w.ask("get a"))
	w.hold()
	set := w.send("set a 2")
	get, other, all := w.send("get a"), w.send("get b"), w.send("all x")
	for _, p := range []*Pending{set, get, all} {
		w.expect("...", w.got(p))
	}
	w.expect("", w.got(other)) // of another scope
	w.flush()
	w.expect("ok 2", w.got(set))
	w.expect("2", w.got(get))
	w.expect("a=2", w.got(all))
	if got := w.reloaded(); got != "a=2" {
		t.Fatalf("the log holds %q", got)
	}
}
