package node

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/quorum"
	"moldau/internal/cluster/replica"
	"moldau/internal/config"
	"moldau/internal/edge/api"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// lifecycle is the broker in the eyes of the controller: it registers, catches up, takes up its roles, asks to be
// unfenced, keeps telling that it lives, and leaves in good order (KIP-631).
type lifecycle struct {
	node      config.Node
	cluster   string
	previous  kafka.BrokerEpoch // of the last run, when nothing of it can be lost; -1 otherwise
	dirs      []kafka.UUID
	instance  kafka.UUID
	listeners []config.Endpoint // as registered
	interval  time.Duration
	patience  time.Duration     // initial.broker.registration.timeout.ms: for another broker under this number to be gone
	endpoints []quorum.Endpoint // of the controller
	// submit asks the controller, through changes of office; remind asks once.
	submit, remind func(kmsg.Request) *promise.Promise[api.ControlReply]
	publisher      *publisher
	failed         func() []kafka.UUID // directories that failed since the start
	cordoned       func() []kafka.UUID // directories that take nothing new; nil: nothing to tell
	log            *slog.Logger
	now            func() time.Time

	epoch   atomic.Int64  // of the registration in force; NoBrokerEpoch before the first
	lapsed  atomic.Bool   // the controller does not know that registration any more
	changed chan struct{} // something is to be told at once

	mu      sync.Mutex
	reports []replica.DirReport

	beats   sync.Mutex // orders heartbeats: after the first that says so, all say that the broker leaves
	leaving bool
}

// tell makes the next heartbeat leave at once.
func (l *lifecycle) tell() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// report queues what the controller should know about where replicas lie.
func (l *lifecycle) report(reports []replica.DirReport) {
	l.mu.Lock()
	l.reports = append(l.reports, reports...)
	l.mu.Unlock()
	l.tell()
}

func (l *lifecycle) takeReports() []replica.DirReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.reports
	l.reports = nil
	return out
}

// takeLost takes the reports of replicas that are lost; the others stay queued.
func (l *lifecycle) takeLost() []replica.DirReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lost, rest []replica.DirReport
	for _, r := range l.reports {
		if r.Directory == kafka.DirectoryLost {
			lost = append(lost, r)
		} else {
			rest = append(rest, r)
		}
	}
	l.reports = rest
	return lost
}

