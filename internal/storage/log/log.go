package log

import (
	"math"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// Log is the log of one partition: one directory of segments. Mutators belong to whoever holds the owner's mutex;
// methods marked lock-free may be called at any time from anywhere.
//
// While nobody uses it a Log holds no open file and at most 2 KiB of memory: everything but the names and ends of its
// segments is read when first needed and dropped by Idle.
type Log struct {
	dir     *Dir
	tp      kafka.TopicPartition
	topicID kafka.UUID
	state   DirState
	options Options
	config  atomic.Pointer[Config]

	view atomic.Pointer[View]
	name atomic.Pointer[string] // directory name inside dir; changes when the partition is deleted, moved or stray

	// The fields below belong to the owner's mutex.
	active    *active // appender of the last segment; nil while idle
	producers Producers
	epochs    Epochs // whole
	visible   Epochs // from the log start on
	// snapshotAt is the offset of the newest producer snapshot, NoOffset when there is none.
	snapshotAt kafka.Offset
	// loadedAt is the offset of the snapshot that the producer state came from, until windows are completed with what the
	// log holds before it; NoOffset when there is nothing to complete.
	loadedAt kafka.Offset
	unsynced unsynced
	failed   error // set by a write that could not be undone: every later change is refused

	cleaning  *Cleaning    // that is at work
	replacing *replacement // that it has begun

	finished bool // PrepareClose wrote everything and nothing changed since

	epochFile    sync.Mutex // serialises writes of the epoch file
	epochsOnDisk int        // the epochVersion that the file holds
	// What is durably in the file, and its epochVersion, as far as the owner knows; owner's mutex.
	epochsSaved        Epochs
	epochsSavedVersion int

	syncFailed atomic.Bool // a sync failed: nothing is durable any more that was not before

	gone          atomic.Bool  // the directory was put aside
	cutting       atomic.Bool  // TruncateTo or TruncateFullyAndStartAt is at work
	recoveryPoint atomic.Int64 // below it segments and all that belongs to them are durable and never rescanned
	trash         trash        // files that wait for their deletion; has its own lock
}

// Options are the traits of a log that its topic's configuration does not decide.
type Options struct {
	// NoProducers: batches carry no producer ids and none are tracked (__cluster_metadata).
	NoProducers bool
	// UseReserve: appends may use the space that is kept back for metadata, checkpoints and deletion (Dir.SetReserve).
	UseReserve bool
}

// Stamp says how Append treats offsets and epochs.
type Stamp struct {
	// Assign: the leader appends; batches get dense offsets from the log end on and LeaderEpoch, in place. Otherwise
	// they are a leader's and keep both; gaps beyond the log end are legal there (compaction), offsets below it never.
	Assign      bool
	LeaderEpoch kafka.LeaderEpoch
	// Producer says how producer ids, sequences and transactions are checked; only looked at with Assign.
	Producer ProducerCheck
}

// Appended is what an Append did.
type Appended struct {
	First, Last     kafka.Offset // of the appended batches, or of the original when Duplicate
	LogAppendTimeMs int64        // the batch's time under LogAppendTime, else -1
	LogStart        kafka.Offset
	Duplicate       bool // nothing was written: the batch is in the log already (KIP-98)
	Rolled          bool // a segment was closed: flush soon even under async, so that the recovery point moves
}

// TopicPartition names the partition.
func (l *Log) TopicPartition() kafka.TopicPartition { return l.tp }

// TopicID is the id in partition.metadata, zero when there is none. Lock-free.
func (l *Log) TopicID() kafka.UUID { return l.topicID }

// Dir is the log directory the partition lies in. Lock-free.
func (l *Log) Dir() *Dir { return l.dir }

// Path is the partition's own directory. Lock-free.
func (l *Log) Path() string { return path.Join(l.dir.path, *l.name.Load()) }

// Config is the current configuration, which must not be changed. Lock-free.
func (l *Log) Config() *Config { return l.config.Load() }

// SetConfig replaces the configuration. It governs what is appended, rolled and deleted from now on. Lock-free.
func (l *Log) SetConfig(c *Config) { l.config.Store(c) }

// View is the newest published state. Lock-free.
func (l *Log) View() *View { return l.view.Load() }

// Durable is the end of what was synced: the ackable end unless the topic flushes asynchronously. Lock-free.
func (l *Log) Durable() kafka.Offset { return l.View().Durable }

// RecoveryPoint is the offset that may be checkpointed: recovery trusts what lies before its segment. Lock-free.
func (l *Log) RecoveryPoint() kafka.Offset { return kafka.Offset(l.recoveryPoint.Load()) }

// FirstUnstable gives the first offset of the earliest transaction that is open or whose marker does not lie below the
// high watermark; NoOffset when there is none. See Producers.FirstUnstable.
func (l *Log) FirstUnstable(highWatermark kafka.Offset) kafka.Offset {
	return l.producers.FirstUnstable(highWatermark)
}

// Failed is why the log takes no more changes: a write that could not be undone, or Close. nil while it takes them.
func (l *Log) Failed() error { return l.failed }

// Producers gives the state of all producer ids by rising id.
func (l *Log) Producers() []ProducerInfo { return l.producers.All() }

// OpenTransactions gives the state of the producers with an open transaction, the earliest transaction first.
func (l *Log) OpenTransactions() []ProducerInfo { return l.producers.Open() }

// ProducerCount is the number of known producer ids.
func (l *Log) ProducerCount() int { return l.producers.Len() }

// HasOpenTxn says whether the producer has a transaction open here in exactly this epoch (KIP-890).
func (l *Log) HasOpenTxn(id kafka.ProducerID, epoch kafka.ProducerEpoch) bool {
	return l.producers.HasOpenTxn(id, epoch)
}

// ExpireProducers forgets producers that were silent for the configured time, and says how many.
func (l *Log) ExpireProducers(now time.Time) int {
	return l.producers.Expire(now, l.producerTTL())
}

func (l *Log) producerTTL() time.Duration {
	return time.Duration(min(l.Config().ProducerExpiryMs, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// CheckProducer judges a batch as Append would, without appending it.
func (l *Log) CheckProducer(b record.Batch, c ProducerCheck) (Verdict, error) {
	return l.checkProducer(b, c)
}
