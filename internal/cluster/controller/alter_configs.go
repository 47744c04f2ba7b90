package controller

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/config"
	"moldau/internal/kafka"
)

// incrementalAlterConfigs answers IncrementalAlterConfigs (KIP-339). Each resource is altered or refused for
// itself; all records go into one batch.
func (t *turn) incrementalAlterConfigs(r *kmsg.IncrementalAlterConfigsRequest) Result {
	reply := kmsg.NewPtrIncrementalAlterConfigsResponse()
	a := t.newConfigAlterer(len(r.Resources), func(i int) config.Resource {
		x := r.Resources[i]
		return config.Resource{Type: config.ResourceType(x.ResourceType), Name: x.ResourceName}
	})
	for i, x := range r.Resources {
		changes := make([]config.Change, 0, len(x.Configs))
		for _, c := range x.Configs {
			changes = append(changes, config.Change{Name: c.Name, Op: config.Op(c.Op), Value: c.Value})
		}
		answer, err := a.alter(i, func(res config.Resource) ([]config.Write, error) {
			return a.resolver().Alter(res, changes, config.AlterOptions{ELR: t.elr})
		})
		if !answer {
			continue
		}
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = x.ResourceType, x.ResourceName
		out.ErrorCode, out.ErrorMessage = int16(kafka.CodeOf(err)), messageOf(err)
		reply.Resources = append(reply.Resources, out)
	}
	return Result{Records: a.result(r.ValidateOnly), Atomic: true, Reply: reply}
}

// alterConfigs answers the older AlterConfigs, which replaces everything that is set for a resource.
func (t *turn) alterConfigs(r *kmsg.AlterConfigsRequest) Result {
	reply := kmsg.NewPtrAlterConfigsResponse()
	a := t.newConfigAlterer(len(r.Resources), func(i int) config.Resource {
		x := r.Resources[i]
		return config.Resource{Type: config.ResourceType(x.ResourceType), Name: x.ResourceName}
	})
	for i, x := range r.Resources {
		values := make([]config.Assignment, 0, len(x.Configs))
		for _, c := range x.Configs {
			values = append(values, config.Assignment{Name: c.Name, Value: c.Value})
		}
		answer, err := a.alter(i, func(res config.Resource) ([]config.Write, error) {
			return a.resolver().Replace(res, values, config.AlterOptions{ELR: t.elr})
		})
		if !answer {
			continue
		}
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = x.ResourceType, x.ResourceName
		out.ErrorCode, out.ErrorMessage = int16(kafka.CodeOf(err)), messageOf(err)
		reply.Resources = append(reply.Resources, out)
	}
	return Result{Records: a.result(r.ValidateOnly), Atomic: true, Reply: reply}
}

// configAlterer collects the outcome of one alteration of several resources.
type configAlterer struct {
	*turn
	resources func(i int) config.Resource
	count     map[config.Resource]int
	tooMany   error
	records   []metadata.Record
}

func (t *turn) newConfigAlterer(n int, resources func(i int) config.Resource) *configAlterer {
	a := &configAlterer{turn: t, resources: resources, count: map[config.Resource]int{}, tooMany: checkSize(n)}
	for i := range n {
		a.count[resources(i)]++
	}
	return a
}

// alter judges the i-th resource and keeps its records. A resource that is named several times is refused and
// answered once: answer is false for the others.
func (a *configAlterer) alter(i int, judge func(config.Resource) ([]config.Write, error)) (bool, error) {
	res := a.resources(i)
	switch {
	case a.tooMany != nil:
		return true, a.tooMany
	case a.count[res] < 0:
		return false, nil
	case a.count[res] > 1:
		a.count[res] = -1
		return true, kafka.Errorf(kafka.InvalidRequest, "the resource stands there twice")
	}
	writes, err := judge(res)
	if err != nil {
		return true, err // what is wrong in itself is refused before the resource is looked for
	}
	if err := a.checkExists(res); err != nil {
		return true, err
	}
	if err := checkSize(len(a.records) + 2*len(writes)); err != nil { // each may bring a ClearElr along
		return true, err
	}
	for _, w := range writes {
		a.records = append(a.records, &metadata.ConfigRecord{ResourceType: metadata.ResourceType(res.Type),
			ResourceName: res.Name, Name: w.Name, Value: w.Value})
	}
	return true, nil
}

// checkExists says whether there is something to configure. Groups and subscriptions need not exist.
func (a *configAlterer) checkExists(res config.Resource) error {
	switch res.Type {
	case config.TopicResource:
		if _, ok := a.Image.Topic(res.Name); !ok {
			return kafka.Errorf(kafka.UnknownTopicOrPartition, "there is no topic %q", res.Name)
		}
	case config.BrokerResource:
		if res.Name == "" {
			return nil
		}
		id, err := strconv.ParseInt(res.Name, 10, 32)
		if err != nil {
			return kafka.Errorf(kafka.InvalidRequest, "broker %q: the name must be a node id", res.Name)
		}
		_, broker := a.Image.Broker(kafka.NodeID(id))
		_, controller := a.Image.Controller(kafka.NodeID(id))
		if !broker && !controller && kafka.NodeID(id) != a.Settings.Node {
			return kafka.Errorf(kafka.BrokerIDNotRegistered, "there is no node %d", id)
		}
	}
	return nil
}

// result gives all records. With eligible leader replicas on, every min.insync.replicas that is set or
// deleted, to the same value too, empties the ELRs that were made under the old one (KIP-966).
func (a *configAlterer) result(validateOnly bool) []metadata.Record {
	if validateOnly {
		return nil
	}
	if !a.elr {
		return a.records
	}
	var clear []metadata.Record
	for _, r := range a.records {
		c := r.(*metadata.ConfigRecord)
		topic := c.ResourceType == metadata.TopicResource
		cluster := c.ResourceType == metadata.BrokerResource && c.ResourceName == ""
		if c.Name == minISRKey && (topic || cluster) {
			clear = append(clear, &metadata.ClearElrRecord{TopicName: c.ResourceName})
		}
	}
	return append(a.records, clear...)
}