// ask sends one request until the controller has answered it, through changes of the controller.
func (l *lifecycle) ask(ctx context.Context, body kmsg.Request) (kmsg.Response, error) {
	for {
		r, err := l.submit(body).Wait(ctx)
		if err != nil {
			return nil, err
		}
		if r.Err == nil {
			return r.Body, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// join registers, waits until this node's metadata shows it, and takes up roles. The broker is still fenced then.
func (l *lifecycle) join(ctx context.Context) error {
	if l.node.IsController {
		if err := l.registerController(ctx); err != nil {
			return err
		}
	}
	if !l.node.IsBroker {
		return nil
	}
	r, err := l.register(ctx)
	if err != nil {
		return err
	}
	if r.ErrorCode != 0 {
		return kafka.Errorf(kafka.Code(r.ErrorCode), "the controller refuses this broker's registration: %s",
			kafka.Code(r.ErrorCode).Name())
	}
	if err := l.registered(ctx, r); err != nil {
		return err
	}
	l.publisher.activate()
	return nil
}

// brokerEpoch is the epoch of the registration in force.
func (l *lifecycle) brokerEpoch() kafka.BrokerEpoch { return kafka.BrokerEpoch(l.epoch.Load()) }

// registered takes note of a registration and waits until this node's metadata shows it.
func (l *lifecycle) registered(ctx context.Context, r *kmsg.BrokerRegistrationResponse) error {
	l.epoch.Store(r.BrokerEpoch)
	return l.await(ctx, func(b *metadata.Broker) bool { return int64(b.Epoch) == r.BrokerEpoch })
}

// renew registers again, as the same incarnation, when the controller has forgotten this broker or believes in another one
// under its number: a heartbeat was answered STALE_BROKER_EPOCH. What this process acknowledged it still has.
func (l *lifecycle) renew(ctx context.Context) {
	l.beats.Lock()
	leaving := l.leaving
	l.beats.Unlock()
	if !l.lapsed.Swap(false) || leaving {
		return
	}
	l.previous = l.brokerEpoch()
	body, err := l.ask(ctx, l.registration())
	if err != nil {
		return // ctx has ended
	}
	r := body.(*kmsg.BrokerRegistrationResponse)
	if code := kafka.Code(r.ErrorCode); code != kafka.None {
		l.log.Error("the controller does not know this broker any more and refuses to register it", "error", code.Name())
		return // the next heartbeat says so again
	}
	if l.registered(ctx, r) == nil {
		l.log.Warn("the controller did not know this broker any more; it has registered again", "epoch", r.BrokerEpoch)
	}
}

// register asks for a broker epoch. While the controller believes that another process, or another disk, lives under this
// number, it is asked again.
func (l *lifecycle) register(ctx context.Context) (*kmsg.BrokerRegistrationResponse, error) {
	for began, told := l.now(), false; ; told = true {
		body, err := l.ask(ctx, l.registration())
		if err != nil {
			return nil, err
		}
		r := body.(*kmsg.BrokerRegistrationResponse)
		if kafka.Code(r.ErrorCode) != kafka.DuplicateBrokerRegistration || l.now().Sub(began) > l.patience {
			return r, nil
		}
		if !told {
			l.log.Info("the controller still hears of another broker under this number, or did a moment ago")
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(l.interval):
		}
	}
}

// registerController writes down this node's controller with its endpoints and features (KIP-919): without it no feature
// could be raised.
func (l *lifecycle) registerController(ctx context.Context) error {
	r := kmsg.NewPtrControllerRegistrationRequest()
	r.ControllerID, r.IncarnationID = int32(l.node.ID), l.instance
	for _, e := range l.endpoints {
		x := kmsg.NewControllerRegistrationRequestListener()
		x.Name, x.Host, x.Port = e.Name, e.Host, e.Port
		r.Listeners = append(r.Listeners, x)
	}
	for _, f := range metadata.Features() {
		x := kmsg.NewControllerRegistrationRequestFeature()
		x.Name, x.MinSupportedVersion, x.MaxSupportedVersion = f.Name, f.Min, f.Max
		r.Features = append(r.Features, x)
	}
	body, err := l.ask(ctx, r)
	if err != nil {
		return err
	}
	if code := kafka.Code(body.(*kmsg.ControllerRegistrationResponse).ErrorCode); code != kafka.None {
		return kafka.Errorf(code, "the controller's registration is refused: %s", code.Name())
	}
	return nil
}

// await waits until the image that the partitions have caught up with shows this broker as wanted.
func (l *lifecycle) await(ctx context.Context, shows func(*metadata.Broker) bool) error {
	for {
		changed := l.publisher.Changed()
		if b, ok := l.publisher.Image().Broker(l.node.ID); ok && shows(b) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *lifecycle) registration() kmsg.Request {
	r := kmsg.NewPtrBrokerRegistrationRequest()
	r.SetVersion(r.MaxVersion())
	r.BrokerID, r.ClusterID = int32(l.node.ID), l.cluster
	r.IncarnationID = l.instance
	r.PreviousBrokerEpoch = int64(l.previous)
	if l.node.Rack != "" {
		r.Rack = kmsg.StringPtr(l.node.Rack)
	}
	for _, e := range l.listeners {
		x := kmsg.NewBrokerRegistrationRequestListener()
		x.Name, x.Host, x.Port = e.Listener, e.Host, uint16(e.Port)
		r.Listeners = append(r.Listeners, x)
	}
	for _, f := range metadata.Features() {
		x := kmsg.NewBrokerRegistrationRequestFeature()
		x.Name, x.MinSupportedVersion, x.MaxSupportedVersion = f.Name, f.Min, f.Max
		r.Features = append(r.Features, x)
	}
	for _, d := range l.dirs {
		r.LogDirs = append(r.LogDirs, d)
	}
	return r
}

// giveUpLost tells the controller which replicas are lost, until it has taken that down: an election must not find them
// among the eligible.
func (l *lifecycle) giveUpLost(ctx context.Context) error {
	for lost := l.takeLost(); len(lost) > 0; {
		if lost = l.assign(ctx, lost); len(lost) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return ctx.Err()
}

// unfence asks to serve and waits until the metadata says so.
func (l *lifecycle) unfence(ctx context.Context) error {
	if err := l.giveUpLost(ctx); err != nil {
		return err
	}
	for {
		r, err := l.beat(ctx, false, false)
		if err != nil {
			return err
		}
		if r.ErrorCode == 0 && !r.IsFenced {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return l.await(ctx, func(b *metadata.Broker) bool { return !b.Fenced })
}

func (l *lifecycle) beat(ctx context.Context, fence, shutdown bool) (*kmsg.BrokerHeartbeatResponse, error) {
	body, err := l.ask(ctx, l.heartbeat(fence, shutdown))
	if err != nil {
		return nil, err
	}
	return body.(*kmsg.BrokerHeartbeatResponse), nil
}

func (l *lifecycle) heartbeat(fence, shutdown bool) kmsg.Request {
	r := kmsg.NewPtrBrokerHeartbeatRequest()
	r.SetVersion(r.MaxVersion())
	r.BrokerID, r.BrokerEpoch = int32(l.node.ID), l.epoch.Load()
	r.CurrentMetadataOffset = int64(l.publisher.Image().Offset())
	r.WantFence, r.WantShutdown = fence, shutdown
	for _, d := range l.failed() {
		r.OfflineLogDirs = append(r.OfflineLogDirs, d)
	}
	if closed := l.cordoned(); closed != nil {
		r.CordonedLogDirs = [][16]byte{}
		for _, d := range closed {
			r.CordonedLogDirs = append(r.CordonedLogDirs, d)
		}
	}
	return r
}

// run sends heartbeats and directory reports until ctx ends.
func (l *lifecycle) run(ctx context.Context) {
	ticker := time.NewTicker(l.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.changed:
		case <-ticker.C: // what was refused is told again
		}
		l.renew(ctx)
		l.retry(l.assign(ctx, l.takeReports()))
		l.tellAlive()
	}
}

// tellAlive sends a heartbeat without waiting for the answer, which leaves only when everything before it is committed:
// a slow disk of the controller must not make a live broker look dead.
func (l *lifecycle) tellAlive() {
	l.beats.Lock()
	epoch := l.epoch.Load()
	answer := l.remind(l.heartbeat(false, l.leaving))
	l.beats.Unlock()
	answer.OnDone(func(r api.ControlReply) {
		if r.Err != nil {
			return
		}
		if code := kafka.Code(r.Body.(*kmsg.BrokerHeartbeatResponse).ErrorCode); code != kafka.None {
			l.log.Warn("the controller refuses this broker's heartbeat", "error", code.Name())
			if code == kafka.StaleBrokerEpoch && epoch == l.epoch.Load() {
				l.lapsed.Store(true) // the next round sees to it
			}
		}
	})
}

// maxAssignments is how many replicas one AssignReplicasToDirs request may carry (KIP-858).
const maxAssignments = 2250

// assign tells the controller which directories replicas are in, and gives back what it did not take down.
func (l *lifecycle) assign(ctx context.Context, reports []replica.DirReport) (refused []replica.DirReport) {
	for some := range slices.Chunk(reports, maxAssignments) {
		body, err := l.ask(ctx, assignment(l.node.ID, l.brokerEpoch(), some))
		if err != nil {
			return append(refused, some...) // ctx has ended
		}
		refused = append(refused, l.refusedOf(some, body.(*kmsg.AssignReplicasToDirsResponse))...)
	}
	return refused
}

// isSettled says whether a report with this answer is not made again.
func isSettled(code kafka.Code) bool {
	switch code {
	case kafka.None, kafka.UnknownTopicID, kafka.UnknownTopicOrPartition, kafka.NotLeaderOrFollower:
		return true
	}
	return false
}

// refusedOf gives the reports that have to be made again. A replica that is no longer this node's, or was deleted with its
// topic, lies nowhere.
func (l *lifecycle) refusedOf(reports []replica.DirReport, r *kmsg.AssignReplicasToDirsResponse) []replica.DirReport {
	if code := kafka.Code(r.ErrorCode); code != kafka.None {
		l.log.Warn("the controller does not take down where replicas lie", "error", code.Name())
		return reports
	}
	var out []replica.DirReport
	for _, d := range r.Directories {
		for _, t := range d.Topics {
			for _, p := range t.Partitions {
				switch code := kafka.Code(p.ErrorCode); {
				case code == kafka.IneligibleReplica && d.ID == kafka.DirectoryLost:
					// It is the last that has everything. Should another come into sync, the image tells, and it is said again.
				case isSettled(code):
				default:
					l.log.Warn("the controller does not take down where a replica lies", "topic", kafka.UUID(t.TopicID).String(),
						"partition", p.Partition, "error", code.Name())
					out = append(out, replica.DirReport{TopicID: t.TopicID, Partition: p.Partition, Directory: d.ID})
				}
			}
		}
	}
	return out
}

// retry queues refused reports for the next round, unless something newer is known of the same replica.
func (l *lifecycle) retry(refused []replica.DirReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range refused {
		same := func(x replica.DirReport) bool { return x.TopicID == r.TopicID && x.Partition == r.Partition }
		if !slices.ContainsFunc(l.reports, same) {
			l.reports = append(l.reports, r)
		}
	}
}

func assignment(id kafka.NodeID, epoch kafka.BrokerEpoch, reports []replica.DirReport) kmsg.Request {
	r := kmsg.NewPtrAssignReplicasToDirsRequest()
	r.BrokerID, r.BrokerEpoch = int32(id), int64(epoch)
	dirs := map[kafka.UUID]int{}
	topics := map[[2]kafka.UUID]int{}
	for _, x := range reports {
		d, ok := dirs[x.Directory]
		if !ok {
			d = len(r.Directories)
			dirs[x.Directory] = d
			dir := kmsg.NewAssignReplicasToDirsRequestDirectory()
			dir.ID = x.Directory
			r.Directories = append(r.Directories, dir)
		}
		dir := &r.Directories[d]
		key := [2]kafka.UUID{x.Directory, x.TopicID}
		t, ok := topics[key]
		if !ok {
			t = len(dir.Topics)
			topics[key] = t
			topic := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
			topic.TopicID = x.TopicID
			dir.Topics = append(dir.Topics, topic)
		}
		p := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
		p.Partition = x.Partition
		dir.Topics[t].Partitions = append(dir.Topics[t].Partitions, p)
	}
	return r
}

// leave asks for a controlled shutdown and waits until the controller has moved everything away, or ctx ends. From now on
// every heartbeat says that the broker leaves: one that did not would ask to be unfenced and be given its roles again.
func (l *lifecycle) leave(ctx context.Context) error {
	l.beats.Lock()
	l.leaving = true
	l.beats.Unlock()
	for {
		r, err := l.beat(ctx, false, true)
		if err != nil {
			return err
		}
		if r.ShouldShutdown {
			return nil
		}
		if code := kafka.Code(r.ErrorCode); code == kafka.StaleBrokerEpoch {
			return code // whom the controller does not know it has nothing to take from
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
