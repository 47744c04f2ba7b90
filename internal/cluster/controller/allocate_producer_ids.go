package controller

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// producerIDBlock is how many producer ids a broker gets at once (KIP-730).
const producerIDBlock = 1000

// allocateProducerIDs answers AllocateProducerIds: the broker gets a block that nobody else ever will.
func (t *turn) allocateProducerIDs(r *kmsg.AllocateProducerIDsRequest) Result {
	reply := kmsg.NewPtrAllocateProducerIDsResponse()
	b, err := t.checkBroker(kafka.NodeID(r.BrokerID), kafka.BrokerEpoch(r.BrokerEpoch))
	first := t.Image.NextProducerID()
	if err == nil && first > math.MaxInt64-producerIDBlock {
		err = kafka.UnknownServerError
	}
	if err != nil {
		reply.ErrorCode = int16(kafka.CodeOf(err))
		return Result{Reply: reply}
	}
	reply.ProducerIDStart, reply.ProducerIDLen = int64(first), producerIDBlock
	record := &metadata.ProducerIDsRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch,
		NextProducerID: first + producerIDBlock}
	return Result{Reply: reply, Records: []metadata.Record{record}}
}
