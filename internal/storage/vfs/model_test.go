package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// modelFile is a file of the oracle: what is read now, what is on the disk for sure, and since the last sync the
// lowest byte touched and the extremes of the size.
type modelFile struct {
	now, disk []byte
	low       int
	min, max  int
}

func (f *modelFile) touch(from int) {
	f.low = min(f.low, from)
	f.min, f.max = min(f.min, len(f.now)), max(f.max, len(f.now))
}

func (f *modelFile) sync() {
	f.disk = slices.Clone(f.now)
	f.low, f.min, f.max = len(f.now), len(f.now), len(f.now)
}

// model is the oracle: two directories, synced from the start, and plain maps from name to file.
type model struct {
	mem     *Mem
	open    map[string]File
	now     map[string]*modelFile
	disk    map[string]*modelFile          // names for sure
	maybe   map[string]map[*modelFile]bool // what a name was since the last SyncDir; nil key: absent
	crashes int
}

func newModel() *model {
	m := &model{mem: NewMem(MemOptions{}), open: map[string]File{}, now: map[string]*modelFile{},
		disk: map[string]*modelFile{}, maybe: map[string]map[*modelFile]bool{}}
	for _, dir := range modelDirs() {
		m.mem.MkdirAll(dir)
	}
	m.mem.SyncDir("/")
	return m
}

func modelDirs() []string { return []string{"/d0", "/d1"} }

func (m *model) set(name string, f *modelFile) {
	if m.maybe[name] == nil {
		m.maybe[name] = map[*modelFile]bool{m.now[name]: true}
	}
	m.maybe[name][f] = true
	if f == nil {
		delete(m.now, name)
	} else {
		m.now[name] = f
	}
}

func drawName(t *rapid.T) string {
	return rapid.SampledFrom([]string{"/d0/a", "/d0/b", "/d0/c", "/d1/a", "/d1/b", "/d1/c"}).Draw(t, "name")
}

// handle opens name anew each time, so that handles and names are exercised together.
func (m *model) handle(t *rapid.T, name string, flag int) (File, *modelFile) {
	f, err := m.mem.Open(name, flag)
	if m.now[name] == nil {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("open of %s, which is not there: %v", name, err)
		}
		t.Skip("no such file")
	}
	if err != nil {
		t.Fatal(err)
	}
	return f, m.now[name]
}

