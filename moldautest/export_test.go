package moldautest

import (
	"testing"

	"moldau/internal/storage/vfs"
)

// Faults makes calls of the node's disk fail as a rule of vfs.Faulty says. hits tells how many did; from the first Restart
// after it none does.
func Faults(t testing.TB, rule string) (o Option, hits func() int64) {
	t.Helper()
	var faulty *vfs.FaultFS
	var ids []vfs.RuleID
	mended := false
	return func(n *setup) {
			n.disk = func(fs vfs.FS) vfs.FS {
				if mended {
					return fs
				}
				var err error
				if faulty, err = vfs.Faulty(fs, ""); err == nil {
					ids, err = faulty.Add(rule)
				}
				if err != nil {
					t.Fatal(err)
				}
				return faulty
			}
		}, func() int64 {
			mended = true
			return faulty.Hits(ids[0])
		}
}

// Break makes calls of a node's disk fail as rules of vfs.Faulty say, until MendDisk. hits tells how many did while the node
// ran that runs now.
func (c *Machines) Break(id int32, rules string) (hits func() int64) {
	return c.member(id).breakDisk(c, rules)
}

// Disk is what a node's disk holds. It is another one after each end of the node.
func (c *Machines) Disk(id int32) *vfs.Mem {
	m := c.member(id)
	m.ops.Lock()
	defer m.ops.Unlock()
	return m.machine.fs
}

// SetDisk puts another disk into the machine of a node that does not run.
func (c *Machines) SetDisk(id int32, fs *vfs.Mem) {
	m := c.member(id)
	m.ops.Lock()
	defer m.ops.Unlock()
	m.machine.fs = fs
}

// Controller is who a node takes to be the active controller; -1: nobody.
func (c *Machines) Controller(id int32) int32 {
	if n := c.member(id).live.Load(); n != nil {
		return int32(n.Controller())
	}
	return -1
}
