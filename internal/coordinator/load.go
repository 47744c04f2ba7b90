package coordinator

import (
	"errors"
	"slices"
	"time"

	"moldau/internal/cluster/replica"
	"moldau/internal/flaw"
	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// load reads a partition into a machine, from the start to the end of the log: what is not committed yet too, because it
// will be. It belongs to the goroutine that runs its steps, until the shard is active.
type load struct {
	s       *shard
	part    *replica.Partition
	machine Machine
	next    kafka.Offset
	buffer  []byte
	started time.Time
	records int
	bad     int
}

// startLoad begins to load the shard. Without s.mu.
func (s *shard) startLoad() {
	l := &load{s: s, started: s.r.o.Now()}
	s.r.o.Go(l.step)
}

// retryLater begins a load after a while. Without s.mu.
func (s *shard) retryLater() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != failed {
		return
	}
	s.disarm()
	s.cancel = s.r.o.After(retryAfter(s.tries), func() {
		s.mu.Lock()
		again := s.phase == failed
		if again {
			s.phase = loading
		}
		s.mu.Unlock()
		if again {
			s.startLoad()
		}
	})
}

// step does a bounded part of the load, and says whether there is more to do.
func (l *load) step() (again bool) {
	if !l.s.isLoading() {
		return false
	}
	more, err := l.read()
	if err != nil {
		l.fail(err)
		return false
	}
	return more || !l.finish()
}

func (s *shard) isLoading() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase == loading
}

// open finds the partition and makes the machine.
func (l *load) open() error {
	s := l.s
	part, err := s.r.o.Partitions.GetByID(s.topicID, s.tp.Partition)
	if err != nil {
		return err
	}
	l.part, l.machine = part, s.r.o.NewMachine(s.tp.Partition, s.r.image())
	return nil
}

// read applies the next part of the log, and reports whether there was any.
func (l *load) read() (more bool, err error) {
	if l.part == nil {
		if err := l.open(); err != nil {
			return false, err
		}
	}
	end := l.end()
	reader := l.s.r.o.Self
	if flaw.In(flaw.LoadToWatermark) {
		reader = kafka.NoNode
	}
	x := l.part.Read(replica.ReadSpec{Replica: reader, Offset: l.next, MaxBytes: l.s.r.o.LoadBytes, WholeBatch: true,
		LeaderEpoch: kafka.NoEpoch, LastEpoch: kafka.NoEpoch})
	switch {
	case errors.Is(x.Err, kafka.OffsetOutOfRange) && l.next < x.LogStart:
		l.next = x.LogStart
		return true, nil
	case x.Err != nil:
		return false, x.Err
	case x.Extents.Size() == 0:
		l.next = max(l.next, end) // compaction may have left nothing up to the end
		return false, nil
	}
	l.buffer = slices.Grow(l.buffer[:0], x.Extents.Size())[:x.Extents.Size()]
	err = x.Extents.ReadInto(l.buffer)
	x.Extents.Release()
	if err != nil {
		return false, err
	}
	return true, l.applyAll(l.buffer)
}

// end is the end of the log.
func (l *load) end() kafka.Offset {
	if log := l.part.Log(); log != nil {
		if flaw.In(flaw.LoadToWatermark) {
			return max(l.next, l.part.HighWatermark())
		}
		return log.View().End
	}
	return l.next
}

// applyAll applies whole batches; the last one may be cut off.
func (l *load) applyAll(b []byte) error {
	for first := true; ; first = false {
		batch, rest, err := record.Split(b)
		switch {
		case errors.Is(err, record.ErrTruncated) && !first:
			return nil
		case errors.Is(err, record.ErrLegacy):
			// No version of this program or of Kafka that is still supported has written it.
			size, _, err := record.EntrySize(b)
			if err != nil {
				return err
			}
			l.note("an old format", l.next)
			b = b[size:]
			continue
		case err != nil:
			return err
		}
		l.apply(batch)
		l.next = max(l.next, batch.NextOffset())
		b = rest
	}
}

// apply applies one batch. What is damaged or not understood is left out: it must not keep the other groups of the
// partition from their offsets.
func (l *load) apply(b record.Batch) {
	if err := b.CheckCRC(); err != nil {
		l.noteError("a damaged batch", b.BaseOffset(), err)
		return
	}
	if b.IsControl() {
		l.applyMarker(b)
		return
	}
	at := Origin{Producer: NoStamp}
	if b.IsTransactional() {
		at.Producer = Stamp{b.ProducerID(), b.ProducerEpoch()}
	}
	for x, err := range b.Records(record.Limits{}) {
		if err != nil {
			l.noteError("a damaged batch", b.BaseOffset(), err)
			return
		}
		if x.Offset < l.next {
			continue
		}
		if x.Key == nil {
			l.note("a record without key", x.Offset)
			continue
		}
		at.Offset, at.TimestampMs = x.Offset, x.Timestamp
		if err := l.applyRecord(owned(x), at); err != nil {
			l.noteError("a record that is not understood", x.Offset, err)
		}
		l.records++
	}
}

// applyRecord applies one record. One that breaks the machine is left out as well: it is there at every start.
func (l *load) applyRecord(r Record, at Origin) (err error) {
	defer func() {
		if x := recover(); x != nil {
			err = kafka.Errorf(kafka.CorruptMessage, "it broke the coordinator: %v", x)
		}
	}()
	return l.machine.Apply(r, at)
}

