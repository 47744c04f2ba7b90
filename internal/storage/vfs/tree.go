package vfs

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
)

// directory is the inside of a directory inode, guarded by Mem.mu. entries is what calls see, disk what a power cut
// leaves for sure; between them lie the pending changes.
type directory struct {
	entries map[string]*inode
	disk    map[string]*inode
	pending []*change          // that the next SyncDir of this directory has to see, in order
	last    map[string]*change // per name the newest change that is not durable
}

// change is one create, unlink or rename that is not durable yet. It reaches the disk as a whole, as in a journal, and
// not before the changes it builds on; beyond that the order is free.
type change struct {
	edits   []edit
	deps    []*change
	waiting int // directories that must still be synced
	durable bool
}

// edit points a name of a directory to an inode; nil: the name goes.
type edit struct {
	dir  *inode
	name string
	to   *inode
}

func newDir() *inode {
	return &inode{dir: &directory{
		entries: map[string]*inode{},
		disk:    map[string]*inode{},
		last:    map[string]*change{},
	}}
}

// components cuts a name into the names on the way from the root.
func components(name string) []string {
	clean := path.Clean("/" + name)
	if clean == "/" {
		return nil
	}
	return strings.Split(clean[1:], "/")
}

// lookup finds an inode. Mem.mu is held, if only for reading.
func (m *Mem) lookup(name string) (*inode, error) {
	n := m.root
	for _, part := range components(name) {
		if n.dir == nil {
			return nil, syscall.ENOTDIR
		}
		next := n.dir.entries[part]
		if next == nil {
			return nil, fs.ErrNotExist
		}
		n = next
	}
	return n, nil
}

// parent finds the directory that name is or would be in, and the last component.
func (m *Mem) parent(name string) (*inode, string, error) {
	parts := components(name)
	if len(parts) == 0 {
		return nil, "", syscall.EINVAL
	}
	dir, err := m.lookup(strings.Join(parts[:len(parts)-1], "/"))
	if err != nil {
		return nil, "", err
	}
	if dir.dir == nil {
		return nil, "", syscall.ENOTDIR
	}
	return dir, parts[len(parts)-1], nil
}

// commit makes edits visible and pending; a file's new name stands before its old one, lest it have none in between.
// emptied is a directory that goes, whose own changes come first. Mem.mu is held.
func (m *Mem) commit(emptied *inode, edits ...edit) {
	c := &change{edits: edits}
	for _, e := range edits {
		d := e.dir.dir
		if dep := d.last[e.name]; dep != nil {
			c.deps = append(c.deps, dep)
		}
		if len(d.pending) == 0 || d.pending[len(d.pending)-1] != c {
			d.pending = append(d.pending, c)
			c.waiting++
		}
		d.last[e.name] = c
		if old := d.entries[e.name]; old != nil && old != e.to {
			old.links--
			m.release(old)
		}
		if e.to == nil {
			delete(d.entries, e.name)
			continue
		}
		if d.entries[e.name] != e.to {
			e.to.links++
		}
		d.entries[e.name] = e.to
		e.dir.mtime = m.now()
	}
	if emptied != nil {
		c.deps = slices.AppendSeq(c.deps, maps.Values(emptied.dir.last))
	}
	m.pending = append(m.pending, c)
}

// release gives back the space of a file without names and handles. Mem.mu is held, if only for reading.
func (m *Mem) release(n *inode) {
	if n.dir != nil || n.links > 0 || n.opens.Load() > 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	m.space.give(n.pages)
	n.pages = 0
	m.unlist(n)
}

// syncNames makes the changes in dir durable. A rename between two directories needs both synced.
func (m *Mem) syncNames(dir *inode) {
	list := dir.dir.pending
	dir.dir.pending = nil
	for _, c := range list {
		if c.waiting--; c.waiting <= 0 {
			m.settle(c)
		}
	}
	if 2*m.settled >= len(m.pending) {
		m.pending = slices.DeleteFunc(m.pending, func(c *change) bool { return c.durable })
		m.settled = 0
	}
}

// settle writes c, after what it builds on, to the disk.
func (m *Mem) settle(c *change) {
	if c.durable {
		return
	}
	c.durable = true
	m.settled++
	for _, dep := range c.deps {
		m.settle(dep)
	}
	c.deps = nil
	for _, e := range c.edits {
		d := e.dir.dir
		if e.to == nil {
			delete(d.disk, e.name)
		} else {
			d.disk[e.name] = e.to
		}
		if d.last[e.name] == c {
			delete(d.last, e.name)
		}
	}
}

// names lists a directory in order.
func (d *directory) names() []string { return slices.Sorted(maps.Keys(d.entries)) }
