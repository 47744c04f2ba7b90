package node

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/quorum"
	"moldau/internal/config"
	"moldau/internal/edge/peer"
	"moldau/internal/edge/quorumwire"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
	"moldau/internal/storage/log"
)

// quorumLane is the lane of the quorum's own messages: nothing else may stand before a vote.
const quorumLane = "quorum"

// alone says whether the node is the whole cluster and always will be: its controller has no listener for others, and it
// looks for no other.
func alone(n config.Node) bool {
	return n.IsController && len(n.Controller) == 0 && len(n.Bootstrap) == 0
}

// raft gives a request of a peer to this node's replica of the metadata log; nil: there will be no answer.
func (n *Node) raft(r kmsg.Request) *promise.Promise[kmsg.Response] {
	body, err := quorumwire.Received(r)
	if err != nil {
		return promise.Done(quorumwire.Refusal(r, err))
	}
	return promise.Map(n.control.Receive(body), func(answer quorum.Body) kmsg.Response {
		if answer == nil {
			return nil
		}
		return quorumwire.Response(r, answer, n.quorumListener())
	})
}

// sendRaft takes a message of this node's replica to a peer.
func (n *Node) sendRaft(m quorum.Message, done func(quorum.Body, error)) {
	to := peer.Address{Host: m.Peer.Host, Port: int(m.Peer.Port)}
	timeout := n.quorumConfig().RequestTimeout
	n.peers.Send(to, quorumLane, quorumwire.Request(m.Body), timeout).OnDone(func(a peer.Answer) {
		switch {
		case kafka.CodeOf(a.Err) == kafka.UnsupportedVersion:
			done(quorumwire.Refused(m.Body, kafka.UnsupportedVersion), nil)
		case a.Err != nil:
			done(nil, a.Err)
		default:
			done(quorumwire.Answered(n.quorumListener(), a.Body))
		}
	})
}

// quorumListener is the name of the listener that controllers are reached at.
func (n *Node) quorumListener() string {
	if len(n.self.ControllerListeners) == 0 {
		return controllerListener
	}
	return n.self.ControllerListeners[0]
}

// staticVoters are the voters of controller.quorum.voters.
func (n *Node) staticVoters() (quorum.VoterSet, error) {
	var all []quorum.Voter
	for _, v := range n.self.Voters {
		all = append(all, quorum.Voter{Key: quorum.ReplicaKey{ID: v.ID},
			Endpoints: []quorum.Endpoint{{Name: n.quorumListener(), Host: v.Host, Port: uint16(v.Port)}}})
	}
	return quorum.NewVoterSet(all...)
}

func (n *Node) bootstrapServers() ([]quorum.Endpoint, error) {
	var out []quorum.Endpoint
	for _, s := range n.self.Bootstrap {
		host, port, err := config.ParseHostPort(s)
		if err != nil {
			return nil, err
		}
		out = append(out, quorum.Endpoint{Name: n.quorumListener(), Host: host, Port: uint16(port)})
	}
	return out, nil
}

// joinQuorum makes what the node needs to talk to others, and opens the controller listeners: peers must be able to answer
// before this node asks.
func (n *Node) joinQuorum() error {
	n.control.exchange = newExchange(n.quorumListener(), n.sendRaft)
	n.relay = newRelay(n, n.control.exchange, n.peers)
	if n.self.IsController {
		n.deathwatch = newDeathwatch(n)
		n.control.deathwatch = n.deathwatch
	}
	var err error
	if n.controllers, err = n.listenControllers(n.server); err != nil {
		return err
	}
	for _, l := range n.controllers {
		if err := l.Start(); err != nil {
			return err
		}
	}
	return nil
}

// listenControllers binds the controller listeners for a server.
func (n *Node) listenControllers(s *server.Server) ([]*server.Listener, error) {
	var out []*server.Listener
	for _, e := range n.self.Controller {
		o := server.ListenerOptions{Name: e.Listener, Kind: server.ControllerListener, Address: e.Address()}
		if n.o.Listen != nil {
			l, err := n.o.Listen(e.Address())
			if err != nil {
				return out, err
			}
			o.Net = l
		}
		l, err := s.Listen(o)
		if err != nil {
			return out, err
		}
		out = append(out, l)
	}
	return out, nil
}

// leaveQuorum ends the control loop and the talk with others: in good order, a leader hands over first.
func (n *Node) leaveQuorum(orderly bool) {
	if n.peers != nil && !orderly {
		n.peers.Close()
	}
	switch {
	case n.control == nil:
	case orderly:
		n.control.stop()
	default:
		n.control.kill()
	}
	if n.relay != nil {
		n.relay.stop()
	}
	n.deathwatch.stop()
	if n.peers != nil {
		n.peers.Close()
	}
}

// brokerEpoch is the epoch of the broker's registration; NoBrokerEpoch before it.
func (n *Node) brokerEpoch() kafka.BrokerEpoch {
	if n.lifecycle == nil {
		return log.NoBrokerEpoch
	}
	return n.lifecycle.brokerEpoch()
}