func (m *model) create(t *rapid.T) {
	name := drawName(t)
	f, err := m.mem.Open(name, os.O_CREATE|os.O_EXCL|os.O_RDWR)
	if m.now[name] != nil {
		if !errors.Is(err, fs.ErrExist) {
			t.Fatalf("O_EXCL of %s, which exists: %v", name, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	m.set(name, &modelFile{})
}

func (m *model) write(t *rapid.T) {
	f, mf := m.handle(t, drawName(t), os.O_RDWR)
	defer f.Close()
	off := len(mf.now)
	if rapid.Bool().Draw(t, "inside") {
		off = rapid.IntRange(0, len(mf.now)+600).Draw(t, "off")
	}
	length := rapid.SampledFrom([]int{1, 100, 511, 513, 4096, 5000, 9000}).Draw(t, "length")
	fill := rapid.Byte().Draw(t, "fill")
	p := make([]byte, length)
	for i := range p {
		p[i] = fill + byte(i)
	}
	if n, err := f.WriteAt(p, int64(off)); n != length || err != nil {
		t.Fatal(n, err)
	}
	before := len(mf.now)
	if more := off + length - len(mf.now); more > 0 {
		mf.now = append(mf.now, make([]byte, more)...)
	}
	copy(mf.now[off:], p)
	mf.touch(min(off, before))
}

func (m *model) truncate(t *rapid.T) {
	f, mf := m.handle(t, drawName(t), os.O_RDWR)
	defer f.Close()
	size := rapid.IntRange(0, len(mf.now)+3000).Draw(t, "size")
	if err := f.Truncate(int64(size)); err != nil {
		t.Fatal(err)
	}
	from := min(size, len(mf.now))
	if size > len(mf.now) {
		mf.now = append(mf.now, make([]byte, size-len(mf.now))...)
	}
	mf.now = mf.now[:size]
	mf.touch(from)
}

func (m *model) sync(t *rapid.T) {
	f, mf := m.handle(t, drawName(t), os.O_RDONLY)
	defer f.Close()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	mf.sync()
}

func (m *model) syncAll(t *rapid.T) {
	if ok, err := m.mem.SyncAll("/"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for _, mf := range m.now {
		mf.sync()
	}
}

func (m *model) remove(t *rapid.T) {
	name := drawName(t)
	err := m.mem.Remove(name)
	if m.now[name] == nil {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	m.set(name, nil)
}

// rename stays inside one directory; between two it has a test of its own.
func (m *model) rename(t *rapid.T) {
	from := drawName(t)
	to := from[:4] + rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "to")
	err := m.mem.Rename(from, to)
	mf := m.now[from]
	if mf == nil {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if from != to {
		m.set(from, nil)
		m.set(to, mf)
	}
}

func (m *model) syncDir(t *rapid.T) {
	dir := rapid.SampledFrom(modelDirs()).Draw(t, "dir")
	if err := m.mem.SyncDir(dir); err != nil {
		t.Fatal(err)
	}
	for name := range m.maybe {
		if name[:3] == dir {
			delete(m.maybe, name)
		}
	}
	maps.DeleteFunc(m.disk, func(name string, _ *modelFile) bool { return name[:3] == dir })
	for name, mf := range m.now {
		if name[:3] == dir {
			m.disk[name] = mf
		}
	}
}

func (m *model) evict(t *rapid.T) {
	if name := drawName(t); m.now[name] != nil {
		if err := m.mem.Evict(name); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *model) kill(*rapid.T) { m.mem = m.mem.KillClone() }

// powerCut goes on with the disk that lost everything unsynced: exactly the oracle's durable state.
func (m *model) powerCut(t *rapid.T) {
	m.mem = m.mem.CrashClone(rand.New(rand.NewPCG(1, 1)), CrashOptions{})
	m.now = maps.Clone(m.disk)
	for _, mf := range m.now {
		mf.now = slices.Clone(mf.disk)
	}
	m.settle()
	m.check(t)
}

// settle says that everything is durable.
func (m *model) settle() {
	m.disk = maps.Clone(m.now)
	clear(m.maybe)
	for _, mf := range m.now {
		mf.sync()
	}
}

// luckyCut crashes with some luck, checks the bounds and goes on with what is left.
func (m *model) luckyCut(t *rapid.T) {
	seed := rapid.Uint64().Draw(t, "seed")
	rnd := rand.New(rand.NewPCG(seed, 3))
	left := m.mem.CrashClone(rnd, KeepSome(rnd))
	next := map[string]*modelFile{}
	for _, dir := range modelDirs() {
		entries, err := left.ReadDir(dir)
		if err != nil {
			t.Fatalf("a synced directory is gone: %v", err)
		}
		for _, e := range entries {
			name := dir + "/" + e.Name
			got := []byte(readOr(left, name))
			if !m.mayBe(name, got) {
				t.Fatalf("%s holds %s, which it never could", name, clip(string(got)))
			}
			next[name] = &modelFile{now: got}
		}
	}
	for name := range m.disk {
		if m.maybe[name] == nil && next[name] == nil {
			t.Fatalf("%s was durable and is gone", name)
		}
	}
	m.mem, m.now = left, next
	m.settle()
	m.crashes++
}

// mayBe says whether name may hold content after a crash: one of the files it has named, whose untouched beginning is
// whole and whose size was passed through.
func (m *model) mayBe(name string, content []byte) bool {
	candidates := m.maybe[name]
	if candidates == nil {
		candidates = map[*modelFile]bool{m.disk[name]: true}
	}
	for mf := range candidates {
		if mf == nil || len(content) < mf.min || len(content) > mf.max {
			continue
		}
		same := min(mf.low, len(mf.disk))
		if len(content) >= same && string(content[:same]) == string(mf.disk[:same]) {
			return true
		}
	}
	return false
}

// check compares everything readable with the oracle.
func (m *model) check(t *rapid.T) {
	var got []string
	for _, dir := range modelDirs() {
		entries, err := m.mem.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			got = append(got, dir+"/"+e.Name)
		}
	}
	if want := slices.Sorted(maps.Keys(m.now)); !slices.Equal(got, want) {
		t.Fatalf("names are %q, want %q", got, want)
	}
	pages := int64(0)
	for name, mf := range m.now {
		if got := readOr(m.mem, name); got != string(mf.now) {
			t.Fatalf("%s holds %s, want %s", name, clip(got), clip(string(mf.now)))
		}
		info, err := m.mem.Stat(name)
		if err != nil || info.Size != int64(len(mf.now)) {
			t.Fatal(info, err)
		}
		pages += (info.Size + pageSize - 1) / pageSize
	}
	if used := m.mem.space.used.Load(); used < 0 || used > pages {
		t.Fatalf("%d pages in use by files of %d", used, pages)
	}
}

// TestMemModel runs random calls against Mem and an oracle of plain maps and slices.
func TestMemModel(t *testing.T) {
	crashes := 0
	rapid.Check(t, func(t *rapid.T) {
		m := newModel()
		t.Repeat(map[string]func(*rapid.T){
			"": m.check, "create": m.create, "write": m.write, "write2": m.write, "truncate": m.truncate,
			"sync": m.sync, "syncAll": m.syncAll, "remove": m.remove, "rename": m.rename, "syncDir": m.syncDir,
			"evict": m.evict, "kill": m.kill, "powerCut": m.powerCut, "luckyCut": m.luckyCut,
		})
		crashes += m.crashes
	})
	if crashes == 0 {
		t.Error(fmt.Sprint("no crash was tried"))
	}
}
