package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// initProducerIDRow gives producers their ids. For idempotent ones each request draws a new id with epoch 0, also when the
// producer names the one it had, since it bumps its epoch by itself (KIP-360). A transactional id's coordinator keeps its
// producer id and counts its epochs. Versions above 5 are not stable in Kafka (KIP-939).
func (b *Broker) initProducerIDRow() server.API {
	return server.API{Key: int16(kmsg.InitProducerID), Min: 0, Max: 5, Listener: server.BrokerListener,
		Handle: b.handleInitProducerID}
}

func (b *Broker) handleInitProducerID(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.InitProducerIDRequest)
	if id := req.TransactionalID; id != nil {
		return coordinateTxn(b, c, *id, req, func(_ *kmsg.InitProducerIDRequest, err error) kmsg.Response {
			return initProducerIDReply(ProducerIDReply{Err: err}).Body
		})
	}
	if req.Version >= 3 && (req.ProducerID == int64(kafka.NoProducer)) != (req.ProducerEpoch == int16(kafka.NoProducerEpoch)) {
		return answer(initProducerIDReply(ProducerIDReply{Err: kafka.InvalidRequest})) // half of what it had
	}
	return promise.Map(b.ProducerID(), initProducerIDReply)
}

func initProducerIDReply(p ProducerIDReply) server.Reply {
	resp := kmsg.NewPtrInitProducerIDResponse()
	code := kafka.CodeOf(p.Err)
	resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = int16(code), int64(p.ID), 0
	if p.Err != nil {
		resp.ProducerID, resp.ProducerEpoch = int64(kafka.NoProducer), int16(kafka.NoProducerEpoch)
	}
	return server.Reply{Body: resp, Code: code}
}
