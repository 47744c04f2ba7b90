package config

import (
	"iter"
	"maps"
	"slices"
	"strconv"

	"moldau/internal/kafka"
)

// ResourceType is the kind of resource in the config APIs and records.
type ResourceType int8

// The resource types that have configurations.
const (
	TopicResource         ResourceType = 2
	BrokerResource        ResourceType = 4 // name "": the default of all brokers
	BrokerLoggerResource  ResourceType = 8
	ClientMetricsResource ResourceType = 16
	GroupResource         ResourceType = 32
)

// Source says where a value comes from, with the numbers of DescribeConfigs (KIP-226).
type Source int8

// The sources, highest precedence first except Logger.
const (
	FromTopic          Source = 1
	FromDynamicBroker  Source = 2
	FromDynamicDefault Source = 3
	FromStatic         Source = 4
	FromDefault        Source = 5
	FromLogger         Source = 6
	FromClientMetrics  Source = 7
	FromGroup          Source = 8
)

// String gives the name Kafka's tools print.
func (s Source) String() string {
	return [...]string{"UNKNOWN", "DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG",
		"STATIC_BROKER_CONFIG", "DEFAULT_CONFIG", "DYNAMIC_BROKER_LOGGER_CONFIG", "DYNAMIC_CLIENT_METRICS_CONFIG",
		"DYNAMIC_GROUP_CONFIG"}[s]
}

// Stored is the dynamic configuration of one resource, as the metadata image holds it.
type Stored interface {
	Get(key string) (string, bool)
	All() iter.Seq2[string, string]
}

// Dynamic finds the stored configuration of a resource; it gives nil (the interface, not a nil pointer in it) when
// there is none.
type Dynamic func(t ResourceType, name string) Stored

// Map is a Stored in memory. A nil Map is empty.
type Map map[string]string

// Get gives the value of a key.
func (m Map) Get(key string) (string, bool) { v, ok := m[key]; return v, ok }

// All goes through keys and values by key.
func (m Map) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// NothingStored is the Dynamic of a node that knows no metadata yet.
func NothingStored(ResourceType, string) Stored { return nil }

// Resolver answers what a key is worth, from the stored dynamic values over the static settings. It is immutable:
// make a new one for each metadata image, it costs nothing.
type Resolver struct {
	static  *Static
	dynamic Dynamic
	node    string
}

// NewResolver makes the resolver of a node.
func NewResolver(static *Static, node kafka.NodeID, dynamic Dynamic) *Resolver {
	return &Resolver{static: static, dynamic: dynamic, node: strconv.Itoa(int(node))}
}

func (r *Resolver) stored(t ResourceType, name string) Stored {
	if s := r.dynamic(t, name); s != nil {
		return s
	}
	return Map(nil)
}

// level is one source of broker values.
type level struct {
	source Source
	get    func(key string) (string, bool)
}

// levels lists the sources of broker values, highest precedence first. The defaults come last.
func (r *Resolver) levels() []level {
	return []level{
		{FromDynamicBroker, r.stored(BrokerResource, r.node).Get},
		{FromDynamicDefault, r.stored(BrokerResource, "").Get},
		{FromStatic, func(key string) (string, bool) { at, ok := r.static.set[key]; return at.Value, ok }},
		{FromDefault, r.static.defaultText},
	}
}

// defaultText gives the default of a broker key as text; false for null.
func (s *Static) defaultText(name string) (string, bool) {
	k, ok := Lookup(Broker, name)
	if !ok || k.NoDefault {
		return "", false
	}
	return s.defaultOf(k).Text(), true
}

// brokerSettings finds effective values in the levels of one resolver, which it has looked up once.
type brokerSettings struct {
	r      *Resolver
	levels []level
}

// Broker gives the effective value of a broker key on this node.
func (r *Resolver) Broker(name string) Value {
	v, _ := brokerSettings{r, r.levels()}.value(name)
	return v
}

// value finds the effective value of a broker key and its source. A stored value that does not fit is passed over.
func (b brokerSettings) value(name string) (Value, Source) {
	k, ok := Lookup(Broker, name)
	if !ok {
		return Value{}, FromDefault
	}
	for _, l := range b.levels[:2] {
		if raw, ok := l.get(name); ok {
			if v, err := k.Parse(raw); err == nil {
				return v, l.source
			}
		}
	}
	if b.r.static.IsSet(name) {
		return b.r.static.Value(name), FromStatic
	}
	return b.r.static.Value(name), FromDefault
}

// synonymValue finds what a topic or group key is worth by its synonyms, and the source.
func (b brokerSettings) synonymValue(k *Key) (Value, Source, bool) {
	for _, l := range b.levels {
		for _, syn := range k.Synonyms {
			raw, ok := l.get(syn.Name)
			if !ok {
				continue
			}
			if v, ok := convert(k, syn, raw); ok {
				return v, l.source, true
			}
		}
	}
	return Value{}, FromDefault, false
}

// resourceValue gives the effective value of a key of a resource whose own settings are own.
func (b brokerSettings) resourceValue(k *Key, own Stored, ownSource Source) (Value, Source) {
	if raw, ok := own.Get(k.Name); ok {
		if v, err := k.Parse(raw); err == nil {
			return v, ownSource
		}
	}
	if v, source, ok := b.synonymValue(k); ok {
		return v, source
	}
	return k.defaultValue(), FromDefault
}

// TopicValue gives the effective value of one key of a topic.
func (r *Resolver) TopicValue(topic, name string) Value {
	k, ok := Lookup(Topic, name)
	if !ok {
		return Value{}
	}
	v, _ := brokerSettings{r, r.levels()}.resourceValue(k, r.stored(TopicResource, topic), FromTopic)
	return v
}

// GroupValue gives the effective value of one key of a group. A stored value outside the broker's bounds is moved
// to the nearest one (KIP-1240).
func (r *Resolver) GroupValue(group, name string) Value {
	k, ok := Lookup(Group, name)
	if !ok {
		return Value{}
	}
	b := brokerSettings{r, r.levels()}
	v, _ := b.resourceValue(k, r.stored(GroupResource, group), FromGroup)
	low, high, bounded := groupBounds(name, func(key string) int64 { v, _ := b.value(key); return v.Int64() })
	if bounded {
		n := min(max(v.number, low), high)
		v, _ = k.Parse(strconv.FormatInt(n, 10))
	}
	return v
}

// ClientMetricsValue gives the effective value of one key of a client-metrics subscription.
func (r *Resolver) ClientMetricsValue(subscription, name string) Value {
	k, ok := Lookup(ClientMetrics, name)
	if !ok {
		return Value{}
	}
	v, _ := brokerSettings{r, nil}.resourceValue(k, r.stored(ClientMetricsResource, subscription), FromClientMetrics)
	return v
}
