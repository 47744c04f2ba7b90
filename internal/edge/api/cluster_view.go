package api

import (
	"cmp"
	"slices"

	"moldau/internal/cluster/metadata"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
)

// clusterView is what a client of one listener can see and reach of the cluster.
type clusterView struct {
	image   *metadata.Image
	brokers []leaderEndpoint // those that are not fenced and have the listener, by id
}

// view looks the brokers up once: an answer about all topics asks for them again and again.
func (b *Broker) view(c *server.ConnInfo) clusterView {
	v := clusterView{image: b.Image()}
	for r := range v.image.Brokers() {
		if e, ok := b.leaderEndpoint(c, v.image, r.ID); ok {
			v.brokers = append(v.brokers, e)
		}
	}
	return v
}

// alive says whether the client can use a broker.
func (v clusterView) alive(id kafka.NodeID) bool {
	_, ok := slices.BinarySearchFunc(v.brokers, id,
		func(e leaderEndpoint, id kafka.NodeID) int { return cmp.Compare(e.id, id) })
	return ok
}

// leader gives the leader of a partition, or why the client cannot reach one: LEADER_NOT_AVAILABLE, LISTENER_NOT_FOUND.
func (v clusterView) leader(p *metadata.Partition) (kafka.NodeID, error) {
	if v.alive(p.Leader) {
		return p.Leader, nil
	}
	if _, ok := v.image.Broker(p.Leader); ok {
		return kafka.NoNode, kafka.ListenerNotFound
	}
	return kafka.NoNode, kafka.LeaderNotAvailable
}

// offline lists the replicas of a partition that do not serve: on a broker that is gone, fenced or without the client's
// listener, or in a log directory that is offline. The list is never nil: on the wire that would be null.
func (v clusterView) offline(p *metadata.Partition) []int32 {
	out := []int32{}
	for _, id := range p.Replicas {
		r, ok := v.image.Broker(id)
		if !ok || !v.alive(id) || !r.DirectoryOnline(p.Directory(id)) {
			out = append(out, int32(id))
		}
	}
	return out
}

// reachable leaves out the brokers that the client cannot use.
func (v clusterView) reachable(ids []int32) []int32 {
	return slices.DeleteFunc(ids, func(id int32) bool { return !v.alive(kafka.NodeID(id)) })
}

// wireIDs copies node ids; the result is never nil.
func wireIDs(ids []kafka.NodeID) []int32 {
	out := make([]int32, len(ids))
	for i, id := range ids {
		out[i] = int32(id)
	}
	return out
}
