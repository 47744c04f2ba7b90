package metadata

import (
	"iter"

	"moldau/internal/kafka"
)

// Image is everything the metadata log says up to some offset. It is immutable: Apply makes the next one and shares
// with it what did not change. A nil Image is an empty one.
type Image struct {
	offset      kafka.Offset
	epoch       kafka.LeaderEpoch
	timestampMs int64

	features    tree[string, int16]
	brokers     tree[kafka.NodeID, *Broker]
	controllers tree[kafka.NodeID, *Controller]
	directories tree[string, kafka.NodeID] // log directory id -> the broker that registered it

	topics     tree[string, *Topic]     // by the 16 bytes of the id
	names      tree[string, kafka.UUID] // name -> id, so that a change of a partition changes one tree only
	partitions int
	placements tree[kafka.NodeID, *placement] // broker -> its partitions
	leaderless tree[string, struct{}]         // by partition key

	configs        tree[string, *Configs] // by resource key
	nextProducerID kafka.ProducerID
	quotas         tree[string, *Quota]                     // by entity key
	acls           tree[string, *AccessControlEntryRecord]  // by the 16 bytes of the id
	scram          tree[string, *UserScramCredentialRecord] // by name and mechanism
	tokens         tree[string, *DelegationTokenRecord]     // by token id

	open *transaction // the metadata transaction that is under way, if any
}

// transaction is what has been applied since a BeginTransactionRecord: not visible in the image it hangs on.
type transaction struct {
	name  string
	image *Image // with the records of the transaction
	diff  *Diff  // what they changed
}

// New gives an image without content, positioned before the first offset.
func New() *Image { return &Image{offset: kafka.NoOffset, epoch: kafka.NoEpoch, timestampMs: -1} }

// orEmpty lets methods work on a nil image.
func (i *Image) orEmpty() *Image {
	if i == nil {
		return New()
	}
	return i
}

// WithPosition gives the same image at a position: the offset and epoch of the last record it contains and the
// timestamp of that record's batch in milliseconds since the epoch. Apply does not move it: records do not know
// their offsets.
func (i *Image) WithPosition(offset kafka.Offset, epoch kafka.LeaderEpoch, timestampMs int64) *Image {
	next := *i.orEmpty()
	next.offset, next.epoch, next.timestampMs = offset, epoch, timestampMs
	return &next
}

// Offset is the offset of the last record in the image, kafka.NoOffset for none.
func (i *Image) Offset() kafka.Offset { return i.orEmpty().offset }

// Epoch is the quorum epoch of the last record in the image, kafka.NoEpoch for none.
func (i *Image) Epoch() kafka.LeaderEpoch { return i.orEmpty().epoch }

// TimestampMs is the timestamp of the last batch in the image, -1 for none.
func (i *Image) TimestampMs() int64 { return i.orEmpty().timestampMs }

// Transaction says whether a metadata transaction is open, and its name. Its records are not visible in the image, and
// no snapshot may be made of it.
func (i *Image) Transaction() (name string, open bool) {
	if i == nil || i.open == nil {
		return "", false
	}
	return i.open.name, true
}

// Feature gives the finalized level of a feature, 0 when it is off or unknown. Never of kraft.version.
func (i *Image) Feature(name string) int16 {
	level, _ := i.orEmpty().features.get(name)
	return level
}

// MetadataVersion is the finalized metadata.version, 0 before the first record that sets it.
func (i *Image) MetadataVersion() int16 { return i.Feature(MetadataVersionFeature) }

// Features goes through the finalized features by name. Levels are above 0.
func (i *Image) Features() iter.Seq2[string, int16] { return i.orEmpty().features.all() }

// Broker finds a broker's registration.
func (i *Image) Broker(id kafka.NodeID) (*Broker, bool) { return i.orEmpty().brokers.get(id) }

// Brokers goes through the registered brokers by id, fenced ones included.
func (i *Image) Brokers() iter.Seq[*Broker] { return i.orEmpty().brokers.values() }

// BrokerCount is the number of registered brokers, fenced ones included.
func (i *Image) BrokerCount() int { return i.orEmpty().brokers.len() }

// DirectoryOwner finds the broker that registered a log directory.
func (i *Image) DirectoryOwner(dir kafka.UUID) (kafka.NodeID, bool) {
	return i.orEmpty().directories.get(string(dir[:]))
}

// Controller finds a controller's registration.
func (i *Image) Controller(id kafka.NodeID) (*Controller, bool) {
	return i.orEmpty().controllers.get(id)
}

// Controllers goes through the registered controllers by id.
func (i *Image) Controllers() iter.Seq[*Controller] { return i.orEmpty().controllers.values() }

// NextProducerID is the first id of the next block of producer ids: 0 before the first block was given away.
func (i *Image) NextProducerID() kafka.ProducerID { return i.orEmpty().nextProducerID }

// Config gives the configs of a resource. The result is never nil.
func (i *Image) Config(t ResourceType, name string) *Configs {
	if c, ok := i.orEmpty().configs.get(resourceKey(t, name)); ok {
		return c
	}
	return &Configs{Resource: ConfigResource{Type: t, Name: name}}
}

// Configs goes through every resource that has configs, by type and name.
func (i *Image) Configs() iter.Seq[*Configs] { return i.orEmpty().configs.values() }

// Quotas goes through the client quotas by entity.
func (i *Image) Quotas() iter.Seq[*Quota] { return i.orEmpty().quotas.values() }

// Quota finds the quotas of an entity; the order of its parts does not matter.
func (i *Image) Quota(entity []QuotaEntityPart) (*Quota, bool) {
	return i.orEmpty().quotas.get(entityKey(canonicalEntity(entity)))
}

// ACLs goes through the access control entries by id.
func (i *Image) ACLs() iter.Seq[*AccessControlEntryRecord] { return i.orEmpty().acls.values() }

// ACL finds an access control entry by id.
func (i *Image) ACL(id kafka.UUID) (*AccessControlEntryRecord, bool) {
	return i.orEmpty().acls.get(string(id[:]))
}

// ScramCredentials goes through the SCRAM credentials by user name and mechanism.
func (i *Image) ScramCredentials() iter.Seq[*UserScramCredentialRecord] {
	return i.orEmpty().scram.values()
}

// ScramCredential finds a user's credential of one mechanism.
func (i *Image) ScramCredential(user string, m ScramMechanism) (*UserScramCredentialRecord, bool) {
	return i.orEmpty().scram.get(scramKey(user, m))
}

// DelegationTokens goes through the delegation tokens by token id.
func (i *Image) DelegationTokens() iter.Seq[*DelegationTokenRecord] {
	return i.orEmpty().tokens.values()
}

// DelegationToken finds a delegation token.
func (i *Image) DelegationToken(id string) (*DelegationTokenRecord, bool) {
	return i.orEmpty().tokens.get(id)
}
