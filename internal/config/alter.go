package config

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"moldau/internal/kafka"
)

// Op is an operation of IncrementalAlterConfigs (KIP-339).
type Op int8

// The operations.
const (
	Set      Op = 0
	Delete   Op = 1
	Append   Op = 2
	Subtract Op = 3
)

// Change is one entry of IncrementalAlterConfigs.
type Change struct {
	Name  string
	Op    Op
	Value *string // ignored by Delete
}

// Assignment is one entry of AlterConfigs or CreateTopics.
type Assignment struct {
	Name  string
	Value *string
}

// Write is one Config record to append: Value nil deletes.
type Write struct {
	Name  string
	Value *string
}

// Resource names what is altered.
type Resource struct {
	Type ResourceType
	Name string
}

// AlterOptions are facts of the cluster that rules depend on.
type AlterOptions struct {
	// ELR says that eligible.leader.replicas is on (KIP-966): then min.insync.replicas exists cluster-wide and nowhere
	// else but on topics.
	ELR bool
}

// maxValueBytes is the longest value: it must fit a Kafka string.
const maxValueBytes = math.MaxInt16

// Alter judges an IncrementalAlterConfigs of one resource against what is stored and gives the records to write, by
// name. Whether the resource exists is not asked here. Errors carry the codes Apache Kafka answers: INVALID_CONFIG
// for topic, group and match values, INVALID_REQUEST for broker values and malformed requests.
func (r *Resolver) Alter(res Resource, changes []Change, opts AlterOptions) ([]Write, error) {
	if err := checkResource(res); err != nil {
		return nil, err
	}
	names := make([]string, len(changes))
	for i, c := range changes {
		names[i] = c.Name
	}
	if err := checkRepeats(names); err != nil {
		return nil, err
	}
	stored := r.stored(res.Type, res.Name)
	next := Map(maps.Collect(stored.All()))
	touched := map[string]bool{}
	for _, c := range changes {
		if err := r.apply(res, next, c); err != nil {
			return nil, err
		}
		if c.Op != Delete {
			touched[c.Name] = true
		}
	}
	if err := r.check(res, next, touched); err != nil {
		return nil, err
	}
	if err := checkELR(res, names, next, opts); err != nil {
		return nil, err
	}
	return difference(res, stored, next, touched), nil
}

// Replace judges an AlterConfigs: what is not listed is deleted.
func (r *Resolver) Replace(res Resource, values []Assignment, opts AlterOptions) ([]Write, error) {
	if err := checkResource(res); err != nil {
		return nil, err
	}
	names := make([]string, len(values))
	for i, a := range values {
		names[i] = a.Name
	}
	if err := checkRepeats(names); err != nil {
		return nil, err
	}
	next, touched := Map{}, map[string]bool{}
	for _, a := range values {
		if a.Value == nil {
			return nil, kafka.Errorf(kafka.InvalidRequest, "%s: a value is needed; to delete a value leave the key out",
				a.Name)
		}
		next[a.Name], touched[a.Name] = *a.Value, true
	}
	if err := r.check(res, next, touched); err != nil {
		return nil, err
	}
	stored := r.stored(res.Type, res.Name)
	dropped := names
	if _, had := stored.Get("min.insync.replicas"); had {
		dropped = append(slices.Clone(names), "min.insync.replicas")
	}
	if err := checkELR(res, dropped, next, opts); err != nil {
		return nil, err
	}
	return difference(res, stored, next, touched), nil
}

// NewTopic judges the configurations of a CreateTopics and gives the records to write. The last of repeated keys
// counts, as in Kafka.
func (r *Resolver) NewTopic(values []Assignment) ([]Write, error) {
	next, touched := Map{}, map[string]bool{}
	for _, a := range values {
		if a.Value == nil {
			return nil, kafka.Errorf(kafka.InvalidConfig, "%s: a value is needed", a.Name)
		}
		next[a.Name], touched[a.Name] = *a.Value, true
	}
	if err := r.check(Resource{TopicResource, ""}, next, touched); err != nil {
		return nil, err
	}
	return difference(Resource{Type: TopicResource}, Map(nil), next, touched), nil
}

func checkResource(res Resource) error {
	switch res.Type {
	case TopicResource:
		if res.Name == "" {
			return kafka.Errorf(kafka.InvalidRequest,
				"a topic name is needed: topics have no common default; set the broker key")
		}
	case BrokerResource:
		if _, err := strconv.ParseInt(res.Name, 10, 32); res.Name != "" && err != nil {
			return kafka.Errorf(kafka.InvalidRequest, "broker %q: the name must be a node id, or empty for all brokers",
				res.Name)
		}
	case GroupResource:
		if res.Name == "" {
			return kafka.Errorf(kafka.InvalidRequest,
				"a group name is needed: groups have no common default; set the broker key")
		}
	case ClientMetricsResource:
		if res.Name == "" {
			return kafka.Errorf(kafka.InvalidRequest, "a subscription name is needed")
		}
	default:
		return kafka.Errorf(kafka.InvalidRequest, "resource type %d has no configurations", res.Type)
	}
	return nil
}

func checkRepeats(names []string) error {
	seen := map[string]bool{}
	for _, n := range names {
		if seen[n] {
			return kafka.Errorf(kafka.InvalidRequest, "%s is named twice", n)
		}
		seen[n] = true
	}
	return nil
}

