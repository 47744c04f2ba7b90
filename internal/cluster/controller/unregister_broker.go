package controller

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// unregisterBroker answers UnregisterBroker (KIP-631): the cluster forgets a broker and does not count on its
// replicas.
func (t *turn) unregisterBroker(r *kmsg.UnregisterBrokerRequest) Result {
	reply := kmsg.NewPtrUnregisterBrokerResponse()
	b, ok := t.Image.Broker(kafka.NodeID(r.BrokerID))
	if !ok {
		err := kafka.Errorf(kafka.BrokerIDNotRegistered, "broker %d is not registered", r.BrokerID)
		reply.ErrorCode, reply.ErrorMessage = int16(kafka.CodeOf(err)), messageOf(err)
		return Result{Reply: reply}
	}
	gone := losing(b.ID)
	records := t.repartition(t.Image.InISR(b.ID), gone)
	records = append(records, t.repartition(t.Image.InELR(b.ID), gone)...)
	records = append(records, &metadata.UnregisterBrokerRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch})
	return Result{Records: records, Reply: reply}
}
