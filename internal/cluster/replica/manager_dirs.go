package replica

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
)

// Adopt hands over a log that was opened at start, a live one or a copy in the making. It serves nothing until the image
// claims it.
func (m *Manager) Adopt(l *log.Log) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	tp := l.TopicPartition()
	if l.State() == log.Future {
		m.copies[tp] = append(m.copies[tp], l)
		return nil
	}
	m.counts[l.Dir()]++
	if m.found[tp] != nil {
		m.twins[tp] = append(m.twins[tp], l)
		return nil
	}
	m.found[tp] = l
	return nil
}

// pick gives the log found at start that is to be the replica, nil when none was. dir is where an error comes from.
func (m *Manager) pick(now time.Time, id kafka.UUID, tp kafka.TopicPartition, recorded kafka.UUID) (
	*log.Log, *log.Dir, error) {
	m.mu.Lock()
	if m.broken[tp] {
		m.mu.Unlock()
		return nil, nil, kafka.Errorf(kafka.KafkaStorageError, "the directory of %s could not be opened", tp)
	}
	var all []*log.Log
	if l := m.found[tp]; l != nil {
		all = append(m.twins[tp], l)
	}
	delete(m.found, tp)
	delete(m.twins, tp)
	m.mu.Unlock()
	var best *log.Log
	for _, l := range all {
		if !l.TopicID().IsZero() && l.TopicID() != id {
			if err := m.stray(l); err != nil {
				return nil, l.Dir(), err
			}
			continue
		}
		if best == nil || newer(l, best, recorded) {
			best = l
		}
	}
	for _, l := range all {
		if best == nil || l == best || !l.TopicID().IsZero() && l.TopicID() != id {
			continue
		}
		if err := m.retire(now, l, best, recorded); err != nil {
			return nil, l.Dir(), err
		}
	}
	if best == nil {
		return nil, nil, nil
	}
	return best, best.Dir(), nil
}

// newer says whether of two live logs of one partition, which a crash at the end of a move leaves, l was written last. If
// nothing tells, it is the one that the controller has not heard of yet: the copy was complete.
func newer(l, than *log.Log, recorded kafka.UUID) bool {
	epochOf := func(l *log.Log) kafka.LeaderEpoch {
		latest, _ := l.View().Epochs().Latest()
		return latest.Epoch
	}
	order := cmp.Or(cmp.Compare(epochOf(l), epochOf(than)), cmp.Compare(l.View().End, than.View().End))
	return order > 0 || order == 0 && than.Dir().Meta().DirectoryID == recorded
}

// retire takes a live log out of the way of the one that is used. If it is a beginning of that it is a copy that was about
// to take its place, and becomes one again, or is what was copied, and goes. What is neither is kept for a human.
func (m *Manager) retire(now time.Time, l, used *log.Log, recorded kafka.UUID) error {
	if v := l.View(); commonEnd(used.View(), v) < v.End {
		return m.stray(l)
	}
	m.mu.Lock()
	m.counts[l.Dir()]--
	m.mu.Unlock()
	if used.Dir().Meta().DirectoryID != recorded {
		return l.Dir().Delete(l, m.o.NewUUID(), now)
	}
	if err := l.Dir().Demote(l, m.o.NewUUID()); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.copies[l.TopicPartition()] = append(m.copies[l.TopicPartition()], l)
	return nil
}

func (m *Manager) stray(l *log.Log) error {
	m.mu.Lock()
	m.counts[l.Dir()]--
	m.mu.Unlock()
	return l.Dir().SetStray(l, m.o.NewUUID())
}

// isNamed says whether a directory id is one, and not a word for none.
func isNamed(id kafka.UUID) bool {
	return id != kafka.DirectoryUnassigned && id != kafka.DirectoryMigrating && id != kafka.DirectoryLost
}

// trust judges a log that was found although the controller knows the replica in another directory, which is not online
// here. A crash just before the end of a move leaves that, when the directory with all that was acknowledged fails
// besides. While it may come back the replica waits for it; if it is gone for good, what was found is used as far as it
// goes, and refetched where another replica is in sync. A replica that had given itself up has to be refetched as well.
func (m *Manager) trust(l *log.Log, s *metadata.Partition) error {
	recorded := s.Directory(m.o.Self)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case recorded == kafka.DirectoryLost:
	case !isNamed(recorded), m.online(recorded) != nil:
		return nil
	case m.someOffline():
		m.withheld[l.TopicPartition()] = true
		return kafka.Errorf(kafka.KafkaStorageError, "%s lies in %s, but was last known in log directory %s, which is not online here",
			l.TopicPartition(), l.Dir().Path(), recorded)
	}
	m.lost[l.TopicPartition()] = true
	return nil
}

// online gives the directory with an id if it serves. The caller holds m.mu.
func (m *Manager) online(id kafka.UUID) *log.Dir {
	for _, d := range m.o.Dirs {
		if !m.failed[d] && d.Meta().DirectoryID == id {
			return d
		}
	}
	return nil
}

// someOffline says that a configured directory is offline, and anything might be in it. The caller holds m.mu.
func (m *Manager) someOffline() bool { return m.o.OfflineDirs+len(m.failed) > 0 }

