package controller

import (
	"strings"
	"testing"
)

func TestCollidingNames(t *testing.T) {
	w := newWorld(t, founded())
	w.up(1)
	long := strings.Repeat("x.", 40) + "y"
	w.create("a.b_c", []int32{1})
	w.create(long, []int32{1})
	n := newNames(w.image)
	n.add("new.one")
	for name, want := range map[string]string{
		"a_b.c": "a.b_c", "a.b.c": "a.b_c", "a_b_c": "a.b_c", "ab_c": "", "abc": "", "new_one": "new.one", "newone": "",
		strings.ReplaceAll(long, ".", "_"): long, long + "_": "",
	} {
		if got, ok := n.collision(name); got != want || ok != (want != "") {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
