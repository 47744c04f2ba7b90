package node

import (
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/cluster/controller"
	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/quorum"
	"moldau/internal/edge/api"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// maxControlQueue bounds the requests that wait for the controller; more are sent away to retry.
const maxControlQueue = 10_000

// control drives the metadata log and, while this node leads it, the controller: one goroutine owns the pump and both
// images. What blocks on the disk runs beside it.
type control struct {
	pump     *quorum.Pump
	settings *controller.Settings
	log      *slog.Logger
	now      func() time.Time
	rnd      *rand.Rand
	publish  func(published)
	fatal    func(error)
	// brokerLives says whether this node's own broker runs.
	brokerLives func() bool

	metrics *metrics

	// exchange is how the replica reaches its peers; nil on a lone node, where requests wait until its own controller
	// takes office.
	exchange *exchange
	// deathwatch is told when this controller takes office; nil on a lone node.
	deathwatch *deathwatch

	// foundedWith are voters of the settings whose disks are known to be as old as this node's.
	foundedWith map[kafka.NodeID]kafka.UUID
	// late is called, beside the loop, when a voter that came late may vote; nil when it did not, or does already.
	late func() error

	kraftVersion atomic.Int32
	committedEnd atomic.Int64 // high watermark of the metadata log, -1 while not known
	voters       atomic.Int32
	lineage      lineage

	mu      sync.Mutex
	over    bool // nothing is taken any more; written by the loop, which reads it without the lock
	inbox   []func()
	wake    chan struct{}
	stopped chan struct{}
	workers sync.WaitGroup

	// The rest belongs to the loop.
	committed *metadata.Image
	diff      *metadata.Diff // not published yet
	working   *metadata.Image
	liveness  *controller.Liveness
	epoch     kafka.LeaderEpoch // in office; NoEpoch when not
	history   []proposal
	replies   []pendingReply
	waiting   []func() // requests that came before the controller took office
	stopping  bool
	abandoned bool              // the stop waits no longer for what is not committed
	elected   kafka.LeaderEpoch // the newest epoch this node stood for
	broken    bool              // a committed record did not apply: no snapshot may be taken
}

// proposal is an image that becomes the committed one when everything up to last is.
type proposal struct {
	last  kafka.Offset
	at    time.Time
	image *metadata.Image
	diff  *metadata.Diff
}

// pendingReply leaves once what it depends on is committed, from the publisher's goroutine, or from the loop when the
// term ended before that.
type pendingReply struct {
	after kafka.Offset
	send  func(committed bool)
}

// published is a committed image on its way to the node's partitions, with the replies that may leave once they have
// caught up.
type published struct {
	image   *metadata.Image
	diff    *metadata.Diff
	replies []func()
}

func newControl(pump *quorum.Pump, settings *controller.Settings, o Options, n *Node) *control {
	return &control{pump: pump, settings: settings, log: o.Log, now: o.Now, rnd: rand.New(rand.NewPCG(o.Seed())),
		publish: n.publisher.publish, fatal: n.fail, brokerLives: n.Ready, metrics: n.metrics, elected: kafka.NoEpoch, wake: make(chan struct{}, 1), stopped: make(chan struct{}),
		committed: metadata.New(), epoch: kafka.NoEpoch,
		lineage: lineage{localEnd: pump.NextOffset(), epoch: kafka.NoEpoch}}
}

// post hands f to the loop; false: too much waits already, or the loop has ended.
func (c *control) post(f func(), limited bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	if limited && len(c.inbox) >= maxControlQueue {
		return false
	}
	c.inbox = append(c.inbox, f)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return true
}

// Submit gives a request to the controller.
func (c *control) Submit(r controller.Request) *promise.Promise[api.ControlReply] {
	out := &promise.Promise[api.ControlReply]{}
	posted := c.now()
	handle := func() {
		c.metrics.controller.QueueSeconds.Observe(c.now().Sub(posted))
		c.handle(r, out)
	}
	if !c.post(handle, true) {
		out.Set(api.ControlReply{Err: kafka.RequestTimedOut})
	}
	return out
}

// queued is how many events wait for the loop.
func (c *control) queued() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(len(c.inbox))
}

