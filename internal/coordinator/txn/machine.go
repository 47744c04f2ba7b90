package txn

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/coordinator"
	"moldau/internal/flaw"
	"moldau/internal/kafka"
)

// Options are what a Machine depends on.
type Options struct {
	// MaxTimeout is the longest timeout a producer may ask for (transaction.max.timeout.ms).
	MaxTimeout time.Duration
	// Expiration is how long an idle transactional id is remembered (transactional.id.expiration.ms); ExpirationCheck how
	// often that is looked at (transaction.remove.expired.transaction.cleanup.interval.ms).
	Expiration, ExpirationCheck time.Duration
	// ParkTime is how long a request waits for a transaction that is completing before it is sent away to retry.
	ParkTime time.Duration
	// OffsetsPartition gives the partition of __consumer_offsets that holds a group's offsets.
	OffsetsPartition func(image *metadata.Image, group string) (kafka.TopicPartition, bool)
}

// maxParked bounds the requests that wait for one transaction to complete.
const maxParked = 100

// DrawProducerID is work: an unused producer id is wanted. Its answer is the event that Drawn makes.
type DrawProducerID struct {
	Drawn func(id kafka.ProducerID, err error) coordinator.Event
}

// WriteMarkers is work: the markers of a decided transaction are to be written to all its partitions, however often it
// has to be tried. Done is the event to give back when no partition is left that exists and has none.
type WriteMarkers struct {
	TransactionalID string
	Producer        coordinator.Stamp
	Commit          bool
	Partitions      []kafka.TopicPartition
	// CoordinatorEpoch fences older coordinators; TransactionVersion of the transaction decides how its epoch is judged.
	CoordinatorEpoch   int32
	TransactionVersion int16
	Done               coordinator.Event
}

// Owes says whether a partition that answered a marker with err, or never did, must still get it. exists says whether
// there is such a partition: of one that was deleted there is nothing left to end. Where a newer epoch of the producer
// has been, that has ended what this marker was for.
func (w *WriteMarkers) Owes(err error, exists func() bool) bool {
	switch {
	case err == nil, errors.Is(err, kafka.InvalidProducerEpoch), flaw.In(flaw.OneMarker):
		return false
	case errors.Is(err, kafka.UnknownTopicOrPartition):
		return exists()
	}
	return true
}

// Machine is one shard's transactions.
type Machine struct {
	o     Options
	image *metadata.Image
	epoch kafka.LeaderEpoch
	ids   map[string]*entry
}

// entry is one transactional id: what the log knows, and what only this coordinator does.
type entry struct {
	transaction
	// lastEpoch is the epoch before the last bump that a client asked for, by which a retried InitProducerId is known.
	lastEpoch kafka.ProducerEpoch
	ended     ending
	parked    []*coordinator.Pending
}

// New makes an empty machine. image is the metadata of the moment.
func New(o Options, image *metadata.Image) *Machine {
	return &Machine{o: o, image: image, ids: map[string]*entry{}}
}

var _ coordinator.Machine = (*Machine)(nil)

// Apply takes one record over.
func (m *Machine) Apply(r coordinator.Record, _ coordinator.Origin) error {
	id, err := parseKey(r.Key)
	if err != nil {
		return err
	}
	if r.Value == nil {
		delete(m.ids, id)
		return nil
	}
	t, err := parseValue(id, r.Value)
	if err != nil {
		return err
	}
	e := m.ids[id]
	if e == nil {
		e = &entry{lastEpoch: kafka.NoProducerEpoch}
		m.ids[id] = e
	}
	e.transaction = t
	return nil
}

// Ended is never told: nobody writes to __transaction_state in a transaction.
func (m *Machine) Ended(coordinator.Stamp, bool, coordinator.Origin) {}

// Kinds of timers.
const (
	timerTimeout    uint8 = iota + 1 // a transaction has been open for too long
	timerPark                        // parked requests have waited long enough
	timerExpiration                  // idle transactional ids are forgotten
	timerComplete                    // a completion that could not be appended is tried again
)

// drawn brings a producer id for a request.
type drawn struct {
	request *coordinator.Pending
	id      kafka.ProducerID
	err     error
}

// drawnForAbort brings a producer id for a transaction whose time is up.
type drawnForAbort struct {
	id    string
	spare kafka.ProducerID
	err   error
}

// marked tells that all markers of a transaction were written.
type marked struct {
	id       string
	producer coordinator.Stamp
}

// again handles a request that was parked.
type again struct{ request *coordinator.Pending }

// Handle decides on one event.
func (m *Machine) Handle(now time.Time, e coordinator.Event, _ *rand.Rand) coordinator.Result {
	switch e := e.(type) {
	case *coordinator.Pending:
		return m.request(now, e, kafka.NoProducer)
	case again:
		return m.request(now, e.request, kafka.NoProducer)
	case drawn:
		if e.err != nil {
			return answer(e.request, "", e.err)
		}
		return m.request(now, e.request, e.id)
	case drawnForAbort:
		if e.err != nil {
			return abortLater(now, e.id)
		}
		return m.timedOut(now, e.id, e.spare)
	case marked:
		return m.marked(now, e)
	case coordinator.TimerFired:
		return m.fired(now, e.Key)
	case coordinator.Loaded:
		m.image, m.epoch = e.Image, e.LeaderEpoch
		return m.loaded(now)
	case coordinator.ImageChanged:
		m.image = e.Image
	}
	return coordinator.Result{}
}

