package node

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/peer"
	"moldau/internal/kafka"
)

const markerLane = "txn-markers"

// maxLetterPartitions bounds one request: a coordinator that has just loaded may have very many transactions to end.
const maxLetterPartitions = 10_000

// letters are the markers of some transactions for partitions that other brokers lead, in as few requests as possible.
type letters []letter

// letter is one request. No producer is in it twice, for answers name nothing else.
type letter struct {
	to         kafka.NodeID
	partitions int
	parts      []enclosure
}

// enclosure is the part of one transaction.
type enclosure struct {
	x          *marking
	partitions []kafka.TopicPartition
}

// add puts the marker of a transaction for a partition into a letter.
func (l *letters) add(to kafka.NodeID, x *marking, tp kafka.TopicPartition) {
	at := -1
	for i := range *l {
		if (*l)[i].to == to && (*l)[i].partitions < maxLetterPartitions && (*l)[i].room(x) {
			at = i
		}
	}
	if at < 0 {
		at = len(*l)
		*l = append(*l, letter{to: to})
	}
	w := &(*l)[at]
	w.partitions++
	if n := len(w.parts); n == 0 || w.parts[n-1].x != x {
		w.parts = append(w.parts, enclosure{x: x})
	}
	part := &w.parts[len(w.parts)-1]
	part.partitions = append(part.partitions, tp)
}

// room says whether a letter has no other transaction of the producer.
func (w *letter) room(x *marking) bool {
	return !slices.ContainsFunc(w.parts, func(e enclosure) bool {
		return e.x != x && e.x.work.Producer.ID == x.work.Producer.ID
	})
}

// send sends the letters. Every partition is told what became of its marker.
func (l *letters) send(p *peers) {
	for _, w := range *l {
		p.ask(w.to, markerLane, w.request()).OnDone(w.answered)
	}
}

func (w *letter) request() *kmsg.WriteTxnMarkersRequest {
	r := kmsg.NewPtrWriteTxnMarkersRequest()
	r.Version = r.MaxVersion()
	for _, e := range w.parts {
		m := kmsg.NewWriteTxnMarkersRequestMarker()
		m.ProducerID, m.ProducerEpoch = int64(e.x.work.Producer.ID), int16(e.x.work.Producer.Epoch)
		m.Committed, m.CoordinatorEpoch = e.x.work.Commit, e.x.work.CoordinatorEpoch
		m.TransactionVersion = int8(e.x.work.TransactionVersion)
		for _, tp := range e.partitions { // a topic may come again: it counts by partition
			if n := len(m.Topics); n == 0 || m.Topics[n-1].Topic != tp.Topic {
				m.Topics = append(m.Topics, kmsg.WriteTxnMarkersRequestMarkerTopic{Topic: tp.Topic})
			}
			topic := &m.Topics[len(m.Topics)-1]
			topic.Partitions = append(topic.Partitions, tp.Partition)
		}
		r.Markers = append(r.Markers, m)
	}
	return r
}

// answered tells every partition; one that the answer does not name has no marker.
func (w *letter) answered(a peer.Answer) {
	type place struct {
		producer int64
		kafka.TopicPartition
	}
	codes := map[place]kafka.Code{}
	if r, ok := a.Body.(*kmsg.WriteTxnMarkersResponse); ok {
		for _, m := range r.Markers {
			for _, t := range m.Topics {
				for _, p := range t.Partitions {
					at := place{m.ProducerID, kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition}}
					codes[at] = kafka.Code(p.ErrorCode)
				}
			}
		}
	}
	for _, e := range w.parts {
		for _, tp := range e.partitions {
			code, ok := codes[place{int64(e.x.work.Producer.ID), tp}]
			switch {
			case a.Err != nil:
				e.x.told(tp, a.Err)
			case !ok:
				e.x.told(tp, kafka.UnknownServerError)
			case code != kafka.None:
				e.x.told(tp, code)
			default:
				e.x.told(tp, nil)
			}
		}
	}
}
