package metadata

import (
	"bytes"

	"moldau/internal/kafka"
)

// Compare gives the diff from one whole image to another that did not grow out of it: a snapshot from the leader that
// takes the place of what this node had. Things that say the same count as unchanged, wherever they come from. It looks at
// everything, once.
func Compare(before, after *Image) *Diff {
	before, after = before.orEmpty(), after.orEmpty()
	d := new(Diff)
	d.compareTopics(before, after)
	compareTrees(before.brokers, after.brokers, sameRecord[*Broker], func(id kafka.NodeID, old, now *Broker) {
		d.brokers.note(id, old, now)
	})
	compareTrees(before.controllers, after.controllers, sameRecord[*Controller], func(id kafka.NodeID, old, now *Controller) {
		d.controllers.note(id, old, now)
	})
	compareValues(before.features, after.features, d.features.note)
	d.compareConfigs(before, after)
	d.compareQuotas(before, after)
	if old, now := before.nextProducerID, after.nextProducerID; old != now {
		d.producerIDs.note(struct{}{}, &old, &now)
	}
	d.compareSecurity(before, after)
	return d
}

// compareTrees calls note for every key whose values differ; a value that is not there is nil.
func compareTrees[K keys, T any](before, after tree[K, *T], same func(a, b *T) bool, note func(k K, old, now *T)) {
	for k, old := range before.all() {
		if now, ok := after.get(k); !ok || old != now && !same(old, now) {
			note(k, old, now)
		}
	}
	for k, now := range after.all() {
		if _, ok := before.get(k); !ok {
			note(k, nil, now)
		}
	}
}

func compareValues[K keys, V comparable](before, after tree[K, V], note func(k K, old, now *V)) {
	for k, old := range before.all() {
		switch now, ok := after.get(k); {
		case !ok:
			note(k, &old, nil)
		case old != now:
			note(k, &old, &now)
		}
	}
	for k, now := range after.all() {
		if _, ok := before.get(k); !ok {
			note(k, nil, &now)
		}
	}
}

// recorded is what stands in a snapshot as one record.
type recorded interface{ record() Record }

// sameRecord says whether two things would be written down alike.
func sameRecord[T recorded](a, b T) bool { return sameEncoding(a.record(), b.record()) }

func sameEncoding(a, b Record) bool {
	return bytes.Equal(Encode(nil, a, a.Type().MaxVersion()), Encode(nil, b, b.Type().MaxVersion()))
}

func (d *Diff) compareTopics(before, after *Image) {
	for old := range before.topics.values() {
		now, ok := after.TopicByID(old.ID)
		switch {
		case !ok:
			d.setTopic(old.ID, old, nil)
		case old.Name != now.Name: // another topic that came by the same id
			d.setTopic(old.ID, old, nil)
			d.setTopic(old.ID, nil, now)
		case old != now:
			d.comparePartitions(old, now)
		}
	}
	for now := range after.topics.values() {
		if _, ok := before.TopicByID(now.ID); !ok {
			d.setTopic(now.ID, nil, now)
		}
	}
}

func (d *Diff) comparePartitions(old, now *Topic) {
	same := func(a, b *Partition) bool {
		return sameEncoding(a.record(old.ID, 0, LatestMetadataVersion), b.record(old.ID, 0, LatestMetadataVersion))
	}
	compareTrees(old.partitions, now.partitions, same, func(index int32, a, b *Partition) {
		d.setTopic(old.ID, old, now)
		d.setPartition(old.ID, index, a, b)
	})
}

func (d *Diff) compareConfigs(before, after *Image) {
	compare := func(old, now *Configs) {
		resource := old.Resource
		compareValues(old.values, now.values, func(key string, was, is *string) {
			d.configs.note(configKey{resource, key}, was, is)
		})
	}
	for _, old := range before.configs.all() {
		compare(old, after.Config(old.Resource.Type, old.Resource.Name))
	}
	for key, now := range after.configs.all() {
		if _, ok := before.configs.get(key); !ok {
			compare(&Configs{Resource: now.Resource}, now)
		}
	}
}

func (d *Diff) compareQuotas(before, after *Image) {
	compare := func(entity string, parts []QuotaEntityPart, old, now *Quota) {
		value := func(v *float64) *quotaValue {
			if v == nil {
				return nil
			}
			return &quotaValue{parts, *v}
		}
		compareValues(old.values, now.values, func(key string, was, is *float64) {
			d.quotas.note(quotaKey{entity, key}, value(was), value(is))
		})
	}
	for entity, old := range before.quotas.all() {
		now, ok := after.quotas.get(entity)
		if !ok {
			now = new(Quota)
		}
		compare(entity, old.Entity, old, now)
	}
	for entity, now := range after.quotas.all() {
		if _, ok := before.quotas.get(entity); !ok {
			compare(entity, now.Entity, new(Quota), now)
		}
	}
}

func (d *Diff) compareSecurity(before, after *Image) {
	compareTrees(before.acls, after.acls, sameEntry[*AccessControlEntryRecord],
		func(key string, old, now *AccessControlEntryRecord) { d.acls.note(kafka.UUID([]byte(key)), old, now) })
	compareTrees(before.scram, after.scram, sameEntry[*UserScramCredentialRecord],
		func(key string, old, now *UserScramCredentialRecord) { d.scram.note(key, old, now) })
	compareTrees(before.tokens, after.tokens, sameEntry[*DelegationTokenRecord],
		func(key string, old, now *DelegationTokenRecord) { d.tokens.note(key, old, now) })
}

func sameEntry[R Record](a, b R) bool { return sameEncoding(a, b) }
