package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// The kinds of nodes that DescribeCluster is asked for (KIP-919).
const (
	brokerEndpoints     int8 = 1
	controllerEndpoints int8 = 2
)

func (b *Broker) describeClusterRow() server.API {
	return server.API{Key: int16(kmsg.DescribeCluster), Min: 0, Max: 2, Listener: server.BothListeners,
		Handle: b.describeCluster}
}

// describeCluster lists the brokers, or the controllers when it is asked on a controller listener.
func (b *Broker) describeCluster(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.DescribeClusterRequest)
	resp := kmsg.NewPtrDescribeClusterResponse()
	served := brokerEndpoints
	if c.Conn.Kind == server.ControllerListener {
		served = controllerEndpoints
	}
	err := checkEndpointType(req.EndpointType, served)
	if err != nil && c.Version == 0 {
		err = kafka.Errorf(kafka.InvalidRequest, "version 0 cannot ask for controllers, which this listener serves")
	}
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = codeAndMessage(err)
		return answer(server.Reply{Body: resp, Code: kafka.CodeOf(err)})
	}
	resp.ClusterID, resp.EndpointType = b.ClusterID, served
	resp.ClusterAuthorizedOperations = operationsIf(req.IncludeClusterAuthorizedOperations, allClusterOperations)
	image := b.Image()
	if served == controllerEndpoints {
		return b.describeControllers(c.Conn, image, resp)
	}
	b.listBrokers(c.Conn, image, req.IncludeFencedBrokers, resp)
	return answer(server.Reply{Body: resp})
}

func checkEndpointType(asked, served int8) error {
	switch asked {
	case served:
		return nil
	case brokerEndpoints, controllerEndpoints:
		return kafka.Errorf(kafka.MismatchedEndpointType, "this listener serves endpoint type %d, not %d", served, asked)
	}
	return kafka.Errorf(kafka.UnsupportedEndpointType, "there is no endpoint type %d", asked)
}

// listBrokers lists the brokers that have the client's listener; fenced ones if asked for (KIP-1073).
func (b *Broker) listBrokers(
	c *server.ConnInfo, image *metadata.Image, fenced bool, resp *kmsg.DescribeClusterResponse,
) {
	for r := range image.Brokers() {
		host, port, ok := b.Advertised(c, r)
		if !ok || r.Fenced && !fenced {
			continue
		}
		out := kmsg.NewDescribeClusterResponseBroker()
		out.NodeID, out.Host, out.Port, out.Rack, out.IsFenced = int32(r.ID), host, port, r.Rack, r.Fenced
		resp.Brokers = append(resp.Brokers, out)
		if !r.Fenced && (resp.ControllerID < 0 || r.ID == b.Self) {
			resp.ControllerID = int32(r.ID) // any broker passes requests on to the controller: best this one
		}
	}
}

// describeControllers lists the registered controllers that have the client's listener, and the one in office.
func (b *Broker) describeControllers(
	c *server.ConnInfo, image *metadata.Image, resp *kmsg.DescribeClusterResponse,
) *promise.Promise[server.Reply] {
	for r := range image.Controllers() {
		e, ok := r.Endpoint(c.Listener)
		if !ok {
			continue
		}
		out := kmsg.NewDescribeClusterResponseBroker()
		out.NodeID, out.Host, out.Port = int32(r.ID), e.Host, int32(e.Port)
		resp.Brokers = append(resp.Brokers, out)
	}
	return promise.Map(b.Quorum(), func(q QuorumReply) server.Reply {
		if q.Err == nil || q.Description.Leader > 0 { // not only the leader knows who leads
			resp.ControllerID = int32(q.Description.Leader)
		}
		return server.Reply{Body: resp}
	})
}