// CaughtUp is set once this node's partitions have seen everything that was committed before the call: known by its own
// controller in office, or as a follower from the leader. It is set when the loop ends, too.
func (c *control) CaughtUp() *promise.Promise[struct{}] {
	out := &promise.Promise[struct{}]{}
	if !c.post(func() { c.catchUp(out) }, false) {
		out.Set(struct{}{})
	}
	return out
}

func (c *control) catchUp(out *promise.Promise[struct{}]) {
	switch {
	case c.epoch != kafka.NoEpoch:
		c.park(func(committed bool) {
			if committed {
				out.Set(struct{}{})
				return
			}
			c.catchUp(out) // with the next term
		})
	case c.stopping:
		out.Set(struct{}{})
	case c.followsClosely():
		c.publish(published{replies: []func(){func() { out.Set(struct{}{}) }}})
	default:
		c.waiting = append(c.waiting, func() { c.catchUp(out) })
	}
}

// followsClosely says whether a follower has delivered everything that its leader called committed when it answered last.
func (c *control) followsClosely() bool {
	s := c.pump.State()
	return s.LeaderHighWatermark != kafka.NoOffset && c.pump.Delivered().Offset >= s.LeaderHighWatermark
}

// Describe describes the quorum.
func (c *control) Describe() *promise.Promise[api.QuorumReply] {
	out := &promise.Promise[api.QuorumReply]{}
	ok := c.post(func() {
		d, err := c.pump.Describe(c.now())
		if err != nil {
			d = c.describeVoters()
		}
		for i := range d.Voters {
			if key := &d.Voters[i].Key; key.Directory.IsZero() {
				key.Directory = c.foundedWith[key.ID]
			}
		}
		out.Set(api.QuorumReply{Description: d, Err: err})
	}, true)
	if !ok {
		out.Set(api.QuorumReply{Err: kafka.NotLeaderOrFollower})
	}
	return out
}

// describeVoters is what a replica that does not lead tells: who founds or joins wants to know the voters all the same, and
// whether there is anything yet that a voter could have forgotten.
func (c *control) describeVoters() quorum.Description {
	s := c.pump.State()
	d := quorum.Description{Leader: s.Leader, Epoch: kafka.NoEpoch, HighWatermark: kafka.NoOffset, Nodes: s.Voters}
	for _, v := range s.Voters {
		r := quorum.ReplicaDescription{Key: v.Key, LogEnd: kafka.NoOffset, LastFetchMs: -1, LastCaughtUpMs: -1}
		if v.Key.ID == c.settings.Node && (s.Epoch == 0 || s.LogEnd > 0) {
			r.LogEnd = s.LogEnd
		}
		d.Voters = append(d.Voters, r)
	}
	return d
}

// run is the loop. It ends after stop, or when the pump cannot go on.
func (c *control) run() {
	defer close(c.stopped)
	defer c.end()
	c.pump.Start(c.now())
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		c.settle()
		if err := c.pump.Err(); err != nil {
			c.failAll()
			c.fatal(err)
			return
		}
		if c.stopping && (c.abandoned || len(c.replies) == 0 && c.pump.HandedOver()) {
			return
		}
		timer.Reset(c.untilDeadline())
		select {
		case <-c.wake:
		case <-timer.C:
		}
		for _, f := range c.take() {
			f()
		}
		c.pump.Tick(c.now())
		c.tick()
	}
}

func (c *control) take() []func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.inbox
	c.inbox = nil
	return out
}

func (c *control) untilDeadline() time.Duration {
	next := c.pump.Deadline()
	if c.epoch != kafka.NoEpoch {
		if t := c.liveness.NextTick(c.now(), c.state()); next.IsZero() || (!t.IsZero() && t.Before(next)) {
			next = t
		}
	}
	if next.IsZero() {
		return time.Second
	}
	return min(max(next.Sub(c.now()), 0), time.Second)
}

