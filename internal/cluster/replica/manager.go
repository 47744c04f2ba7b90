package replica

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

// ManagerOptions are what a Manager depends on.
type ManagerOptions struct {
	Self kafka.NodeID
	// Dirs are the log directories that opened, in the order of the configuration.
	Dirs []*log.Dir
	// OfflineDirs is the number of configured directories that could not be opened: while there is one, a replica that
	// is not found may be in it and is never created anew.
	OfflineDirs int
	Limits      Limits
	// Config resolves a topic's configuration.
	Config func(image *metadata.Image, topic string) *log.Config
	// NewUUID draws the unique ids of directories that are put aside.
	NewUUID func() kafka.UUID
	// Rotten is told of stored batches whose checksum is wrong.
	Rotten func(tp kafka.TopicPartition, from kafka.Offset)
}

// Manager owns the replicas of one node: it makes what the metadata image says true in the log directories. Looking
// partitions up takes a read lock only.
type Manager struct {
	o ManagerOptions

	mu     sync.RWMutex
	byName map[kafka.TopicPartition]*Partition
	byID   map[partitionID]*Partition
	found  map[kafka.TopicPartition]*log.Log   // opened at start and not claimed by the image yet
	twins  map[kafka.TopicPartition][]*log.Log // those beside found, of moves that a crash interrupted
	copies map[kafka.TopicPartition][]*log.Log // future ones that were found
	// withheld were found, and may be less than what is in a directory that is offline.
	withheld map[kafka.TopicPartition]bool
	wanted   map[kafka.TopicPartition]*log.Dir // where replicas that do not exist yet are to be
	broken   map[kafka.TopicPartition]bool     // has a directory that could not be opened
	lost     map[kafka.TopicPartition]bool     // recovery found less than was durable or committed
	failed   map[*log.Dir]bool
	counts   map[*log.Dir]int
	unmade   []*Partition // for lack of space
	image    *metadata.Image

	newest atomic.Pointer[metadata.Image] // for partitions, which must not take mu
}

type partitionID struct {
	topic     kafka.UUID
	partition int32
}

// NewManager makes a Manager without partitions.
func NewManager(o ManagerOptions) *Manager {
	m := &Manager{o: o, byName: make(map[kafka.TopicPartition]*Partition), byID: make(map[partitionID]*Partition),
		found: make(map[kafka.TopicPartition]*log.Log), broken: make(map[kafka.TopicPartition]bool),
		lost: make(map[kafka.TopicPartition]bool), failed: make(map[*log.Dir]bool), counts: make(map[*log.Dir]int),
		twins: make(map[kafka.TopicPartition][]*log.Log), copies: make(map[kafka.TopicPartition][]*log.Log),
		wanted: make(map[kafka.TopicPartition]*log.Dir), withheld: make(map[kafka.TopicPartition]bool),
		image: metadata.New()}
	m.newest.Store(m.image)
	m.o.Limits.eligible = func(id kafka.NodeID) (kafka.BrokerEpoch, bool) { return eligible(m.newest.Load())(id) }
	return m
}

// Broken tells of a partition whose log could not be opened or turned out to be damaged. It is offline and never made
// anew, in no directory: an empty replica must never win an election.
func (m *Manager) Broken(tp kafka.TopicPartition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken[tp] = true
}

// Lost tells of a partition whose recovery cut records off that were on the disk or committed once. Another in-sync
// replica must lead it, and this one does not say where it lies before it has fetched them again.
func (m *Manager) Lost(tp kafka.TopicPartition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost[tp] = true
}

// Intact says that every log of a directory could be opened and is still whole. One that is not must be recovered by the
// next start, so the directory must not be marked as closed in order.
func (m *Manager) Intact(d *log.Dir) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return !m.failed[d] && len(m.broken) == 0
}

