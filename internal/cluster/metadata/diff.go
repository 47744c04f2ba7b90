package metadata

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"moldau/internal/kafka"
)

// Diff is what one or more Apply calls changed: for everything that was touched, what it was and what it is. It is
// immutable, and a nil Diff is an empty one. All iterators have a fixed order.
//
// A subscriber that cannot keep up merges the diffs it has not handled: the result is the diff from the image before
// the first to the image after the last.
type Diff struct {
	topics      map[kafka.UUID]*topicDelta
	brokers     changes[kafka.NodeID, Broker]
	controllers changes[kafka.NodeID, Controller]
	features    changes[string, int16]
	configs     changes[configKey, string]
	quotas      changes[quotaKey, quotaValue]
	acls        changes[kafka.UUID, AccessControlEntryRecord]
	scram       changes[string, UserScramCredentialRecord]
	tokens      changes[string, DelegationTokenRecord]
	producerIDs changes[struct{}, kafka.ProducerID]
}

// Change is a thing before and after. A nil Old means created, a nil New removed; both are never nil.
type Change[T any] struct{ Old, New *T }

// changes accumulates the changes of one kind of thing.
type changes[K comparable, T any] map[K]Change[T]

// note adds a change on top of what is there. Created and removed again is no change.
func (c *changes[K, T]) note(k K, old, new *T) {
	if *c == nil {
		*c = make(changes[K, T])
	}
	if before, ok := (*c)[k]; ok {
		old = before.Old
	}
	if old == nil && new == nil {
		delete(*c, k)
		return
	}
	(*c)[k] = Change[T]{old, new}
}

func (c *changes[K, T]) merge(later changes[K, T]) {
	for k, change := range later {
		c.note(k, change.Old, change.New)
	}
}

// sorted goes through changes in key order.
func sorted[K cmp.Ordered, T any](c changes[K, T]) iter.Seq2[K, Change[T]] {
	return func(yield func(K, Change[T]) bool) {
		for _, k := range slices.Sorted(maps.Keys(c)) {
			if !yield(k, c[k]) {
				return
			}
		}
	}
}

type configKey struct {
	resource ConfigResource
	key      string
}

type quotaKey struct{ entity, key string }

type quotaValue struct {
	entity []QuotaEntityPart
	value  float64
}

func (d *Diff) orEmpty() *Diff {
	if d == nil {
		return new(Diff)
	}
	return d
}

// Empty says whether nothing changed.
func (d *Diff) Empty() bool {
	return d == nil || len(d.topics)+len(d.brokers)+len(d.controllers)+len(d.features)+len(d.configs)+len(d.quotas)+
		len(d.acls)+len(d.scram)+len(d.tokens)+len(d.producerIDs) == 0
}

// Merge gives the diff of d followed by later. Neither is changed.
func (d *Diff) Merge(later *Diff) *Diff {
	if later.Empty() && d != nil {
		return d
	}
	if d.Empty() && later != nil {
		return later
	}
	sum := new(Diff)
	sum.add(d.orEmpty())
	sum.add(later.orEmpty())
	return sum
}

// add puts later on top of a diff that is still being made.
func (d *Diff) add(later *Diff) {
	for id, t := range later.topics {
		d.addTopic(id, t)
	}
	d.brokers.merge(later.brokers)
	d.controllers.merge(later.controllers)
	d.features.merge(later.features)
	d.configs.merge(later.configs)
	d.quotas.merge(later.quotas)
	d.acls.merge(later.acls)
	d.scram.merge(later.scram)
	d.tokens.merge(later.tokens)
	d.producerIDs.merge(later.producerIDs)
}

// Brokers goes through the registrations that changed, by broker id.
func (d *Diff) Brokers() iter.Seq2[kafka.NodeID, Change[Broker]] { return sorted(d.orEmpty().brokers) }

// Controllers goes through the controller registrations that changed, by id.
func (d *Diff) Controllers() iter.Seq2[kafka.NodeID, Change[Controller]] {
	return sorted(d.orEmpty().controllers)
}

// FeatureChange is a feature whose finalized level changed. Level 0 means off.
type FeatureChange struct {
	Name     string
	Old, New int16
}

