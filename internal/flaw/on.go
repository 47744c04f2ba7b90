//go:build flaws

package flaw

import "sync/atomic"

var planted atomic.Value

// Plant makes one mistake from now on, None none any more.
func Plant(f Flaw) { planted.Store(f) }

// In says whether a mistake is to be made.
func In(f Flaw) bool {
	now, _ := planted.Load().(Flaw)
	return now == f
}
