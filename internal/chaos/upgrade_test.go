//go:build unix

package chaos

import (
	"errors"
	"os"
	"testing"
)

// earlier is the commit before the last change of what nodes write to files or tell each other: to be moved with every such
// change, once nodes of both kinds have been seen to work together.
const earlier = "fc2fee1895fbe01594000c3e670d49b5a8af6808"

// TestRollingUpgrade: nodes of this build and of an earlier one are one cluster, which is rolled up and down under load.
func TestRollingUpgrade(t *testing.T) {
	if !isLong() && os.Getenv("CI") != "true" {
		t.Skip("builds another program; MOLDAU_LONG=1 or CI=true runs it")
	}
	now, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	before, err := BinaryOf(earlier, t.TempDir())
	if errors.Is(err, ErrNoHistory) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, Options{Binary: before})
	l := load(t, c, some(1))
	turn := func(what, binary string, end func(*Node) error, nodes ...*Node) {
		for _, n := range nodes {
			if err := c.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			seen := l.History.Acknowledged()
			if err := end(n); err != nil {
				t.Error(err)
			}
			n.Binary = binary
			if err := n.Start(); err != nil {
				t.Fatal(err)
			}
			if err := c.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.Logf("%s: node %d, %d records acknowledged meanwhile", what, n.ID, l.History.Acknowledged()-seen)
		}
	}
	stop := (*Node).Stop
	kill := func(n *Node) error { n.Kill(); return nil }
	turn("up", now, stop, c.Nodes...)
	turn("down", before, stop, c.Nodes...)
	turn("up after crashes", now, kill, c.Nodes...)
	turn("one goes down after a crash", before, kill, c.Nodes[1])
	turn("and up", now, stop, c.Nodes[1])
	judge(t, c, l)
}
