package powercut

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Disk is one file system. Safe for concurrent use.
type Disk struct {
	mu   sync.Mutex
	root *node
	next uint64 // the last inode number
	off  bool   // the power is cut
	bad  bool   // the next sync of data fails
	// Syncs counts what was made durable, Kept and Lost what became of unsynced files and names at cuts.
	Syncs, Kept, Lost int
}

// node is a file or a directory.
type node struct {
	ino     uint64
	isDir   bool
	mode    uint32
	changed time.Time
	// of a file
	data  []byte
	plate []byte
	dirty int // data and plate are equal up to here
	// of a directory
	names      map[string]*node
	plateNames map[string]*node
}

// NewDisk gives an empty one.
func NewDisk() *Disk {
	d := &Disk{}
	d.root = d.newNode(true, 0o755)
	return d
}

// newNode makes a file or a directory that no name leads to. Needs mu.
func (d *Disk) newNode(isDir bool, mode uint32) *node {
	d.next++
	n := &node{ino: d.next + 1, isDir: isDir, mode: mode, changed: time.Now()}
	if isDir {
		n.names, n.plateNames = map[string]*node{}, map[string]*node{}
	}
	return n
}

// locked runs a call, unless the power is cut.
func (d *Disk) locked(f func() syscall.Errno) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return syscall.EIO
	}
	return f()
}

func (n *node) write(b []byte, at int64) {
	if end := int(at) + len(b); end > len(n.data) {
		n.resize(end)
	}
	copy(n.data[at:], b)
	n.dirty, n.changed = min(n.dirty, int(at)), time.Now()
}

func (n *node) resize(size int) {
	if size <= len(n.data) {
		n.dirty = min(n.dirty, size)
		clear(n.data[size:])
		n.data = n.data[:size]
	} else {
		n.dirty = min(n.dirty, len(n.data))
		n.data = slices.Grow(n.data, size-len(n.data))[:size]
	}
	n.changed = time.Now()
}

// FailSync lets the next sync of unsynced data fail, as kernels do it: the data is given up, and whoever opens the file later
// finds what the plates have, though every later sync succeeds.
func (d *Disk) FailSync() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bad = true
}

// sync brings a file, or the names in a directory, to the plates. Needs mu.
func (d *Disk) sync(n *node) syscall.Errno {
	d.Syncs++
	if n.isDir {
		n.plateNames = maps.Clone(n.names)
		return 0
	}
	if d.bad && n.dirty < len(n.data) {
		d.bad = false
		n.data, n.dirty = slices.Clone(n.plate), len(n.plate)
		return syscall.EIO
	}
	n.plate = append(n.plate[:n.dirty], n.data[n.dirty:]...)
	n.dirty = len(n.data)
	return 0
}

// Cut takes the power away. It gives what the machine finds when it is back: what was synced, and of the rest what r decides;
// without r nothing of it.
func (d *Disk) Cut(r *rand.Rand) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = true
	after := &Disk{next: d.next}
	after.root = d.survivor(d.root, after, r, map[*node]*node{})
	return after
}

// survivor gives what is left of a node. A node with two names, which a rename that is half on the plates leaves, stays one.
func (d *Disk) survivor(n *node, after *Disk, r *rand.Rand, done map[*node]*node) *node {
	if s := done[n]; s != nil {
		return s
	}
	s := &node{ino: n.ino, isDir: n.isDir, mode: n.mode, changed: n.changed}
	done[n] = s
	if !n.isDir {
		s.data = d.remains(n, after, r)
		s.plate = slices.Clone(s.data)
		s.dirty = len(s.data)
		return s
	}
	names := maps.Clone(n.plateNames)
	for _, name := range slices.Sorted(maps.Keys(union(n.names, n.plateNames))) {
		if n.names[name] == n.plateNames[name] {
			continue
		}
		if r == nil || r.IntN(2) == 0 {
			after.Lost++
			continue
		}
		after.Kept++
		if now := n.names[name]; now != nil {
			names[name] = now
		} else {
			delete(names, name)
		}
	}
	s.names = map[string]*node{}
	for name, child := range names {
		s.names[name] = d.survivor(child, after, r, done)
	}
	s.plateNames = maps.Clone(s.names)
	return s
}

func union(a, b map[string]*node) map[string]*node {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// remains gives the content of a file after a cut.
func (d *Disk) remains(n *node, after *Disk, r *rand.Rand) []byte {
	if n.dirty >= len(n.data) && n.dirty >= len(n.plate) {
		return slices.Clone(n.plate)
	}
	kind := 0
	if r != nil {
		kind = r.IntN(4)
	}
	if kind == 0 {
		after.Lost++
		return slices.Clone(n.plate)
	}
	after.Kept++
	out := slices.Clone(n.data)
	if len(n.data) > n.dirty {
		torn := n.dirty + r.IntN(len(n.data)-n.dirty)
		switch kind {
		case 1: // a part was written back
			out = out[:torn]
		case 2: // the size was, and not all of the data
			clear(out[torn:])
		}
	}
	return out
}

// Used says how much the programs see, in bytes.
func (d *Disk) Used() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return used(d.root)
}

func used(n *node) int64 {
	total := int64(len(n.data))
	for _, child := range n.names {
		total += used(child)
	}
	return total
}

// lookup finds a name. Needs mu.
func (n *node) lookup(name string) (*node, syscall.Errno) {
	if child := n.names[name]; child != nil {
		return child, 0
	}
	return nil, syscall.ENOENT
}

// make gives a name to a new node. Needs mu.
func (d *Disk) make(in *node, name string, isDir bool, mode uint32) (*node, syscall.Errno) {
	if in.names[name] != nil {
		return nil, syscall.EEXIST
	}
	n := d.newNode(isDir, mode)
	in.names[name], in.changed = n, time.Now()
	return n, 0
}

// remove takes a name away. Needs mu.
func (n *node) remove(name string, isDir bool) syscall.Errno {
	child := n.names[name]
	switch {
	case child == nil:
		return syscall.ENOENT
	case isDir && !child.isDir:
		return syscall.ENOTDIR
	case !isDir && child.isDir:
		return syscall.EISDIR
	case len(child.names) > 0:
		return syscall.ENOTEMPTY
	}
	delete(n.names, name)
	n.changed = time.Now()
	return 0
}

// rename moves a name, over another if need be. Needs mu.
func (n *node) rename(name string, to *node, newName string) syscall.Errno {
	child := n.names[name]
	if child == nil {
		return syscall.ENOENT
	}
	if old := to.names[newName]; old != nil && old != child {
		if old.isDir != child.isDir {
			return map[bool]syscall.Errno{true: syscall.EISDIR, false: syscall.ENOTDIR}[old.isDir]
		}
		if len(old.names) > 0 {
			return syscall.ENOTEMPTY
		}
	}
	delete(n.names, name)
	to.names[newName] = child
	n.changed, to.changed = time.Now(), time.Now()
	return 0
}

// stat is what a node looks like. Needs mu.
func (n *node) stat() (mode uint32, size uint64, links uint32) {
	if n.isDir {
		return n.mode&uint32(os.ModePerm) | syscall.S_IFDIR, 4096, 2
	}
	return n.mode&uint32(os.ModePerm) | syscall.S_IFREG, uint64(len(n.data)), 1
}
