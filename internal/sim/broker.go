package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/controller"
	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/quorum"
	"moldau/internal/cluster/replica"
	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
)

const (
	dataDir = "data"
	// replicaLag is replica.lag.time.max.ms, session broker.session.timeout.ms and beat the interval of heartbeats.
	replicaLag = 3 * time.Second
	beat       = 500 * time.Millisecond
	// askTimeout is how long a broker waits for its controller's answer.
	askTimeout = 2 * time.Second
)

// broker is a node with both roles: a replica of the metadata log, with the controller when it leads, and the replicas
// of partitions.
type broker struct {
	*voter
	world    *World
	office   *office
	settings *controller.Settings
	data     *log.Dir
	manager  *replica.Manager

	// pending is what changed in the image since the partitions heard of it; published is what they have heard of.
	pending   *metadata.Diff
	published *metadata.Image

	instance kafka.UUID
	epoch    kafka.BrokerEpoch // of this life's registration; -1 before
	previous kafka.BrokerEpoch
	active   bool // roles are taken up
	asking   bool // a registration or heartbeat is under way
	stopping bool // it wants to stop, once nobody needs it
	beatAt   time.Time
	reports  []replica.DirReport

	dirty     []*replica.Partition
	flushing  bool
	proposals []isrChange
	proposing bool
	links     map[kafka.NodeID]*fetchLink
	follows   map[*replica.Partition]term
	leading   leaderSide
	seen      map[kafka.TopicPartition]*partitionSeen
	// coordinators are those of a world with transactions; they begin when roles are taken up.
	coordinators *coordinators
}

// term is what a follower follows.
type term struct {
	leader kafka.NodeID
	epoch  kafka.LeaderEpoch
}

// isrChange is a proposal that the controller has not decided.
type isrChange struct {
	p *replica.Partition
	r replica.ISRProposal
}

func directoryOf(id kafka.NodeID) kafka.UUID { return kafka.UUID{0: byte(id), 7: 1, 15: 9} }

func (w *World) newBrokerMachine(id kafka.NodeID, founders quorum.VoterSet) (*machine, error) {
	m, err := w.newQuorumMachine(id, founders)
	if err != nil {
		return nil, err
	}
	m.boot = func(m *machine) (process, error) { return newBroker(m) }
	return m, log.FormatDir(m.disk, dataDir, log.MetaProperties{ClusterID: clusterID, NodeID: id,
		DirectoryID: directoryOf(id)})
}

// newBroker starts a node on a machine's disk.
func newBroker(m *machine) (*broker, error) {
	v, err := newVoter(m, *m.member)
	if err != nil {
		return nil, err
	}
	d, err := log.OpenDir(m.disk, dataDir, log.MetaProperties{NodeID: m.id})
	if err != nil {
		return nil, err
	}
	static, err := config.Load(nil, config.Options{})
	if err != nil {
		return nil, err
	}
	b := &broker{voter: v, world: m.world, data: d, settings: controller.SettingsFrom(static), epoch: -1, previous: -1,
		published: metadata.New(), links: map[kafka.NodeID]*fetchLink{}, follows: map[*replica.Partition]term{},
		seen: map[kafka.TopicPartition]*partitionSeen{}}
	b.settings.Node, b.settings.ClusterID = m.id, clusterID
	b.instance = kafka.UUID{0: byte(m.id), 1: byte(m.life >> 8), 2: byte(m.life), 15: 3}
	b.leading.begin(b)
	b.voter.applied = func(diff *metadata.Diff) { b.pending = b.pending.Merge(diff) }
	b.manager = replica.NewManager(replica.ManagerOptions{Self: m.id, Dirs: []*log.Dir{d},
		Config: func(*metadata.Image, string) *log.Config { return topicConfig() }, NewUUID: b.newUUID,
		Limits: replica.Limits{ReplicaLag: replicaLag}, Rotten: func(tp kafka.TopicPartition, from kafka.Offset) {
			m.fail("%s is rotten at %d", tp, from)
		}})
	b.coordinators = newCoordinators(b)
	if err := b.load(); err != nil {
		return nil, err
	}
	m.after(0, b.tick)
	return b, nil
}

// topicConfig is that of every topic.
func topicConfig() *log.Config {
	c := log.DefaultConfig()
	c.MinInsyncReplicas, c.SegmentBytes = 2, 4000
	return &c
}

func (b *broker) newUUID() (u kafka.UUID) {
	for i := range u {
		u[i] = byte(b.world.rnd.Uint32())
	}
	return u
}

