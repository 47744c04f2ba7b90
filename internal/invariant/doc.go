// Package invariant holds assertions about our own code. They are on in test binaries, under the race detector and
// with the build tag "invariants", and cost nothing elsewhere. Corrupt data is never an assertion: it is an error.
package invariant
