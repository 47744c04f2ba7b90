package log

import (
	"cmp"
	"slices"
	"time"

	"moldau/internal/invariant"
	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// producerWindow is how many batches per producer are remembered to recognise resent ones. Idempotent clients
// keep at most five requests in flight, so this is the protocol's number and not a setting.
const producerWindow = 5

// Producers is what one partition knows of the idempotent and transactional producers that write to it: the
// last sequences of each, its open transaction, and the transactions that hold back the last stable offset
// (KIP-98).
//
// It is rebuilt from the log, with snapshots as a shortcut, so it must change only by what was appended:
// Check looks and changes nothing, Update tells what now stands in the log. The owner of the log locks;
// nothing here is safe for concurrent use. The zero value is an empty state and costs a few words.
type Producers struct {
	byID map[kafka.ProducerID]*producer
	// open are the open transactions, by rising first offset.
	open []openTxn
	// ended are the transactions whose marker is not known to lie below the high watermark, reduced to those
	// that can still be the earliest: both fields rise, so the first one holds the last stable offset back
	// (KIP-98).
	ended []endedTxn
}

// producer is the state of one producer id. There can be millions, and most of them wrote once and are gone, or are known
// from a snapshot: so it has a size class of its own (64 bytes), and what follows the first batch another (96 bytes).
type producer struct {
	txnFirst         kafka.Offset // first offset of the open transaction, NoOffset without one
	lastTimestamp    int64        // ms; of the last batch or marker: expiry counts from it
	coordinatorEpoch int32        // of the last marker, -1 before the first
	epoch            kafka.ProducerEpoch
	count            uint8 // batches remembered: newest, and older ones
	latest           uint8 // index in older of the one before newest
	newest           producerBatch
	older            *[producerWindow - 1]producerBatch // nil until there is one
}

// producerBatch is one remembered batch.
type producerBatch struct {
	lastOffset kafka.Offset
	timestamp  int64 // ms, the batch's max timestamp
	lastSeq    int32
	delta      int32 // last minus first offset, and so last minus first sequence
}

type openTxn struct {
	first    kafka.Offset
	producer kafka.ProducerID
}

type endedTxn struct{ first, marker kafka.Offset }

// ProducerInfo describes one producer id, as DescribeProducers and snapshots show it.
type ProducerInfo struct {
	ProducerID       kafka.ProducerID
	Epoch            kafka.ProducerEpoch
	CoordinatorEpoch int32
	LastSequence     int32        // NoSequence when no batch is remembered
	LastOffset       kafka.Offset // of the last batch, NoOffset when none is remembered
	OffsetDelta      int32        // last minus first offset of that batch
	LastTimestampMs  int64
	TxnStart         kafka.Offset // first offset of the open transaction, or NoOffset
}

// CompletedTxn is a transaction that a marker ended.
type CompletedTxn struct {
	ProducerID kafka.ProducerID
	First      kafka.Offset // of the transaction's first batch
	Last       kafka.Offset // of the marker
	LastStable kafka.Offset // the last stable offset at the time of the marker, for the txn index
	Aborted    bool
}

// Entry gives the txn index entry of an aborted transaction.
func (c CompletedTxn) Entry() AbortedTxn {
	return AbortedTxn{ProducerID: c.ProducerID, First: c.First, Last: c.Last, LastStable: c.LastStable}
}

// Len is the number of known producer ids. The broker-wide limit on new ids is a sum of these (see Check).
func (p *Producers) Len() int { return len(p.byID) }

// Reset forgets everything: the log starts anew.
func (p *Producers) Reset() { *p = Producers{} }

// Update tells that b now stands in the log at its stamped offsets, whoever wrote it. It never refuses: on a
// follower and in recovery the log is the truth. When b is a marker that ended a transaction it says which,
// and the caller adds aborted ones to the txn index. For a known producer it allocates nothing.
func (p *Producers) Update(b record.Batch) (CompletedTxn, bool) {
	if !b.HasProducer() {
		return CompletedTxn{}, false
	}
	if b.IsControl() {
		m, err := parseMarker(b)
		if err != nil || m.kind == markerNone {
			return CompletedTxn{}, false
		}
		return p.endTxn(b, m)
	}
	p.addBatch(b)
	return CompletedTxn{}, false
}

func (p *Producers) addBatch(b record.Batch) {
	id := b.ProducerID()
	s := p.state(id)
	s.setEpoch(b.ProducerEpoch())
	s.push(producerBatch{
		lastOffset: b.LastOffset(),
		timestamp:  b.MaxTimestamp(),
		lastSeq:    b.LastSequence(),
		delta:      b.LastOffsetDelta(),
	})
	s.lastTimestamp = b.MaxTimestamp()
	if b.IsTransactional() && s.txnFirst == kafka.NoOffset {
		s.txnFirst = b.BaseOffset()
		p.insertOpen(openTxn{first: s.txnFirst, producer: id})
	}
}

func (p *Producers) endTxn(b record.Batch, m marker) (CompletedTxn, bool) {
	id := b.ProducerID()
	s := p.state(id)
	s.setEpoch(b.ProducerEpoch())
	s.coordinatorEpoch = m.coordinatorEpoch
	s.lastTimestamp = m.timestamp
	if s.txnFirst == kafka.NoOffset {
		return CompletedTxn{}, false // nothing was written here, so neither index nor last stable offset care
	}
	done := CompletedTxn{
		ProducerID: id,
		First:      s.txnFirst,
		Last:       b.LastOffset(),
		LastStable: b.LastOffset() + 1,
		Aborted:    m.kind == markerAbort,
	}
	p.removeOpen(id, done.First)
	if len(p.open) > 0 {
		done.LastStable = p.open[0].first
	}
	p.addEnded(endedTxn{first: done.First, marker: done.Last})
	s.txnFirst = kafka.NoOffset
	return done, true
}

// state gives the state of id, which is made if missing.
func (p *Producers) state(id kafka.ProducerID) *producer {
	if s, ok := p.byID[id]; ok {
		return s
	}
	if p.byID == nil {
		p.byID = make(map[kafka.ProducerID]*producer)
	}
	s := &producer{
		txnFirst:         kafka.NoOffset,
		lastTimestamp:    -1,
		coordinatorEpoch: -1,
		epoch:            kafka.NoProducerEpoch,
	}
	p.byID[id] = s
	return s
}

// setEpoch moves to another epoch, whose sequences start anew.
func (s *producer) setEpoch(e kafka.ProducerEpoch) {
	if s.epoch != e {
		s.epoch, s.count = e, 0
	}
}

func (s *producer) push(b producerBatch) {
	if s.count > 0 {
		if s.older == nil {
			s.older = new([producerWindow - 1]producerBatch)
		}
		s.latest = (s.latest + 1) % uint8(len(s.older))
		s.older[s.latest] = s.newest
	}
	s.newest = b
	s.count = min(s.count+1, producerWindow)
}

// last gives the newest batch; an empty window answers as one that ends before sequence 0.
func (s *producer) last() producerBatch {
	if s.count == 0 {
		return producerBatch{lastOffset: kafka.NoOffset, timestamp: -1, lastSeq: kafka.NoSequence}
	}
	return s.newest
}

// nth gives the i-th newest of the batches that are remembered, from 0.
func (s *producer) nth(i uint8) producerBatch {
	if i == 0 {
		return s.newest
	}
	return s.older[(s.latest+uint8(len(s.older))+1-i)%uint8(len(s.older))]
}

// find looks for a batch with exactly these sequences.
func (s *producer) find(firstSeq, lastSeq int32) (producerBatch, bool) {
	for i := range s.count {
		b := s.nth(i)
		if b.lastSeq == lastSeq && b.firstSeq() == firstSeq {
			return b, true
		}
	}
	return producerBatch{}, false
}

// firstSeq undoes the wrap from 2147483647 to 0.
func (b producerBatch) firstSeq() int32 {
	if b.lastSeq == kafka.NoSequence {
		return kafka.NoSequence
	}
	return int32((int64(b.lastSeq) - int64(b.delta)) & 0x7fffffff)
}

// FirstUnstable tells that the high watermark is hw (it may be any value on a node that does not know one)
// and gives the first offset of the earliest transaction that is open or whose marker does not lie below hw;
// NoOffset when there is none. read_committed consumers may read up to min(hw, that). It can lie below the
// log start after records were deleted; callers clamp it. What lies below hw is forgotten, so hw must not
// fall except through a Reload.
func (p *Producers) FirstUnstable(hw kafka.Offset) kafka.Offset {
	stable := 0
	for stable < len(p.ended) && p.ended[stable].marker < hw {
		stable++
	}
	p.ended = slices.Delete(p.ended, 0, stable)
	switch {
	case len(p.open) == 0 && len(p.ended) == 0:
		return kafka.NoOffset
	case len(p.open) == 0:
		return p.ended[0].first
	case len(p.ended) == 0:
		return p.open[0].first
	}
	return min(p.open[0].first, p.ended[0].first)
}

// addEnded keeps ended a queue whose minimum is its front: an older transaction that starts later than t also
// turns stable earlier than t, so it can never be the earliest again.
func (p *Producers) addEnded(t endedTxn) {
	keep := len(p.ended)
	for keep > 0 && p.ended[keep-1].first >= t.first {
		keep--
	}
	p.ended = append(p.ended[:keep], t)
}

// openAt gives the place of the first open transaction that starts at or after first.
func (p *Producers) openAt(first kafka.Offset) int {
	i, _ := slices.BinarySearchFunc(p.open, first, func(t openTxn, o kafka.Offset) int {
		return cmp.Compare(t.first, o)
	})
	return i
}

// insertOpen keeps the order by first offset; live appends always land at the end.
func (p *Producers) insertOpen(t openTxn) { p.open = slices.Insert(p.open, p.openAt(t.first), t) }

func (p *Producers) removeOpen(id kafka.ProducerID, first kafka.Offset) {
	i := p.openAt(first)
	ok := i < len(p.open) && p.open[i].producer == id
	invariant.Check(ok, "open transaction of %d at %d is not listed", id, first)
	if ok {
		p.open = slices.Delete(p.open, i, i+1)
	}
}

// HasOpenTxn says whether id has an open transaction in exactly this epoch here; only the first batch of one
// needs the coordinator's word (KIP-890).
func (p *Producers) HasOpenTxn(id kafka.ProducerID, epoch kafka.ProducerEpoch) bool {
	s, ok := p.byID[id]
	return ok && s.txnFirst != kafka.NoOffset && s.epoch == epoch
}

// Open describes the producers with an open transaction, the earliest first.
func (p *Producers) Open() []ProducerInfo {
	out := make([]ProducerInfo, 0, len(p.open))
	for _, t := range p.open {
		out = append(out, p.byID[t.producer].info(t.producer))
	}
	return out
}

// Expire forgets producers that wrote nothing for ttl and have no open transaction, and says how many went. A
// producer's age counts from the timestamp of its last batch or marker (producer.id.expiration.ms).
func (p *Producers) Expire(now time.Time, ttl time.Duration) int {
	gone := 0
	for id, s := range p.byID { // the order does not show
		if s.expired(now, ttl) {
			delete(p.byID, id)
			gone++
		}
	}
	if len(p.byID) == 0 {
		p.byID = nil
	}
	return gone
}

func (s *producer) expired(now time.Time, ttl time.Duration) bool {
	return s.txnFirst == kafka.NoOffset && s.lastTimestamp <= now.UnixMilli()-ttl.Milliseconds()
}

// Lookup describes one producer id.
func (p *Producers) Lookup(id kafka.ProducerID) (ProducerInfo, bool) {
	s, ok := p.byID[id]
	if !ok {
		return ProducerInfo{}, false
	}
	return s.info(id), true
}

// All describes every known producer id in ascending order.
func (p *Producers) All() []ProducerInfo {
	out := make([]ProducerInfo, 0, len(p.byID))
	for id, s := range p.byID {
		out = append(out, s.info(id))
	}
	slices.SortFunc(out, func(a, b ProducerInfo) int { return cmp.Compare(a.ProducerID, b.ProducerID) })
	return out
}

func (s *producer) info(id kafka.ProducerID) ProducerInfo {
	last := s.last()
	return ProducerInfo{
		ProducerID:       id,
		Epoch:            s.epoch,
		CoordinatorEpoch: s.coordinatorEpoch,
		LastSequence:     last.lastSeq,
		LastOffset:       last.lastOffset,
		OffsetDelta:      last.delta,
		LastTimestampMs:  s.lastTimestamp,
		TxnStart:         s.txnFirst,
	}
}
