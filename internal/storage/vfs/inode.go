package vfs

import (
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// pageSize is the unit of the page cache: what is dirty, clean or evicted together.
	pageSize = 4096
	// sectorSize is the unit of the disk: what a power cut keeps or loses together, unless it tears it.
	sectorSize = 512
	// maxFileSize bounds the page table of one file.
	maxFileSize = 1 << 36
	// maxOlder and maxSizes bound what is remembered of a file between two syncs, for overwrites and truncations; the
	// newest are kept. Appends need no memory: every prefix of them is a possible outcome anyway.
	maxOlder = 8
	maxSizes = 16
	// maxArena is how many pages a long write allocates at once.
	maxArena = 64
)

type page [pageSize]byte

// slot is one page of a file: cur as a reader sees it through the page cache, disk as a power cut leaves it for sure.
// A nil page is a hole and reads as zeros. Equal pointers: nothing to lose. A page that differs and is not dirty is
// lost: its write-back failed, no later sync writes it, and eviction or a crash brings the disk's page back.
type slot struct {
	cur, disk *page
	flags     uint8
}

const (
	slotShared uint8 = 1 << iota // cur is also seen elsewhere (disk, an older version, a clone): copy before writing
	slotDirty                    // the next sync writes cur to the disk
	slotAlloc                    // counted in the disk's use
)

// inode is a file or a directory. A file's fields are guarded by mu; a directory's and links by Mem.mu.
type inode struct {
	dir *directory // nil: a file

	links int          // names in the directory tree; guarded by Mem.mu
	opens atomic.Int32 // open handles

	mu              sync.RWMutex
	size, diskSize  int64
	mtime, diskTime time.Time
	sizes           []int64 // turns that the size took since diskSize, the last is size; empty: nothing pending
	slots           []slot
	dirty           []int           // indexes of the dirty slots
	older           map[int][]*page // of dirty slots: unsynced versions before cur, oldest first
	pages           int64           // slots counted in the disk's use
	listed          bool            // in Mem.dirtyFiles
	errSeq          uint64          // failed write-backs so far
	errSeen         uint64          // the newest of them that somebody was told
}

// readAt copies what is there; short at the end. n.mu is held for reading.
func (n *inode) readAt(p []byte, off int64) int {
	if off >= n.size {
		return 0
	}
	p = p[:min(int64(len(p)), n.size-off)]
	for done := 0; done < len(p); {
		at := off + int64(done)
		i, in := int(at/pageSize), int(at%pageSize)
		chunk := p[done:min(len(p), done+pageSize-in)]
		if i < len(n.slots) && n.slots[i].cur != nil {
			copy(chunk, n.slots[i].cur[in:])
		} else {
			clear(chunk)
		}
		done += len(chunk)
	}
	return len(p)
}

// writeAt puts p into the page cache, as far as the disk has room. n.mu is held.
func (n *inode) writeAt(room *space, p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if off < 0 {
		return 0, syscall.EINVAL
	}
	if off > maxFileSize-int64(len(p)) {
		return 0, syscall.EFBIG
	}
	n.grow(int((off+int64(len(p))-1)/pageSize) + 1)
	p, err := n.reserve(room, p, off)
	existed := n.reach()
	var arena []page
	for done := 0; done < len(p); {
		at := off + int64(done)
		i, in := int(at/pageSize), int(at%pageSize)
		chunk := p[done:min(len(p), done+pageSize-in)]
		if len(arena) == 0 && n.needsPage(i, at < existed) {
			arena = make([]page, min(maxArena, (len(p)-done+in+pageSize-1)/pageSize))
		}
		copy(n.writable(i, at < existed, &arena)[in:], chunk)
		done += len(chunk)
	}
	if end := off + int64(len(p)); len(p) > 0 && end > n.size {
		n.setSize(end)
	}
	return len(p), err
}

// reach is the largest size since the last sync: bytes below it may be on the disk in another version.
func (n *inode) reach() int64 {
	reach := max(n.size, n.diskSize)
	for _, size := range n.sizes {
		reach = max(reach, size)
	}
	return reach
}

// reserve takes disk space for the pages that p touches first and cuts p where the disk is full.
func (n *inode) reserve(room *space, p []byte, off int64) ([]byte, error) {
	last := int((off + int64(len(p)) - 1) / pageSize)
	for i := int(off / pageSize); i <= last; i++ {
		s := &n.slots[i]
		if s.flags&slotAlloc != 0 {
			continue
		}
		if !room.take() {
			return p[:max(0, int64(i)*pageSize-off)], syscall.ENOSPC
		}
		s.flags |= slotAlloc
		n.pages++
	}
	return p, nil
}

func (n *inode) grow(slots int) {
	if more := slots - len(n.slots); more > 0 {
		n.slots = slices.Grow(n.slots, more)[:slots]
	}
}

// needsPage says whether writing slot i needs a page of its own; overwrites: some of the bytes existed before.
func (n *inode) needsPage(i int, overwrites bool) bool {
	s := &n.slots[i]
	return s.cur == nil || s.flags&slotShared != 0 || s.flags&slotDirty != 0 && overwrites
}

// writable gives slot i's page for writing and marks it dirty. An unsynced version that is overwritten is kept: it may
// have reached the disk before.
func (n *inode) writable(i int, overwrites bool, arena *[]page) *page {
	if !n.needsPage(i, overwrites) {
		n.markDirty(i)
		return n.slots[i].cur
	}
	s := &n.slots[i]
	if s.flags&slotDirty != 0 && (overwrites || s.cur == nil) {
		n.keepVersion(i)
	}
	if len(*arena) == 0 {
		*arena = make([]page, 1)
	}
	fresh := &(*arena)[0]
	*arena = (*arena)[1:]
	if s.cur != nil {
		*fresh = *s.cur
	}
	s.cur = fresh
	s.flags &^= slotShared
	n.markDirty(i)
	return fresh
}

