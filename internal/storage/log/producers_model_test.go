package log

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"moldau/internal/kafka"
)

// The model keeps the whole history of each producer and judges a batch by searching it, with sequences as unbounded
// counters: seq = counter mod 2^31.

type modelBatch struct {
	first, last int64 // unbounded sequence counters
	batch       testBatch
}

type modelProducer struct {
	epoch       kafka.ProducerEpoch
	coordinator int32
	next        int64 // unbounded counter of the next record
	history     []modelBatch
	txnFirst    kafka.Offset
	lastTs      int64
}

type modelTxn struct{ first, marker kafka.Offset } // marker -1: open

type producersModel struct {
	byID map[kafka.ProducerID]*modelProducer
	txns []modelTxn
}

const wrapAt = int64(1) << 31

// judge answers what a client's batch must get.
func (m *producersModel) judge(x testBatch) (kafka.Code, *testBatch) {
	p, ok := m.byID[x.id]
	if !ok {
		return kafka.None, nil
	}
	if x.epoch < p.epoch {
		return kafka.InvalidProducerEpoch, nil
	}
	if x.epoch == p.epoch {
		for _, h := range slices.Backward(p.history[max(0, len(p.history)-5):]) {
			if int64(x.seq) == h.first%wrapAt && (int64(x.seq)+int64(x.count)-1)%wrapAt == h.last%wrapAt {
				return kafka.None, &h.batch
			}
		}
	}
	want := int64(0)
	if x.epoch == p.epoch {
		want = p.next % wrapAt
	}
	if int64(x.seq) != want {
		return kafka.OutOfOrderSequenceNumber, nil
	}
	if p.txnFirst >= 0 && !x.txn {
		return kafka.InvalidTxnState, nil
	}
	return kafka.None, nil
}

func (m *producersModel) append(x testBatch) {
	p, ok := m.byID[x.id]
	if !ok {
		p = &modelProducer{epoch: x.epoch, coordinator: -1, next: int64(x.seq), txnFirst: -1}
		m.byID[x.id] = p
	}
	if x.epoch != p.epoch {
		p.epoch, p.history, p.next = x.epoch, nil, int64(x.seq)
	}
	p.history = append(p.history, modelBatch{first: p.next, last: p.next + int64(x.count) - 1, batch: x})
	p.next += int64(x.count)
	p.lastTs = x.ts
	if x.txn && p.txnFirst < 0 {
		p.txnFirst = x.offset
		m.txns = append(m.txns, modelTxn{x.offset, -1})
	}
}

func (m *producersModel) mark(x testMarker) (CompletedTxn, bool) {
	p, ok := m.byID[x.id]
	if !ok {
		p = &modelProducer{epoch: x.epoch, txnFirst: -1}
		m.byID[x.id] = p
	}
	if p.epoch != x.epoch {
		p.epoch, p.history, p.next = x.epoch, nil, 0
	}
	p.coordinator, p.lastTs = x.coordinator, x.ts
	if p.txnFirst < 0 {
		return CompletedTxn{}, false
	}
	c := CompletedTxn{ProducerID: x.id, First: p.txnFirst, Last: x.offset, LastStable: x.offset + 1, Aborted: x.abort}
	for i, t := range m.txns {
		if t.first == p.txnFirst {
			m.txns[i].marker = x.offset
		} else if t.marker < 0 {
			c.LastStable = min(c.LastStable, t.first)
		}
	}
	p.txnFirst = -1
	return c, true
}

func (m *producersModel) firstUnstable(hw kafka.Offset) kafka.Offset {
	out := kafka.NoOffset
	for _, t := range m.txns {
		if (t.marker < 0 || t.marker >= hw) && (out < 0 || t.first < out) {
			out = t.first
		}
	}
	return out
}

func (m *producersModel) all() []ProducerInfo {
	var out []ProducerInfo
	for id := range kafka.ProducerID(4) {
		p, ok := m.byID[id]
		if !ok {
			continue
		}
		x := ProducerInfo{ProducerID: id, Epoch: p.epoch, CoordinatorEpoch: p.coordinator, LastSequence: -1, LastOffset: -1,
			LastTimestampMs: p.lastTs, TxnStart: p.txnFirst}
		if n := len(p.history); n > 0 {
			h := p.history[n-1]
			x.LastSequence, x.LastOffset = int32(h.last%wrapAt), h.batch.offset+kafka.Offset(h.batch.count)-1
			x.OffsetDelta = h.batch.count - 1
		}
		out = append(out, x)
	}
	return out
}