// settle carries out what the pump wants until there is nothing more: deliveries, work, taking and leaving office.
func (c *control) settle() {
	c.startWork()
	c.exchange.carry(c)
	c.deliver()
	c.checkOffice()
	c.startWork()
	c.exchange.carry(c)
	c.maySnapshot()
	c.observe()
	if c.exchange != nil && len(c.waiting) > 0 {
		c.reconsider()
	}
}

// reconsider looks again at what waits for the controller or for the leader's word: in a cluster either can change with
// any event.
func (c *control) reconsider() {
	waiting := c.waiting
	c.waiting = nil
	for _, f := range waiting {
		f()
	}
}

// observe publishes the state of the quorum.
func (c *control) observe() {
	s := c.pump.State()
	c.kraftVersion.Store(int32(s.KRaftVersion))
	c.committedEnd.Store(int64(s.HighWatermark))
	c.voters.Store(int32(len(s.Voters)))
	if s.Epoch > c.elected && (s.Role == quorum.Candidate || s.Role == quorum.Leader) {
		c.elected = s.Epoch
		c.metrics.quorum.Elections.Inc()
	}
	c.metrics.quorumState(s, c.epoch != kafka.NoEpoch)
	c.settings.KRaftVersion = s.KRaftVersion
	if forget := c.late; forget != nil && !s.Late {
		c.late = nil
		c.log.Info("this voter has caught up and votes from now on")
		c.workers.Go(func() {
			if err := forget(); err != nil {
				c.log.Warn("the mark of a late voter stays; the next start waits again", "error", err)
			}
		})
	}
	c.exchange.observe(s)
}

func (c *control) startWork() {
	for {
		w, ok := c.pump.Work()
		if !ok {
			return
		}
		c.workers.Go(func() {
			err := w.Run()
			c.postWork(func() { c.pump.Completed(c.now(), w, err) })
		})
	}
}

// deliver applies what is committed and publishes it.
func (c *control) deliver() {
	for {
		d, ok := c.pump.Next()
		if !ok {
			break
		}
		if err := c.apply(d); err != nil {
			c.broken = true
			c.metrics.quorum.ApplyErrors.Inc()
			c.log.Error("a committed metadata record does not apply; the image stays behind", "error", err)
		}
	}
	end := c.pump.Delivered().Offset
	var ready []func()
	for len(c.replies) > 0 && c.replies[0].after < end {
		send := c.replies[0].send
		ready = append(ready, func() { send(true) })
		c.replies = c.replies[1:]
	}
	if _, open := c.committed.Transaction(); open {
		if len(ready) > 0 {
			c.publish(published{replies: ready})
		}
		return
	}
	if c.diff != nil || len(ready) > 0 {
		c.publish(published{image: c.committed, diff: c.diff, replies: ready})
		c.diff = nil
	}
}

func (c *control) apply(d quorum.Delivery) error {
	if d.Snapshot != nil {
		return c.applySnapshot(d.Snapshot)
	}
	b := d.Batch
	image, diff := c.committed, (*metadata.Diff)(nil)
	switch {
	case len(c.history) > 0 && b.Last == c.history[0].last:
		image, diff = c.history[0].image, c.history[0].diff
		c.metrics.quorum.CommitSeconds.Observe(c.now().Sub(c.history[0].at))
		c.history = c.history[1:]
	case len(c.history) > 0 && b.Last < c.history[0].last && !b.Control && c.epoch != kafka.NoEpoch:
		return nil // part of a larger proposal, whose image comes whole
	case !b.Control:
		records, err := b.Records()
		if err != nil {
			return err
		}
		if image, diff, err = image.Apply(records); err != nil {
			return err
		}
	}
	c.lineage.batch(b.Last, b.Epoch, b.TimestampMs)
	c.lineage.image(c.committed, image, c.settings.Node, b.TimestampMs)
	c.committed = image.WithPosition(b.Last, b.Epoch, b.TimestampMs)
	c.noteDiff(diff)
	return nil
}

