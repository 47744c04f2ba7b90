package api

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/quorum"
	"moldau/internal/cluster/replica"
	"moldau/internal/config"
	"moldau/internal/coordinator"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
	"moldau/internal/storage/log"
)

// Broker is everything the handlers may use. The node fills it in; nothing in it changes afterwards but the count of
// waiting requests. All functions may be called from many goroutines and none of them blocks. A Broker must not be copied.
type Broker struct {
	Self      kafka.NodeID
	ClusterID string
	Config    *config.Static
	Log       *slog.Logger
	LogLevel  *slog.LevelVar // the level of Log, for clients to change; nil: it is fixed
	Now       func() time.Time
	NewUUID   func() kafka.UUID

	// Image is the newest committed metadata that this node's partitions have caught up with.
	Image      func() *metadata.Image
	Partitions *replica.Manager
	// Host runs the effects of partitions.
	Host replica.Host
	// After calls f once after d unless the returned function is called before.
	After func(d time.Duration, f func()) (cancel func())

	// Control passes a request to the active controller and gives its response once that is committed and this node's
	// image shows it. The request must own its memory: it outlives the lease.
	Control func(c *server.Call, body kmsg.Request) *promise.Promise[ControlReply]
	// Raft gives a request of the quorum's protocol to this node's replica of the metadata log, whose answer has the
	// request's version; nil: there will be none. The request must own its memory.
	Raft func(body kmsg.Request) *promise.Promise[kmsg.Response]
	// Quorum describes the metadata quorum; kafka.NotLeaderOrFollower when this node's replica does not lead it.
	Quorum func() *promise.Promise[QuorumReply]
	// ProducerID draws a new producer id.
	ProducerID func() *promise.Promise[ProducerIDReply]

	// Advertised gives the address that clients of a connection should use for a broker: for this node what is
	// advertised, or the local address of the connection; for others what they registered under the listener's name.
	Advertised func(c *server.ConnInfo, b *metadata.Broker) (host string, port int32, ok bool)
	// Groups coordinates groups, Transactions transactions.
	Groups       *coordinator.Runtime
	Transactions *coordinator.Runtime
	// Verify asks the coordinator of a producer's transaction for its word on a partition (KIP-890), in bounded time.
	Verify func(c replica.TxnCheck) *promise.Promise[error]
	// WriteMarker ends a producer's transaction on a partition.
	WriteMarker func(tp kafka.TopicPartition, m coordinator.Marker) *promise.Promise[error]
	// LogDirs lists the configured log directories, failed ones included.
	LogDirs func() []LogDir
	// AlterLogDir moves a replica to the log directory at path, which must be the one that LogDirs gives; naming where it
	// lies takes a move back.
	//
	// Errors: InvalidTopicException (a name too long), LogDirNotFound, KafkaStorageError (directory or replica offline),
	// InvalidReplicaAssignment (cordoned), ReplicaNotAvailable (no replica here yet; when one is made, it is made there),
	// UnknownTopicOrPartition.
	AlterLogDir func(tp kafka.TopicPartition, path string) *promise.Promise[error]

	// LeaderQuota bounds what throttled followers are given; nil: nothing does.
	LeaderQuota *replica.Quota

	// Metrics are what the handlers count.
	Metrics Metrics

	verifying atomic.Pointer[verifying]
	parked    parking
	envelopes envelopes
	creating  autoCreation
}

// ControlReply is the controller's answer: a response, or why there is none.
type ControlReply struct {
	Body kmsg.Response
	Err  error
}

// QuorumReply is the description of the metadata quorum.
type QuorumReply struct {
	Description quorum.Description
	Err         error
}

// ProducerIDReply is a fresh producer id, or why there is none.
type ProducerIDReply struct {
	ID  kafka.ProducerID
	Err error
}

// LogDir is one configured log directory.
type LogDir struct {
	Path string
	// Dir is nil when the directory could not be opened at start.
	Dir *log.Dir
	// Err is why the directory is offline; nil while it is online.
	Err error
	// TotalBytes and UsableBytes describe its file system; -1 when not known.
	TotalBytes, UsableBytes int64
}

// Resolver gives the configuration resolver of an image.
func (b *Broker) Resolver(image *metadata.Image) *config.Resolver {
	return image.Resolver(b.Config, b.Self)
}
