package node

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/config"
	"moldau/internal/edge/peer"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// peers are the ways from this broker to others, over the listener that brokers use among themselves.
type peers struct {
	pool    *peer.Pool
	self    config.Node
	image   func() *metadata.Image
	timeout time.Duration // request.timeout.ms
}

// newPeers makes the ways without walking any. name goes into the client id: "broker-1".
func newPeers(n *Node, name string) *peers {
	ms := func(key string) time.Duration { return time.Duration(n.config.Int64(key)) * time.Millisecond }
	return &peers{self: n.self, image: n.publisher.Image, timeout: ms("request.timeout.ms"),
		pool: peer.NewPool(peer.Options{ClientID: name, Dial: n.o.Dial, Log: n.log,
			DialTimeout:    ms("socket.connection.setup.timeout.ms"),
			MaxDialTimeout: ms("socket.connection.setup.timeout.max.ms")})}
}

// ask sends a request to a broker. A broker that the image does not show, or not on the listener of brokers, is
// BROKER_NOT_AVAILABLE.
func (p *peers) ask(to kafka.NodeID, lane string, r kmsg.Request) *promise.Promise[peer.Answer] {
	if b, ok := p.image().Broker(to); ok {
		if e, ok := b.Endpoint(p.self.InterBroker); ok {
			return p.pool.Send(peer.Address{Host: e.Host, Port: int(e.Port)}, lane, r, p.timeout)
		}
	}
	return promise.Done(peer.Answer{Err: kafka.Errorf(kafka.BrokerNotAvailable, "broker %d has no listener %s", to,
		p.self.InterBroker)})
}

// leader gives the broker that leads a partition if it is another one than this.
func (p *peers) leader(tp kafka.TopicPartition) (kafka.NodeID, bool) {
	at, ok := p.image().Partition(tp)
	if !ok || at.Leader < 0 || at.Leader == p.self.ID {
		return kafka.NoNode, false
	}
	return at.Leader, true
}

// close ends all requests.
func (p *peers) close() { p.pool.Close() }
