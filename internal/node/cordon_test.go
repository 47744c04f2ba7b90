package node

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// TestCordonedBroker: a broker told to close its directories tells the controller, which places nothing there until it is
// told otherwise (KIP-1066).
func TestCordonedBroker(t *testing.T) {
	c := staticCluster(t, 3)
	c.start()
	set := func(value *string) {
		r := kmsg.NewPtrIncrementalAlterConfigsRequest()
		r.SetVersion(1)
		x := kmsg.NewIncrementalAlterConfigsRequestResource()
		x.ResourceType, x.ResourceName = kmsg.ConfigResourceTypeBroker, "3"
		k := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		k.Name, k.Value = "cordoned.log.dirs", value
		if value == nil {
			k.Op = kmsg.IncrementalAlterConfigOpDelete
		}
		x.Configs = append(x.Configs, k)
		r.Resources = append(r.Resources, x)
		if got := ask[*kmsg.IncrementalAlterConfigsResponse](c, 3, r).Resources[0]; got.ErrorCode != 0 {
			t.Fatalf("%v: %v", kafka.Code(got.ErrorCode), *got.ErrorMessage)
		}
	}
	closed := func() int {
		b, _ := c.nodes[1].publisher.Image().Broker(3)
		return len(b.Cordoned)
	}
	set(new("*"))
	c.eventually("the controller knows", func() bool { return closed() == 1 })
	r := kmsg.NewPtrCreateTopicsRequest()
	r.SetVersion(7)
	r.TimeoutMillis = 10_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "elsewhere", 20, 1
	r.Topics = append(r.Topics, topic)
	if got := ask[*kmsg.CreateTopicsResponse](c, 1, r).Topics[0]; got.ErrorCode != 0 {
		t.Fatalf("%v", kafka.Code(got.ErrorCode))
	}
	for ref := range c.nodes[1].publisher.Image().ReplicasOn(3) {
		t.Errorf("%s-%d lies on the broker that is closed", ref.Topic.Name, ref.Index)
	}
	set(nil)
	c.eventually("the controller knows that it is open again", func() bool { return closed() == 0 })
}
