package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// addOffsetsToTxnRow makes a group's offsets part of a transaction: the partition of __consumer_offsets that holds them
// is added. Clients of transactions v2 leave that to TxnOffsetCommit (KIP-890).
func (b *Broker) addOffsetsToTxnRow() server.API {
	return server.API{Key: int16(kmsg.AddOffsetsToTxn), Min: 0, Max: 4, Listener: server.BrokerListener,
		Handle: b.handleAddOffsetsToTxn}
}

func (b *Broker) handleAddOffsetsToTxn(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.AddOffsetsToTxnRequest)
	if req.TransactionalID != "" {
		if _, ok := b.Groups.PartitionFor(req.Group); !ok {
			b.createInternal(c, kafka.OffsetsTopic) // the client comes again
		}
	}
	return coordinateTxn(b, c, req.TransactionalID, req,
		func(_ *kmsg.AddOffsetsToTxnRequest, err error) kmsg.Response {
			resp := kmsg.NewPtrAddOffsetsToTxnResponse()
			resp.ErrorCode = int16(kafka.CodeOf(err))
			return resp
		})
}
