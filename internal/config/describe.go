package config

import (
	"maps"
	"slices"
)

// Described is one entry of a DescribeConfigs answer.
type Described struct {
	Name      string
	Value     *string // null for a secret and for no value
	Source    Source
	ReadOnly  bool
	Sensitive bool
	Type      Type
	Doc       string
	Synonyms  []DescribedSynonym
}

// DescribedSynonym is one level of a value, highest precedence first.
type DescribedSynonym struct {
	Name   string
	Value  *string
	Source Source
}

// DescribeTopic describes the keys of a topic whose stored settings are those of the metadata image. names nil
// means all; unknown names are left out, as Kafka does.
func (r *Resolver) DescribeTopic(topic string, names []string) []Described {
	return r.describeResource(Topic, r.stored(TopicResource, topic), FromTopic, names)
}

// DescribeGroup describes the keys of a group.
func (r *Resolver) DescribeGroup(group string, names []string) []Described {
	return r.describeResource(Group, r.stored(GroupResource, group), FromGroup, names)
}

// DescribeClientMetrics describes the keys of a client-metrics subscription.
func (r *Resolver) DescribeClientMetrics(subscription string, names []string) []Described {
	return r.describeResource(ClientMetrics, r.stored(ClientMetricsResource, subscription), FromClientMetrics, names)
}

func (r *Resolver) describeResource(scope Scope, own Stored, source Source, names []string) []Described {
	b := brokerSettings{r, r.levels()}
	var out []Described
	for _, k := range Keys(scope) {
		_, set := own.Get(k.Name)
		if !wanted(names, k.Name) || k.Internal && !set {
			continue
		}
		v, _ := b.resourceValue(k, own, source)
		d := Described{Name: k.Name, Value: textOf(v), Source: FromDefault, Type: k.Type, Doc: k.Doc}
		if set {
			d.Synonyms = append(d.Synonyms, DescribedSynonym{k.Name, d.Value, source})
		}
		switch {
		case len(k.Synonyms) > 0:
			d.Synonyms = append(d.Synonyms, b.synonymsOf(k.Synonyms[0].Name, "")...)
		case scope == Group:
			d.Synonyms = append(d.Synonyms, DescribedSynonym{k.Name, textOf(k.defaultValue()), FromDefault})
		}
		if len(d.Synonyms) > 0 {
			d.Source = d.Synonyms[0].Source
		}
		out = append(out, d)
	}
	return out
}

func wanted(names []string, name string) bool { return names == nil || slices.Contains(names, name) }

func textOf(v Value) *string {
	if v.IsNull() {
		return nil
	}
	s := v.Text()
	return &s
}

// synonymsOf lists every level at which a broker key or one of its stand-ins has a value, by level first and by
// name second. What stands before the first value of the key itself is left out, so that a key without a value of
// its own has an empty list, although a stand-in has one: Kafka answers so. base is the key behind a listener
// prefix, or "".
func (b brokerSettings) synonymsOf(name, base string) []DescribedSynonym {
	chain := []string{name}
	if k, ok := Lookup(Broker, name); ok {
		chain = kinOf(k)
	} else if base != "" {
		chain = append(chain, base)
	}
	var out []DescribedSynonym
	for _, l := range b.levels {
		for _, n := range chain {
			raw, ok := l.get(n)
			if !ok || len(out) == 0 && n != name {
				continue
			}
			syn := DescribedSynonym{Name: n, Source: l.source}
			if !sensitive(n) {
				syn.Value = &raw
			}
			out = append(out, syn)
		}
	}
	return out
}

// kinOf lists a broker key and the keys of other units beside it, in order of precedence: log.retention.minutes is
// told after log.retention.ms.
func kinOf(k *Key) []string {
	for _, kin := range [][]string{
		{"log.retention.ms", "log.retention.minutes", "log.retention.hours"},
		{"log.roll.ms", "log.roll.hours"},
		{"log.roll.jitter.ms", "log.roll.jitter.hours"},
	} {
		if slices.Contains(kin, k.Name) {
			return kin
		}
	}
	return k.chain()
}

func sensitive(name string) bool {
	k, ok := lookupBroker(name)
	return !ok || k.Sensitive()
}

// DescribeBroker describes the keys of this node. Keys outside the table that were set are listed as secrets of
// unknown type, as Kafka does.
func (r *Resolver) DescribeBroker(names []string) []Described {
	b := brokerSettings{r, r.levels()}
	own, all := r.stored(BrokerResource, r.node), r.stored(BrokerResource, "")
	var listed []string
	for _, k := range Keys(Broker) {
		if !k.Internal {
			listed = append(listed, k.Name)
		}
	}
	listed = sortedUnion(listed, keysOf(own), keysOf(all),
		slices.Collect(maps.Keys(r.static.set)))
	var out []Described
	for _, name := range listed {
		if wanted(names, name) {
			out = append(out, b.describeBrokerKey(name))
		}
	}
	return out
}

// describeBrokerKey describes one key. The value is that of the highest level; the default may be null.
func (b brokerSettings) describeBrokerKey(name string) Described {
	_, base, _ := SplitListenerKey(name)
	d := Described{Name: name, Source: FromDefault, ReadOnly: true, Sensitive: true}
	d.Synonyms = b.synonymsOf(name, base)
	if len(d.Synonyms) > 0 {
		d.Source = d.Synonyms[0].Source
	}
	k, ok := lookupBroker(name)
	if !ok {
		return d
	}
	d.Type, d.Doc, d.Sensitive = k.Type, k.Doc, k.Sensitive()
	d.ReadOnly = k.Update == ReadOnly || base != ""
	if len(d.Synonyms) == 0 || d.Sensitive {
		return d
	}
	text := *d.Synonyms[0].Value
	if v, err := k.Parse(text); err == nil {
		text = v.Text()
	}
	d.Value = &text
	return d
}

// DescribeBrokerDefault describes the stored default of all brokers: only what is stored.
func (r *Resolver) DescribeBrokerDefault(names []string) []Described {
	all := r.stored(BrokerResource, "")
	b := brokerSettings{r, []level{{FromDynamicDefault, all.Get}}}
	var out []Described
	for _, name := range keysOf(all) {
		if wanted(names, name) {
			out = append(out, b.describeBrokerKey(name))
		}
	}
	return out
}

// DescribeNewTopic gives what CreateTopics answers (KIP-525): every key with its effective value, as it was
// written, and its source.
func (r *Resolver) DescribeNewTopic(own Stored) []Described {
	b := brokerSettings{r, r.levels()}
	var out []Described
	for _, k := range Keys(Topic) {
		raw, set := own.Get(k.Name)
		if k.Internal && !set {
			continue
		}
		v, source := b.resourceValue(k, own, FromTopic)
		if !set {
			raw = v.Raw()
		}
		out = append(out, Described{Name: k.Name, Value: &raw, Source: source, Type: k.Type})
	}
	return out
}

func keysOf(s Stored) []string {
	var out []string
	for k := range s.All() {
		out = append(out, k)
	}
	return out
}
