//go:build !unix

package cli

import (
	"os"
	"os/exec"
)

// ownGroup does nothing: a child hears the ctrl-C that its parent does.
func ownGroup(*exec.Cmd) {}

// endInOrder does nothing: the child has heard the ctrl-C, and nothing else can ask it to stop.
func endInOrder(*os.Process) {}