func (c *control) noteDiff(d *metadata.Diff) {
	switch {
	case d == nil:
	case c.diff == nil:
		c.diff = d
	default:
		c.diff = c.diff.Merge(d)
	}
}

// applySnapshot puts a snapshot in the place of everything before it: the node's own at the start, the leader's when this
// replica was too far behind. What is not in it is gone, as if every record in between had been read.
func (c *control) applySnapshot(r *quorum.SnapshotReader) error {
	defer r.Close()
	image := metadata.New()
	for b, err := range r.Batches() {
		if err != nil {
			return err
		}
		records, err := quorum.DecodeRecords(b.Values)
		if err != nil {
			return err
		}
		if image, _, err = image.Apply(records); err != nil {
			return err
		}
	}
	at := c.pump.Delivered()
	c.lineage.snapshot(at.Offset, at.Epoch, r.LastContainedMs())
	c.lineage.image(c.committed, image, c.settings.Node, r.LastContainedMs())
	c.noteDiff(metadata.Compare(c.committed, image))
	c.committed = image.WithPosition(at.Offset-1, at.Epoch, r.LastContainedMs())
	return nil
}

// checkOffice notices that the controller's term began or ended.
func (c *control) checkOffice() {
	epoch, in := c.pump.InOffice()
	if !in {
		epoch = kafka.NoEpoch
	}
	if epoch == c.epoch {
		return
	}
	c.leaveOffice()
	if !in {
		return
	}
	c.epoch, c.working, c.liveness = epoch, c.committed, controller.NewLiveness()
	bootstrap, err := c.pump.Bootstrap()
	if err != nil {
		c.log.Error("the bootstrap records cannot be read", "error", err)
		c.pump.Resign(c.now())
		return
	}
	c.propose(controller.Activate(c.now(), c.state(), bootstrap), nil, false)
	c.deathwatch.tookOffice(c.working)
	c.reconsider()
}

// leaveOffice forgets everything that was not committed; who waits is sent to the next controller.
func (c *control) leaveOffice() {
	c.epoch, c.working, c.liveness, c.history = kafka.NoEpoch, nil, nil, nil
	replies := c.replies
	c.replies = nil
	for _, r := range replies {
		r.send(false)
	}
}

// failAll sends everybody away, now and from now on.
func (c *control) failAll() {
	c.stopping = true
	c.leaveOffice()
	c.reconsider()
	c.exchange.end()
}

// end waits for the work that runs beside the loop and answers whoever came too late.
func (c *control) end() {
	c.workers.Wait()
	c.mu.Lock()
	c.over = true
	left := c.inbox
	c.inbox = nil
	c.mu.Unlock()
	c.failAll()
	for _, f := range left {
		f()
	}
}

// postWork hands over what the loop does with finished work, unless it has ended.
func (c *control) postWork(f func()) {
	c.post(func() {
		if !c.over {
			f()
		}
	}, false)
}

func (c *control) state() controller.State {
	return controller.State{Image: c.working, Liveness: c.liveness, NextOffset: c.pump.NextOffset(), Epoch: c.epoch,
		Settings: c.settings}
}

// handle answers one request, or keeps it until the controller is in office. While another node leads the quorum that
// would be forever.
func (c *control) handle(r controller.Request, out *promise.Promise[api.ControlReply]) {
	if c.epoch == kafka.NoEpoch {
		elsewhere := c.exchange != nil && c.pump.State().Role != quorum.Leader
		if c.stopping || elsewhere || len(c.waiting) >= maxControlQueue {
			out.Set(api.ControlReply{Err: kafka.NotController})
			return
		}
		c.waiting = append(c.waiting, func() { c.handle(r, out) })
		return
	}
	began := c.now()
	c.propose(controller.Handle(began, c.state(), r, c.rnd), out, false)
	c.metrics.controller.EventSeconds.Observe(c.now().Sub(began))
}

func (c *control) tick() {
	if c.epoch == kafka.NoEpoch || c.stopping {
		return
	}
	if c.brokerLives() {
		c.liveness.Alive(c.settings.Node, c.now())
	}
	c.propose(controller.Tick(c.now(), c.state(), c.rnd), nil, true)
}