// request handles a request. spare is a fresh producer id, or NoProducer when none was drawn for it yet.
func (m *Machine) request(now time.Time, p *coordinator.Pending, spare kafka.ProducerID) coordinator.Result {
	switch r := p.Body.(type) {
	case *kmsg.InitProducerIDRequest:
		return m.initProducer(now, p, r, spare)
	case *kmsg.AddPartitionsToTxnRequest:
		return m.addPartitions(now, p, r)
	case *kmsg.AddOffsetsToTxnRequest:
		return m.addOffsets(now, p, r)
	case *kmsg.EndTxnRequest:
		return m.endTxn(now, p, r, spare)
	case *kmsg.DescribeTransactionsRequest:
		return m.describe(p, r)
	case *kmsg.ListTransactionsRequest:
		return m.list(now, p, r)
	}
	return answer(p, "", kafka.UnsupportedVersion)
}

func (m *Machine) fired(now time.Time, k coordinator.TimerKey) coordinator.Result {
	switch k.Kind {
	case timerTimeout:
		return m.timedOut(now, k.Scope, kafka.NoProducer)
	case timerPark:
		return m.unpark(k.Scope, kafka.ConcurrentTransactions)
	case timerExpiration:
		return m.expire(now)
	case timerComplete:
		return m.complete(now, k.Scope)
	}
	return coordinator.Result{}
}

// draw asks for a producer id in the name of a request, which is handled again when it comes.
func draw(p *coordinator.Pending) coordinator.Result {
	return coordinator.Result{Outgoing: []coordinator.Work{DrawProducerID{
		Drawn: func(id kafka.ProducerID, err error) coordinator.Event { return drawn{p, id, err} }}}}
}

// answer refuses a request.
func answer(p *coordinator.Pending, scope string, err error) coordinator.Result {
	return coordinator.Result{Scope: scope, Replies: []coordinator.Reply{{To: p, Answer: coordinator.Answer{Err: err}}}}
}

// reply answers a request with a response.
func reply(p *coordinator.Pending, scope string, body kmsg.Response) coordinator.Result {
	return coordinator.Result{Scope: scope, Replies: []coordinator.Reply{{To: p, Answer: coordinator.Answer{Body: body}}}}
}

// park keeps a request until the transaction of e is complete, for a while; then it is handled anew. With too many
// waiting it is sent away.
func (m *Machine) park(now time.Time, e *entry, p *coordinator.Pending) coordinator.Result {
	if len(e.parked) >= maxParked || m.o.ParkTime <= 0 {
		return answer(p, e.id, kafka.ConcurrentTransactions)
	}
	e.parked = append(e.parked, p)
	if len(e.parked) > 1 {
		return coordinator.Result{Scope: e.id} // the timer runs
	}
	return coordinator.Result{Scope: e.id, Timers: []coordinator.Timer{{Key: parkTimer(e.id), At: now.Add(m.o.ParkTime)}}}
}

func parkTimer(id string) coordinator.TimerKey {
	return coordinator.TimerKey{Kind: timerPark, Scope: id}
}

// unpark lets the parked requests of an id go: to be handled again, or with an error.
func (m *Machine) unpark(id string, err error) coordinator.Result {
	out := coordinator.Result{Scope: id}
	e := m.ids[id]
	if e == nil || len(e.parked) == 0 {
		return out
	}
	for _, p := range e.parked {
		if err != nil {
			out.Replies = append(out.Replies, coordinator.Reply{To: p, Answer: coordinator.Answer{Err: err}})
		} else {
			out.Next = append(out.Next, again{p})
		}
	}
	e.parked = nil
	out.Timers = []coordinator.Timer{{Key: parkTimer(id)}}
	return out
}

// write gives the result that records a transition: the timer of the transaction follows its state, and what was decided
// is carried out.
func (m *Machine) write(t transaction) coordinator.Result {
	out := coordinator.Result{Scope: t.id, Records: []coordinator.Record{t.record(m.version() >= 1)}}
	timeout := coordinator.Timer{Key: timeoutTimer(t.id)}
	if t.state == Ongoing {
		timeout.At = time.UnixMilli(t.startMs + int64(t.timeoutMs))
	}
	out.Timers = append(out.Timers, timeout)
	if t.state.preparing() {
		out.Outgoing = append(out.Outgoing, m.markers(t))
	}
	return out
}

// markers is the work that a decided transaction leaves.
func (m *Machine) markers(t transaction) WriteMarkers {
	return WriteMarkers{TransactionalID: t.id, Producer: t.producer, Commit: t.state == PrepareCommit,
		Partitions: t.partitions, CoordinatorEpoch: int32(m.epoch), TransactionVersion: t.version,
		Done: marked{t.id, t.producer}}
}
