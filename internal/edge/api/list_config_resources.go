package api

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

func (b *Broker) listConfigResourcesRow() server.API {
	return server.API{Key: int16(kmsg.ListConfigResources), Min: 0, Max: 1, Listener: server.BrokerListener,
		Handle: b.listConfigResources}
}

// listedTypes are the types of resources in the order of the answer (KIP-1142).
var listedTypes = []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker,
	kmsg.ConfigResourceTypeBrokerLogger, kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig}

// listConfigResources lists the resources that have or can have configurations: every topic and broker, and the groups
// and client-metrics subscriptions for which something is stored. Version 0 knows subscriptions only (KIP-714).
func (b *Broker) listConfigResources(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.ListConfigResourcesRequest)
	resp := kmsg.NewPtrListConfigResourcesResponse()
	wanted := listedTypes
	if req.Version == 0 {
		wanted = []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeClientMetrics}
	} else if len(req.ResourceTypes) > 0 {
		wanted = nil
		for _, t := range req.ResourceTypes {
			if !slices.Contains(listedTypes, kmsg.ConfigResourceType(t)) {
				resp.ErrorCode = int16(kafka.UnsupportedVersion)
				return answer(server.Reply{Body: resp, Code: kafka.UnsupportedVersion})
			}
			wanted = append(wanted, kmsg.ConfigResourceType(t))
		}
	}
	v := b.view(c.Conn)
	for _, t := range listedTypes {
		if slices.Contains(wanted, t) {
			v.addResources(resp, t)
		}
	}
	return answer(server.Reply{Body: resp})
}

// addResources adds the resources of one type, by name.
func (v clusterView) addResources(resp *kmsg.ListConfigResourcesResponse, t kmsg.ConfigResourceType) {
	add := func(name string) {
		x := kmsg.NewListConfigResourcesResponseConfigResource()
		x.Name, x.Type = name, int8(t)
		resp.ConfigResources = append(resp.ConfigResources, x)
	}
	switch t {
	case kmsg.ConfigResourceTypeTopic:
		for topic := range v.image.Topics() {
			add(topic.Name)
		}
	case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
		for _, e := range v.brokers {
			add(strconv.Itoa(int(e.id)))
		}
	default:
		for c := range v.image.Configs() {
			if c.Resource.Type == metadata.ResourceType(t) && c.Len() > 0 {
				add(c.Resource.Name)
			}
		}
	}
}
