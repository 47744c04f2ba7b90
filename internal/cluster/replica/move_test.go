package replica

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// flat is a node with the directories /a, /b and /c on one disk, and one partition.
type flat struct {
	t     testing.TB
	fs    vfs.FS
	m     *Manager
	dirs  map[string]*log.Dir
	desk  *desk
	p     *Partition
	epoch kafka.LeaderEpoch
	out   Applied
	drawn byte
}

func dirID(name string) kafka.UUID { return kafka.UUID{0: 9, 1: name[1], 15: 255} }

// openFlat starts on what fs holds. recorded is where the controller believes the replica, "" nowhere; absent are
// directories that cannot be opened.
func openFlat(t testing.TB, fs vfs.FS, s *metadata.Partition, recorded string, absent ...string) (*flat, error) {
	f := &flat{t: t, fs: fs, dirs: map[string]*log.Dir{}, desk: &desk{}, epoch: s.LeaderEpoch}
	c := log.DefaultConfig()
	c.SegmentBytes = 1 << 12
	o := ManagerOptions{Self: 1, OfflineDirs: len(absent), Config: func(*metadata.Image, string) *log.Config { return &c },
		NewUUID: func() kafka.UUID { f.drawn++; return kafka.UUID{0: 3, 1: f.drawn, 15: 77} }}
	for _, name := range []string{"/a", "/b", "/c"} {
		if slices.Contains(absent, name) {
			continue
		}
		meta := log.MetaProperties{ClusterID: "c", NodeID: 1, DirectoryID: dirID(name)}
		if err := log.FormatDir(fs, name, meta); err != nil && !errors.Is(err, vfs.ErrCrashed) {
			if _, statErr := fs.Stat(name + "/meta.properties"); statErr != nil {
				t.Fatal(err)
			}
		}
		d, err := log.OpenDir(fs, name, meta)
		if err != nil {
			return nil, err
		}
		f.dirs[name] = d
		o.Dirs = append(o.Dirs, d)
	}
	f.m = NewManager(o)
	for _, d := range o.Dirs {
		if err := f.load(d, &c); err != nil {
			return nil, err
		}
	}
	s.Directories = make([]kafka.UUID, len(s.Replicas))
	if recorded != "" {
		s.Directories[0] = dirID(recorded)
	}
	return f, f.ensure(s)
}

func (f *flat) load(d *log.Dir, c *log.Config) error {
	parts, err := d.Partitions()
	if err != nil {
		return err
	}
	for _, part := range parts {
		if part.State != log.Live && part.State != log.Future {
			continue
		}
		x := d.Load(part, c, log.Options{}, t0)
		for done := false; !done; {
			if done, err = x.Step(); err != nil {
				return err
			}
		}
		if part.State == log.Live && (x.Report().BelowHighWatermark || x.Report().BelowRecoveryPoint) {
			f.m.Lost(part.Partition)
		}
		if err := f.m.Adopt(x.Log()); err != nil {
			return err
		}
	}
	return nil
}

// ensure applies an image that says s of the partition.
func (f *flat) ensure(s *metadata.Partition) error {
	f.out = Applied{}
	f.m.ensure(t0, metadata.New(), &metadata.Topic{Name: orders.Topic, ID: topic}, 0, s, f.desk, &f.out)
	f.m.putStraysAside(&f.out)
	f.m.resumeMoves(t0, &f.out)
	for _, x := range f.out.Failed {
		if errors.Is(x.Err, vfs.ErrCrashed) {
			return x.Err
		}
	}
	p, err := f.m.Get(orders)
	f.p = p
	return err
}

// append writes a value; the outcome tells when it is acknowledged.
func (f *flat) append(value string) (*outcome, error) {
	o := &outcome{}
	o.Done = func(*AppendWaiter) { o.done++ }
	e, err := f.p.Append(t0, AppendRequest{Batch: batch(f.t, value), Acks: AcksLeader, LeaderEpoch: kafka.NoEpoch,
		Producer: log.ProducerCheck{Origin: log.FromClient}}, &o.AppendWaiter)
	f.desk.run(e)
	return o, err
}

func (f *flat) flush() {
	round := f.desk.flushes
	f.desk.flushes = nil
	for _, p := range round {
		if token := p.BeginFlush(); !token.Empty() {
			f.desk.run(p.Flushed(t0, token, token.Sync()))
		}
	}
}

// where is the directory that the replica lies in.
func (f *flat) where() string { return f.p.Log().Dir().Path() }

