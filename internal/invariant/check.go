package invariant

import "fmt"

// Check panics when assertions are on and ok is false. Formatting costs nothing while ok holds.
func Check(ok bool, format string, args ...any) {
	if Enabled && !ok {
		panic("invariant broken: " + fmt.Sprintf(format, args...))
	}
}

// Poison scribbles over a buffer that nobody may read any more, so that a kept alias shows itself in tests.
func Poison(b []byte) {
	if !Enabled {
		return
	}
	for i := range b {
		b[i] = 0xdb
	}
}
