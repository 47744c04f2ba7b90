package api

import (
	"cmp"
	"slices"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
)

// rackAwareSelector is the one replica.selector.class that sends consumers elsewhere (KIP-392).
const rackAwareSelector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

// prefers says whether a consumer may be sent to a replica that is nearer.
func (op *fetchOp) prefers() bool { return op.rack != "" && op.replica == kafka.NoNode }

// preferred finds the replica that a consumer should read from rather than from this leader: in its rack, in sync, with the
// offset it wants, and of several the one that has most; the leader stays it if it is in the rack itself.
func (op *fetchOp) preferred(image *metadata.Image, part *replica.Partition, e *fetchEntry) kafka.NodeID {
	if self, ok := image.Broker(op.h.b.Self); ok && self.Rack != nil && *self.Rack == op.rack {
		return kafka.NoNode
	}
	near := slices.DeleteFunc(part.ReadReplicas(e.offset), func(r replica.ReadReplica) bool {
		at, ok := op.h.b.leaderEndpoint(op.call.Conn, image, r.Broker)
		return !ok || at.rack == nil || *at.rack != op.rack
	})
	if len(near) == 0 {
		return kafka.NoNode
	}
	return slices.MaxFunc(near, func(a, b replica.ReadReplica) int {
		return cmp.Or(cmp.Compare(a.End, b.End), a.CaughtUp.Compare(b.CaughtUp), cmp.Compare(a.Broker, b.Broker))
	}).Broker
}

// redirect answers with the replica to read from and without records, if there is a better one.
func (op *fetchOp) redirect(image *metadata.Image, part *replica.Partition, r *fetchResult) bool {
	if !op.prefers() {
		return false
	}
	near := op.preferred(image, part, r.entry)
	if near == kafka.NoNode {
		return false
	}
	read := part.Offsets(r.entry.leaderEpoch)
	if read.Err != nil {
		r.code = kafka.CodeOf(read.Err)
		return true
	}
	r.ReadResult, r.preferred = read, near
	return true
}
