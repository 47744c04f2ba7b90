package api

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/config"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

func (b *Broker) describeConfigsRow() server.API {
	return server.API{Key: int16(kmsg.DescribeConfigs), Min: 1, Max: 4, Listener: server.BothListeners,
		Handle: b.describeConfigs}
}

// describeConfigs tells what keys are worth, and where the values come from (KIP-226, KIP-569).
func (b *Broker) describeConfigs(_ *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.DescribeConfigsRequest)
	resp := kmsg.NewPtrDescribeConfigsResponse()
	image := b.Image()
	resolver := b.Resolver(image)
	left := int(b.Config.Int64("moldau.describe.entries.max"))
	var first kafka.Code
	for i := range req.Resources {
		asked := &req.Resources[i]
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = asked.ResourceType, strings.Clone(asked.ResourceName)
		entries, err := b.describeResource(image, resolver, asked)
		if left -= len(entries); left < 0 { // a short request could ask for more than memory holds
			left, entries = 0, nil
			err = kafka.Errorf(kafka.PolicyViolation, "the answer would be too large; ask about fewer resources at once")
		}
		out.ErrorCode, out.ErrorMessage = int16(kafka.CodeOf(err)), new(kafka.MessageOf(err))
		if first == 0 {
			first = kafka.CodeOf(err)
		}
		for _, d := range entries {
			out.Configs = append(out.Configs, describedConfig(req, d))
		}
		resp.Resources = append(resp.Resources, out)
	}
	return answer(server.Reply{Body: resp, Code: first})
}

// describeResource lists the entries of one resource. An empty list of names asks for all, as none does.
func (b *Broker) describeResource(
	image *metadata.Image, resolver *config.Resolver, asked *kmsg.DescribeConfigsRequestResource,
) ([]config.Described, error) {
	names, name := asked.ConfigNames, asked.ResourceName
	if len(names) == 0 {
		names = nil
	}
	switch asked.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		if err := checkTopicName(name); err != nil {
			return nil, err
		}
		if _, ok := image.Topic(name); !ok {
			return nil, kafka.Errorf(kafka.UnknownTopicOrPartition, "there is no topic %s", name)
		}
		return resolver.DescribeTopic(name, names), nil
	case kmsg.ConfigResourceTypeBroker:
		if name == "" {
			return resolver.DescribeBrokerDefault(names), nil
		}
		if err := b.checkOwnID(name); err != nil {
			return nil, err
		}
		return resolver.DescribeBroker(names), nil
	case kmsg.ConfigResourceTypeBrokerLogger:
		if err := b.checkOwnID(name); err != nil {
			return nil, err
		}
		return b.describeLoggers(names), nil
	case kmsg.ConfigResourceTypeClientMetrics:
		if name == "" {
			return nil, kafka.Errorf(kafka.InvalidRequest, "a subscription name is needed")
		}
		return resolver.DescribeClientMetrics(name, names), nil
	case kmsg.ConfigResourceTypeGroupConfig:
		if name == "" {
			return nil, kafka.Errorf(kafka.InvalidRequest, "a group name is needed")
		}
		return resolver.DescribeGroup(name, names), nil
	}
	return nil, kafka.Errorf(kafka.InvalidRequest, "resource type %d has no configurations", asked.ResourceType)
}

// describedConfig puts one entry into the response, with what the request asks for of synonyms and documentation.
func describedConfig(req *kmsg.DescribeConfigsRequest, d config.Described) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.Value, out.ReadOnly, out.IsSensitive = d.Name, d.Value, d.ReadOnly, d.Sensitive
	out.Source, out.ConfigType = kmsg.ConfigSource(d.Source), kmsg.ConfigType(d.Type)
	if req.IncludeSynonyms {
		for _, s := range d.Synonyms {
			x := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			x.Name, x.Value, x.Source = s.Name, s.Value, kmsg.ConfigSource(s.Source)
			out.ConfigSynonyms = append(out.ConfigSynonyms, x)
		}
	}
	if req.IncludeDocumentation && d.Doc != "" {
		out.Documentation = &d.Doc
	}
	return out
}
