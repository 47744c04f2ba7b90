package node

import (
	"path"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// crashAfter is a disk of a machine that dies right after a file got its name.
type crashAfter struct {
	vfs.FS
	disk *vfs.Mem
	file string
}

func (c *crashAfter) Rename(from, to string) error {
	err := c.FS.Rename(from, to)
	if path.Base(to) == c.file {
		c.disk.Crash()
	}
	return err
}

// TestCrashBeforeRegistering: however often a node dies between writing down its incarnation and being registered, the next
// start still tells the controller that nothing is lost, after a crash as after a stop in good order.
func TestCrashBeforeRegistering(t *testing.T) {
	for name, stop := range map[string]func(*testCluster, kafka.NodeID){"crash": (*testCluster).kill, "stop": (*testCluster).stop} {
		t.Run(name, func(t *testing.T) {
			c := staticCluster(t, 1)
			c.start()
			stop(c, 1)
			for range 2 {
				if _, err := c.begin(1, &crashAfter{c.fs[1], c.fs[1], incarnationFile}); err == nil {
					t.Fatal("the node started on a disk that had crashed")
				}
				c.fs[1] = c.fs[1].KillClone()
			}
			c.start()
			l := c.nodes[1].lifecycle
			if l.previous < 0 || l.previous >= l.brokerEpoch() {
				t.Errorf("broker epoch %d claims %d", l.brokerEpoch(), l.previous)
			}
		})
	}
}
