package controller

// completeReassignment ends a reassignment (KIP-455) once the replicas that it adds are in sync. When it adds
// fewer than it removes, every replica of the target must be: otherwise the partition would be left with
// fewer copies than asked for.
//
// A replica that is to be added and removed is one that a later reassignment did not want any more: nobody waits
// for it. (Kafka does, and such a move ends only when it is cancelled.)
func (c *change) completeReassignment() {
	if len(c.adding) == 0 && len(c.removing) == 0 {
		return
	}
	target := without(c.replicas, c.removing...)
	isr := without(c.isr, c.removing...)
	adding := without(c.adding, c.removing...)
	if len(target) == 0 {
		target = c.replicas
	}
	if len(isr) == 0 || !containsAll(isr, adding) {
		return
	}
	if len(adding) < len(c.removing) && !containsAll(isr, target) {
		return
	}
	c.isr, c.replicas, c.adding, c.removing = isr, target, nil, nil
}
