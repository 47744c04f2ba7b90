package group

import "slices"

// pend notes an id that was handed out.
func (c *classicGroup) pend(id string) {
	if c.pending == nil {
		c.pending = map[string]struct{}{}
	}
	if len(c.handedOut) > 2*len(c.pending)+leastPending {
		c.handedOut = slices.DeleteFunc(c.handedOut, func(id string) bool { return !c.isPending(id) })
	}
	c.pending[id] = struct{}{}
	c.handedOut = append(c.handedOut, id)
	c.idBytes += pendingBytes(id)
}

// unpend drops an id that was handed out, if it was.
func (c *classicGroup) unpend(id string) {
	if c.isPending(id) {
		delete(c.pending, id)
		c.idBytes -= pendingBytes(id)
	}
}

func (c *classicGroup) isPending(id string) bool {
	_, ok := c.pending[id]
	return ok
}

func pendingBytes(id string) int64 { return int64(pendingOverhead + len(id)) }

// makeRoomFor forgets the oldest id that was handed out when the ids of all groups take what they may, unless the group has
// but a few: its client is the one that has had most time to come, and comes again if it is there.
func (t *turn) makeRoomFor(id string) {
	c := t.c
	if len(c.pending) < leastPending || t.m.o.Memory.roomForID(pendingBytes(id)) {
		return
	}
	for i, old := range c.handedOut {
		if c.isPending(old) {
			c.handedOut = c.handedOut[i+1:]
			t.forget(old)
			return
		}
	}
}
