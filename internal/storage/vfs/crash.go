package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// CrashOptions says how much of what was not synced a power cut leaves, as chances from 0 to 1. The zero value loses
// all of it.
type CrashOptions struct {
	Blocks float64 // that an unsynced block of 512 bytes reached the disk, in its newest version or an older one
	Torn   float64 // that a block that did was cut: part of the new bytes, part of the old
	Sizes  float64 // that a file's unsynced size or modification time did
	Names  float64 // that an unsynced create, unlink or rename did
}

// KeepAll is the power cut that comes right after everything was written by itself.
func KeepAll() CrashOptions { return CrashOptions{Blocks: 1, Sizes: 1, Names: 1} }

// KeepSome draws options, with the extremes often among them, because many bugs need one thing kept and another lost.
func KeepSome(rnd *rand.Rand) CrashOptions {
	draw := func() float64 {
		return [...]float64{0, 0.1, 0.5, 0.9, 1}[rnd.IntN(5)]
	}
	o := CrashOptions{Blocks: draw(), Sizes: draw(), Names: draw()}
	if rnd.IntN(2) == 0 {
		o.Torn = 0.2
	}
	return o
}

// CrashClone gives the disk as a power cut at this moment could leave it. The same state, seed and options give the
// same clone. The clone has no locks, no open files and nothing unsynced; m stays as it is and goes on.
func (m *Mem) CrashClone(rnd *rand.Rand, keep CrashOptions) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &crash{rnd: rnd, keep: keep, from: m, to: m.empties(), names: map[*directory]map[string]*inode{}}
	c.chooseNames()
	c.copyDir(m.root, c.to.root)
	return c.to
}

// empties makes an empty Mem with m's options.
func (m *Mem) empties() *Mem {
	return NewMem(MemOptions{Capacity: m.space.capacity.Load(), Now: m.clock})
}

// crash is one power cut in the making. Everything is done in a fixed order, because rnd is drawn from on the way.
type crash struct {
	rnd   *rand.Rand
	keep  CrashOptions
	from  *Mem
	to    *Mem
	names map[*directory]map[string]*inode // what kept changes make of the durable names
}

func (c *crash) chance(p float64) bool { return c.rnd.Float64() < p }

// chooseNames keeps some of the pending changes, none without those it builds on.
func (c *crash) chooseNames() {
	kept := map[*change]bool{}
	for _, ch := range c.from.pending {
		if ch.durable {
			continue
		}
		keep := c.chance(c.keep.Names)
		for _, dep := range ch.deps {
			keep = keep && (dep.durable || kept[dep])
		}
		if !keep {
			continue
		}
		kept[ch] = true
		for _, e := range ch.edits {
			c.apply(e)
		}
	}
}

func (c *crash) apply(e edit) {
	d := e.dir.dir
	names := c.names[d]
	if names == nil {
		names = maps.Clone(d.disk)
		c.names[d] = names
	}
	if e.to == nil {
		delete(names, e.name)
	} else {
		names[e.name] = e.to
	}
}

// copyDir builds what is left of from, which is on the disk, in to.
func (c *crash) copyDir(from, to *inode) {
	names := c.names[from.dir]
	if names == nil {
		names = from.dir.disk
	}
	to.mtime, to.diskTime = from.mtime, from.mtime
	for _, name := range slices.Sorted(maps.Keys(names)) {
		n := names[name]
		var left *inode
		if n.dir != nil {
			left = newDir()
			c.copyDir(n, left)
		} else {
			left = c.copyFile(n)
		}
		left.links = 1
		to.dir.entries[name], to.dir.disk[name] = left, left
	}
}