// owned copies a record out of the read buffer, with one allocation.
func owned(x record.Record) Record {
	n := len(x.Key)
	b := make([]byte, n+len(x.Value))
	copy(b, x.Key)
	copy(b[n:], x.Value)
	out := Record{Key: b[:n:n]}
	if x.Value != nil {
		out.Value = b[n:]
	}
	return out
}

// applyMarker tells the machine of the end of a transaction.
func (l *load) applyMarker(b record.Batch) {
	if b.NextOffset() <= l.next || b.Count() == 0 {
		return // applied before; or emptied by compaction, which does so once nothing of the transaction is left
	}
	kind, err := b.ControlType()
	if err == nil && kind != record.ControlAbort && kind != record.ControlCommit {
		return
	}
	m, err := b.EndTxnMarker()
	if err != nil {
		l.noteError("a damaged marker", b.BaseOffset(), err)
		return
	}
	p := Stamp{b.ProducerID(), b.ProducerEpoch()}
	if flaw.In(flaw.OffsetsUnended) {
		return
	}
	l.machine.Ended(p, m.Commit, Origin{Offset: b.BaseOffset(), TimestampMs: b.BaseTimestamp(), Producer: p})
}

// maxNoted is how many bad records of one load are logged.
const maxNoted = 10

func (l *load) note(what string, at kafka.Offset) { l.noteError(what, at, nil) }

func (l *load) noteError(what string, at kafka.Offset, err error) {
	l.bad++
	if l.bad <= maxNoted {
		l.s.r.o.Log.Error("a coordinator goes on without "+what, "partition", l.s.tp.String(), "offset", at, "error", err)
	}
}

// fail leaves the shard without state until the load is tried again.
func (l *load) fail(err error) {
	s := l.s
	s.mu.Lock()
	if s.phase != loading {
		s.mu.Unlock()
		return
	}
	s.phase = failed
	s.tries++
	tries := s.tries
	s.mu.Unlock()
	s.r.o.Metrics.LoadFailures.Inc()
	s.r.o.Log.Error("a coordinator cannot read its log", "partition", s.tp.String(), "offset", l.next, "tries", tries, "error", err)
	s.retryLater()
}

// finish makes the shard active, unless there is more to read. Nothing is appended while it is not active but by tools, of
// which Kafka's coordinators do not hear either.
func (l *load) finish() (done bool) {
	s := l.s
	now := s.r.o.Now()
	var out outbox
	s.mu.Lock()
	switch {
	case s.phase != loading:
		s.mu.Unlock()
		return true
	case l.next < l.end():
		s.mu.Unlock()
		return false
	}
	s.phase, s.tries = active, 0
	s.part, s.machine, s.rnd = l.part, l.machine, s.r.o.Rand()
	_, s.epoch = l.part.Leadership()
	s.image = s.r.image()
	end := s.awaitLoaded(l.next, now)
	s.handle(now, Loaded{Image: s.image, LeaderEpoch: s.epoch}, &out)
	s.arm(now)
	s.mu.Unlock()
	out.run(s.r.o.Host)
	if end != nil {
		end.watch()
	}
	m := &s.r.o.Metrics
	m.LoadSeconds.Observe(now.Sub(l.started))
	m.LoadRecords.Add(l.records)
	m.LoadBadRecords.Add(l.bad)
	if l.bad > maxNoted {
		s.r.o.Log.Error("a coordinator went on without bad records", "partition", s.tp.String(), "records", l.bad)
	}
	s.r.o.Log.Debug("a coordinator has loaded", "partition", s.tp.String(), "records", l.records, "took", now.Sub(l.started))
	return true
}

// loadEnd is what was loaded and is not committed yet. It counts as a write of every scope: nobody may be told of what
// could still vanish.
type loadEnd struct {
	s       *shard
	part    *replica.Partition
	w       *write
	watcher replica.Watcher
}

// awaitLoaded makes answers wait until the high watermark reaches the end of the load; nil when it has. The caller holds
// s.mu and calls watch after releasing it.
func (s *shard) awaitLoaded(end kafka.Offset, now time.Time) *loadEnd {
	if s.part.HighWatermark() >= end {
		return nil
	}
	e := &loadEnd{s: s, part: s.part, w: &write{s: s, wide: true, at: now}}
	e.watcher.OnMove = func(p *replica.Partition) {
		if p.HighWatermark() >= end {
			e.settle(nil)
		}
	}
	s.writes.barrier, s.loadEnd = e.w, e
	return e
}

// watch waits for the high watermark. Without s.mu.
func (e *loadEnd) watch() {
	e.part.Watch(&e.watcher)
	e.s.mu.Lock()
	settled := e.s.loadEnd != e
	e.s.mu.Unlock()
	if settled {
		e.part.Unwatch(&e.watcher)
		return
	}
	e.watcher.OnMove(e.part) // it may have moved before
}

// settle ends the wait, once. Without s.mu.
func (e *loadEnd) settle(err error) {
	s := e.s
	var out outbox
	s.mu.Lock()
	if s.loadEnd != e {
		s.mu.Unlock()
		return
	}
	s.loadEnd = nil
	s.writes.done(e.w, err, &out)
	if err == nil {
		out.hand(s, e.w.outgoing)
	}
	s.mu.Unlock()
	e.part.Unwatch(&e.watcher)
	out.run(s.r.o.Host)
}
