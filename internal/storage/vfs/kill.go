package vfs

import (
	"maps"
	"slices"
)

// KillClone gives the file system as the kill of the process at this moment leaves it: everything done is there, and
// what was not synced still is not. The clone has no locks and no open files, and can crash in its turn.
func (m *Mem) KillClone() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := &kill{to: m.empties(), nodes: map[*inode]*inode{}, changes: map[*change]*change{}}
	k.to.errSeq, k.to.errSeen = m.errSeq, m.errSeen
	k.to.root = k.inode(m.root)
	for _, c := range m.pending {
		if !c.durable {
			k.to.pending = append(k.to.pending, k.change(c))
		}
	}
	return k.to
}

// kill copies the graph of names; the maps say what is copied already.
type kill struct {
	to      *Mem
	nodes   map[*inode]*inode
	changes map[*change]*change
}

func (k *kill) inode(n *inode) *inode {
	if n == nil {
		return nil
	}
	if twin := k.nodes[n]; twin != nil {
		return twin
	}
	if n.dir == nil {
		twin := k.file(n)
		k.nodes[n] = twin
		return twin
	}
	twin := newDir()
	k.nodes[n] = twin
	twin.links, twin.mtime, twin.diskTime = n.links, n.mtime, n.diskTime
	for name, entry := range n.dir.entries {
		twin.dir.entries[name] = k.inode(entry)
	}
	for name, entry := range n.dir.disk {
		twin.dir.disk[name] = k.inode(entry)
	}
	for _, c := range n.dir.pending {
		twin.dir.pending = append(twin.dir.pending, k.change(c))
	}
	for name, c := range n.dir.last {
		twin.dir.last[name] = k.change(c)
	}
	return twin
}

func (k *kill) change(c *change) *change {
	if twin := k.changes[c]; twin != nil {
		return twin
	}
	twin := &change{waiting: c.waiting, durable: c.durable}
	k.changes[c] = twin
	for _, e := range c.edits {
		twin.edits = append(twin.edits, edit{k.inode(e.dir), e.name, k.inode(e.to)})
	}
	for _, dep := range c.deps {
		if !dep.durable {
			twin.deps = append(twin.deps, k.change(dep))
		}
	}
	return twin
}

func (k *kill) file(n *inode) *inode {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.slots {
		n.slots[i].flags |= slotShared
	}
	twin := &inode{
		links: n.links,
		size:  n.size, diskSize: n.diskSize, sizes: slices.Clone(n.sizes),
		mtime: n.mtime, diskTime: n.diskTime,
		slots: slices.Clone(n.slots), dirty: slices.Clone(n.dirty),
		older:  maps.Clone(n.older),
		errSeq: n.errSeq, errSeen: n.errSeen,
		listed: n.listed,
	}
	for i, versions := range twin.older {
		twin.older[i] = slices.Clone(versions)
	}
	if n.links == 0 {
		twin.listed = false // only a crash can bring it back
		return twin
	}
	twin.pages = n.pages
	k.to.space.used.Add(n.pages)
	if twin.listed {
		k.to.dirtyFiles[twin] = struct{}{}
	}
	return twin
}