// apply carries out one change on the settings of a resource.
func (r *Resolver) apply(res Resource, next Map, c Change) error {
	if c.Op == Delete {
		delete(next, c.Name)
		return nil
	}
	if c.Op != Set && c.Op != Append && c.Op != Subtract {
		return kafka.UnknownServerError // what Kafka answers to an operation it does not know
	}
	if c.Value == nil {
		return kafka.Errorf(kafka.InvalidRequest,
			"%s: a value is needed; to remove the setting use the operation delete", c.Name)
	}
	if c.Op == Set {
		next[c.Name] = *c.Value
		return nil
	}
	k, ok := scopedKey(res.Type, c.Name)
	if !ok || k.Type != List || res.Type == GroupResource || res.Type == ClientMetricsResource {
		return kafka.Errorf(kafka.InvalidConfig, "%s is no list: append and subtract do not apply to it; use set", c.Name)
	}
	current, ok := next[c.Name]
	if !ok {
		current = r.listBase(k)
	}
	next[c.Name] = strings.Join(combine(c.Op, splitList(current), splitList(*c.Value), *c.Value), ",")
	return nil
}

// listBase gives the list that an append to an unset key starts from: the static value or the default.
func (r *Resolver) listBase(k *Key) string {
	if k.Scope == Broker {
		return r.static.Value(k.Name).Text()
	}
	b := brokerSettings{r, r.levels()[2:]}
	if v, _, ok := b.synonymValue(k); ok {
		return v.Text()
	}
	return k.Default
}

// combine appends what is missing or removes what is there. Appending an empty text to a list adds an empty entry,
// which the rule of the key then refuses, as Kafka does.
func combine(op Op, list, given []string, raw string) []string {
	if op == Subtract {
		return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(given, s) })
	}
	if raw == "" && len(list) > 0 {
		given = []string{""}
	}
	for _, s := range given {
		if !slices.Contains(list, s) {
			list = append(slices.Clone(list), s)
		}
	}
	return list
}

func scopedKey(t ResourceType, name string) (*Key, bool) {
	switch t {
	case TopicResource:
		return Lookup(Topic, name)
	case BrokerResource:
		return lookupBroker(name)
	case GroupResource:
		return Lookup(Group, name)
	default:
		return Lookup(ClientMetrics, name)
	}
}

// check judges the settings a resource would have. Only touched keys are judged one by one: what an older version
// stored must not block a change.
func (r *Resolver) check(res Resource, next Map, touched map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(touched)) {
		if len(next[name]) > maxValueBytes {
			return kafka.Errorf(kafka.InvalidConfig, "%s: the value is longer than %d bytes", name, maxValueBytes)
		}
	}
	switch res.Type {
	case TopicResource:
		return r.checkTopic(res.Name, next, touched)
	case BrokerResource:
		return r.checkBroker(res.Name, next, touched)
	case GroupResource:
		return r.checkGroup(next, touched)
	default:
		return checkClientMetrics(next, touched)
	}
}

// coded turns a *Problem into an error with a code.
func coded(c kafka.Code, err error) error {
	var p *Problem
	if errors.As(err, &p) {
		return kafka.Errorf(c, "%s", p.Error())
	}
	return err
}

// unknownKey says that a resource has no such key, and which one may be meant.
func unknownKey(c kafka.Code, scope Scope, name string) error {
	if near := Nearest(scope, name); near != "" {
		return kafka.Errorf(c, "no such %s config: %s; did you mean %s?", scope, name, near)
	}
	return kafka.Errorf(c, "no such %s config: %s", scope, name)
}

// parseTouched judges the touched keys of a scope one by one.
func parseTouched(scope Scope, unknown kafka.Code, next Map, touched map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(touched)) {
		k, ok := Lookup(scope, name)
		if !ok {
			return unknownKey(unknown, scope, name)
		}
		if _, err := k.Parse(next[name]); err != nil {
			return coded(kafka.InvalidConfig, err)
		}
	}
	return nil
}

// difference lists the records that turn stored into next, by name. A broker's touched key is written even when its
// value is unchanged: that is how files it names are read again.
func difference(res Resource, stored Stored, next Map, touched map[string]bool) []Write {
	var out []Write
	for _, name := range sortedUnion(keysOf(stored), keysOf(next)) {
		before, had := stored.Get(name)
		after, has := next[name]
		switch {
		case !has:
			out = append(out, Write{Name: name})
		case !had || before != after || res.Type == BrokerResource && touched[name]:
			out = append(out, Write{Name: name, Value: &after})
		}
	}
	return out
}

// checkELR keeps min.insync.replicas cluster-wide while eligible leader replicas are on (KIP-966).
func checkELR(res Resource, named []string, next Map, opts AlterOptions) error {
	const key = "min.insync.replicas"
	if !opts.ELR || res.Type != BrokerResource || !slices.Contains(named, key) {
		return nil
	}
	if res.Name != "" {
		return kafka.Errorf(kafka.InvalidConfig,
			"%s cannot be altered for one broker while eligible leader replicas are on; "+
				"alter it for all brokers or for the topic", key)
	}
	if _, ok := next[key]; !ok {
		return kafka.Errorf(kafka.InvalidConfig,
			"%s cannot be removed for all brokers while eligible leader replicas are on; "+
				"set it to another value", key)
	}
	return nil
}
