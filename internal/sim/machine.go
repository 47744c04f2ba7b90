package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"moldau/internal/cluster/quorum"
	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// machine is what a process runs on. Its disk outlives the process, and so does its clock.
type machine struct {
	world *World
	id    kafka.NodeID
	disk  *vfs.Mem
	clock clock
	// life counts the processes that ran here; what belongs to an earlier one is void.
	life    int
	process process // nil while down
	paused  time.Duration
	waiting []func() // what happens once it is paused no more
	frozen  bool     // down for good: part of the minority that the end of a run does without
	boot    func(m *machine) (process, error)
	member  *quorum.Config    // of its replica of the metadata log; another disk changes it
	epoch   kafka.LeaderEpoch // the newest that its replica has shown
	// vouched is the last incarnation of a broker that ran here, all of whose acknowledgements are on this disk.
	vouched kafka.UUID
}

// voter is the machine's replica of the metadata log. The machine is up.
func (m *machine) voter() *voter { return m.process.(member).member() }

// process is what runs on a machine.
type process interface {
	// turn is called after everything that happens to the process: it carries on whatever that has set off.
	turn()
	// failed says why the process cannot go on, nil while it can.
	failed() error
	describe() string
}

// host is the name under which others find the machine.
func (m *machine) host() string { return fmt.Sprintf("node%d", m.id) }

func (m *machine) up() bool { return m.process != nil }

func (m *machine) describe() string {
	if !m.up() {
		return fmt.Sprintf("%d: down", m.id)
	}
	return fmt.Sprintf("%d: %s", m.id, m.process.describe())
}

// time is what the machine's own clock says.
func (m *machine) time() time.Time { return m.clock.at(m.world.now) }

// after makes something happen to the process that runs now, unless that has ended by then. A machine that is paused
// finds everything waiting when it goes on.
func (m *machine) after(d time.Duration, do func()) {
	life := m.life
	m.world.after(d, func() { m.happen(life, do) })
}

func (m *machine) happen(life int, do func()) {
	if m.life != life || !m.up() {
		return
	}
	if m.paused > m.world.now {
		if len(m.waiting) == 0 {
			m.world.after(m.paused-m.world.now, m.wake)
		}
		m.waiting = append(m.waiting, func() { m.happen(life, do) })
		return
	}
	m.step(do)
}

// wake lets happen what has waited for the end of a pause, if no other one has begun meanwhile.
func (m *machine) wake() {
	if len(m.waiting) > 0 && m.paused > m.world.now {
		m.world.after(m.paused-m.world.now, m.wake)
		return
	}
	waiting := m.waiting
	m.waiting = nil
	for _, do := range waiting {
		do()
	}
}

// step lets something happen to the process, and what follows from it, and looks at the result.
func (m *machine) step(do func()) {
	do()
	if m.up() && !m.disk.Crashed() {
		m.process.turn()
	}
	m.outlive()
	if m.up() && m.world.failure == nil {
		m.world.quorum.check(m.voter())
		if b, ok := m.process.(*broker); ok {
			m.world.partitions.check(b)
		}
	}
}

// outlive notices that the process did not survive what happened: the power went inside a call, or it stopped itself.
func (m *machine) outlive() {
	if !m.up() {
		return
	}
	if m.disk.Crashed() {
		m.powerCut()
		return
	}
	if err := m.process.failed(); err != nil {
		m.fail("stopped: %v", err)
	}
}

// fail records a violation by the process. What it does after its power has gone means nothing.
func (m *machine) fail(format string, args ...any) {
	if !m.disk.Crashed() {
		m.world.fail("node %d: %s", m.id, fmt.Sprintf(format, args...))
	}
}

// powerCut ends the process and keeps of what was not synced what luck decides.
func (m *machine) powerCut() {
	w := m.world
	m.end()
	m.disk.Crash()
	m.disk = m.disk.CrashClone(w.rnd, vfs.KeepSome(w.rnd))
	w.stats.Crashes++
	w.logf("%d loses power", m.id)
	m.restartLater()
}

// kill ends the process; what it wrote stays in the page cache.
func (m *machine) kill() {
	w := m.world
	m.end()
	left := m.disk.KillClone()
	m.disk.Crash() // nothing that was under way reaches the disk any more
	m.disk = left
	w.stats.Crashes++
	w.logf("%d is killed", m.id)
	m.restartLater()
}

func (m *machine) end() {
	m.process, m.paused, m.waiting = nil, 0, nil
	m.life++
}

// restartLater boots the machine after a while.
func (m *machine) restartLater() {
	w := m.world
	life := m.life
	w.after(w.around(w.plan.downtime), func() {
		if m.life == life && !m.up() && !m.frozen {
			m.start()
		}
	})
}

// start boots a process from the disk. The power may go while it starts.
func (m *machine) start() {
	w := m.world
	m.life++
	if w.plan.has(faultTorn) && !w.calm && w.chance(0.1) {
		m.crashWithin(60)
	}
	p, err := m.boot(m)
	switch {
	case m.disk.Crashed():
		m.powerCut()
	case err != nil:
		w.fail("node %d does not start: %v", m.id, err)
	default:
		m.process = p
		w.stats.Restarted++
		w.logf("%d starts: %s", m.id, p.describe())
		m.step(func() {})
	}
}

// crashWithin lets the power go inside one of the next calls of the disk.
func (m *machine) crashWithin(calls int) {
	m.disk.CrashAt(m.disk.Calls() + 1 + m.world.rnd.Int64N(int64(calls)))
}

// random gives a source of the process's own, so that what it draws does not depend on others.
func (m *machine) random() *rand.Rand {
	return rand.New(rand.NewPCG(m.world.rnd.Uint64(), uint64(m.id)))
}

// clock runs at a rate of its own and jumps.
type clock struct {
	start    time.Time
	since    time.Duration // of the world, when it was set the last time
	permille int64         // of true speed
}

func (c *clock) at(now time.Duration) time.Time {
	return c.start.Add((now - c.since) / 1000 * time.Duration(c.permille))
}

// set changes the rate and moves the hands forward.
func (c *clock) set(now time.Duration, permille int64, jump time.Duration) {
	c.start, c.since, c.permille = c.at(now).Add(jump), now, permille
}

// until says how long it takes in true time until the clock shows t.
func (c *clock) until(now time.Duration, t time.Time) time.Duration {
	left := t.Sub(c.at(now))
	if left <= 0 {
		return 0
	}
	return (left/time.Duration(c.permille) + 1) * 1000
}
