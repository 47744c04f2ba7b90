package metadata

import (
	"iter"

	"moldau/internal/kafka"
)

// Records goes through the records that make the image from nothing, in the order of a snapshot: features with
// metadata.version first, brokers, controllers, topics with their partitions, configs, quotas, producer ids, ACLs,
// credentials, tokens. What a metadata.version cannot say yet is left out; write each record in the version that
// VersionFor gives. An open transaction is not part of it: no snapshot may be made then.
func (i *Image) Records(mv int16) iter.Seq[Record] {
	i = i.orEmpty()
	return func(yield func(Record) bool) {
		_ = i.featureRecords(yield) && i.nodeRecords(mv, yield) && i.topicRecords(mv, yield) &&
			i.configRecords(yield) && i.quotaRecords(yield) && i.producerIDRecords(yield) &&
			i.securityRecords(mv, yield)
	}
}

func (i *Image) featureRecords(yield func(Record) bool) bool {
	if mv := i.MetadataVersion(); mv != 0 && !yield(&FeatureLevelRecord{MetadataVersionFeature, mv}) {
		return false
	}
	for name, level := range i.features.all() {
		if name != MetadataVersionFeature && !yield(&FeatureLevelRecord{name, level}) {
			return false
		}
	}
	return true
}

func (i *Image) nodeRecords(mv int16, yield func(Record) bool) bool {
	for b := range i.brokers.values() {
		if !yield(b.record()) {
			return false
		}
	}
	if mv < RequiredMetadataVersion(TypeRegisterController) {
		return true
	}
	for c := range i.controllers.values() {
		if !yield(c.record()) {
			return false
		}
	}
	return true
}

func (b *Broker) record() Record {
	return &RegisterBrokerRecord{
		BrokerID: b.ID, IsMigratingZkBroker: b.MigratingZk, IncarnationID: b.Incarnation, BrokerEpoch: b.Epoch,
		Endpoints: b.Endpoints, Features: b.Features, Rack: b.Rack, Fenced: b.Fenced,
		InControlledShutdown: b.InControlledShutdown, LogDirs: b.LogDirs, CordonedLogDirs: b.Cordoned,
	}
}

func (c *Controller) record() Record {
	return &RegisterControllerRecord{
		ControllerID: c.ID, IncarnationID: c.Incarnation, ZkMigrationReady: c.ZkMigrationReady,
		Endpoints: c.Endpoints, Features: c.Features,
	}
}

func (i *Image) topicRecords(mv int16, yield func(Record) bool) bool {
	for t := range i.Topics() {
		if !yield(&TopicRecord{t.Name, t.ID}) {
			return false
		}
		for index, p := range t.Partitions() {
			if !yield(p.record(t.ID, index, mv)) {
				return false
			}
		}
	}
	return true
}

func (p *Partition) record(topic kafka.UUID, index int32, mv int16) Record {
	r := &PartitionRecord{
		PartitionID: index, TopicID: topic, Replicas: p.Replicas, ISR: p.ISR, RemovingReplicas: p.Removing,
		AddingReplicas: p.Adding, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch,
	}
	if p.Recovering {
		r.LeaderRecoveryState = LeaderRecovering
	}
	if mv >= MVDirectories {
		r.Directories = p.Directories
	}
	if mv >= MVElr {
		r.EligibleLeaderReplicas, r.LastKnownELR = p.ELR, p.LastKnownELR
	}
	return r
}

func (i *Image) configRecords(yield func(Record) bool) bool {
	for c := range i.configs.values() {
		for key, value := range c.All() {
			if !yield(&ConfigRecord{c.Resource.Type, c.Resource.Name, key, &value}) {
				return false
			}
		}
	}
	return true
}

func (i *Image) quotaRecords(yield func(Record) bool) bool {
	for q := range i.quotas.values() {
		for key, value := range q.All() {
			if !yield(&ClientQuotaRecord{Entity: q.Entity, Key: key, Value: value}) {
				return false
			}
		}
	}
	return true
}

func (i *Image) producerIDRecords(yield func(Record) bool) bool {
	if i.nextProducerID == 0 {
		return true
	}
	return yield(&ProducerIDsRecord{BrokerID: kafka.NoNode, BrokerEpoch: -1, NextProducerID: i.nextProducerID})
}

func (i *Image) securityRecords(mv int16, yield func(Record) bool) bool {
	for r := range i.acls.values() {
		if !yield(r) {
			return false
		}
	}
	if mv >= RequiredMetadataVersion(TypeUserScramCredential) {
		for r := range i.scram.values() {
			if !yield(r) {
				return false
			}
		}
	}
	if mv >= RequiredMetadataVersion(TypeDelegationToken) {
		for r := range i.tokens.values() {
			if !yield(r) {
				return false
			}
		}
	}
	return true
}
