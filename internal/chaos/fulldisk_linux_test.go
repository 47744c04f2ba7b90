package chaos

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// volume is a small file system in memory that a node keeps its data on.
type volume struct{ at string }

// mountVolumes mounts one for each node, or skips the test where that is not allowed.
func mountVolumes(t *testing.T, dir string) []volume {
	t.Helper()
	var out []volume
	for id := range 3 {
		v := volume{filepath.Join(dir, "volume-"+strconv.Itoa(id+1))}
		if err := os.MkdirAll(v.at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("tmpfs", v.at, "tmpfs", 0, "size=48m"); err != nil {
			t.Skipf("a small file system cannot be mounted here: %v", err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(v.at, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		out = append(out, v)
	}
	return out
}

// fill takes all space; free gives it back.
func (v volume) fill(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(v.at, "ballast"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, piece := range [][]byte{make([]byte, 1<<20), make([]byte, 4096)} {
		for err = error(nil); err == nil; {
			_, err = f.Write(piece)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
}

func (v volume) free(t *testing.T) {
	t.Helper()
	if err := os.Remove(filepath.Join(v.at, "ballast")); err != nil {
		t.Error(err)
	}
}

// TestFullDisk fills the disks of one, two or all nodes, sometimes until leadership has moved, and kills or stops some of
// them while they are full. With space again everything goes on, and nothing acknowledged is missing.
func TestFullDisk(t *testing.T) {
	if !isLong() && os.Getenv("CHAOS_SEED") == "" {
		t.Skip("MOLDAU_LONG=1 runs it")
	}
	for _, seed := range seeds(t, 1) {
		t.Logf("CHAOS_SEED=%d repeats it", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		dir := directory(t)
		volumes := mountVolumes(t, dir)
		c := start(t, Options{Dir: dir, Data: func(id int) string { return filepath.Join(volumes[id-1].at, "data") }})
		l := load(t, c, some(seed))
		for round := range 6 {
			if err := c.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			full := r.Perm(3)[:1+(round+r.IntN(2))%3]
			seen := l.History.Acknowledged()
			for _, i := range full {
				volumes[i].fill(t)
			}
			wait(r, 500, []int{3000, 16_000}[r.IntN(2)])
			ends := r.IntN(3)
			n := c.Nodes[full[0]]
			switch ends {
			case 1:
				n.Kill()
			case 2:
				if err := n.Stop(); err != nil {
					c.Logf("%v: what it did not find space for makes the next start an unclean one", err)
				}
			}
			c.Logf("round %d: no space on nodes %v (from 0), end %d of node %d, %d records acknowledged meanwhile", round, full, ends,
				n.ID, l.History.Acknowledged()-seen)
			for _, i := range full {
				volumes[i].free(t)
			}
			if ends > 0 {
				if err := n.Start(); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
		}
		judge(t, c, l)
	}
}
