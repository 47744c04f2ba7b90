// Package need decides what happens when a program that a suite drives is not installed: on a developer's machine
// the test is skipped and says which program it misses, in continuous integration (CI=true) it fails, so that a suite
// never vanishes unnoticed.
package need

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// CI tells whether a missing program is an error.
func CI() bool { return os.Getenv("CI") == "true" }

// Tool returns the path of the first of names that is installed; without any it skips the test, or fails it in CI.
func Tool(t testing.TB, names ...string) string {
	t.Helper()
	for _, n := range names {
		if p, err := exec.LookPath(n); err == nil {
			return p
		}
	}
	Missing(t, "%s is not installed", strings.Join(names, " or "))
	return ""
}

// Missing skips the test for want of something, or fails it in CI.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if CI() {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