// Features goes through the features that changed, by name.
func (d *Diff) Features() iter.Seq[FeatureChange] {
	return func(yield func(FeatureChange) bool) {
		for name, c := range sorted(d.orEmpty().features) {
			f := FeatureChange{Name: name}
			if c.Old != nil {
				f.Old = *c.Old
			}
			if c.New != nil {
				f.New = *c.New
			}
			if f.Old != f.New && !yield(f) {
				return
			}
		}
	}
}

// ConfigChange is one key of one resource whose value changed. Nil means not set.
type ConfigChange struct {
	Resource ConfigResource
	Key      string
	Old, New *string
}

// Configs goes through the configs that changed, by resource type, resource name and key. The configs of a removed
// topic are among them.
func (d *Diff) Configs() iter.Seq[ConfigChange] {
	return func(yield func(ConfigChange) bool) {
		all := d.orEmpty().configs
		order := func(a, b configKey) int {
			return cmp.Or(cmp.Compare(a.resource.Type, b.resource.Type), cmp.Compare(a.resource.Name, b.resource.Name),
				cmp.Compare(a.key, b.key))
		}
		for _, k := range slices.SortedFunc(maps.Keys(all), order) {
			c := all[k]
			same := c.Old != nil && c.New != nil && *c.Old == *c.New
			if !same && !yield(ConfigChange{k.resource, k.key, c.Old, c.New}) {
				return
			}
		}
	}
}

// QuotaChange is one key of one entity whose quota changed. Nil means no quota.
type QuotaChange struct {
	Entity   []QuotaEntityPart // sorted by type
	Key      string
	Old, New *float64
}

// Quotas goes through the client quotas that changed, by entity and key.
func (d *Diff) Quotas() iter.Seq[QuotaChange] {
	return func(yield func(QuotaChange) bool) {
		all := d.orEmpty().quotas
		order := func(a, b quotaKey) int {
			return cmp.Or(cmp.Compare(a.entity, b.entity), cmp.Compare(a.key, b.key))
		}
		for _, k := range slices.SortedFunc(maps.Keys(all), order) {
			q := QuotaChange{Key: k.key}
			if old := all[k].Old; old != nil {
				q.Entity, q.Old = old.entity, &old.value
			}
			if now := all[k].New; now != nil {
				q.Entity, q.New = now.entity, &now.value
			}
			if !yield(q) {
				return
			}
		}
	}
}

// ACLs goes through the access control entries that came or went, by id.
func (d *Diff) ACLs() iter.Seq2[kafka.UUID, Change[AccessControlEntryRecord]] {
	return func(yield func(kafka.UUID, Change[AccessControlEntryRecord]) bool) {
		all := d.orEmpty().acls
		for _, id := range slices.SortedFunc(maps.Keys(all), compareUUIDs) {
			if !yield(id, all[id]) {
				return
			}
		}
	}
}

// ScramCredentials goes through the SCRAM credentials that changed, by user and mechanism.
func (d *Diff) ScramCredentials() iter.Seq[Change[UserScramCredentialRecord]] {
	return changesOnly(sorted(d.orEmpty().scram))
}

// DelegationTokens goes through the delegation tokens that changed, by token id.
func (d *Diff) DelegationTokens() iter.Seq[Change[DelegationTokenRecord]] {
	return changesOnly(sorted(d.orEmpty().tokens))
}

// ProducerIDs gives the first id of the next block of producer ids before and after.
func (d *Diff) ProducerIDs() (old, now kafka.ProducerID, changed bool) {
	c, ok := d.orEmpty().producerIDs[struct{}{}]
	if !ok {
		return 0, 0, false
	}
	if c.Old != nil {
		old = *c.Old
	}
	return old, *c.New, true
}

func changesOnly[K, T any](all iter.Seq2[K, Change[T]]) iter.Seq[Change[T]] {
	return func(yield func(Change[T]) bool) {
		for _, c := range all {
			if !yield(c) {
				return
			}
		}
	}
}

func compareUUIDs(a, b kafka.UUID) int { return slices.Compare(a[:], b[:]) }
