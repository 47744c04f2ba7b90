package controller

// completeReassignment ends a reassignment (KIP-455) once the replicas that it adds are in sync. When it adds
// fewer than it removes, every replica of the target must be: otherwise the partition would be left with
// fewer copies than asked for.
func (c *change) completeReassignment() {
	if len(c.adding) == 0 && len(c.removing) == 0 {
		return
	}
	target := without(c.replicas, c.removing...)
	isr := without(c.isr, c.removing...)
	if len(target) == 0 {
		target = c.replicas
	}
	if len(isr) == 0 || !containsAll(isr, c.adding) {
		return
	}
	if len(c.adding) < len(c.removing) && !containsAll(isr, target) {
		return
	}
	c.isr, c.replicas, c.adding, c.removing = isr, target, nil, nil
}