// values reads everything in the log.
func (f *flat) values() []string {
	f.t.Helper()
	v := f.p.Log().View()
	x, err := v.Read(v.Start, v.End, 1<<30, true)
	if err != nil {
		f.t.Fatal(err)
	}
	defer x.Release()
	b, err := x.ReadAll()
	if err != nil {
		f.t.Fatal(err)
	}
	var out []string
	for len(b) > 0 {
		one, rest, err := record.Split(b)
		if err != nil {
			f.t.Fatal(err)
		}
		for r, err := range one.Records(record.Limits{}) {
			if err != nil {
				f.t.Fatal(err)
			}
			out = append(out, string(r.Value))
		}
		b = rest
	}
	return out
}

// step makes one step of the move and runs its effects.
func (f *flat) step(x *Move, budget int) (MoveStep, error) {
	s, e, err := x.Step(t0, budget)
	f.desk.run(e)
	return s, err
}

// finish steps a move to its end.
func (f *flat) finish(x *Move) {
	f.t.Helper()
	for range 10_000 {
		s, err := f.step(x, 1<<12)
		if err != nil {
			f.t.Fatal(err)
		}
		if s.Done {
			return
		}
	}
	f.t.Fatal("the move does not end")
}

func leading() *metadata.Partition {
	return &metadata.Partition{Replicas: []kafka.NodeID{1}, ISR: []kafka.NodeID{1}, Leader: 1, LeaderEpoch: 3}
}

func mustFlat(t testing.TB, fs vfs.FS, s *metadata.Partition, recorded string, absent ...string) *flat {
	t.Helper()
	f, err := openFlat(t, fs, s, recorded, absent...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *flat) fill(from, to int) (values []string) {
	f.t.Helper()
	for i := from; i < to; i++ {
		v := fmt.Sprintf("%d-%0200d", i, i)
		if _, err := f.append(v); err != nil {
			f.t.Fatal(err)
		}
		values = append(values, v)
	}
	f.flush()
	return values
}

func (f *flat) want(values []string) {
	f.t.Helper()
	if got := f.values(); !slices.Equal(got, values) {
		f.t.Fatalf("%d records, want %d", len(got), len(values))
	}
}

// states lists the states of the partition's directories.
func (f *flat) states() map[string][]log.DirState {
	out := map[string][]log.DirState{}
	for name, d := range f.dirs {
		parts, err := d.Partitions()
		if err != nil {
			f.t.Fatal(err)
		}
		for _, p := range parts {
			out[name] = append(out[name], p.State)
		}
	}
	return out
}

// TestMove: a replica goes to another directory while it is written to and read.
func TestMove(t *testing.T) {
	f := mustFlat(t, vfs.NewMem(vfs.MemOptions{}), leading(), "/a")
	values := f.fill(0, 60)
	x, err := f.m.StartMove(t0, f.p, f.dirs["/b"])
	if err != nil {
		t.Fatal(err)
	}
	if f.p.Move() != x || x.Lag() != 60 {
		t.Fatalf("lag %d", x.Lag())
	}
	old := f.p.published.Load()
	for i := 60; ; i++ {
		s, err := f.step(x, 1<<11)
		if err != nil {
			t.Fatal(err)
		}
		if s.Done {
			break
		}
		if i < 90 {
			values = append(values, f.fill(i, i+1)...)
		}
	}
	if f.where() != "/b" || f.p.Move() != nil || f.p.Role() != Leader {
		t.Fatalf("in %s as %s", f.where(), f.p.Role())
	}
	f.want(values)
	if hw := f.p.HighWatermark(); int(hw) != len(values) {
		t.Fatalf("high watermark %d of %d", hw, len(values))
	}
	if got := f.states(); !slices.Equal(got["/a"], []log.DirState{log.Deleted}) || !slices.Equal(got["/b"], []log.DirState{log.Live}) {
		t.Fatalf("%v", got)
	}
	if !old.replaced(f.p.published.Load()) {
		t.Fatal("readers of the old log are not sent to the new one")
	}
	values = append(values, f.fill(90, 100)...)
	f.want(values)
	r := f.p.Read(ReadSpec{Replica: kafka.NoNode, Offset: 5, MaxBytes: 1 << 20, LeaderEpoch: kafka.NoEpoch, LastEpoch: kafka.NoEpoch})
	if r.Err != nil || r.Extents.Size() == 0 {
		t.Fatalf("%v, %d bytes", r.Err, r.Extents.Size())
	}
	r.Extents.Release()
	again := mustFlat(t, f.fs.(*vfs.Mem).CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.CrashOptions{}), leading(), "/a")
	again.want(values)
	if again.where() != "/b" || len(again.out.Directories) != 1 || again.out.Directories[0].Directory != dirID("/b") {
		t.Fatalf("in %s, reports %+v", again.where(), again.out.Directories)
	}
}

