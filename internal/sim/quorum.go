package sim

import (
	"errors"
	"fmt"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/quorum"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

const (
	clusterID   = "MoldauSimCluster00000A"
	metadataDir = "metadata"
	// metadataVersion is what the clusters are founded with.
	metadataVersion int16 = 33
)

// voter is one replica of the metadata log: what a machine runs in a quorum's world, and a part of what it runs in a
// world of brokers.
type voter struct {
	m      *machine
	config quorum.Config
	dir    *log.Dir
	pump   *quorum.Pump
	image  *metadata.Image
	// served are the requests of peers that the pump has not answered yet, by the number they were given here.
	served map[uint64]served
	token  uint64
	tickAt time.Duration // when the next tick is due, of those that are planned
	seen   quorumSeen
	born   time.Duration
	// applied is told of every batch that went into the image, and of a snapshot that replaced it; may be nil.
	applied func(d *metadata.Diff)
}

// served is where the answer to a peer's request goes.
type served struct {
	peer    *machine // nil: nobody waits for it
	life    int
	request uint64
}

// supportedKRaft is the range of kraft.version that the replicas tell each other.
var supportedKRaft = quorum.VersionRange{Min: 0, Max: 1}

// replicaOf is a machine as the quorum knows it. Each disk it gets makes it another replica.
func replicaOf(id kafka.NodeID, disk int) quorum.Voter {
	var dir kafka.UUID
	dir[0], dir[7], dir[15] = byte(id), byte(disk), 7
	return quorum.Voter{Key: quorum.ReplicaKey{ID: id, Directory: dir}, KRaft: supportedKRaft,
		Endpoints: []quorum.Endpoint{{Name: "CONTROLLER", Host: fmt.Sprintf("node%d", id), Port: 9093}}}
}

// quorumConfig is the configuration of a machine's replica.
func (w *World) quorumConfig(id kafka.NodeID, founders quorum.VoterSet) quorum.Config {
	self := replicaOf(id, 0)
	c := quorum.Config{ClusterID: clusterID, Self: self.Key, CanVote: true, Endpoints: self.Endpoints}
	if w.plan.small {
		c.SegmentBytes, c.RetentionBytes, c.SnapshotBytes = 2000, 4000, 1500
		c.FetchSnapshotMaxBytes, c.FetchMaxBytes = 500, 500
	} else {
		c.RetentionBytes, c.SnapshotBytes = 64<<10, 32<<10
	}
	if _, founder := founders.Find(id); !founder {
		c.CanVote, c.AutoJoin = w.chance(0.5), w.chance(0.5)
		for _, v := range founders {
			c.Bootstrap = append(c.Bootstrap, v.Endpoints[0])
		}
	}
	if w.plan.static {
		for _, v := range founders {
			v.Key.Directory = kafka.ZeroUUID
			c.StaticVoters = append(c.StaticVoters, v)
		}
	}
	return c
}

// founders are the first voters.
func (w *World) founders() quorum.VoterSet {
	var out quorum.VoterSet
	for i := range w.plan.voters {
		out = append(out, replicaOf(kafka.NodeID(i+1), 0))
	}
	return out
}

// newQuorumMachine makes a machine with a founded disk.
func (w *World) newQuorumMachine(id kafka.NodeID, founders quorum.VoterSet) (*machine, error) {
	c := w.quorumConfig(id, founders)
	m := &machine{world: w, id: id, member: &c, disk: vfs.NewMem(vfs.MemOptions{}),
		clock: clock{start: time.UnixMilli(1_800_000_000_000), permille: 1000}}
	if c.Bootstrap != nil {
		founders = nil
	}
	m.boot = func(m *machine) (process, error) { return newVoter(m, *m.member) }
	return m, foundDisk(m.disk, c, founders, m.clock.start)
}

// foundDisk formats a disk as `format` does. A static quorum has no checkpoint.
func foundDisk(disk vfs.FS, c quorum.Config, founders quorum.VoterSet, now time.Time) error {
	if err := disk.MkdirAll(metadataDir); err != nil {
		return err
	}
	if c.StaticVoters == nil {
		o := quorum.FormatOptions{Voters: founders, MetadataVersion: metadataVersion, Now: now,
			Features: []metadata.FeatureLevel{{Name: "eligible.leader.replicas.version", Level: 1},
				{Name: "transaction.version", Level: 2}}}
		if err := quorum.Format(disk, metadataDir, o); err != nil {
			return err
		}
	}
	return log.FormatDir(disk, metadataDir, log.MetaProperties{ClusterID: clusterID, NodeID: c.Self.ID,
		DirectoryID: c.Self.Directory})
}

// newVoter starts a replica on a machine's disk.
func newVoter(m *machine, c quorum.Config) (*voter, error) {
	d, err := log.OpenDir(m.disk, metadataDir, log.MetaProperties{NodeID: c.Self.ID})
	if err != nil {
		return nil, err
	}
	p, err := quorum.Open(d, c, m.time(), m.random())
	if err != nil {
		return nil, err
	}
	v := &voter{m: m, config: c, dir: d, pump: p, image: metadata.New(), served: map[uint64]served{}, tickAt: -1,
		born: m.world.now}
	v.seen = quorumSeen{end: p.State().LogEnd, watermark: kafka.NoOffset}
	p.Start(m.time())
	return v, nil
}

func (v *voter) failed() error { return v.pump.Err() }

func (v *voter) describe() string {
	s := v.pump.State()
	return fmt.Sprintf("%s epoch %d leader %d, log %d..%d durable %d committed %d applied %d, voters %v", s.Role, s.Epoch,
		s.Leader, s.LogStart, s.LogEnd, s.Durable, s.HighWatermark, v.pump.Delivered().Offset, ids(s.Voters))
}

func ids(set quorum.VoterSet) []kafka.NodeID {
	var out []kafka.NodeID
	for _, v := range set {
		out = append(out, v.Key.ID)
	}
	return out
}

// turn takes what the pump has to give until there is nothing more, and plans its next tick.
func (v *voter) turn() {
	for more := true; more && v.pump.Err() == nil; {
		more = false
		for w, ok := v.pump.Work(); ok; w, ok = v.pump.Work() {
			v.work(w)
		}
		for d, ok := v.pump.Next(); ok; d, ok = v.pump.Next() {
			more = true
			if err := v.take(d); err != nil {
				v.m.fail("cannot apply what is committed: %v", err)
				return
			}
		}
		for _, m := range v.pump.Messages() {
			more = true
			v.dispatch(m)
		}
	}
	v.maySnapshot()
	v.planTick()
}

// work runs an item a while later, and tells the pump of it yet later: a crash between the two leaves a disk that is
// ahead of what anybody was told.
func (v *voter) work(w *quorum.Work) {
	world := v.m.world
	v.m.after(world.syncTime(), func() {
		err := w.Run()
		v.m.after(world.around(world.plan.sync/8), func() { v.pump.Completed(v.m.time(), w, err) })
	})
}

// syncTime draws how long a disk takes.
func (w *World) syncTime() time.Duration {
	d := w.around(w.plan.sync)
	if w.plan.has(faultSlowDisk) && !w.calm && w.chance(0.02) {
		d += w.around(w.plan.sync * 100)
	}
	return d
}

func (v *voter) planTick() {
	world := v.m.world
	due := v.pump.Deadline()
	if due.IsZero() {
		return
	}
	wait := v.m.clock.until(world.now, due)
	if v.tickAt > world.now && v.tickAt <= world.now+wait {
		return // an earlier one is planned and will plan again
	}
	v.tickAt = world.now + wait
	v.m.after(wait, func() {
		if v.tickAt <= world.now {
			v.tickAt = -1
		}
		v.pump.Tick(v.m.time())
	})
}

// take applies what was delivered.
func (v *voter) take(d quorum.Delivery) error {
	if d.Snapshot != nil {
		return v.takeSnapshot(d.Snapshot)
	}
	values, err := d.Batch.Values()
	if err != nil {
		return err
	}
	v.m.world.quorum.committedBatch(v, d.Batch, values)
	diff, err := v.apply(values)
	if err != nil {
		return err
	}
	v.image = v.image.WithPosition(d.Batch.Last, d.Batch.Epoch, d.Batch.TimestampMs)
	if v.applied != nil {
		v.applied(diff)
	}
	return nil
}

func (v *voter) apply(values [][]byte) (*metadata.Diff, error) {
	records, err := quorum.DecodeRecords(values)
	if err != nil || len(records) == 0 {
		return nil, err
	}
	image, diff, err := v.image.Apply(records)
	if err == nil {
		v.image = image
	}
	return diff, err
}

func (v *voter) takeSnapshot(s *quorum.SnapshotReader) error {
	defer s.Close()
	v.image = metadata.New()
	var all *metadata.Diff
	for b, err := range s.Batches() {
		if err != nil {
			return err
		}
		diff, err := v.apply(b.Values)
		if err != nil {
			return err
		}
		if all == nil {
			all = diff
		} else if diff != nil {
			all = all.Merge(diff)
		}
	}
	id := s.ID()
	v.image = v.image.WithPosition(id.Offset-1, id.Epoch, s.LastContainedMs())
	v.m.world.quorum.snapshotTaken(v, id)
	if v.applied != nil {
		v.applied(all)
	}
	return nil
}

// dispatch carries a message of the pump's.
func (v *voter) dispatch(msg quorum.Message) {
	w := v.m.world
	if isRequest(msg.Body) {
		to := w.machineAt(msg.Peer.Host)
		if to == nil {
			v.m.fail("sends to %+v, where nobody is", msg.Peer)
			return
		}
		from, life := v.m, v.m.life
		w.send(from, to, 0, func() { to.voter().receive(from, life, msg) },
			func() { v.pump.Lost(v.m.time(), msg.Request, w.passes(from, to) && !to.up()) })
		return
	}
	s, ok := v.served[msg.Request]
	if !ok {
		v.m.fail("answers a request that it was not asked, or twice")
		return
	}
	delete(v.served, msg.Request)
	if s.peer == nil {
		if r, ok := msg.Body.(*quorum.ChangeVoterResponse); ok && r.Code == kafka.None {
			w.stats.VoterChanges++
		}
		return
	}
	msg.Request = s.request
	v.answer(s, msg)
}

// answer carries an answer back. If it is lost, so is the connection, and the asker may hear of that.
func (v *voter) answer(s served, msg quorum.Message) {
	w, to := v.m.world, s.peer
	if !to.up() || to.life != s.life {
		return
	}
	asker := to.voter()
	lost := func() { asker.pump.Lost(to.time(), msg.Request, false) }
	if w.passes(v.m, to) && (w.calm || !w.plan.has(faultDrop) || !w.chance(w.plan.drop)) {
		w.stats.Messages++
		w.carry(v.m, to, s.life, func() { asker.pump.Receive(to.time(), msg) }, nil)
		return
	}
	w.lose(to, lost)
}

// member is a process that takes part in the quorum.
type member interface{ member() *voter }

func (v *voter) member() *voter { return v }

// receive takes a request of a peer.
func (v *voter) receive(from *machine, life int, msg quorum.Message) {
	if _, ok := msg.Body.(*quorum.ApiVersionsRequest); ok {
		msg.Body = &quorum.ApiVersionsResponse{KRaft: supportedKRaft}
		v.answer(served{peer: from, life: life}, msg)
		return
	}
	v.token++
	v.served[v.token] = served{peer: from, life: life, request: msg.Request}
	msg.Request, msg.Peer = v.token, quorum.Peer{ID: from.id}
	v.pump.Receive(v.m.time(), msg)
}

func isRequest(b quorum.Body) bool {
	switch b.(type) {
	case *quorum.VoteRequest, *quorum.BeginQuorumEpochRequest, *quorum.EndQuorumEpochRequest, *quorum.FetchRequest,
		*quorum.FetchSnapshotRequest, *quorum.AddVoterRequest, *quorum.RemoveVoterRequest, *quorum.UpdateVoterRequest,
		*quorum.ApiVersionsRequest:
		return true
	}
	return false
}

// maySnapshot writes the image down when that is due, in steps between which the power can go.
func (v *voter) maySnapshot() {
	w, m := v.m.world, v.m
	if !v.pump.SnapshotDue(m.time()) {
		return
	}
	if _, open := v.image.Transaction(); open {
		return
	}
	writer, err := v.pump.NewSnapshot(m.time())
	if err != nil {
		m.fail("snapshot: %v", err)
		return
	}
	image := v.image
	m.after(w.around(w.plan.sync), func() {
		for r := range image.Records(metadataVersion) {
			if err = writer.Add(metadata.Encode(nil, r, metadata.VersionFor(r, metadataVersion))); err != nil {
				break
			}
		}
		err = errors.Join(err, writer.Finish())
		m.after(w.around(w.plan.sync), func() {
			if err != nil {
				m.fail("snapshot: %v", err)
				return
			}
			v.pump.SnapshotWritten(writer)
			w.stats.Snapshots++
		})
	})
}

// changeVoters asks whoever leads to add a replica to the voters or to remove one.
func (w *World) changeVoters() {
	m := w.machines[w.rnd.IntN(len(w.machines))]
	for _, leader := range w.machines {
		if !leader.up() {
			continue
		}
		v, s := leader.voter(), leader.voter().pump.State()
		if s.Role != quorum.Leader || s.KRaftVersion == 0 {
			continue
		}
		other := m.member
		var body quorum.Body = &quorum.AddVoterRequest{Voter: other.Self, Endpoints: other.Endpoints,
			AckWhenCommitted: w.chance(0.5)}
		if s.Voters.Contains(other.Self) {
			body = &quorum.RemoveVoterRequest{Voter: other.Self}
		} else if !other.CanVote {
			return
		}
		w.logf("%d is asked for %T of %d", leader.id, body, m.id)
		leader.after(0, func() {
			v.token++
			v.served[v.token] = served{}
			v.pump.Receive(leader.time(), quorum.Message{Request: v.token, Body: body})
		})
		return
	}
}

// wipe replaces a voter's disk by an empty one: it comes back as another replica that wants to join.
func (w *World) wipe(m *machine) {
	if w.stats.Wiped > 0 || int(m.id) > w.plan.voters {
		return
	}
	w.stats.Wiped++
	w.logf("%d loses its disk", m.id)
	m.end()
	m.disk.Crash()
	m.disk = vfs.NewMem(vfs.MemOptions{})
	c := *m.member
	c.Self = replicaOf(m.id, 1).Key
	c.AutoJoin, c.Bootstrap = true, nil
	for _, v := range w.founders().Without(m.id) {
		c.Bootstrap = append(c.Bootstrap, v.Endpoints[0])
	}
	if err := foundDisk(m.disk, c, nil, m.time()); err != nil {
		m.fail("%v", err)
		return
	}
	*m.member, m.epoch = c, 0
	m.restartLater()
}
