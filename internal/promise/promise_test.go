package promise

import (
	"context"
	"testing"
	"time"
)

func TestSetOnce(t *testing.T) {
	var p Promise[int]
	var got []int
	p.OnDone(func(v int) { got = append(got, v) })
	if _, ok := p.Get(); ok {
		t.Fatal("set before Set")
	}
	if !p.Set(1) || p.Set(2) {
		t.Fatal("Set must succeed exactly once")
	}
	p.OnDone(func(v int) { got = append(got, v) })
	if len(got) != 2 || got[0] != 1 || got[1] != 1 {
		t.Fatalf("callbacks saw %v, want [1 1]", got)
	}
}

func TestWait(t *testing.T) {
	var p Promise[string]
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err := p.Wait(ctx); err == nil {
		t.Fatal("Wait on an unset promise must end with its context")
	}
	go p.Set("x")
	if v, err := p.Wait(context.Background()); err != nil || v != "x" {
		t.Fatalf("Wait = %q, %v", v, err)
	}
	if v, _ := Map(Done(2), func(i int) int { return i * 2 }).Get(); v != 4 {
		t.Fatalf("Map = %d", v)
	}
}