// TestCrashInMove crashes a move at each mutating call of the disk, kills or cuts the power, and starts again, from either
// opinion of the controller: everything acknowledged is there once, and the move, if it is still to be made, ends well.
func TestCrashInMove(t *testing.T) {
	for at := int64(1); ; at++ {
		mem := vfs.NewMem(vfs.MemOptions{})
		f := mustFlat(t, mem, leading(), "/a")
		acked := f.fill(0, 12)
		mem.CrashAt(mem.Calls() + at)
		written, done := f.moveUntilCrash(acked, &acked)
		if !mem.Crashed() {
			if !done {
				t.Fatal("the move does not end")
			}
			return
		}
		recorded := []string{"/a"}
		if done {
			recorded = append(recorded, "/b")
		}
		rnd := rand.New(rand.NewPCG(uint64(at), 5))
		for i, left := range []*vfs.Mem{mem.KillClone(), mem.CrashClone(rnd, vfs.CrashOptions{}), mem.CrashClone(rnd, vfs.KeepAll()),
			mem.CrashClone(rnd, vfs.KeepSome(rnd)), mem.CrashClone(rnd, vfs.KeepSome(rnd)), mem.CrashClone(rnd, vfs.KeepSome(rnd))} {
			for _, where := range recorded {
				left := left.KillClone()
				checkAfterCrash(t, fmt.Sprintf("call %d, disk %d, in %s", at, i, where), left, where, acked, written)
			}
		}
	}
}

// moveUntilCrash moves to /b, writing on the way; acked grows by what is acknowledged, written has all that was tried.
func (f *flat) moveUntilCrash(before []string, acked *[]string) (written []string, done bool) {
	written = slices.Clone(before)
	x, err := f.m.StartMove(t0, f.p, f.dirs["/b"])
	if err != nil {
		return written, false
	}
	for i := 100; i < 160; i++ {
		v := fmt.Sprintf("%d-%0100d", i, i)
		written = append(written, v)
		o, err := f.append(v)
		if i%2 == 0 {
			f.flush()
		}
		if err != nil {
			return written, done
		}
		if !done {
			s, err := f.step(x, 1<<10)
			done = s.Done
			if err != nil {
				return written, done
			}
		}
		f.flush()
		if o.done == 1 && o.Result.Err == nil {
			*acked = append(*acked, v)
		}
	}
	return written, done
}

func checkAfterCrash(t *testing.T, what string, fs *vfs.Mem, recorded string, acked, written []string) {
	t.Helper()
	s := leading()
	s.LeaderEpoch = 4
	f, err := openFlat(t, fs, s, recorded)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if f.p.Role() != Leader {
		t.Fatalf("%s: %s, %v, %v", what, f.p.Role(), f.out.Failed, f.states())
	}
	got := f.values()
	if len(got) < len(acked) || !slices.Equal(got, written[:len(got)]) {
		t.Fatalf("%s: %d records of %d acknowledged and %d written; %v", what, len(got), len(acked), len(written), f.states())
	}
	if len(f.out.Kept) > 0 {
		t.Fatalf("%s: the replica is said to have lost something", what)
	}
	for _, x := range f.out.Resumed {
		if x.Target().Path() != "/b" || f.where() != "/a" {
			t.Fatalf("%s: a move from %s to %s", what, f.where(), x.Target().Path())
		}
		f.finish(x)
		f.want(got)
	}
	for name, states := range f.states() {
		for _, state := range states {
			if (name != f.where() || state != log.Live) && state != log.Deleted {
				t.Fatalf("%s: in %s, and there is %v", what, f.where(), f.states())
			}
		}
	}
}

