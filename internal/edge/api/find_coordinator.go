package api

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// Kinds of coordinators, as FindCoordinator numbers them.
const (
	groupCoordinator       int8 = 0
	transactionCoordinator int8 = 1
	shareCoordinator       int8 = 2
)

// findCoordinatorRow tells which broker coordinates a group or a transactional id: the leader of the partition of
// __consumer_offsets or __transaction_state that the id hashes to. The topic is created when it is first asked for; until
// then there is no coordinator. Versions up to 3 ask for
// one key, newer ones for many (KIP-699).
func (b *Broker) findCoordinatorRow() server.API {
	return server.API{Key: int16(kmsg.FindCoordinator), Min: 0, Max: 6, Listener: server.BrokerListener,
		Handle: b.handleFindCoordinator}
}

func (b *Broker) handleFindCoordinator(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.FindCoordinatorRequest)
	resp := kmsg.NewPtrFindCoordinatorResponse()
	if req.Version < 4 {
		x := b.findCoordinator(c, req.CoordinatorType, req.CoordinatorKey)
		resp.ErrorCode, resp.ErrorMessage = x.ErrorCode, x.ErrorMessage
		resp.NodeID, resp.Host, resp.Port = x.NodeID, x.Host, x.Port
	} else {
		resp.Coordinators = make([]kmsg.FindCoordinatorResponseCoordinator, 0, len(req.CoordinatorKeys))
		for _, key := range req.CoordinatorKeys {
			resp.Coordinators = append(resp.Coordinators, b.findCoordinator(c, req.CoordinatorType, key))
		}
	}
	return answer(server.Reply{Body: resp, Code: firstError(resp)})
}

// findCoordinator answers for one key. Kafka sends a message in every answer, "NONE" with a success.
func (b *Broker) findCoordinator(c *server.Call, kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	out := kmsg.NewFindCoordinatorResponseCoordinator()
	out.Key = strings.Clone(key)
	at, err := b.coordinatorOf(c, kind, key)
	if err != nil {
		out.NodeID, out.Port = int32(kafka.NoNode), -1
		out.ErrorCode, out.ErrorMessage = codeAndMessage(err)
		return out
	}
	message := kafka.None.Name()
	out.NodeID, out.Host, out.Port, out.ErrorMessage = int32(at.id), at.host, at.port, &message
	return out
}

func (b *Broker) coordinatorOf(c *server.Call, kind int8, key string) (leaderEndpoint, error) {
	image := b.Image()
	var runtime *coordinator.Runtime
	topic := kafka.OffsetsTopic
	switch kind {
	case groupCoordinator:
		runtime = b.Groups
	case transactionCoordinator:
		runtime, topic = b.Transactions, kafka.TransactionsTopic
	case shareCoordinator:
		return leaderEndpoint{}, errNoShareGroups
	default:
		return leaderEndpoint{}, errCoordinatorKind
	}
	partition, ok := runtime.PartitionFor(key)
	if !ok {
		b.createInternal(c, topic)
		return leaderEndpoint{}, errNoCoordinatorTopic
	}
	p, ok := image.Partition(kafka.TopicPartition{Topic: topic, Partition: partition})
	if !ok {
		return leaderEndpoint{}, errNoCoordinatorTopic
	}
	at, ok := b.leaderEndpoint(c.Conn, image, p.Leader)
	if !ok {
		return leaderEndpoint{}, errCoordinatorAway
	}
	return at, nil
}

var (
	errNoCoordinatorTopic = kafka.Errorf(kafka.CoordinatorNotAvailable, "the coordinator's topic is being created")
	errCoordinatorAway    = kafka.Errorf(kafka.CoordinatorNotAvailable, "the coordinator's broker is not available on this listener")
	errNoShareGroups      = kafka.Errorf(kafka.InvalidRequest, "share groups are not enabled, so they have no coordinator")
	errCoordinatorKind    = kafka.Errorf(kafka.InvalidRequest, "there is no such kind of coordinator")
)