// Get finds a partition by name; UnknownTopicOrPartition when this node has no replica of it.
func (m *Manager) Get(tp kafka.TopicPartition) (*Partition, error) {
	m.mu.RLock()
	p := m.byName[tp]
	m.mu.RUnlock()
	if p == nil {
		return nil, kafka.UnknownTopicOrPartition
	}
	return p, nil
}

// GetByID finds a partition by topic id; UnknownTopicID when this node has no replica of it.
func (m *Manager) GetByID(topic kafka.UUID, partition int32) (*Partition, error) {
	m.mu.RLock()
	p := m.byID[partitionID{topic, partition}]
	m.mu.RUnlock()
	if p == nil {
		return nil, kafka.UnknownTopicID
	}
	return p, nil
}

// All lists the replicas by topic and partition.
func (m *Manager) All() []*Partition {
	m.mu.RLock()
	out := slices.Collect(maps.Values(m.byName))
	m.mu.RUnlock()
	slices.SortFunc(out, func(a, b *Partition) int {
		return cmp.Or(cmp.Compare(a.tp.Topic, b.tp.Topic), cmp.Compare(a.tp.Partition, b.tp.Partition))
	})
	return out
}

// Len is the number of replicas.
func (m *Manager) Len() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.byName)
}

// DirReport is where the image thinks a replica lies and where it does.
type DirReport struct {
	TopicID   kafka.UUID
	Partition int32
	Directory kafka.UUID
}

// Applied is what an Apply did and could not do.
type Applied struct {
	// Directories are replicas whose directory the controller does not know yet (AssignReplicasToDirs), among them with
	// kafka.DirectoryLost those that are damaged while others are in sync.
	Directories []DirReport
	// Kept are replicas that lost records, and serve what they have because nobody else is in sync.
	Kept []kafka.TopicPartition
	// Resumed are moves between log directories that an earlier run began.
	Resumed []*Move
	// Emptied are replicas that begin anew with nothing, because an operator had them elected without their log.
	Emptied []kafka.TopicPartition
	// Rebuilt are replicas whose log directory is gone, and that are copied from their leaders anew.
	Rebuilt []kafka.TopicPartition
	Created int
	Deleted int
	// Failed names partitions that could not be created or deleted, and why.
	Failed []Failure
}

// Failure is one partition that could not be made what the image says.
type Failure struct {
	Partition kafka.TopicPartition
	Err       error
}

// Apply makes the replicas what image says, given what changed since the last call. Leading and following begin only when
// active is true: while a node replays old metadata at start it must not take up roles it had long ago. It runs effects
// on host itself and must not be called concurrently.
func (m *Manager) Apply(now time.Time, image *metadata.Image, diff *metadata.Diff, active bool, host Host) Applied {
	var out Applied
	m.newest.Store(image)
	for change := range diff.Topics() {
		for index, c := range change.Partitions() {
			tp := kafka.TopicPartition{Topic: change.Name(), Partition: index}
			if c.Old != nil && (c.New == nil || !slices.Contains(c.New.Replicas, m.o.Self)) {
				m.remove(now, tp, change.ID, host, &out)
			}
			if active && c.New != nil && slices.Contains(c.New.Replicas, m.o.Self) {
				m.ensure(now, image, change.New, index, c.New, host, &out)
			}
		}
	}
	m.reconfigure(now, image, diff, host)
	m.mu.Lock()
	m.image = image
	m.mu.Unlock()
	return out
}

// Activate takes up the roles that image gives this node, once it has replayed its own registration; then logs that were
// found and are in nobody's topic become stray.
func (m *Manager) Activate(now time.Time, image *metadata.Image, host Host) Applied {
	var out Applied
	m.newest.Store(image)
	for ref := range image.ReplicasOn(m.o.Self) {
		m.ensure(now, image, ref.Topic, ref.Index, ref.Partition, host, &out)
	}
	m.putStraysAside(&out)
	m.resumeMoves(now, &out)
	return out
}