// TestMoveFollowsTruncation: what a follower cuts off while it is moved goes from the copy too, and what comes instead is
// copied; a start that moved, also beyond the copy, is followed.
func TestMoveFollowsTruncation(t *testing.T) {
	s := &metadata.Partition{Replicas: []kafka.NodeID{1, 2}, ISR: []kafka.NodeID{1, 2}, Leader: 1, LeaderEpoch: 3}
	f := mustFlat(t, vfs.NewMem(vfs.MemOptions{}), s, "/a")
	f.fill(0, 40)
	x, err := f.m.StartMove(t0, f.p, f.dirs["/b"])
	if err != nil {
		t.Fatal(err)
	}
	for x.Lag() > 15 {
		if _, err := f.step(x, 1<<11); err != nil {
			t.Fatal(err)
		}
	}
	follow := *s
	follow.Leader, follow.LeaderEpoch, follow.PartitionEpoch = 2, 4, 1
	if err := f.ensure(&follow); err != nil {
		t.Fatal(err)
	}
	e, err := f.p.Diverged(LeaderView{Epoch: 4, Offset: 40}, 3, 10)
	if f.desk.run(e); err != nil {
		t.Fatal(err)
	}
	replicated(t, f, 10, 12, 4)
	f.finish(x)
	if got := f.values(); len(got) != 12 || got[11] != "r11" || f.where() != "/b" {
		t.Fatalf("%d records in %s: %q", len(got), f.where(), got[len(got)-1])
	}
	if latest, _ := f.p.Log().View().Epochs().Latest(); latest != (log.EpochEntry{Epoch: 4, Start: 10}) {
		t.Fatalf("%+v", latest)
	}
	x, err = f.m.StartMove(t0, f.p, f.dirs["/c"])
	if err != nil {
		t.Fatal(err)
	}
	f.finish(func() *Move {
		if _, err := f.step(x, 1); err != nil {
			t.Fatal(err)
		}
		e, err := f.p.OutOfRange(LeaderView{Epoch: 4, Offset: 12}, 500, 600)
		if f.desk.run(e); err != nil {
			t.Fatal(err)
		}
		replicated(t, f, 500, 505, 4)
		return x
	}())
	if v := f.p.Log().View(); v.Start != 500 || v.End != 505 || f.where() != "/c" {
		t.Fatalf("%d to %d in %s", v.Start, v.End, f.where())
	}
}

// replicated appends records as from a leader.
func replicated(t *testing.T, f *flat, from, to kafka.Offset, epoch kafka.LeaderEpoch) {
	t.Helper()
	for o := from; o < to; o++ {
		b := batch(t, fmt.Sprintf("r%d", o))
		b.SetBaseOffset(o)
		b.SetLeaderEpoch(epoch)
		_, e, err := f.p.Replicate(t0, b, LeaderView{Epoch: epoch, Offset: o, HighWatermark: o, LogStart: 0})
		if f.desk.run(e); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMoveEnds: a replica that is deleted, fails or is closed ends its move; the copy goes with what is deleted, and stays
// for the next start with what only failed.
func TestMoveEnds(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(f *flat)
		want error
		keep bool
	}{
		"deleted": {func(f *flat) { var out Applied; f.m.remove(t0, orders, topic, f.desk, &out) }, ErrMoveEnded, false},
		"failed":  {func(f *flat) { f.m.DirFailed(f.dirs["/a"], f.desk) }, ErrMoveOffline, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := mustFlat(t, vfs.NewMem(vfs.MemOptions{}), leading(), "/a")
			values := f.fill(0, 20)
			x, err := f.m.StartMove(t0, f.p, f.dirs["/b"])
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.step(x, 1<<11); err != nil {
				t.Fatal(err)
			}
			c.do(f)
			if _, err := f.step(x, 1<<11); !errors.Is(err, c.want) {
				t.Fatalf("%v", err)
			}
			if err := x.End(t0, c.keep); err != nil {
				t.Fatal(err)
			}
			want := log.Deleted
			if c.keep {
				want = log.Future
			}
			if got := f.states()["/b"]; !slices.Equal(got, []log.DirState{want}) {
				t.Fatalf("%v", got)
			}
			if !c.keep {
				return
			}
			again := mustFlat(t, f.fs.(*vfs.Mem).KillClone(), leading(), "/a")
			if len(again.out.Resumed) != 1 {
				t.Fatal("the move is not gone on with")
			}
			again.finish(again.out.Resumed[0])
			again.want(values)
		})
	}
}

