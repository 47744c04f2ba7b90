package sim

import "time"

// network carries messages between machines, late, out of order, twice or not at all.
type network struct {
	// cut says of pairs, from and to, that nothing passes. It is indexed by the machines' places.
	cut [][]bool
}

func (n *network) reset(size int) {
	n.cut = make([][]bool, size)
	for i := range n.cut {
		n.cut[i] = make([]bool, size)
	}
}

func (w *World) place(m *machine) int {
	for i, other := range w.machines {
		if other == m {
			return i
		}
	}
	return -1
}

func (w *World) passes(from, to *machine) bool { return !w.network.cut[w.place(from)][w.place(to)] }

// latency draws how long a message takes.
func (w *World) latency() time.Duration {
	d := w.plan.latency/2 + w.around(w.plan.latency/2)
	if w.plan.has(faultSlowNet) && !w.calm && w.chance(0.02) {
		d += w.around(w.plan.latency * 400)
	}
	return d
}

// send carries a message that deliver hands to the process that runs on the receiver when it arrives, or to the one
// with the given life (0: whichever). broken tells the sender that the connection broke; it may never learn.
func (w *World) send(from, to *machine, life int, deliver, broken func()) {
	w.stats.Messages++
	lost := !w.passes(from, to) || !w.calm && w.plan.has(faultDrop) && w.chance(w.plan.drop)
	if lost {
		w.lose(from, broken)
		return
	}
	w.carry(from, to, life, deliver, broken)
	if !w.calm && life == 0 && w.plan.has(faultDuplicate) && w.chance(0.02) {
		w.carry(from, to, life, deliver, nil)
	}
}

func (w *World) carry(from, to *machine, life int, deliver, broken func()) {
	sender := from.life
	w.after(w.latency(), func() {
		switch {
		case !w.passes(from, to) || !to.up() || life != 0 && to.life != life:
			if from.life == sender {
				w.lose(from, broken)
			}
		default:
			to.happen(to.life, deliver)
		}
	})
}

// lose lets the sender hear that its message was lost, or leaves it to wait.
func (w *World) lose(from *machine, broken func()) {
	w.stats.Lost++
	if broken != nil && from.up() && w.chance(0.6) {
		from.after(w.latency(), broken)
	}
}
