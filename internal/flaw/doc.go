// Package flaw plants known mistakes into our own code, to see that the simulator finds them: a check that nothing can
// fail proves nothing. Only a build with the tag "flaws" knows them, and each is off until Plant names it; in every other
// build In is false when the compiler asks, and nothing is left of the question.
//
// It owns the list of mistakes. Whoever changes a rule of safety in a core adds a flaw beside it.
//
// Locking: Plant is for a test before it begins; In is for anybody.
//
// Start reading at flaw.go.
package flaw