// TestStartWithTheReplicaElsewhere: a log that lies in another directory than the controller knows is used, unless the one
// that it knows is offline and may come back with more; where that is gone for good, others in sync refill it.
func TestStartWithTheReplicaElsewhere(t *testing.T) {
	both := &metadata.Partition{Replicas: []kafka.NodeID{1, 2}, ISR: []kafka.NodeID{1, 2}, Leader: 2, LeaderEpoch: 4}
	for name, c := range map[string]struct {
		s        *metadata.Partition
		recorded string
		absent   []string
		role     Role
		kept     bool
		report   kafka.UUID
	}{
		"moved":                       {s: leading(), recorded: "/b", role: Leader, report: dirID("/a")},
		"offline elsewhere":           {s: leading(), recorded: "/c", absent: []string{"/c"}, role: Offline},
		"gone elsewhere, alone":       {s: leading(), recorded: "/x", role: Leader, kept: true, report: dirID("/a")},
		"gone elsewhere, not alone":   {s: both, recorded: "/x", role: Follower, report: kafka.DirectoryLost},
		"an unrelated one is offline": {s: leading(), recorded: "/a", absent: []string{"/c"}, role: Leader},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem(vfs.MemOptions{})
			f := mustFlat(t, mem, leading(), "/a")
			values := f.fill(0, 5)
			again := mustFlat(t, mem.KillClone(), c.s, c.recorded, c.absent...)
			if again.p.Role() != c.role || (len(again.out.Kept) > 0) != c.kept {
				t.Fatalf("%s, kept %v, %v", again.p.Role(), again.out.Kept, again.out.Failed)
			}
			var report kafka.UUID
			if len(again.out.Directories) > 0 {
				report = again.out.Directories[0].Directory
			}
			if report != c.report {
				t.Fatalf("reports %v", report)
			}
			if got := again.states()["/a"]; !slices.Equal(got, []log.DirState{log.Live}) {
				t.Fatalf("%v", got)
			}
			if c.role != Offline {
				again.want(values)
			}
		})
	}
}

// TestGoneDirectoryIsRebuilt: a replica whose directory is gone for good is made anew as a lost one once another is in
// sync, and never while that could be elected or a directory may come back.
func TestGoneDirectoryIsRebuilt(t *testing.T) {
	both := func() *metadata.Partition {
		return &metadata.Partition{Replicas: []kafka.NodeID{1, 2}, ISR: []kafka.NodeID{2}, Leader: 2, LeaderEpoch: 4}
	}
	f := mustFlat(t, vfs.NewMem(vfs.MemOptions{}), both(), "/x")
	if f.p.Role() != Follower || len(f.out.Rebuilt) != 1 || f.out.Directories[0].Directory != kafka.DirectoryLost {
		t.Fatalf("%s, %+v", f.p.Role(), f.out)
	}
	if f := mustFlat(t, vfs.NewMem(vfs.MemOptions{}), both(), "/x", "/c"); f.p.Role() != Offline || f.out.Created != 0 {
		t.Fatalf("made anew while a directory is offline: %+v", f.out)
	}
	alone := both()
	alone.ISR, alone.Leader = []kafka.NodeID{1}, kafka.NoNode
	f = mustFlat(t, vfs.NewMem(vfs.MemOptions{}), alone, "/x")
	if f.p.Role() != Offline || f.out.Created != 0 {
		t.Fatalf("made anew though it would be elected: %+v", f.out)
	}
	again := both()
	again.PartitionEpoch, again.Directories = 1, []kafka.UUID{dirID("/x"), dirID("/y")}
	if err := f.ensure(again); err != nil || f.p.Role() != Follower || f.out.Directories[0].Directory != kafka.DirectoryLost {
		t.Fatalf("%v, %s, %+v", err, f.p.Role(), f.out)
	}
	given := both()
	given.ISR, given.Leader, given.Directories = []kafka.NodeID{1}, 1, []kafka.UUID{kafka.DirectoryUnassigned, dirID("/y")}
	f = mustFlat(t, vfs.NewMem(vfs.MemOptions{}), alone, "/x")
	given.PartitionEpoch = 1
	if err := f.ensure(given); err != nil || f.p.Role() != Leader {
		t.Fatalf("given up by an operator: %v, %s", err, f.p.Role())
	}
}

// TestMoveWaitsForCompaction: what is being compacted is not copied, and what is copied is not compacted: the copy could
// keep a value and miss the tombstone that ended it.
func TestMoveWaitsForCompaction(t *testing.T) {
	f := mustFlat(t, vfs.NewMem(vfs.MemOptions{}), leading(), "/a")
	c := *f.p.Config()
	c.Compact, c.Delete = true, false
	f.desk.run(f.p.Reconfigure(t0, &c))
	f.fill(0, 60)
	d, e, err := f.p.Dirt(t0.Add(time.Hour))
	if f.desk.run(e); err != nil {
		t.Fatal(err)
	}
	cleaning, err := f.p.Clean(t0, d, log.CleanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := f.m.StartMove(t0, f.p, f.dirs["/b"])
	if err != nil {
		t.Fatal(err)
	}
	if s, err := f.step(x, 1<<12); err != nil || !s.Waits || s.Copied > 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	cleaning.Abandon()
	if _, err := f.p.Clean(t0, d, log.CleanOptions{}); !errors.Is(err, log.ErrCleanAborted) {
		t.Fatalf("compaction of what is being copied: %v", err)
	}
	f.finish(x)
}