// load opens the logs of the data directory, as a start after a crash does.
func (b *broker) load() error {
	parts, err := b.data.Partitions()
	if err != nil {
		return err
	}
	for _, p := range parts {
		if p.State != log.Live {
			continue
		}
		x := b.data.Load(p, topicConfig(), log.Options{}, b.m.time())
		for done := false; !done; {
			if done, err = x.Step(); err != nil {
				return fmt.Errorf("%s: %w", p.Name, err)
			}
		}
		if r := x.Report(); r.BelowHighWatermark || r.BelowRecoveryPoint {
			b.m.fail("recovery of %s lost records that were on the disk", p.Name)
		}
		if err := b.manager.Adopt(x.Log()); err != nil {
			return err
		}
	}
	return nil
}

// turn carries on all that the last event has set off.
func (b *broker) turn() {
	b.voter.turn()
	b.checkOffice()
	b.voter.turn()
	b.publish()
	b.flush()
	b.leading.serve()
	b.fetch()
	b.voter.turn()
}

// publish brings a committed image to the partitions. One that is half of a metadata transaction waits.
func (b *broker) publish() {
	if _, open := b.image.Transaction(); open || b.pending == nil {
		return
	}
	diff := b.pending
	b.pending = nil
	b.report(b.manager.Apply(b.m.time(), b.image, diff, b.active, b))
	b.published = b.image
	if own, ok := b.published.Broker(b.m.id); ok && b.epoch >= 0 && own.Epoch == b.epoch && !b.active {
		b.active = true
		b.report(b.manager.Activate(b.m.time(), b.published, b))
	}
	if b.active {
		b.coordinators.changed(b.published, diff)
	}
	b.follow()
}

func (b *broker) report(a replica.Applied) {
	for _, f := range a.Failed {
		b.m.fail("%s is not what the metadata says: %v", f.Partition, f.Err)
	}
	b.reports = append(b.reports, a.Directories...)
}

// tick is what the broker does now and then: it tells the controller that it lives, and looks after its partitions.
func (b *broker) tick() {
	now := b.m.time()
	b.office.tick()
	if !b.asking && !now.Before(b.beatAt) {
		b.beatAt = now.Add(beat)
		b.live()
	}
	for _, p := range b.manager.All() {
		e := p.Tick(now, replicaLag)
		e.Run(b)
	}
	b.propose()
	wait := 100 * time.Millisecond
	b.m.after(b.m.clock.until(b.world.now, now.Add(wait)), b.tick)
}

// live registers, or tells that the broker lives. It registers once its metadata shows that it hears of a leader.
func (b *broker) live() {
	var r kmsg.Request
	switch {
	case b.epoch >= 0:
		r = b.heartbeat()
	case b.pump.State().Leader == kafka.NoNode || b.pump.State().HighWatermark == kafka.NoOffset:
		return
	default:
		r = b.registration()
	}
	b.asking = true
	b.ask(r, func(resp kmsg.Response, err error) {
		b.asking = false
		if r, ok := resp.(*kmsg.BrokerHeartbeatResponse); ok && err == nil && kafka.Code(r.ErrorCode) == kafka.StaleBrokerEpoch {
			b.epoch = -1 // a registration of an earlier life came late, and took the place of this one's
		}
		if r, ok := resp.(*kmsg.BrokerHeartbeatResponse); ok && err == nil && r.ErrorCode == 0 && r.ShouldShutdown {
			b.stop()
			return
		}
		if r, ok := resp.(*kmsg.BrokerRegistrationResponse); ok && err == nil && r.ErrorCode == 0 {
			b.epoch, b.m.vouched = kafka.BrokerEpoch(r.BrokerEpoch), b.instance
			b.beatAt = time.Time{}
			b.pending = b.pending.Merge(&metadata.Diff{}) // the image may show it already
		}
	})
	b.assign()
}

// registration claims the epoch of the last life if the metadata shows that one as the newest: all that it acknowledged
// was on the disk.
func (b *broker) registration() kmsg.Request {
	previous := kafka.BrokerEpoch(-1)
	if own, ok := b.image.Broker(b.m.id); ok && own.Incarnation == b.m.vouched && b.m.vouched != b.instance {
		previous = own.Epoch
	}
	return registrationOf(b.m.id, b.instance, previous)
}

