package api

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// fetchSessions is the cache of incremental fetch sessions (KIP-227).
type fetchSessions struct {
	b *Broker
}

func newFetchSessions(b *Broker) *fetchSessions { return &fetchSessions{b: b} }

// attach gives op its set.
func (c *fetchSessions) attach(op *fetchOp, req *kmsg.FetchRequest) kafka.Code {
	if req.SessionEpoch > 0 {
		return kafka.FetchSessionIDNotFound
	}
	op.set = newFetchSet(req.Version >= 13, op.replica != kafka.NoNode)
	op.set.entries = c.entries(req)
	return 0
}

// entries makes the entries of a request, each partition once: the last word about it counts.
func (c *fetchSessions) entries(req *kmsg.FetchRequest) []*fetchEntry {
	image := c.b.Image()
	var out []*fetchEntry
	for i := range req.Topics {
		t := &req.Topics[i]
		name := ""
		if req.Version >= 13 {
			if known, ok := image.TopicByID(t.TopicID); ok {
				name = known.Name
			}
		} else if known, ok := image.Topic(t.Topic); ok {
			name = known.Name
		} else {
			name = strings.Clone(t.Topic)
		}
		for j := range t.Partitions {
			out = append(out, newEntry(name, t, &t.Partitions[j]))
		}
	}
	return out
}
