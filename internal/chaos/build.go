//go:build unix

package chaos

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// ErrNoHistory says that a commit is not in the clone, which is shallow or no clone at all.
var ErrNoHistory = errors.New("the clone has no history that reaches so far back")

// Root gives the directory of the project, found from the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "moldau", "main.go")); err == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("no cmd/moldau in any directory above the working directory")
		}
		dir = filepath.Dir(dir)
	}
}

// Binary gives the program of this working tree, built once per process; CHAOS_BIN names one that is built already. Remove
// takes it away.
var Binary = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv("CHAOS_BIN"); bin != "" {
		return bin, nil
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "moldau-chaos")
	if err != nil {
		return "", err
	}
	built = dir
	return buildAt(root, filepath.Join(dir, "moldau"))
})

var built string

// Remove deletes what Binary built.
func Remove() {
	if built != "" {
		os.RemoveAll(built)
	}
}

// BinaryOf builds the program of a commit into dir. ErrNoHistory: it cannot be had here.
func BinaryOf(commit, dir string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	if exec.Command("git", "-C", root, "cat-file", "-e", commit+"^{tree}").Run() != nil {
		return "", fmt.Errorf("commit %s: %w", commit, ErrNoHistory)
	}
	source := filepath.Join(dir, "source")
	if err := os.MkdirAll(source, 0o755); err != nil {
		return "", err
	}
	archive := filepath.Join(dir, "source.tar")
	if err := run(root, "git", "archive", "-o", archive, commit); err != nil {
		return "", err
	}
	if err := run(source, "tar", "-xf", archive); err != nil {
		return "", err
	}
	return buildAt(source, filepath.Join(dir, "moldau"))
}

func buildAt(root, out string) (string, error) {
	return out, run(root, "go", "build", "-o", out, "./cmd/moldau")
}

func run(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
