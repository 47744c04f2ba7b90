package kafka

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Offset is a position in a partition's log, counted in records. NoOffset marks an absent one.
type Offset int64

// NoOffset is the wire value of an offset that is not known.
const NoOffset Offset = -1

// NodeID names a broker or controller. NoNode marks an absent one (a partition without a leader).
type NodeID int32

// NoNode is the wire value of a node that is not known.
const NoNode NodeID = -1

// LeaderEpoch counts the leaders of a partition (or of the metadata quorum). NoEpoch is the undefined epoch.
type LeaderEpoch int32

// NoEpoch is the wire value of an epoch that is not known.
const NoEpoch LeaderEpoch = -1

// PartitionEpoch counts the metadata changes of a partition.
type PartitionEpoch int32

// BrokerEpoch is the metadata offset of a broker's registration (the first record of its batch).
type BrokerEpoch int64

// ProducerID names an idempotent producer, ProducerEpoch its incarnation. NoProducer marks plain batches.
type ProducerID int64

// ProducerEpoch fences earlier incarnations of a producer id.
type ProducerEpoch int16

// NoProducer and NoProducerEpoch are the wire values of a batch without producer.
const (
	NoProducer      ProducerID    = -1
	NoProducerEpoch ProducerEpoch = -1
	NoSequence      int32         = -1
)

// TopicPartition names one partition by topic name.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String gives the form used by directory names: topic-partition.
func (tp TopicPartition) String() string { return fmt.Sprintf("%s-%d", tp.Topic, tp.Partition) }

// UUID is a Kafka UUID: 16 raw bytes on the wire, 22 characters of unpadded base64url in text.
type UUID [16]byte

// Reserved UUIDs (KIP-516, KIP-858). The first 100 values are never drawn.
var (
	ZeroUUID            = UUID{}
	MetadataTopicID     = UUID{15: 1}
	DirectoryMigrating  = UUID{}
	DirectoryUnassigned = UUID{15: 1}
	DirectoryLost       = UUID{15: 2}
)

// MetadataTopic is the name of the topic that holds the cluster's metadata (partition 0 only).
const MetadataTopic = "__cluster_metadata"

// The internal topics, in which coordinators keep their state.
const (
	OffsetsTopic      = "__consumer_offsets"
	TransactionsTopic = "__transaction_state"
	ShareStateTopic   = "__share_group_state"
)

// IsZero says whether the id is absent.
func (u UUID) IsZero() bool { return u == ZeroUUID }

// IsReserved says whether the value is one of the first 100, which are never given to a topic or directory.
func (u UUID) IsReserved() bool {
	for _, b := range u[:15] {
		if b != 0 {
			return false
		}
	}
	return u[15] < 100
}

// String gives the 22 character base64url form.
func (u UUID) String() string { return base64.RawURLEncoding.EncodeToString(u[:]) }

// ParseUUID reads the 22 character base64url form.
func ParseUUID(s string) (UUID, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != 16 {
		return UUID{}, errors.New("not a 22 character base64url uuid: " + s)
	}
	return UUID(b), nil
}

// NewUUID draws a random (version 4) id from r, redrawn while it is reserved or its text contains a dash, as Kafka
// does so that ids never look like command-line flags.
func NewUUID(r io.Reader) (UUID, error) {
	for {
		var u UUID
		if _, err := io.ReadFull(r, u[:]); err != nil {
			return UUID{}, err
		}
		u[6] = u[6]&0x0f | 0x40
		u[8] = u[8]&0x3f | 0x80
		if !u.IsReserved() && !strings.Contains(u.String(), "-") {
			return u, nil
		}
	}
}

// Principal names who sent a request, as in Kafka's principal strings Type:Name.
type Principal struct {
	Type string
	Name string
}

// Anonymous is the principal of every plaintext connection.
var Anonymous = Principal{Type: "User", Name: "ANONYMOUS"}

// String gives Type:Name.
func (p Principal) String() string { return p.Type + ":" + p.Name }
