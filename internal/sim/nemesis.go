package sim

import "time"

// trouble makes one fault happen, and the next one later.
func (w *World) trouble() {
	w.after(w.around(w.plan.every), func() {
		if w.calm {
			return
		}
		if on := w.enabled(); len(on) > 0 {
			w.strike(on[w.rnd.IntN(len(on))])
		}
		w.trouble()
	})
}

// enabled lists the faults that strike now and then; the others spoil messages, syncs and so on by themselves.
func (w *World) enabled() []fault {
	var on []fault
	for _, f := range []fault{faultPower, faultTorn, faultKill, faultPause, faultPartition, faultOneWay, faultRate,
		faultJump, faultMembers, faultWipe, faultMove, faultStop} {
		if w.plan.has(f) {
			on = append(on, f)
		}
	}
	return on
}

func (w *World) strike(f fault) {
	m := w.machines[w.rnd.IntN(len(w.machines))]
	switch f {
	case faultPower:
		w.strikePower(m)
	case faultTorn:
		if m.up() {
			m.crashWithin(30)
		}
	case faultKill:
		if m.up() {
			m.kill()
		}
	case faultPause:
		m.paused = w.now + w.around(w.plan.outage)
		w.stats.Pauses++
		w.logf("%d stands still until %s", m.id, m.paused)
	case faultPartition:
		w.strikePartition()
	case faultOneWay:
		w.strikeOneWay(m)
	case faultRate:
		m.clock.set(w.now, int64(500+w.rnd.IntN(1500)), 0)
		w.logf("the clock of %d runs at %d permille", m.id, m.clock.permille)
		w.rewind(m)
	case faultJump:
		jump := w.around([]time.Duration{100 * time.Millisecond, 3 * time.Second, 70 * time.Second}[w.rnd.IntN(3)])
		m.clock.set(w.now, m.clock.permille, jump)
		w.stats.Jumps++
		w.logf("the clock of %d jumps by %s", m.id, jump)
		w.rewind(m)
	case faultMembers:
		w.changeVoters()
	case faultWipe:
		w.wipe(m)
	case faultMove:
		w.move(m)
	case faultStop:
		if b, ok := m.process.(*broker); ok {
			b.stopping = true
			w.logf("%d is asked to stop", m.id)
		}
	}
}

// rewind lets a process hear of the time whose clock has changed.
func (w *World) rewind(m *machine) {
	if m.up() {
		m.after(0, func() {})
	}
}

// strikePower cuts the power of one machine, or of all at once.
func (w *World) strikePower(m *machine) {
	if w.chance(0.15) {
		for _, m := range w.machines {
			if m.up() {
				m.powerCut()
			}
		}
		return
	}
	if m.up() {
		m.powerCut()
	}
}

// strikePartition parts the machines into two groups for a while; at times one of them belongs to both.
func (w *World) strikePartition() {
	side := make([]int, len(w.machines))
	for i := range side {
		side[i] = w.rnd.IntN(2)
	}
	if w.chance(0.2) {
		side[w.rnd.IntN(len(side))] = 2 // the bridge
	}
	w.stats.Cuts++
	w.logf("the network parts: %v", side)
	for i := range side {
		for j := range side {
			w.network.cut[i][j] = side[i] != side[j] && side[i] != 2 && side[j] != 2
		}
	}
	w.mendLater()
}

// strikeOneWay makes a machine deaf or dumb, towards all others or one of them.
func (w *World) strikeOneWay(m *machine) {
	deaf, only := w.chance(0.5), -1
	if w.chance(0.4) {
		only = w.rnd.IntN(len(w.machines))
	}
	i := w.place(m)
	for j := range w.machines {
		switch {
		case j == i || only >= 0 && j != only:
		case deaf:
			w.network.cut[j][i] = true
		default:
			w.network.cut[i][j] = true
		}
	}
	w.stats.Cuts++
	w.logf("%d is cut off one way (deaf: %v, only from %d)", m.id, deaf, only)
	w.mendLater()
}

func (w *World) mendLater() {
	w.after(w.around(w.plan.outage), func() {
		w.network.reset(len(w.machines))
		w.logf("the network is whole")
	})
}

// heal ends all faults.
func (w *World) heal() {
	w.calm = true
	w.network.reset(len(w.machines))
	w.logf("the faults end")
	for _, m := range w.machines {
		m.paused = min(m.paused, w.now)
		w.after(0, m.wake)
		m.disk.CrashAt(0)
		m.clock.set(w.now, 900+w.rnd.Int64N(200), 0)
		if !m.up() && !m.frozen {
			m.start()
		}
		w.rewind(m)
	}
}
