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
	return func(n *Node) {
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
