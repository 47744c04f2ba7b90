package node

import (
	"fmt"
	"slices"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// explainLeaderless says why a partition has no leader, and what would give it one. Every node can tell: it is all in the
// metadata.
func (n *Node) explainLeaderless(tp kafka.TopicPartition, p *metadata.Partition) PartitionExplanation {
	image := n.publisher.Image()
	out := PartitionExplanation{Topic: tp.Topic, Partition: tp.Partition, Leader: int32(kafka.NoNode), LeaderEpoch: int32(p.LeaderEpoch),
		Replicas: numbers(p.Replicas), ISR: numbers(p.ISR), Now: n.o.Now(), Transactions: []OpenTransaction{},
		Followers: []FollowerExplanation{}}
	whole := slices.Concat(p.ISR, p.ELR)
	down, others := false, false // a broker that might bring everything back; a replica that could be elected at a price
	for _, id := range p.Replicas {
		b, _ := image.Broker(id)
		holds := slices.Contains(whole, id)
		serves := b != nil && b.Active() && b.DirectoryOnline(p.Directory(id))
		others = others || serves && !holds
		down = down || (holds || len(whole) == 0) && (b == nil || !b.Active())
		out.Followers = append(out.Followers, FollowerExplanation{Broker: int32(id), InSync: slices.Contains(p.ISR, id),
			Why: whyNotLeader(b, p, id, holds)})
	}
	unclean := fmt.Sprintf("moldau topic elect %s-%d --unclean", tp.Topic, tp.Partition)
	switch {
	case !down && others:
		out.Waits = "nobody leads it: the replicas that had everything lost it. " + unclean + " elects one at the price of what it lacks"
	case !down:
		out.Waits = "nobody leads it: every replica lost its log directory. " + unclean + " begins it anew, empty; " +
			"a directory that is only offline should be brought back instead"
	default:
		out.Waits = "nobody leads it until a broker whose replica has everything comes back with its disk"
	}
	return out
}

// whyNotLeader says why a replica does not lead a partition that has no leader.
func whyNotLeader(b *metadata.Broker, p *metadata.Partition, id kafka.NodeID, holds bool) string {
	dir := p.Directory(id)
	switch {
	case b == nil:
		return "the broker is not registered"
	case b.Fenced:
		return "the broker is fenced: it is down, cut off, or has not caught up with the metadata"
	case b.InControlledShutdown:
		return "the broker is shutting down"
	case dir == kafka.DirectoryLost:
		return "its replica is lost and not refilled yet"
	case !b.DirectoryOnline(dir):
		return fmt.Sprintf("its log directory %s is offline or gone", dir)
	case !holds:
		return "it may lack records that are acknowledged"
	}
	return "it is about to be elected"
}
