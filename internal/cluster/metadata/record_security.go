package metadata

import "moldau/internal/kafka"

// ScramMechanism is a SASL/SCRAM mechanism.
type ScramMechanism int8

// The mechanisms of KIP-554.
const (
	ScramSHA256 ScramMechanism = 1
	ScramSHA512 ScramMechanism = 2
)

// UserScramCredentialRecord sets a user's SCRAM credential. It holds derived keys, never the password.
type UserScramCredentialRecord struct {
	Name       string
	Mechanism  ScramMechanism
	Salt       []byte
	StoredKey  []byte
	ServerKey  []byte
	Iterations int32
}

// Type is TypeUserScramCredential.
func (*UserScramCredentialRecord) Type() RecordType { return TypeUserScramCredential }

func (r *UserScramCredentialRecord) fields(v visitor, _ int16) {
	text(v, "name", &r.Name)
	number(v, "mechanism", &r.Mechanism)
	blob(v, "salt", &r.Salt)
	blob(v, "storedKey", &r.StoredKey)
	blob(v, "serverKey", &r.ServerKey)
	number(v, "iterations", &r.Iterations)
}

// RemoveUserScramCredentialRecord removes a user's credential of one mechanism.
type RemoveUserScramCredentialRecord struct {
	Name      string
	Mechanism ScramMechanism
}

// Type is TypeRemoveUserScramCredential.
func (*RemoveUserScramCredentialRecord) Type() RecordType { return TypeRemoveUserScramCredential }

func (r *RemoveUserScramCredentialRecord) fields(v visitor, _ int16) {
	text(v, "name", &r.Name)
	number(v, "mechanism", &r.Mechanism)
}

// DelegationTokenRecord creates or renews a delegation token. Principals have the form Type:Name, times are in
// milliseconds since the epoch. The token's HMAC is not stored: it derives from the id and the cluster's secret.
type DelegationTokenRecord struct {
	Owner                 string
	Requester             string
	Renewers              []string
	IssueTimestampMs      int64
	MaxTimestampMs        int64
	ExpirationTimestampMs int64
	TokenID               string
}

// Type is TypeDelegationToken.
func (*DelegationTokenRecord) Type() RecordType { return TypeDelegationToken }

func (r *DelegationTokenRecord) fields(v visitor, _ int16) {
	text(v, "owner", &r.Owner)
	text(v, "requester", &r.Requester)
	list(v, "renewers", 1, &r.Renewers, func(s *string) { text(v, "", s) })
	number(v, "issueTimestamp", &r.IssueTimestampMs)
	number(v, "maxTimestamp", &r.MaxTimestampMs)
	number(v, "expirationTimestamp", &r.ExpirationTimestampMs)
	text(v, "tokenId", &r.TokenID)
}

// RemoveDelegationTokenRecord removes a delegation token.
type RemoveDelegationTokenRecord struct {
	TokenID string
}

// Type is TypeRemoveDelegationToken.
func (*RemoveDelegationTokenRecord) Type() RecordType { return TypeRemoveDelegationToken }

func (r *RemoveDelegationTokenRecord) fields(v visitor, _ int16) {
	text(v, "tokenId", &r.TokenID)
}

// QuotaEntityPart is one part of the entity a quota is for. Type is user, client-id or ip; a nil name is the default.
type QuotaEntityPart struct {
	Type string
	Name *string
}

// ClientQuotaRecord sets or removes one quota of one entity.
type ClientQuotaRecord struct {
	Entity []QuotaEntityPart
	Key    string
	Value  float64
	Remove bool
}

// Type is TypeClientQuota.
func (*ClientQuotaRecord) Type() RecordType { return TypeClientQuota }

func (r *ClientQuotaRecord) fields(v visitor, _ int16) {
	list(v, "entity", 3, &r.Entity, func(e *QuotaEntityPart) {
		v.begin()
		text(v, "entityType", &e.Type)
		nullableText(v, "entityName", &e.Name)
		v.end()
	})
	text(v, "key", &r.Key)
	value := v.float("value", r.Value)
	if v.reads() {
		r.Value = value
	}
	boolean(v, "remove", &r.Remove)
}

// AccessControlEntryRecord adds one ACL. The numbers are those of the Kafka protocol's ACL enumerations.
type AccessControlEntryRecord struct {
	ID             kafka.UUID
	ResourceType   int8
	ResourceName   string
	PatternType    int8
	Principal      string
	Host           string
	Operation      int8
	PermissionType int8
}

// Type is TypeAccessControlEntry.
func (*AccessControlEntryRecord) Type() RecordType { return TypeAccessControlEntry }

func (r *AccessControlEntryRecord) fields(v visitor, _ int16) {
	uuid(v, "id", &r.ID)
	number(v, "resourceType", &r.ResourceType)
	text(v, "resourceName", &r.ResourceName)
	number(v, "patternType", &r.PatternType)
	text(v, "principal", &r.Principal)
	text(v, "host", &r.Host)
	number(v, "operation", &r.Operation)
	number(v, "permissionType", &r.PermissionType)
}

// RemoveAccessControlEntryRecord removes one ACL.
type RemoveAccessControlEntryRecord struct {
	ID kafka.UUID
}

// Type is TypeRemoveAccessControlEntry.
func (*RemoveAccessControlEntryRecord) Type() RecordType { return TypeRemoveAccessControlEntry }

func (r *RemoveAccessControlEntryRecord) fields(v visitor, _ int16) {
	uuid(v, "id", &r.ID)
}
