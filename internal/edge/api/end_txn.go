package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// endTxnRow commits or aborts a transaction. The answer says that the outcome is decided and kept; the partitions learn
// of it right after. From version 5 on each end comes with a new epoch (KIP-890).
func (b *Broker) endTxnRow() server.API {
	return server.API{Key: int16(kmsg.EndTxn), Min: 0, Max: 5, Listener: server.BrokerListener, Handle: b.handleEndTxn}
}

func (b *Broker) handleEndTxn(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.EndTxnRequest)
	return coordinateTxn(b, c, req.TransactionalID, req, func(_ *kmsg.EndTxnRequest, err error) kmsg.Response {
		resp := kmsg.NewPtrEndTxnResponse()
		resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = int16(kafka.CodeOf(err)), -1, -1
		return resp
	})
}