// drawBatch draws a batch that is often valid or a repetition, and else near to either.
func (m *producersModel) drawBatch(t *rapid.T, offset kafka.Offset) testBatch {
	x := testBatch{
		id:     kafka.ProducerID(rapid.IntRange(0, 3).Draw(t, "id")),
		count:  rapid.Int32Range(1, 4).Draw(t, "count"),
		offset: offset,
		ts:     rapid.Int64Range(0, 1000).Draw(t, "ts"),
		txn:    rapid.Bool().Draw(t, "txn"),
	}
	p, ok := m.byID[x.id]
	if !ok {
		x.epoch = kafka.ProducerEpoch(rapid.IntRange(0, 3).Draw(t, "epoch"))
		x.seq = rapid.SampledFrom([]int32{0, 0, 1, maxSeq, maxSeq - 1, maxSeq - 7}).Draw(t, "seq")
		return x
	}
	x.epoch = p.epoch + kafka.ProducerEpoch(rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 0, 1, -1}).Draw(t, "epoch"))
	if x.epoch < 0 {
		x.epoch = 0
	}
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		if n := len(p.history); n > 0 {
			h := p.history[n-1-rapid.IntRange(0, min(n-1, 6)).Draw(t, "back")]
			x.seq = int32(h.first % wrapAt)
			x.count = max(1, h.batch.count+rapid.SampledFrom([]int32{0, 0, 0, 1, -1}).Draw(t, "count off"))
		}
	case 1:
		x.seq = int32((p.next + rapid.Int64Range(-6, 6).Draw(t, "off") + wrapAt) % wrapAt)
	case 2:
		x.seq = rapid.SampledFrom([]int32{0, 1, maxSeq}).Draw(t, "seq")
	default:
		x.seq = int32(p.next % wrapAt)
		x.txn = x.txn || p.txnFirst >= 0
		if x.epoch > p.epoch {
			x.seq = 0
		}
	}
	return x
}

// reload sends the state through a snapshot: of each producer only the newest batch survives, and what the high
// watermark has not passed is no longer known.
func (m *producersModel) reload(t *rapid.T, p *Producers) {
	loaded, err := decodeSnapshot(p.encode(), time.UnixMilli(0), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	*p = loaded
	for _, x := range m.byID {
		x.history = x.history[max(0, len(x.history)-1):]
		if len(x.history) > 0 {
			x.history[0].batch.ts = x.lastTs
		}
	}
	m.txns = slices.DeleteFunc(m.txns, func(x modelTxn) bool { return x.marker >= 0 })
}

func TestProducersModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &producersModel{byID: map[kafka.ProducerID]*modelProducer{}}
		p := new(Producers)
		offset, hw := kafka.Offset(rapid.IntRange(0, 9).Draw(t, "start")), kafka.Offset(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "op") {
			case 0, 1:
				x := testMarker{
					id: kafka.ProducerID(rapid.IntRange(0, 3).Draw(t, "marker id")), abort: rapid.Bool().Draw(t, "abort"), offset: offset,
					coordinator: rapid.Int32Range(0, 3).Draw(t, "coordinator"), ts: rapid.Int64Range(0, 1000).Draw(t, "ts"),
				}
				if s, ok := m.byID[x.id]; ok {
					x.epoch = s.epoch + kafka.ProducerEpoch(rapid.IntRange(0, 1).Draw(t, "bump"))
				}
				got, ok := p.Update(x.bytes())
				want, wantOK := m.mark(x)
				if got != want || ok != wantOK {
					t.Fatalf("marker %+v: %+v %v, want %+v %v", x, got, ok, want, wantOK)
				}
				offset++
			case 2:
				hw = kafka.Offset(rapid.Int64Range(int64(hw), int64(offset)).Draw(t, "hw"))
			case 3:
				if rapid.IntRange(0, 3).Draw(t, "reload") == 0 {
					m.reload(t, p)
				}
			default:
				x := m.drawBatch(t, offset)
				m.appendBatch(t, p, x)
				offset = max(offset, x.offset+kafka.Offset(x.count))
			}
			if got, want := p.FirstUnstable(hw), m.firstUnstable(hw); got != want {
				t.Fatalf("first unstable at %d is %d, want %d", hw, got, want)
			}
			if diff := cmp.Diff(m.all(), p.All()); diff != "" && p.Len() > 0 {
				t.Fatal(diff)
			}
		}
	})
}

func (m *producersModel) appendBatch(t *rapid.T, p *Producers, x testBatch) {
	want, original := m.judge(x)
	v, err := p.Check(x.bytes(), client)
	if kafka.CodeOf(err) != want || v.Duplicate != (original != nil) {
		t.Fatalf("%+v: %v %v, want %v, duplicate %v", x, kafka.CodeOf(err), v, want, original)
	}
	switch {
	case original != nil:
		wantV := Verdict{Duplicate: true, First: original.offset, Last: original.offset + kafka.Offset(original.count) - 1,
			TimestampMs: original.ts}
		if v != wantV {
			t.Fatalf("%+v: %+v, want %+v", x, v, wantV)
		}
	case err == nil:
		p.Update(x.bytes())
		m.append(x)
	}
}