func (n *inode) markDirty(i int) {
	if n.slots[i].flags&slotDirty == 0 {
		n.slots[i].flags |= slotDirty
		n.dirty = append(n.dirty, i)
	}
}

// keepVersion remembers dirty slot i's page as it is, which must not be written any more.
func (n *inode) keepVersion(i int) {
	if n.older == nil {
		n.older = map[int][]*page{}
	}
	versions := n.older[i]
	if len(versions) == maxOlder {
		versions = slices.Delete(versions, 0, 1)
	}
	n.older[i] = append(versions, n.slots[i].cur)
	n.slots[i].flags |= slotShared
}

// setSize records a new size. A run of appends is one entry: any size on its way is possible after a crash.
func (n *inode) setSize(size int64) {
	if size == n.size {
		return
	}
	grows := size > n.size
	before := n.diskSize
	if len(n.sizes) > 1 {
		before = n.sizes[len(n.sizes)-2]
	}
	if last := len(n.sizes) - 1; last >= 0 && grows && n.sizes[last] > before {
		n.sizes[last] = size
	} else {
		if len(n.sizes) == maxSizes {
			n.sizes = slices.Delete(n.sizes, 0, 1)
		}
		n.sizes = append(n.sizes, size)
	}
	n.size = size
}

// truncate cuts or extends the file in the page cache. n.mu is held.
func (n *inode) truncate(room *space, size int64) error {
	switch {
	case size < 0:
		return syscall.EINVAL
	case size > maxFileSize:
		return syscall.EFBIG
	}
	keep := int((size + pageSize - 1) / pageSize)
	for i := keep; i < len(n.slots); i++ {
		n.punch(room, i)
	}
	if in := size % pageSize; in != 0 && size < n.size && keep-1 < len(n.slots) && n.slots[keep-1].cur != nil {
		clear(n.writable(keep-1, true, new([]page))[in:])
	}
	n.setSize(size)
	return nil
}

// punch turns slot i into a hole. Until the next sync the disk may still hold what was there.
func (n *inode) punch(room *space, i int) {
	s := &n.slots[i]
	if s.flags&slotAlloc != 0 {
		s.flags &^= slotAlloc
		n.pages--
		room.give(1)
	}
	if s.cur == nil && s.disk == nil && s.flags&slotDirty == 0 {
		return
	}
	if s.flags&slotDirty != 0 {
		n.keepVersion(i)
	}
	s.cur = nil
	n.markDirty(i)
}

// writeBack makes the contents and the size durable. n.mu is held.
func (n *inode) writeBack() {
	for _, i := range n.dirty {
		s := &n.slots[i]
		s.disk = s.cur
		s.flags = s.flags&^slotDirty | slotShared
	}
	n.dirty = n.dirty[:0]
	n.older = nil
	for last := len(n.slots) - 1; last >= 0; last-- {
		s := &n.slots[last]
		if s.cur != nil || s.disk != nil || s.flags&slotAlloc != 0 {
			break
		}
		*s = slot{} // grow shows it again
		n.slots = n.slots[:last]
	}
	n.diskSize, n.sizes = n.size, nil
	n.diskTime = n.mtime
}

// failWriteBack is a write-back that failed, as kernels do it: the pages are clean and wrong. A truncation is a change
// of the inode, not of pages, and stays pending, as does the size. It says whether there was anything to lose.
func (n *inode) failWriteBack() bool {
	holes := n.dirty[:0]
	lost := false
	for _, i := range n.dirty {
		s := &n.slots[i]
		if s.cur == nil {
			holes = append(holes, i)
			continue
		}
		s.flags &^= slotDirty
		delete(n.older, i)
		lost = true
	}
	n.dirty = holes
	if lost {
		n.errSeq++
	}
	return lost
}

// evict forgets the clean pages, so that reads show the disk's. n.mu is held.
func (n *inode) evict() {
	for i := range n.slots {
		s := &n.slots[i]
		if s.flags&slotDirty != 0 || s.cur == s.disk {
			continue
		}
		s.cur = cutPage(s.disk, n.size-int64(i)*pageSize)
		s.flags |= slotShared
	}
}

// cutPage gives p with zeros from byte length on; p itself if nothing has to change, because pages are shared.
func cutPage(p *page, length int64) *page {
	if p == nil || length <= 0 {
		return nil
	}
	if length >= pageSize || isZero(p[length:]) {
		return p
	}
	cut := new(page)
	copy(cut[:length], p[:])
	return cut
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// space is the room on a Mem's disk, in pages.
type space struct {
	capacity atomic.Int64 // bytes; 0: no limit
	used     atomic.Int64 // pages
}

func (s *space) take() bool {
	used := s.used.Add(1)
	if limit := s.capacity.Load(); limit > 0 && used > limit/pageSize {
		s.used.Add(-1)
		return false
	}
	return true
}

func (s *space) give(pages int64) { s.used.Add(-pages) }

func (s *space) free() int64 {
	limit := s.capacity.Load()
	if limit <= 0 {
		return unlimitedFree
	}
	return max(0, limit/pageSize-s.used.Load()) * pageSize
}

func (s *space) total() int64 {
	if limit := s.capacity.Load(); limit > 0 {
		return limit
	}
	return unlimitedFree
}

// scramble spreads the bits of a counter (the finalizer of MurmurHash3), to cut things at places that differ from call
// to call and are the same in every run.
func scramble(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