// ensure opens or creates the replica and gives it its role.
func (m *Manager) ensure(now time.Time, image *metadata.Image, t *metadata.Topic, index int32, s *metadata.Partition,
	host Host, out *Applied) {
	tp := kafka.TopicPartition{Topic: t.Name, Partition: index}
	p, err := m.Get(tp)
	if err == nil && p.topicID != t.ID {
		m.remove(now, tp, p.topicID, host, out)
		err = kafka.UnknownTopicOrPartition
	}
	if err == nil && m.revivable(p, s) {
		m.drop(p)
		e := p.Remove()
		e.Run(host)
		err = kafka.UnknownTopicOrPartition
	}
	opened := err != nil
	if opened {
		var dir *log.Dir
		if p, dir, err = m.open(now, image, t, tp, s, out); err != nil {
			out.Failed = append(out.Failed, Failure{tp, err})
			m.noteUnmade(p, err)
		}
		if dir != nil && vfs.IsDiskFailure(err) {
			host.DirFailed(dir, err)
		}
	}
	e := p.Assign(now, Assignment{State: s, Eligible: eligible(image)})
	e.Run(host)
	m.reportDirectory(image, p, s, opened, out)
}

// reportDirectory says where a replica lies if the controller thinks otherwise.
func (m *Manager) reportDirectory(image *metadata.Image, p *Partition, s *metadata.Partition, opened bool, out *Applied) {
	m.mu.RLock()
	lost, broken := m.lost[p.tp], m.broken[p.tp]
	m.mu.RUnlock()
	again, rotten := p.damage()
	id := kafka.DirectoryLost
	if l := p.Log(); !((lost || again || broken) && othersInSync(s, m.o.Self) || rotten && (othersServe(image, s, m.o.Self) || s.Directory(m.o.Self) == id)) {
		if l == nil || p.Role() == Offline {
			return
		}
		id = l.Dir().Meta().DirectoryID
		if lost && opened {
			out.Kept = append(out.Kept, p.tp)
		}
	}
	if s.Directory(m.o.Self) != id {
		out.Directories = append(out.Directories, DirReport{TopicID: p.topicID, Partition: p.tp.Partition, Directory: id})
	}
}

// LostReport is what to tell the controller of a replica whose log broke while it served; false: nothing, because nobody
// else could lead.
func (m *Manager) LostReport(image *metadata.Image, p *Partition) (DirReport, bool) {
	s, ok := image.Partition(p.tp)
	if !ok || !othersInSync(s, m.o.Self) {
		return DirReport{}, false
	}
	return DirReport{TopicID: p.topicID, Partition: p.tp.Partition, Directory: kafka.DirectoryLost}, true
}

// Regained tells that a lost replica has all that is committed again, and gives what to tell the controller; false:
// nothing, because it never believed otherwise.
func (m *Manager) Regained(image *metadata.Image, p *Partition) (DirReport, bool) {
	m.mu.Lock()
	delete(m.lost, p.tp)
	m.mu.Unlock()
	s, ok := image.Partition(p.tp)
	l := p.Log()
	if !ok || l == nil || p.Role() == Offline {
		return DirReport{}, false
	}
	id := l.Dir().Meta().DirectoryID
	return DirReport{TopicID: p.topicID, Partition: p.tp.Partition, Directory: id}, s.Directory(m.o.Self) != id
}

// Where gives what to tell the controller of where a replica lies; false: nothing, because it knows, or the replica has
// given itself up.
func (m *Manager) Where(image *metadata.Image, p *Partition) (DirReport, bool) {
	m.mu.RLock()
	lost := m.lost[p.tp] || m.broken[p.tp]
	m.mu.RUnlock()
	again, rotten := p.damage()
	lost = lost || again || rotten
	s, ok := image.Partition(p.tp)
	l := p.Log()
	if !ok || lost || l == nil || p.Role() == Offline {
		return DirReport{}, false
	}
	id := l.Dir().Meta().DirectoryID
	return DirReport{TopicID: p.topicID, Partition: p.tp.Partition, Directory: id}, s.Directory(m.o.Self) != id
}