func registrationOf(id kafka.NodeID, instance kafka.UUID, previous kafka.BrokerEpoch) kmsg.Request {
	r := kmsg.NewPtrBrokerRegistrationRequest()
	r.SetVersion(r.MaxVersion())
	r.BrokerID, r.ClusterID, r.IncarnationID = int32(id), clusterID, instance
	r.PreviousBrokerEpoch = int64(previous)
	l := kmsg.NewBrokerRegistrationRequestListener()
	l.Name, l.Host, l.Port = "PLAINTEXT", fmt.Sprintf("node%d", id), 9092
	r.Listeners = append(r.Listeners, l)
	for _, f := range metadata.Features() {
		x := kmsg.NewBrokerRegistrationRequestFeature()
		x.Name, x.MinSupportedVersion, x.MaxSupportedVersion = f.Name, f.Min, f.Max
		r.Features = append(r.Features, x)
	}
	r.LogDirs = append(r.LogDirs, directoryOf(id))
	return r
}

func (b *broker) heartbeat() kmsg.Request {
	r := kmsg.NewPtrBrokerHeartbeatRequest()
	r.SetVersion(r.MaxVersion())
	r.BrokerID, r.BrokerEpoch = int32(b.m.id), int64(b.epoch)
	r.CurrentMetadataOffset = int64(b.published.Offset())
	r.WantFence, r.WantShutdown = !b.active, b.stopping
	return r
}

// assign tells the controller where replicas lie.
func (b *broker) assign() {
	if b.epoch < 0 || len(b.reports) == 0 {
		return
	}
	told := b.reports
	b.reports = nil
	r := kmsg.NewPtrAssignReplicasToDirsRequest()
	r.BrokerID, r.BrokerEpoch = int32(b.m.id), int64(b.epoch)
	for _, x := range told {
		dir := kmsg.NewAssignReplicasToDirsRequestDirectory()
		dir.ID = x.Directory
		topic := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
		topic.TopicID = x.TopicID
		p := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
		p.Partition = x.Partition
		topic.Partitions = append(topic.Partitions, p)
		dir.Topics = append(dir.Topics, topic)
		r.Directories = append(r.Directories, dir)
	}
	b.ask(r, func(resp kmsg.Response, err error) {
		if r, ok := resp.(*kmsg.AssignReplicasToDirsResponse); err != nil || !ok || r.ErrorCode != 0 {
			b.reports = append(b.reports, told...)
		}
	})
}

// ask gives a request to the active controller, wherever that is, and its answer, or why there is none, to done.
func (b *broker) ask(r kmsg.Request, done func(kmsg.Response, error)) {
	b.world.ask(b.m, b.pump.State().Leader, r, done)
}

// ask carries a request from a machine to the controller on another one, or on the same.
func (w *World) ask(m *machine, leader kafka.NodeID, r kmsg.Request, done func(kmsg.Response, error)) {
	life, answered := m.life, false
	once := func(resp kmsg.Response, err error) {
		if !answered {
			answered = true
			done(resp, err)
		}
	}
	broken := func() { once(nil, kafka.NetworkException) }
	m.after(askTimeout, func() { once(nil, kafka.RequestTimedOut) })
	to := w.machineOf(leader)
	if to == nil {
		m.after(20*time.Millisecond, broken)
		return
	}
	w.send(m, to, 0, func() {
		connected := func() bool { return m.life == life }
		to.process.(*broker).submit(r, connected, func(resp kmsg.Response, err error) {
			w.send(to, m, life, func() { once(resp, err) }, nil)
		})
	}, broken)
}

// The host of the partitions.

// RequestFlush notes a partition that has something for the disk.
func (b *broker) RequestFlush(p *replica.Partition) {
	if !slices.Contains(b.dirty, p) {
		b.dirty = append(b.dirty, p)
	}
}

// flush syncs what is dirty, one round at a time.
func (b *broker) flush() {
	if b.flushing || len(b.dirty) == 0 {
		return
	}
	b.flushing = true
	round := b.dirty
	b.dirty = nil
	var tokens []log.FlushToken
	for _, p := range round {
		tokens = append(tokens, p.BeginFlush())
	}
	b.m.after(b.world.syncTime(), func() {
		var errs []error
		for _, t := range tokens {
			errs = append(errs, t.Sync())
		}
		b.m.after(b.world.around(b.world.plan.sync/8), func() {
			b.flushing = false
			for i, p := range round {
				e := p.Flushed(b.m.time(), tokens[i], errs[i])
				e.Run(b)
			}
		})
	})
}

