//go:build invariants || race

package invariant

// Enabled says whether assertions are compiled in.
const Enabled = true
