package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// writeTxnMarkersRow ends transactions on the partitions that this broker leads. Other brokers' coordinators ask for it,
// and an administrator may, to end a transaction that its coordinator does not know any more (KIP-664).
func (b *Broker) writeTxnMarkersRow() server.API {
	return server.API{Key: int16(kmsg.WriteTxnMarkers), Min: 1, Max: 2, Listener: server.BrokerListener,
		Handle: b.handleWriteTxnMarkers}
}

func (b *Broker) handleWriteTxnMarkers(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req, err := own(r.(*kmsg.WriteTxnMarkersRequest))
	if err != nil {
		return answer(server.Reply{None: true, Close: true, Code: kafka.CodeOf(err)})
	}
	c.Lease.Release()
	image := b.Image()
	var answers []*promise.Promise[error]
	for i := range req.Markers {
		m := &req.Markers[i]
		marker := coordinator.Marker{
			Producer: coordinator.Stamp{ID: kafka.ProducerID(m.ProducerID), Epoch: kafka.ProducerEpoch(m.ProducerEpoch)},
			Commit:   m.Committed, CoordinatorEpoch: m.CoordinatorEpoch, TransactionVersion: int16(m.TransactionVersion),
		}
		for _, t := range m.Topics {
			for _, index := range t.Partitions {
				tp := kafka.TopicPartition{Topic: t.Topic, Partition: index}
				marker.Partition = index
				if _, err := b.partition(image, tp); err != nil {
					answers = append(answers, promise.Done(err))
				} else {
					answers = append(answers, b.WriteMarker(tp, marker))
				}
			}
		}
	}
	return promise.Map(gather(answers), func(all []error) server.Reply { return markersWritten(req, all) })
}

// markersWritten makes the response; all are the outcomes in the order of the request.
func markersWritten(req *kmsg.WriteTxnMarkersRequest, all []error) server.Reply {
	resp := kmsg.NewPtrWriteTxnMarkersResponse()
	var first kafka.Code
	for i := range req.Markers {
		m := kmsg.WriteTxnMarkersResponseMarker{ProducerID: req.Markers[i].ProducerID}
		for _, t := range req.Markers[i].Topics {
			out := kmsg.WriteTxnMarkersResponseMarkerTopic{Topic: t.Topic}
			for _, index := range t.Partitions {
				code := kafka.CodeOf(all[0])
				all = all[1:]
				if first == 0 {
					first = code
				}
				out.Partitions = append(out.Partitions,
					kmsg.WriteTxnMarkersResponseMarkerTopicPartition{Partition: index, ErrorCode: int16(code)})
			}
			m.Topics = append(m.Topics, out)
		}
		resp.Markers = append(resp.Markers, m)
	}
	return server.Reply{Body: resp, Code: first}
}