// place chooses the directory of a replica that has no log yet. One that the image puts into a directory which this node
// lacks is lost: an empty replica must never win an election. It is made anew, in the role of a lost one, when the
// directory is gone for good and another replica has all that is committed; else it stays offline. What could be in a
// directory that is offline is not made anew either.
func (m *Manager) place(tp kafka.TopicPartition, s *metadata.Partition, out *Applied) (*log.Dir, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	recorded := s.Directory(m.o.Self)
	offline := kafka.Errorf(kafka.KafkaStorageError, "log directory %s is not online here", recorded)
	named := recorded != kafka.DirectoryUnassigned && recorded != kafka.DirectoryMigrating
	best := m.online(recorded)
	if best == nil && named {
		if m.someOffline() || !othersInSync(s, m.o.Self) {
			return nil, offline
		}
		m.lost[tp] = true
		out.Rebuilt = append(out.Rebuilt, tp)
	}
	if m.someOffline() && recorded == kafka.DirectoryMigrating {
		return nil, offline
	}
	if d := m.wanted[tp]; d != nil && !m.failed[d] {
		best = d
	}
	delete(m.wanted, tp)
	if best == nil {
		best = m.emptiest()
	}
	if best == nil {
		return nil, offline
	}
	return best, nil
}

// emptiest gives the directory with the fewest replicas that serves. The caller holds m.mu.
func (m *Manager) emptiest() (best *log.Dir) {
	for _, d := range m.o.Dirs {
		if !m.failed[d] && (best == nil || m.counts[d] < m.counts[best]) {
			best = d
		}
	}
	return best
}

// revivable says whether a replica that is offline for want of its directory can be made anew by now: another one has
// come in sync, or an operator has given it up.
func (m *Manager) revivable(p *Partition, s *metadata.Partition) bool {
	if p.Role() != Offline {
		return false
	}
	recorded, l := s.Directory(m.o.Self), p.Log()
	m.mu.RLock()
	defer m.mu.RUnlock()
	if l != nil && !(recorded == kafka.DirectoryUnassigned && m.failed[l.Dir()]) {
		return false
	}
	if m.broken[p.tp] || m.withheld[p.tp] || slices.Contains(m.unmade, p) {
		return false
	}
	if recorded == kafka.DirectoryUnassigned {
		return m.emptiest() != nil
	}
	return !m.someOffline() && (recorded == kafka.DirectoryLost || isNamed(recorded)) && othersInSync(s, m.o.Self)
}

// GiveUp gives a replica up whose directory is full, and gives what to tell the controller; false: nothing, because it is
// not in sync, or nobody else could lead at once. It comes back once it has caught up and there is space.
func (m *Manager) GiveUp(image *metadata.Image, p *Partition) (DirReport, bool) {
	s, ok := image.Partition(p.tp)
	if !ok || !slices.Contains(s.ISR, m.o.Self) || !othersServe(image, s, m.o.Self) || s.Directory(m.o.Self) == kafka.DirectoryLost {
		return DirReport{}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = true
	return DirReport{TopicID: p.topicID, Partition: p.tp.Partition, Directory: kafka.DirectoryLost}, true
}

// Keep takes back that a replica was given up for want of space, where the controller did not hear of it or would not.
func (m *Manager) Keep(image *metadata.Image, p *Partition) {
	m.mu.RLock()
	lost := m.lost[p.tp]
	m.mu.RUnlock()
	if s, ok := image.Partition(p.tp); !ok || lost || s.Directory(m.o.Self) == kafka.DirectoryLost {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.role == Leader {
		p.lost = false
	}
}

// Want says in which directory a replica is to be made when this node is given it (KIP-113).
func (m *Manager) Want(tp kafka.TopicPartition, d *log.Dir) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.byName[tp]; !ok {
		m.wanted[tp] = d
	}
}

// IsOnline says whether a directory serves.
func (m *Manager) IsOnline(d *log.Dir) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return !m.failed[d]
}

// StartMove begins to move a replica to another directory. Only one move of a replica may be under way.
//
// Errors: KafkaStorageError when the replica is offline or any directory is, as in Kafka, since the copy of an earlier move
// may be in that one; else the disk's.
func (m *Manager) StartMove(now time.Time, p *Partition, to *log.Dir) (*Move, error) {
	m.mu.RLock()
	offline := m.someOffline()
	m.mu.RUnlock()
	from := p.Log()
	if from == nil || offline || p.Role() == Offline {
		return nil, kafka.Errorf(kafka.KafkaStorageError, "%s cannot be moved while it, or a log directory, is offline", p.tp)
	}
	copied, err := to.Create(p.tp, from.Config(), log.CreateOptions{TopicID: p.topicID, State: log.Future, Unique: m.o.NewUUID()}, now)
	if err != nil {
		return nil, &MoveError{Dir: to, Err: err}
	}
	x := &Move{m: m, p: p, from: from, to: copied}
	p.move.Store(x)
	return x, nil
}

// resumeMoves goes on with the moves whose copies were found.
func (m *Manager) resumeMoves(now time.Time, out *Applied) {
	m.mu.Lock()
	copies := m.copies
	m.copies = make(map[kafka.TopicPartition][]*log.Log)
	m.mu.Unlock()
	for _, tp := range slices.SortedFunc(maps.Keys(copies), func(a, b kafka.TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	}) {
		for _, l := range copies[tp] {
			if err := m.resumeMove(now, l, out); err != nil {
				out.Failed = append(out.Failed, Failure{tp, err})
			}
		}
	}
}

func (m *Manager) resumeMove(now time.Time, l *log.Log, out *Applied) error {
	p, err := m.Get(l.TopicPartition())
	switch {
	case err != nil:
		return l.Dir().SetStray(l, m.o.NewUUID())
	case p.Role() == Offline:
		return nil // for a start that finds the replica as well
	case p.Move() != nil, p.Log().Dir() == l.Dir(), l.TopicID() != p.topicID:
		return l.Dir().Delete(l, m.o.NewUUID(), now) // of nothing that is
	}
	l.SetConfig(p.Log().Config())
	x := &Move{m: m, p: p, from: p.Log(), to: l}
	p.move.Store(x)
	out.Resumed = append(out.Resumed, x)
	return nil
}
