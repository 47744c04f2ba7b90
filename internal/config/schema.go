package config

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// null marks a key without default in the tables.
const null = "\x00"

// option completes a row of a table.
type option func(*Key)

// key builds one row. The tables are written with it, one line a key.
func key(name string, t Type, def string, r Rule, u Update, i Importance, doc string, opts ...option) Key {
	k := Key{Name: name, Type: t, Default: def, Rule: r, Update: u, Importance: i, Doc: doc}
	if def == null {
		k.Default, k.NoDefault = "", true
	}
	for _, o := range opts {
		o(&k)
	}
	return k
}

// topicKey builds a row of the topic table: always dynamic, importance medium as in Kafka.
func topicKey(name string, t Type, def string, r Rule, doc string, opts ...option) Key {
	return key(name, t, def, r, ClusterWide, Medium, doc, opts...)
}

// internal marks a key that Kafka does not document.
func internal(k *Key) { k.Internal = true }

// throttled marks the size of a thread pool, which a dynamic change may at most double or halve.
func throttled(k *Key) { k.Throttled = true }

// inert marks a key that has nothing to act on in Moldau.
func inert(why string) option {
	return func(k *Key) { k.Standing, k.Reason = Inert, why }
}

// refused marks a key whose effect is not built and would be missed.
func refused(why string) option {
	return func(k *Key) { k.Standing, k.Reason = Refused, why }
}

// kafkaDefault notes Kafka's own default where ours differs on purpose.
func kafkaDefault(value string) option {
	return func(k *Key) { k.KafkaValue = value }
}

// adapt makes the default depend on the number of nodes of the cluster that is started.
func adapt(f func(nodes int) string) option {
	return func(k *Key) { k.Adapt = f }
}

// from names the broker keys that stand in for the key, same unit, in order of precedence.
func from(names ...string) option {
	return func(k *Key) {
		for _, n := range names {
			k.Synonyms = append(k.Synonyms, Synonym{Name: n, Unit: Same})
		}
	}
}

// silently names a broker key that stands in for the key without DescribeConfigs telling.
func silently(name string) option {
	return func(k *Key) { k.Synonyms = append(k.Synonyms, Synonym{Name: name, Unit: Same, Silent: true}) }
}

// fromUnit names one broker key in another unit.
func fromUnit(u Unit, name string) option {
	return func(k *Key) { k.Synonyms = append(k.Synonyms, Synonym{Name: name, Unit: u}) }
}

// upToThree is the replication factor of a cluster: three where that many nodes are.
func upToThree(nodes int) string { return strconv.Itoa(max(1, min(3, nodes))) }

// upToTwo is the minimal ISR that survives the loss of one node of upToThree.
func upToTwo(nodes int) string {
	if nodes >= 3 {
		return "2"
	}
	return "1"
}

// rebalanceDelay is what a group waits for further members: on a lone node just long enough for those that are started
// together (docs/adr/0004).
func rebalanceDelay(nodes int) string {
	if nodes <= 1 {
		return "50"
	}
	return "3000"
}

type table struct {
	byName map[Scope]map[string]*Key
	sorted map[Scope][]*Key
	env    map[string]*Key // by environment variable, without MOLDAU_
}

var schema = sync.OnceValue(buildTable)

func buildTable() *table {
	t := &table{byName: map[Scope]map[string]*Key{}, sorted: map[Scope][]*Key{}, env: map[string]*Key{}}
	for scope, parts := range map[Scope][][]Key{
		Topic:         {topicKeys},
		Broker:        {nodeKeys, networkKeys, logKeys, groupBrokerKeys, securityKeys, otherKeys, moldauKeys},
		Group:         {groupKeys},
		ClientMetrics: {clientMetricsKeys},
	} {
		names := map[string]*Key{}
		for _, part := range parts {
			for i := range part {
				k := part[i]
				k.Scope = scope
				names[k.Name] = &k
			}
		}
		t.byName[scope] = names
		byName := func(a, b *Key) int { return cmp.Compare(a.Name, b.Name) }
		t.sorted[scope] = slices.SortedFunc(maps.Values(names), byName)
	}
	for _, k := range t.sorted[Broker] {
		name := envName(k.Name)
		t.env[name] = k
		if short, ok := strings.CutPrefix(name, "MOLDAU_"); ok {
			t.env[short] = k
		}
	}
	return t
}

// Lookup finds a key of a scope.
func Lookup(scope Scope, name string) (*Key, bool) {
	k, ok := schema().byName[scope][name]
	return k, ok
}

// Keys lists the keys of a scope by name, internal ones included. The caller must not change the slice.
func Keys(scope Scope) []*Key { return schema().sorted[scope] }

// listenerPrefix is how a key is set for one listener: listener.name.<listener>.[<mechanism>.]<key>.
var listenerPrefix = regexp.MustCompile(`^listener\.name\.([^.]+)\.(.+)$`)

// mechanismKeys carry a SASL mechanism between listener and key.
var mechanismKeys = []string{"connections.max.reauth.ms", "sasl.jaas.config", "sasl.login.callback.handler.class",
	"sasl.login.class", "sasl.server.callback.handler.class"}

// SplitListenerKey takes a per-listener key apart: the listener's name in lower case as written and the key it
// overrides. ok is false for any other key.
func SplitListenerKey(name string) (listener, base string, ok bool) {
	m := listenerPrefix.FindStringSubmatch(name)
	if m == nil {
		return "", "", false
	}
	base = m[2]
	for _, k := range mechanismKeys {
		if strings.HasSuffix(base, "."+k) {
			base = k
		}
	}
	return m[1], base, true
}

// lookupBroker finds a broker key, also behind a listener prefix.
func lookupBroker(name string) (*Key, bool) {
	if k, ok := Lookup(Broker, name); ok {
		return k, true
	}
	if _, base, ok := SplitListenerKey(name); ok {
		return Lookup(Broker, base)
	}
	return nil, false
}