// othersInSync says whether another replica could lead without losing what is committed (KIP-966).
func othersInSync(s *metadata.Partition, self kafka.NodeID) bool {
	other := func(id kafka.NodeID) bool { return id != self }
	return slices.ContainsFunc(s.ISR, other) || slices.ContainsFunc(s.ELR, other)
}

// eligible says who may be in an in-sync set as far as an image knows.
func eligible(image *metadata.Image) func(kafka.NodeID) (kafka.BrokerEpoch, bool) {
	return func(id kafka.NodeID) (kafka.BrokerEpoch, bool) {
		b, ok := image.Broker(id)
		if !ok || !b.Active() {
			return -1, false
		}
		return b.Epoch, true
	}
}

// open makes a Partition from the log found at start, or from a new one. dir is where it lies or was to lie, nil if that
// is nowhere.
func (m *Manager) open(now time.Time, image *metadata.Image, t *metadata.Topic, tp kafka.TopicPartition,
	s *metadata.Partition, out *Applied) (*Partition, *log.Dir, error) {
	c := m.o.Config(image, t.Name)
	l, dir, err := m.claim(now, t.ID, tp, c, s, out)
	if err != nil {
		return m.add(newPartition(m.o.Self, tp, t.ID, nil, 0, &m.o.Limits), nil), dir, err
	}
	hw, ok := l.Dir().HighWatermark(tp)
	if !ok {
		hw = l.View().Start
	}
	p := newPartition(m.o.Self, tp, t.ID, l, hw, &m.o.Limits)
	m.mu.RLock()
	p.lost = m.lost[tp]
	m.mu.RUnlock()
	if m.o.Rotten != nil {
		p.reads.rotten = func(from kafka.Offset) { m.o.Rotten(tp, from) }
	}
	return m.add(p, dir), dir, nil
}

// claim gives the log of a replica: the one found at start, or a new one.
func (m *Manager) claim(now time.Time, id kafka.UUID, tp kafka.TopicPartition, c *log.Config, s *metadata.Partition,
	out *Applied) (*log.Log, *log.Dir, error) {
	l, dir, err := m.pick(now, id, tp, s.Directory(m.o.Self))
	if err == nil && l != nil {
		err = m.trust(l, s)
	}
	if err != nil {
		return nil, dir, err
	}
	if l != nil {
		l.SetConfig(c)
		if !l.TopicID().IsZero() {
			return l, l.Dir(), nil
		}
		return l, l.Dir(), l.SetTopicID(id)
	}
	if dir, err = m.place(tp, s, out); err != nil {
		return nil, nil, err
	}
	if l, err = dir.Create(tp, c, log.CreateOptions{TopicID: id}, now); err != nil {
		return nil, dir, err
	}
	m.mu.Lock()
	m.counts[dir]++
	m.mu.Unlock()
	out.Created++
	if s.Recovering && s.Leader == m.o.Self {
		out.Emptied = append(out.Emptied, tp)
	}
	return l, dir, nil
}

// add makes p findable. Its directory may have failed since it was chosen, too early for DirFailed to see p.
func (m *Manager) add(p *Partition, dir *log.Dir) *Partition {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byName[p.tp] = p
	m.byID[partitionID{p.topicID, p.tp.Partition}] = p
	if m.failed[dir] {
		p.Fail() // nobody waits for it or watches it yet
	}
	return p
}