// ProposeISR queues a change of an in-sync set for the controller.
func (b *broker) ProposeISR(p *replica.Partition, r replica.ISRProposal) {
	b.proposals = append(b.proposals, isrChange{p, r})
	if len(r.ISR) < len(p.Info().ISR) {
		b.world.stats.Shrinks++
	} else {
		b.world.stats.Expands++
	}
}

// propose sends what still stands of the proposals.
func (b *broker) propose() {
	b.proposals = slices.DeleteFunc(b.proposals, func(c isrChange) bool { return !c.p.Proposes(c.r) })
	if b.proposing || len(b.proposals) == 0 || b.epoch < 0 {
		return
	}
	b.proposing = true
	sent := slices.Clone(b.proposals)
	r := kmsg.NewPtrAlterPartitionRequest()
	r.SetVersion(r.MaxVersion())
	r.BrokerID, r.BrokerEpoch = int32(b.m.id), int64(b.epoch)
	for _, c := range sent {
		t := kmsg.NewAlterPartitionRequestTopic()
		t.TopicID = c.r.TopicID
		x := kmsg.NewAlterPartitionRequestTopicPartition()
		x.Partition, x.LeaderEpoch, x.PartitionEpoch = c.r.Partition.Partition, int32(c.r.LeaderEpoch), int32(c.r.PartitionEpoch)
		for _, id := range c.r.ISR {
			e := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
			e.BrokerID, e.BrokerEpoch = int32(id.Broker), int64(id.Epoch)
			x.NewEpochISR = append(x.NewEpochISR, e)
		}
		t.Partitions = append(t.Partitions, x)
		r.Topics = append(r.Topics, t)
	}
	b.ask(r, func(resp kmsg.Response, err error) {
		b.proposing = false
		if r, ok := resp.(*kmsg.AlterPartitionResponse); err == nil && ok && r.ErrorCode == 0 {
			b.decided(sent, r)
		}
	})
}

// decided takes what the controller says of each proposal. One that met newer metadata is left alone: the image tells,
// and until then the proposal holds the high watermark back, for an earlier try may have been taken.
func (b *broker) decided(sent []isrChange, r *kmsg.AlterPartitionResponse) {
	for i, c := range sent {
		if i >= len(r.Topics) || len(r.Topics[i].Partitions) == 0 {
			continue
		}
		x := &r.Topics[i].Partitions[0]
		var e replica.Effects
		switch kafka.Code(x.ErrorCode) {
		case kafka.None:
			e = c.p.ISRAccepted(b.m.time(), c.r, kafka.PartitionEpoch(x.PartitionEpoch))
		case kafka.IneligibleReplica, kafka.OperationNotAttempted:
			e = c.p.ISRRefused(b.m.time(), c.r)
		}
		e.Run(b)
		b.proposals = slices.DeleteFunc(b.proposals, func(q isrChange) bool {
			return q.p == c.p && q.r.PartitionEpoch == c.r.PartitionEpoch && q.r.LeaderEpoch == c.r.LeaderEpoch
		})
	}
}

// DirFailed is a finding: no disk fails here.
func (b *broker) DirFailed(d *log.Dir, err error) { b.m.fail("%s failed: %v", d.Path(), err) }

// DirFull is a finding as well.
func (b *broker) DirFull(d *log.Dir) { b.m.fail("%s is full", d.Path()) }

// LogBroken is a finding as well.
func (b *broker) LogBroken(p *replica.Partition, err error) {
	b.m.fail("%s is broken: %v", p.TopicPartition(), err)
}

func (b *broker) describe() string {
	out := b.voter.describe() + fmt.Sprintf("\n   broker epoch %d active %v controller %v", b.epoch, b.active, b.office != nil)
	for _, m := range b.world.machines {
		if own, ok := b.image.Broker(m.id); ok {
			out += fmt.Sprintf("; %d has epoch %d, fenced %v", m.id, own.Epoch, own.Fenced)
		}
	}
	for _, p := range b.manager.All() {
		i := p.Info()
		out += fmt.Sprintf("\n   %s: %s of %d in epoch %d/%d, log %d..%d durable %d visible %d, in sync %v", i.Partition, i.Role,
			i.Leader, i.LeaderEpoch, i.PartitionEpoch, i.Start, i.End, i.Durable, i.HighWatermark, i.ISR)
	}
	for _, m := range b.world.machines {
		if l := b.links[m.id]; l != nil {
			out += fmt.Sprintf("\n   copies %d from %d, %d requests under way", l.f.Len(), m.id, l.waiting)
		}
	}
	return out + fmt.Sprintf("\n   %d proposals, asking %v", len(b.proposals), b.proposing)
}
