package quorum

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/flaw"
	"moldau/internal/invariant"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// Pump is one replica of the metadata log as a driver sees it. It carries out what the core decides, in the
// one right order: nothing of a step is done before its election state is durable; a leader's answer to a
// fetch does not wait for its own disk, so that leader and follower sync side by side; what a replica
// acknowledges is durable; what it delivers is committed.
//
// A driver calls, in any order and from one place at a time:
//   - Receive, Lost, Tick (at the latest at Deadline) and Propose when something happens;
//   - Messages, to take what is to be sent;
//   - Work, whose items it runs somewhere else and hands back to Completed;
//   - Next, until it has nothing more to apply;
//   - Err: an error there is final, the node has to stop.
type Pump struct {
	config Config
	core   *Core
	store  *Store
	err    error

	// held is the step whose election state is being made durable; queue holds what happened meanwhile.
	held  *Actions
	queue []Event
	// flushing and deleting are work in flight; retryAt is when a full disk is tried again.
	flushing bool
	deleting bool
	retryAt  time.Time

	begun  bool // the core has started
	outbox []Message
	synced []syncedMessages
	work   []*Work

	// published is what others may know: the state as of the last step that was carried out.
	published State
	reader    deliverer
	snapshots snapshotter
	receiving *receivedSnapshot
	parts     int // downloads begun so far
	cleanAt   time.Time
}

// syncedMessages wait until the log is durable up to end.
type syncedMessages struct {
	end      kafka.Offset
	messages []Message
}

// maxQueued bounds the events that wait for an election state to be written. More than that are dropped, as
// by a network.
const maxQueued = 1024

// Open opens the replica that lives in a log directory (metadata.log.dir), which Format has founded or which
// is empty; its log is created if need be, or recovered. The log belongs to the pump. The replica does
// nothing before Start.
func Open(d *log.Dir, c Config, now time.Time, rnd *rand.Rand) (*Pump, error) {
	c = c.withDefaults()
	store, voters, election, err := openStore(d, c, now)
	if err != nil {
		return nil, err
	}
	p := &Pump{config: c, store: store, core: NewCore(c, store, voters, rnd)}
	p.queue = []Event{Started{Election: election}}
	p.reader = newDeliverer(store)
	p.published = p.state()
	p.published.Role, p.published.Epoch, p.published.Leader = Unattached, election.Epoch, kafka.NoNode
	return p, nil
}

// Log is the metadata log, for what any log of the directory needs (Idle, Scrub). Only the pump changes it.
func (p *Pump) Log() *log.Log { return p.store.log }

// Found says what opening found: the log's recovery, and snapshots that are damaged and not used.
func (p *Pump) Found() (recovery log.Report, damaged []string) {
	return p.store.recovery, p.store.damaged
}

// Start lets the replica take part. A sole voter asks for leadership at once.
func (p *Pump) Start(now time.Time) {
	p.cleanAt = now.Add(cleanInterval)
	p.snapshots.since = now
	p.drain(now)
}

// Receive takes a request of a peer, or its answer to a request taken from Messages.
func (p *Pump) Receive(now time.Time, m Message) { p.step(now, Arrived{Message: m}) }

// Lost says that a request taken from Messages will not be answered; refused, that nothing listens at its peer's address.
func (p *Pump) Lost(now time.Time, request uint64, refused bool) {
	p.step(now, Lost{Request: request, Refused: refused})
}

// Tick tells the time. It is due at Deadline.
func (p *Pump) Tick(now time.Time) {
	p.step(now, Ticked{})
	if p.err == nil && !p.cleanAt.IsZero() && !now.Before(p.cleanAt) {
		p.cleanAt = now.Add(cleanInterval)
		p.trim(now)
	}
	if !p.retryAt.IsZero() && !now.Before(p.retryAt) {
		p.retryAt = time.Time{}
		p.persist()
	}
}