// remove ends a replica and deletes its directory.
func (m *Manager) remove(now time.Time, tp kafka.TopicPartition, id kafka.UUID, host Host, out *Applied) {
	m.mu.Lock()
	p := m.byID[partitionID{id, tp.Partition}]
	if p != nil {
		delete(m.byID, partitionID{id, tp.Partition})
		if m.byName[tp] == p {
			delete(m.byName, tp)
		}
	}
	m.mu.Unlock()
	if p == nil {
		return
	}
	wasOffline := p.Role() == Offline
	e := p.Remove()
	e.Run(host)
	l := p.Log()
	if l == nil || wasOffline {
		return
	}
	m.mu.Lock()
	m.counts[l.Dir()]--
	m.mu.Unlock()
	if err := p.delete(now, m.o.NewUUID()); err != nil {
		out.Failed = append(out.Failed, Failure{tp, err})
		e = Effects{p: p}
		if vfs.IsDiskFailure(err) {
			e.failure = err
		}
		e.Run(host)
		return
	}
	out.Deleted++
}

func (p *Partition) delete(now time.Time, unique kafka.UUID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Dir().Delete(p.log, unique, now)
}

// reconfigure resolves the configuration of topics that changed, or of all when broker-wide values did.
func (m *Manager) reconfigure(now time.Time, image *metadata.Image, diff *metadata.Diff, host Host) {
	topics, all := map[string]bool{}, false
	for c := range diff.Configs() {
		switch c.Resource.Type {
		case metadata.TopicResource:
			topics[c.Resource.Name] = true
		case metadata.BrokerResource:
			all = true
		}
	}
	if len(topics) == 0 && !all {
		return
	}
	configs := map[string]*log.Config{}
	for _, p := range m.All() {
		if !all && !topics[p.tp.Topic] {
			continue
		}
		c := configs[p.tp.Topic]
		if c == nil {
			c = m.o.Config(image, p.tp.Topic)
			configs[p.tp.Topic] = c
		}
		e := p.Reconfigure(now, c)
		e.Run(host)
	}
}

// putStraysAside renames what is in the log directories and in no topic of this node. It is kept for a human.
func (m *Manager) putStraysAside(out *Applied) {
	m.mu.Lock()
	found := m.found
	m.found = make(map[kafka.TopicPartition]*log.Log)
	for tp := range m.broken {
		delete(found, tp) // stays where it is, for the next start
		delete(m.twins, tp)
	}
	twins := m.twins
	m.twins = make(map[kafka.TopicPartition][]*log.Log)
	m.mu.Unlock()
	for _, tp := range slices.SortedFunc(maps.Keys(found), func(a, b kafka.TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	}) {
		for _, l := range append(twins[tp], found[tp]) {
			if err := l.Dir().SetStray(l, m.o.NewUUID()); err != nil {
				out.Failed = append(out.Failed, Failure{tp, err})
			}
		}
	}
}

// DirFailed takes every replica of a log directory offline. It reports false when that had happened before.
func (m *Manager) DirFailed(d *log.Dir, host Host) bool {
	m.mu.Lock()
	if m.failed[d] {
		m.mu.Unlock()
		return false
	}
	m.failed[d] = true
	m.mu.Unlock()
	for _, p := range m.All() {
		if l := p.Log(); l != nil && l.Dir() == d {
			e := p.Fail()
			e.Run(host)
		}
	}
	return true
}

// OnlineDirs lists the directories that have not failed.
func (m *Manager) OnlineDirs() []*log.Dir {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.DeleteFunc(slices.Clone(m.o.Dirs), func(d *log.Dir) bool { return m.failed[d] })
}

// FailedDirs lists the ids of directories that failed since the start.
func (m *Manager) FailedDirs() []kafka.UUID {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []kafka.UUID
	for _, d := range m.o.Dirs {
		if m.failed[d] {
			out = append(out, d.Meta().DirectoryID)
		}
	}
	return out
}

// HighWatermarks gives what to checkpoint for a directory.
func (m *Manager) HighWatermarks(d *log.Dir) map[kafka.TopicPartition]kafka.Offset {
	out := map[kafka.TopicPartition]kafka.Offset{}
	for _, p := range m.All() {
		if s := p.published.Load(); s.view != nil && s.view.Log().Dir() == d {
			out[p.tp] = s.highWatermark
		}
	}
	return out
}
