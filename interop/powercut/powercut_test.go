package powercut

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/internal/chaos"
)

func TestMain(m *testing.M) {
	code := m.Run()
	chaos.Remove()
	os.Exit(code)
}

// needFUSE skips a test where file systems of FUSE cannot be mounted.
func needFUSE(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	unmount, err := NewDisk().Mount(dir)
	if err != nil {
		t.Skipf("no FUSE here (%v); the clusters in one process, on a disk in memory that crashes, show the same", err)
	}
	if err := unmount(); err != nil {
		t.Fatal(err)
	}
}

// machines are the nodes of a cluster with a disk each.
type machines struct {
	t     *testing.T
	c     *chaos.Cluster
	r     *rand.Rand
	disks []*machine
}

type machine struct {
	disk    *Disk
	at      string
	unmount func() error
}

func (m *machine) mount(t *testing.T) {
	t.Helper()
	var err error
	if m.unmount, err = m.disk.Mount(m.at); err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T, seed uint64, settings ...string) *machines {
	t.Helper()
	bin, err := chaos.Binary()
	if err != nil {
		t.Fatal(err)
	}
	m := &machines{t: t, r: rand.New(rand.NewPCG(seed, 0))}
	dir := t.TempDir()
	for i := range 3 {
		d := &machine{disk: NewDisk(), at: filepath.Join(dir, "disk-"+strconv.Itoa(i+1))}
		if err := os.Mkdir(d.at, 0o755); err != nil {
			t.Fatal(err)
		}
		d.mount(t)
		m.disks = append(m.disks, d)
		t.Cleanup(func() {
			if err := d.unmount(); err != nil {
				t.Error(err)
			}
		})
	}
	m.c, err = chaos.New(chaos.Options{Dir: dir, Binary: bin, Log: t.Logf, Settings: settings,
		Data: func(id int) string { return filepath.Join(m.disks[id-1].at, "data") }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.c.Close()
		if t.Failed() {
			for _, n := range m.c.Nodes {
				t.Logf("node %d:\n%s", n.ID, n.Tail(60))
			}
		}
	})
	if err := m.c.Start(); err != nil {
		t.Fatal(err)
	}
	return m
}

// cut takes the power of some machines away, one shortly after the other, and gives it back. The disk of lost does not come
// back.
func (m *machines) cut(lost int, ids ...int) {
	m.t.Helper()
	after := map[int]*Disk{}
	for _, id := range ids {
		var fate *rand.Rand // nothing that was not synced survives
		if m.r.IntN(3) > 0 {
			fate = m.r
		}
		after[id] = m.disks[id-1].disk.Cut(fate)
		time.Sleep(time.Duration(m.r.IntN(3000)) * time.Microsecond)
	}
	for _, id := range ids {
		m.c.Links.Sever(id)
		m.c.Nodes[id-1].Kill()
		d := m.disks[id-1]
		m.c.Logf("  node %d was without power: of unsynced files and names %d lost, %d kept; %d syncs before", id, after[id].Lost,
			after[id].Kept, d.disk.Syncs)
		if err := d.unmount(); err != nil {
			m.t.Fatal(err)
		}
		if d.disk = after[id]; id == lost {
			m.c.Logf("  node %d has a new disk", id)
			d.disk = NewDisk()
		}
		d.mount(m.t)
	}
	for _, i := range m.r.Perm(len(ids)) {
		time.Sleep(time.Duration(m.r.IntN(500)) * time.Millisecond)
		if err := m.c.Nodes[ids[i]-1].Start(); err != nil {
			m.t.Fatal(err)
		}
	}
}

// failSync lets a sync of one node fail. Its only directory is lost to it then, so it must end by itself.
func (m *machines) failSync(id int) {
	m.t.Helper()
	n := m.c.Nodes[id-1]
	m.disks[id-1].disk.FailSync()
	for end := time.Now().Add(time.Minute); n.Ended() == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			m.t.Fatalf("node %d goes on though a sync failed", id)
		}
	}
	n.Kill()
	if err := n.Start(); err != nil {
		m.t.Fatal(err)
	}
}

// TestPowerCut cuts the power of all machines at once, of two, or of one, again and again, and now and then a disk is lost
// with it, or a sync fails before. Whatever was acknowledged by
// acks=all or committed is there, though every disk forgets what was not synced.
func TestPowerCut(t *testing.T) {
	needFUSE(t)
	rounds, seeds := 12, []uint64{rand.Uint64N(1e6), rand.Uint64N(1e6)}
	if os.Getenv("MOLDAU_LONG") != "1" {
		rounds, seeds = 3, seeds[:1]
	}
	if s, err := strconv.ParseUint(os.Getenv("CHAOS_SEED"), 10, 64); err == nil {
		seeds = []uint64{s}
	}
	for _, seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Logf("CHAOS_SEED=%d repeats it", seed)
			m := start(t, seed)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			l, err := chaos.StartLoad(ctx, m.c, chaos.LoadOptions{Plain: 3, OneDisk: 1, Transactional: 2, Pipelines: 1, Members: 1,
				Seed: seed, Pause: 8 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(l.Stop)
			whole := false // all is mended
			for round := range rounds {
				ids := m.r.Perm(3)
				ids = ids[:[]int{3, 3, 1, 2}[(round+m.r.IntN(2))%4]]
				for i := range ids {
					ids[i]++
				}
				time.Sleep(time.Duration(300+m.r.IntN(2000)) * time.Millisecond)
				lost := 0
				if whole && m.r.IntN(3) == 0 { // one disk at a time is what a cluster promises to do without
					lost = ids[0]
				}
				if whole && lost == 0 && m.r.IntN(3) == 0 {
					m.c.Logf("round %d: a sync of node %d fails", round, ids[0])
					m.failSync(ids[0])
					time.Sleep(time.Duration(m.r.IntN(1000)) * time.Millisecond)
				}
				m.c.Logf("round %d: no power for %v", round, ids)
				m.cut(lost, ids...)
				if whole = lost > 0 || m.r.IntN(2) == 0; whole {
					if err := m.c.Settle(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, err := range l.Judge(t.Context(), true) {
				t.Error(err)
			}
		})
	}
}

// TestControl shows that the disks forget and that the checker sees it: with moldau.flush=async, which waits for no disk, a
// cut of all loses what was acknowledged.
func TestControl(t *testing.T) {
	needFUSE(t)
	m := start(t, 1, "moldau.flush=async")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	l, err := chaos.StartLoad(ctx, m.c, chaos.LoadOptions{OneDisk: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	for l.History.Acknowledged() < 300 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	m.cut(0, 1, 2, 3)
	if err := m.c.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Finish(ctx); err != nil {
		t.Fatal(err)
	}
	all, err := m.c.Read(ctx, kgo.ReadUncommitted(), chaos.OneDisk)
	if err != nil {
		t.Fatal(err)
	}
	lost := l.History.LostAcknowledged(all)
	m.c.Logf("%d records were acknowledged and are lost", lost)
	if lost == 0 {
		t.Error("nothing is lost: the disks forget nothing, or the checker does not see it")
	}
}