// fenceDead fences a broker whose process is gone, if this node is in office.
func (c *control) fenceDead(id kafka.NodeID, epoch kafka.BrokerEpoch, since time.Time) {
	c.postWork(func() {
		if c.epoch != kafka.NoEpoch && !c.stopping {
			c.propose(controller.FenceDead(c.now(), c.state(), id, epoch, since), nil, true)
		}
	})
}

// propose appends a decision's records and parks its reply. ticked says that time brought the decision about.
func (c *control) propose(r controller.Result, out *promise.Promise[api.ControlReply], ticked bool) {
	reply := func(committed bool) {
		if out == nil {
			return
		}
		if !committed {
			out.Set(api.ControlReply{Err: kafka.NotController})
			return
		}
		out.Set(api.ControlReply{Body: r.Reply})
	}
	if len(r.Records) == 0 {
		c.park(reply)
		return
	}
	image, diff, err := c.working.Apply(r.Records)
	if err != nil {
		c.log.Error("the controller decided on records that do not apply; nothing was written", "error", err)
		c.refuse(out, kafka.UnknownServerError)
		return
	}
	last, err := c.pump.Propose(c.now(), quorum.Proposal{Epoch: c.epoch, Records: r.Records,
		MetadataVersion: max(image.MetadataVersion(), 7), Atomic: r.Atomic})
	if err != nil {
		c.refuse(out, err)
		return
	}
	c.working = image
	c.history = append(c.history, proposal{last: last, at: c.now(), image: image, diff: diff})
	c.metrics.decided(r.Records, ticked)
	c.park(reply)
}

func (c *control) refuse(out *promise.Promise[api.ControlReply], err error) {
	if out != nil {
		out.Set(api.ControlReply{Err: err})
	}
}

// park holds a reply until everything that is appended now is committed.
func (c *control) park(send func(committed bool)) {
	c.replies = append(c.replies, pendingReply{after: c.pump.NextOffset() - 1, send: send})
}

// maySnapshot writes the image down when it is due. The writing runs beside the loop.
func (c *control) maySnapshot() {
	_, open := c.committed.Transaction()
	if c.broken || open || c.committed.Offset()+1 != c.pump.Delivered().Offset || !c.pump.SnapshotDue(c.now()) {
		return
	}
	w, err := c.pump.NewSnapshot(c.now())
	if err != nil {
		c.log.Warn("no metadata snapshot", "error", err)
		return
	}
	image, began := c.committed, c.now()
	c.workers.Go(func() {
		if err := writeSnapshot(w, image); err != nil {
			c.log.Warn("no metadata snapshot", "error", err)
		} else {
			c.metrics.snapshotWritten(w, c.now().Sub(began))
		}
		c.postWork(func() { c.pump.SnapshotWritten(w) })
	})
}

func writeSnapshot(w *quorum.SnapshotWriter, image *metadata.Image) error {
	version := image.MetadataVersion()
	for r := range image.Records(version) {
		if err := w.Add(metadata.Encode(nil, r, metadata.VersionFor(r, version))); err != nil {
			return err
		}
	}
	return w.Finish()
}

// stopPatience is how long a stop waits for what was decided to be committed. On a full disk, or without a majority, that
// may be never.
const stopPatience = 5 * time.Second

// kill ends the loop as it is: nobody is told, and nothing more is decided.
func (c *control) kill() {
	c.postWork(func() { c.stopping, c.abandoned = true, true })
	<-c.stopped
}

// stop ends the loop in good order: what was decided is committed first, if that is possible.
func (c *control) stop() {
	c.postWork(func() {
		c.stopping = true
		c.pump.Shutdown(c.now())
	})
	select {
	case <-c.stopped:
		return
	case <-time.After(stopPatience):
	}
	c.log.Warn("the controller stops although something it decided is not committed")
	c.postWork(func() { c.abandoned = true })
	<-c.stopped
}
