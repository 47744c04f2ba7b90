package coordinator

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// Machine is the state of one shard and the rules that change it. It is called by one goroutine at a time. One that has a
// method Close is told by it that the shard is gone, if it has ever been active.
//
// What must survive changes in Apply only, which replay and live writes share; Handle reads it and says what to write.
// Soft state (members that are joining, deadlines, parked requests) may change in Handle and is rebuilt after a load.
type Machine interface {
	// Apply takes one record over, in log order, at load and after each append. The record's bytes belong to the
	// machine. An error means that the record cannot be understood: a load goes on without it.
	Apply(r Record, at Origin) error
	// Ended tells that the transaction of a producer ended on this shard: its records, applied with that producer as
	// Origin.Producer, now count (commit) or never did.
	Ended(p Stamp, commit bool, at Origin)
	// Handle decides on one event.
	Handle(now time.Time, e Event, rnd *rand.Rand) Result
}

// Record is one record of the internal topic. A nil Value deletes the key.
type Record struct{ Key, Value []byte }

// Stamp names a producer and its epoch.
type Stamp struct {
	ID    kafka.ProducerID
	Epoch kafka.ProducerEpoch
}

// NoStamp is no producer.
var NoStamp = Stamp{ID: kafka.NoProducer, Epoch: kafka.NoProducerEpoch}

// Origin is where a record lies and who wrote it.
type Origin struct {
	Offset      kafka.Offset
	TimestampMs int64
	// Producer has an id when the record is part of a transaction that is still open.
	Producer Stamp
}

// Event is what a machine reacts to: *Pending, TimerFired, ImageChanged, Loaded, or an event of the machine's own that it
// put into Result.Next.
type Event any

// TimerFired tells that a timer is due. The timer is gone; set it again to be told again.
type TimerFired struct{ Key TimerKey }

// ImageChanged brings newer metadata.
type ImageChanged struct {
	Image *metadata.Image
	Diff  *metadata.Diff
}

// Loaded ends the load: everything in the log has been applied. Timers and soft state are to be set up now.
type Loaded struct {
	Image *metadata.Image
	// LeaderEpoch is the epoch in which this node leads the partition: the coordinator epoch of transaction markers.
	LeaderEpoch kafka.LeaderEpoch
}

// Call says who sent a request.
type Call struct {
	Principal  kafka.Principal
	ClientID   string
	ClientHost string // as Kafka records it: a slash and the address
	// May says whether the caller may do with a topic what the request is about: read it to commit or delete offsets,
	// else describe it; nil: every one.
	May func(topic string) bool
	// Room, when set, is how many entries the answers to the client's request may still hold: the requests about single
	// groups that it was taken apart into share it, as it may name the same group many times.
	Room *atomic.Int64
}

// Pending is a request until it is answered. A machine may keep it and answer later; if the shard goes away first, the
// runtime answers NOT_COORDINATOR. A request is given to one runtime once.
type Pending struct {
	Call Call
	// Body owns its memory and is about one group or transactional id (the handler takes batches apart); nobody
	// changes it.
	Body kmsg.Request
	// Verify and Guard say what is known of the transaction that the request's records belong to, if they do
	// (Result.Stamp): what its coordinator has confirmed, see replica.AppendRequest.
	Verify replica.Verification
	Guard  uint64

	answer promise.Promise[Answer]
	stay   stay
}

// NewPending makes a request.
func NewPending(c Call, body kmsg.Request) *Pending { return &Pending{Call: c, Body: body} }

// Answer gives the promise of the answer.
func (p *Pending) Answer() *promise.Promise[Answer] { return &p.answer }

// Answer is a response, or why there is none; the handler turns the error into the response's shape.
type Answer struct {
	Body kmsg.Response
	Err  error
}

// Reply answers a request: the one that is being handled, or one parked earlier.
type Reply struct {
	To *Pending
	Answer
}

// Result is what an event entails. When Records cannot be appended, nothing of it happens but that Replies carry the reason
// and that Then is told.
type Result struct {
	// Scope is the group or transactional id that the event is about. Replies without Records wait until the last write
	// of their scope is committed, so that nobody is shown what may still vanish. WholeShard waits for every write.
	Scope      string
	WholeShard bool
	// Records are appended as one batch, all or nothing; with Split they may be cut into several.
	Records []Record
	Split   bool
	// Stamp makes the batch part of a producer's transaction; the zero value does not.
	Stamp *Stamp
	// Replies leave when Records are committed. If these cannot be appended each is answered with the reason instead
	// (the error is the one of the append, mapped for coordinators).
	Replies []Reply
	Timers  []Timer
	// Outgoing is work for others, handed out when Replies leave: never before what it follows from is committed. It is
	// dropped when the records cannot be appended.
	Outgoing []Work
	// Then runs right after the append, or in place of it when there are no Records: err says why nothing was written.
	// On success the records are applied by then. Its result is carried out in turn.
	Then func(now time.Time, err error) Result
	// Next are events to be handled right after this one, in order.
	Next []Event
}

// Work is something that a machine asks of others (Options.Work): its type is the machine's own. What comes of it returns to
// the same shard as an event, as long as the shard lives.
type Work any

// TimerKey names a timer of a shard.
type TimerKey struct {
	Kind   uint8 // the machine's own numbering
	Scope  string
	Member string
}

// Timer sets a timer, replacing one of the same key; the zero time cancels it.
type Timer struct {
	Key TimerKey
	At  time.Time
}
