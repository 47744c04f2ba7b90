package node

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/controller"
	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/config"
	"moldau/internal/edge/api"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

// RequestFlush is what partitions call when something is to be synced.
func (n *Node) RequestFlush(p *replica.Partition) {
	if l := p.Log(); l != nil {
		n.flushers[l.Dir()].request(p)
	}
}

// ProposeISR carries a change of an in-sync set to the controller.
func (n *Node) ProposeISR(p *replica.Partition, r replica.ISRProposal) { n.inSync.propose(p, r) }

// DirFailed takes a log directory offline. Without the metadata directory, or without any directory, the node cannot go
// on.
func (n *Node) DirFailed(d *log.Dir, err error) {
	n.failMu.Lock()
	_, known := n.dirError[d]
	if !known {
		n.dirError[d] = err
	}
	n.failMu.Unlock()
	if known {
		return
	}
	n.log.Error("a log directory is offline", "dir", d.Path(), "error", err)
	n.metrics.dirFailed(d)
	if d == n.dirs.metadata {
		n.fail(err)
	}
	n.marker.forget()
	n.manager.DirFailed(d, n)
	if l := n.told.Load(); l != nil {
		l.tell()
	}
	if len(n.manager.OnlineDirs()) == 0 {
		n.fail(err)
	}
}

// judge takes a directory offline when err says that its disk failed.
func (n *Node) judge(d *log.Dir, err error) {
	if vfs.IsDiskFailure(err) {
		n.DirFailed(d, err)
	}
}

// LogBroken keeps a damaged log from being served, or made anew, before a start has recovered it.
func (n *Node) LogBroken(p *replica.Partition, err error) {
	n.log.Error("a partition is offline: its log is damaged; the next start recovers what can be",
		"partition", p.TopicPartition().String(), "error", err)
	n.manager.Broken(p.TopicPartition())
	if report, ok := n.manager.LostReport(n.publisher.Image(), p); ok {
		n.reportDirectories([]replica.DirReport{report})
	}
}

// rotten handles a stored batch that is damaged. While a broker in service has a whole replica in sync, this one is given up,
// so that the other leads, and copied anew from the damage on; without one it serves what it has.
func (n *Node) rotten(tp kafka.TopicPartition, from kafka.Offset) {
	n.metrics.rotten()
	p, err := n.manager.Get(tp)
	if err != nil || !p.Rotten(from) {
		return
	}
	report, ok := n.manager.RotReport(n.publisher.Image(), p)
	if !ok {
		n.log.Error("a stored batch is damaged; consumers will refuse it, and there is no other replica in sync",
			"partition", tp.String(), "offset", from)
		return
	}
	n.log.Error("a stored batch is damaged; the replica is given up and copied anew from there on", "partition", tp.String(),
		"offset", from)
	n.reportDirectories([]replica.DirReport{report})
}

// DirFull refuses appends to a directory until space returns; upkeep looks.
func (n *Node) DirFull(d *log.Dir) {
	if _, err := n.checkSpace(d); err != nil {
		n.log.Warn("free space cannot be determined", "dir", d.Path(), "error", err)
	}
}

// checkSpace looks whether a directory is full and says so once, not with every append that is refused.
func (n *Node) checkSpace(d *log.Dir) (full bool, err error) {
	known := d.Full()
	full, err = d.CheckSpace()
	switch {
	case err != nil || full == known:
	case full:
		n.log.Warn("a log directory is full: appends to it are refused until space returns", "dir", d.Path())
	default:
		n.log.Info("a log directory has space again", "dir", d.Path())
	}
	return full, err
}

// topicConfig resolves a topic's configuration in an image.
func (n *Node) topicConfig(image *metadata.Image, topic string) *log.Config {
	r := resolver(n.config, n.self, image)
	c := logConfig(r.Topic(topic), r.Broker("producer.id.expiration.ms").Int64(), n.self.ID)
	if c.FlushAsync {
		// What is acknowledged from now on can be lost by a crash, so the next start must not claim that nothing was.
		n.marker.forget()
	}
	return c
}

func resolver(s *config.Static, self config.Node, image *metadata.Image) *config.Resolver {
	return image.Resolver(s, self.ID)
}

// tooManyProducers says whether the node remembers as many producer ids as it may.
func (n *Node) tooManyProducers() bool {
	return n.producerCount.Load() >= n.config.Int64("moldau.producer.ids.max")
}

// imageChanged is told of every image that the partitions have caught up with, and how long that took.
func (n *Node) imageChanged(image *metadata.Image, diff *metadata.Diff, took time.Duration) {
	n.metrics.imageChanged(image, diff, took)
	if n.relay != nil {
		n.relay.imageAt(image.Offset())
	}
	n.deathwatch.imageChanged(diff)
	r := resolver(n.config, n.self, image)
	n.throttles.follow(r)
	if s := n.limited.Load(); s != nil {
		s.SetLimits(serverLimits(n.config, r))
	}
}

func (n *Node) reportDirectories(reports []replica.DirReport) { n.lifecycle.report(reports) }

// forward gives the request of a call to the active controller. On a controller listener that has to be this node's: whoever
// asks there looks for it.
func (n *Node) forward(c *server.Call, body kmsg.Request) *promise.Promise[api.ControlReply] {
	r := controller.Request{Principal: c.Principal, ClientID: c.ClientID, Body: body}
	here := c.Conn.Kind == server.ControllerListener
	if here {
		r.Connected = isOpen(c.Conn)
		n.watch(c, body)
	}
	if !here && n.relay != nil {
		return n.relay.submit(r, c, false)
	}
	if !controller.Handles(body.Key()) {
		return promise.Done(api.ControlReply{Err: kafka.NotLeaderOrFollower})
	}
	return n.control.Submit(r)
}

// watch notes that a broker lives as long as the connection that it says so over.
func (n *Node) watch(c *server.Call, body kmsg.Request) {
	switch r := body.(type) {
	case *kmsg.BrokerHeartbeatRequest:
		n.deathwatch.heard(c.Conn, kafka.NodeID(r.BrokerID))
	case *kmsg.BrokerRegistrationRequest:
		n.deathwatch.heard(c.Conn, kafka.NodeID(r.BrokerID))
	}
}

func isOpen(c *server.ConnInfo) func() bool {
	return func() bool {
		select {
		case <-c.Done():
			return false
		default:
			return true
		}
	}
}

// submit gives a request of the node's own to the active controller.
func (n *Node) submit(body kmsg.Request) *promise.Promise[api.ControlReply] {
	r := controller.Request{Principal: kafka.Anonymous, Body: body}
	if n.relay != nil {
		return n.relay.submit(r, nil, false)
	}
	return n.control.Submit(r)
}

// remind is submit for what is said again before long: if it fails, that is the end of it.
func (n *Node) remind(body kmsg.Request) *promise.Promise[api.ControlReply] {
	r := controller.Request{Principal: kafka.Anonymous, Body: body}
	if n.relay != nil {
		return n.relay.submit(r, nil, true)
	}
	return n.control.Submit(r)
}

// after runs f once after d unless cancelled.
func (n *Node) after(d time.Duration, f func()) func() {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}