// copyFile gives what is left of a file.
func (c *crash) copyFile(n *inode) *inode {
	n.mu.Lock()
	defer n.mu.Unlock()
	left := &inode{size: c.chooseSize(n), mtime: n.diskTime}
	if c.chance(c.keep.Sizes) {
		left.mtime = n.mtime
	}
	left.diskSize, left.diskTime = left.size, left.mtime
	count := min(len(n.slots), int((left.size+pageSize-1)/pageSize))
	left.slots = make([]slot, count)
	var luck run
	for i := range count {
		s := &n.slots[i]
		p := s.disk
		if s.flags&slotDirty != 0 {
			s.flags |= slotShared // cur may end up in the clone
			p = c.choosePage(&luck, s.disk, append(slices.Clone(n.older[i]), s.cur))
		}
		if p = cutPage(p, left.size-int64(i)*pageSize); p == nil {
			continue
		}
		left.slots[i] = slot{cur: p, disk: p, flags: slotShared | slotAlloc}
		left.pages++
	}
	c.to.space.used.Add(left.pages)
	return left
}

// chooseSize picks one of the sizes the file had since its last sync, or any on the way of an append.
func (c *crash) chooseSize(n *inode) int64 {
	i := len(n.sizes) - 1
	for i >= 0 && !c.chance(c.keep.Sizes) {
		i--
	}
	if i < 0 {
		return n.diskSize
	}
	before := n.diskSize
	if i > 0 {
		before = n.sizes[i-1]
	}
	if grown := n.sizes[i] - before; grown > 1 && c.keep.Sizes < 1 && c.rnd.IntN(2) == 0 {
		return before + 1 + c.rnd.Int64N(grown)
	}
	return n.sizes[i]
}

// run is a stretch of blocks with one fate. Disks write long stretches at once, so that independent blocks alone would
// hardly ever leave a whole record behind a hole.
type run struct {
	blocks int     // left
	fate   fate    // of each of them
	age    float64 // of an older version, from 0 (the newest of them) to 1
}

type fate int

const (
	fateLost   fate = iota // no unsynced version reached the disk
	fateOlder              // one did that was overwritten later
	fateNewest             // the last one did
)

// next gives the version of the next block, one of versions or the durable one.
func (r *run) next(c *crash, disk *page, versions []*page) *page {
	if r.blocks == 0 {
		r.blocks = [...]int{1, 1, 8, 64, 512}[c.rnd.IntN(5)]
		r.age = c.rnd.Float64()
		switch {
		case c.chance(c.keep.Blocks):
			r.fate = fateNewest
		case c.chance(c.keep.Blocks):
			r.fate = fateOlder
		default:
			r.fate = fateLost
		}
	}
	r.blocks--
	last := len(versions) - 1
	switch {
	case r.fate == fateNewest:
		return versions[last]
	case r.fate == fateOlder && last > 0:
		return versions[last-1-int(r.age*float64(last))]
	}
	return disk
}

// choosePage composes a page of the durable one and the unsynced versions, oldest first, block by block.
func (c *crash) choosePage(luck *run, disk *page, versions []*page) *page {
	out := new(page)
	whole, same := (*page)(nil), true // whole: the version all blocks so far are of
	for at := 0; at < pageSize; at += sectorSize {
		pick := luck.next(c, disk, versions)
		same = same && (at == 0 || pick == whole)
		whole = pick
		block := out[at : at+sectorSize]
		copySector(block, pick, at)
		if pick != disk && c.chance(c.keep.Torn) {
			c.tear(block, disk, at)
			same = false
		}
	}
	if same {
		return whole
	}
	return out
}

// tear puts the old bytes back before or behind a random point of block.
func (c *crash) tear(block []byte, disk *page, at int) {
	var old [sectorSize]byte
	copySector(old[:], disk, at)
	cut := 1 + c.rnd.IntN(sectorSize-1)
	if c.rnd.IntN(2) == 0 {
		copy(block[:cut], old[:cut])
	} else {
		copy(block[cut:], old[cut:])
	}
}

func copySector(block []byte, p *page, at int) {
	if p == nil {
		clear(block)
		return
	}
	copy(block, p[at:])
}