// Deadline is when Tick is due next.
func (p *Pump) Deadline() time.Time {
	next, due := p.cleanAt, p.core.Deadline()
	if p.held != nil {
		due = time.Time{} // the core hears the time when the write is done
	}
	for _, t := range []time.Time{due, p.retryAt} {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	return next
}

// Resign makes a leader step down, as a controller does that cannot go on.
func (p *Pump) Resign(now time.Time) { p.step(now, ResignAsked{}) }

// Shutdown makes the replica hand over. It is done when HandedOver says so; then, or when patience ends,
// Close.
func (p *Pump) Shutdown(now time.Time) { p.step(now, ShutdownAsked{}) }

// HandedOver says whether every voter knows that this replica leads no more, and nothing is left to write.
func (p *Pump) HandedOver() bool {
	return p.err != nil || p.held == nil && !p.flushing && p.core.handedOver()
}

// Err is why the replica cannot go on; nil while it can. It is final.
func (p *Pump) Err() error { return p.err }

func (p *Pump) fail(err error) {
	if p.err == nil && err != nil {
		p.err = fmt.Errorf("metadata log: %w", err)
	}
}

// Messages takes what is to be sent: requests to peers and answers to theirs.
func (p *Pump) Messages() []Message {
	out := p.outbox
	p.outbox = nil
	return out
}

// Proposal is what a controller wants in the log.
type Proposal struct {
	// Epoch is the one in which the controller took office; a leader of another one refuses.
	Epoch   kafka.LeaderEpoch
	Records []metadata.Record
	// MetadataVersion picks the version of each record.
	MetadataVersion int16
	// Atomic records stand in one batch. Others are cut into several where they must be.
	Atomic bool
}

// Propose appends records and gives the offset of the last: they are committed when Next has delivered it.
// Nothing was appended if it fails: NotController when this replica does not lead in that epoch,
// RecordListTooLarge when atomic records do not fit one batch, KafkaStorageError when the disk is full or
// broken.
func (p *Pump) Propose(now time.Time, q Proposal) (kafka.Offset, error) {
	if p.err != nil {
		return kafka.NoOffset, kafka.KafkaStorageError
	}
	if s := p.published; s.Role != Leader || p.held != nil || s.Epoch != q.Epoch {
		return kafka.NoOffset, kafka.NotController
	}
	batches, err := proposalBatches(now.UnixMilli(), q)
	if err != nil || len(batches) == 0 {
		return p.store.End() - 1, err
	}
	appended, err := p.store.log.Append(batches, log.Stamp{Assign: true, LeaderEpoch: q.Epoch}, now)
	if err != nil {
		p.appendFailed(err)
		return kafka.NoOffset, err
	}
	p.step(now, Appended{})
	return appended.Last, nil
}

// proposalBatches encodes records into batches, one behind the other.
func proposalBatches(ms int64, q Proposal) ([]byte, error) {
	var out []byte
	var values [][]byte
	size := record.HeaderSize
	for _, r := range q.Records {
		v := metadata.Encode(nil, r, metadata.VersionFor(r, q.MetadataVersion))
		cost := len(v) + recordOverhead
		if len(values) > 0 && (len(values) >= MaxBatchRecords || size+cost > MaxBatchBytes) {
			if q.Atomic {
				return nil, kafka.Errorf(kafka.RecordListTooLarge,
					"%d records do not fit one batch of %d records and %d bytes", len(q.Records), MaxBatchRecords,
					MaxBatchBytes)
			}
			b, err := dataBatch(ms, values)
			if err != nil {
				return nil, err
			}
			out, values, size = append(out, b...), nil, record.HeaderSize
		}
		if size+cost > MaxBatchBytes {
			return nil, kafka.Errorf(kafka.RecordListTooLarge, "a record of %d bytes", len(v))
		}
		values = append(values, v)
		size += cost
	}
	if len(values) == 0 {
		return out, nil
	}
	b, err := dataBatch(ms, values)
	return append(out, b...), err
}

// appendFailed stops the replica unless the disk is only full.
func (p *Pump) appendFailed(err error) {
	if !vfs.IsNoSpace(err) && errors.Is(err, kafka.KafkaStorageError) {
		p.fail(err)
	}
}

// NextOffset is the offset that the next proposed record gets: the epoch of a broker that registers with it.
func (p *Pump) NextOffset() kafka.Offset { return p.store.End() }

// step feeds the core one event and carries out what it asks for. While an election state is being written
// everything waits in a queue.
func (p *Pump) step(now time.Time, e Event) {
	if p.err != nil {
		return
	}
	if _, tick := e.(Ticked); tick && p.held != nil {
		return // time is told again when the write is done
	}
	if len(p.queue) >= maxQueued {
		return
	}
	p.queue = append(p.queue, e)
	p.drain(now)
}

// drain works through the queue until it is empty or an election state has to be written first.
func (p *Pump) drain(now time.Time) {
	for p.held == nil && len(p.queue) > 0 && p.err == nil {
		e := p.queue[0]
		p.queue = slices.Delete(p.queue, 0, 1)
		if p.begun {
			p.publish()
		}
		p.begun = true
		a := p.core.Step(now, e)
		if a.Fatal != nil {
			p.fail(a.Fatal)
			return
		}
		if a.Persist != nil && !flaw.In(flaw.VoteNotDurable) {
			p.held = &a
			p.persist()
			return
		}
		p.carryOut(now, a)
	}
	p.settle()
}

// carryOut does what a step asks for, once its election state is durable. What it brings about goes to the
// head of the queue: the core hears of its own actions before anything else.
func (p *Pump) carryOut(now time.Time, a Actions) {
	var news []Event
	if a.Truncate != nil {
		if err := p.store.log.TruncateTo(*a.Truncate); err != nil {
			p.fail(err)
			return
		}
		news = append(news, Truncated{})
	}
	if len(a.Control) > 0 {
		news = append(news, p.appendControl(now, a))
	}
	if len(a.Fetched) > 0 {
		news = append(news, p.appendFetched(now, a))
	}
	if a.Piece != nil {
		p.receivePiece(a.Piece)
	}
	if p.err != nil {
		return
	}
	p.queue = append(news, p.queue...)
	for _, m := range a.Send {
		p.send(m)
	}
	if len(a.SendSynced) > 0 {
		p.synced = append(p.synced, syncedMessages{end: p.store.End(), messages: a.SendSynced})
	}
}

// appendControl appends the batch that opens an epoch.
func (p *Pump) appendControl(now time.Time, a Actions) Event {
	base := p.store.End()
	b, err := controlBatch(now.UnixMilli(), a.Control)
	if err == nil {
		_, err = p.store.log.Append(b, log.Stamp{Assign: true, LeaderEpoch: a.Epoch}, now)
	}
	if err != nil {
		p.appendFailed(err)
		return AppendFailed{}
	}
	var controls []ControlRecord
	for i, body := range a.Control {
		controls = append(controls, ControlRecord{Offset: base + kafka.Offset(i), Body: body})
	}
	return Appended{Controls: controls}
}

// appendFetched appends what a leader sent, up to the first batch that is damaged or does not belong there:
// the next fetch asks for it again.
func (p *Pump) appendFetched(now time.Time, a Actions) Event {
	var controls []ControlRecord
	good, next := 0, p.store.End()
	for rest := a.Fetched; len(rest) > 0; {
		b, tail, err := record.Split(rest)
		if err != nil || checkBatch(b) != nil || b.BaseOffset() != next || b.LeaderEpoch() > a.Epoch {
			break
		}
		if b.IsControl() {
			records, err := controlRecords(b)
			if err != nil {
				p.fail(err)
				return AppendFailed{}
			}
			controls = append(controls, records...)
		}
		next, rest = b.NextOffset(), tail
		good += len(b)
	}
	if good == 0 {
		return Appended{}
	}
	if _, err := p.store.log.Append(a.Fetched[:good], log.Stamp{}, now); err != nil {
		p.appendFailed(err)
		if p.err != nil {
			return AppendFailed{}
		}
		beyond := func(c ControlRecord) bool { return c.Offset >= p.store.End() }
		return Appended{Controls: slices.DeleteFunc(controls, beyond)}
	}
	return Appended{Controls: controls}
}

// send puts a message into the outbox; answers that carry bytes of files get them here.
func (p *Pump) send(m Message) {
	switch body := m.Body.(type) {
	case *FetchResponse:
		if body.From != kafka.NoOffset {
			raw, err := p.store.readBytes(body.From, p.store.End(), int(body.MaxBytes))
			if err != nil {
				p.fail(err)
				return
			}
			body.Records = raw
		}
	case *FetchSnapshotResponse:
		if body.Code == kafka.None && body.Top == kafka.None {
			if err := p.store.fillPiece(body); err != nil {
				p.fail(err)
				return
			}
		}
	}
	p.outbox = append(p.outbox, m)
}

// publish lets others know the state, every step up to now being carried out.
func (p *Pump) publish() {
	p.published = p.state()
	p.reader.commit(p.published.HighWatermark)
	invariant.Check(p.reader.committed <= p.store.End(), "committed %d above the log's end %d", p.reader.committed,
		p.store.End())
}

// settle publishes the state, releases what waited for the disk and asks for the next flush.
func (p *Pump) settle() {
	if p.err != nil || p.held != nil {
		return
	}
	p.publish()
	v := p.store.log.View()
	for len(p.synced) > 0 && p.synced[0].end <= v.Durable {
		p.outbox = append(p.outbox, p.synced[0].messages...)
		p.synced = p.synced[1:]
	}
	if v.End > v.Durable && !p.flushing {
		p.flush()
	}
}

// trim drops old snapshots and the log below them.
func (p *Pump) trim(now time.Time) {
	start, err := p.store.trim(now, p.config)
	if err == nil {
		err = p.store.sweep(p.reader.committed, now)
	}
	if err != nil && !vfs.IsNoSpace(err) {
		p.fail(err)
		return
	}
	p.core.voters.AdvanceStart(start)
	p.deletePending(now)
	p.settle()
}
