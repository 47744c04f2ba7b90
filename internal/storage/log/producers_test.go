package log

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"moldau/internal/invariant"
	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// testBatch describes the header of a data batch; only the header matters to producer state.
type testBatch struct {
	id     kafka.ProducerID
	epoch  kafka.ProducerEpoch
	seq    int32
	count  int32 // 0 stands for 1
	offset kafka.Offset
	ts     int64
	txn    bool
}

func (x testBatch) bytes() record.Batch {
	b := make(record.Batch, record.HeaderSize)
	x.put(b)
	return b
}

func (x testBatch) put(b record.Batch) {
	count := max(x.count, 1)
	binary.BigEndian.PutUint32(b[8:], record.HeaderSize-record.LogOverhead)
	b[16] = record.Magic
	attributes := uint16(0)
	if x.txn {
		attributes = 0x10
	}
	binary.BigEndian.PutUint16(b[21:], attributes)
	binary.BigEndian.PutUint32(b[23:], uint32(count-1))
	binary.BigEndian.PutUint64(b[27:], uint64(x.ts))
	binary.BigEndian.PutUint64(b[35:], uint64(x.ts))
	binary.BigEndian.PutUint64(b[43:], uint64(x.id))
	binary.BigEndian.PutUint16(b[51:], uint16(x.epoch))
	binary.BigEndian.PutUint32(b[53:], uint32(x.seq))
	binary.BigEndian.PutUint32(b[57:], uint32(count))
	b.SetBaseOffset(x.offset)
}

// testMarker describes a transaction marker.
type testMarker struct {
	id          kafka.ProducerID
	epoch       kafka.ProducerEpoch
	coordinator int32
	abort       bool
	offset      kafka.Offset
	ts          int64
}

func (x testMarker) bytes() record.Batch {
	kind := uint16(record.ControlCommit)
	if x.abort {
		kind = uint16(record.ControlAbort)
	}
	value := binary.BigEndian.AppendUint32([]byte{0, 0}, uint32(x.coordinator))
	return controlBatch(x, kind, value)
}

func controlBatch(x testMarker, kind uint16, value []byte) record.Batch {
	b := testBatch{id: x.id, epoch: x.epoch, seq: kafka.NoSequence, offset: x.offset, ts: x.ts, txn: true}.bytes()
	binary.BigEndian.PutUint16(b[21:], 0x30)
	body := []byte{0, 0, 0} // attributes, timestamp delta, offset delta
	body = append(binary.AppendVarint(body, 4), 0, 0)
	body = binary.BigEndian.AppendUint16(body, kind)
	body = append(binary.AppendVarint(body, int64(len(value))), value...)
	body = append(body, 0) // no headers
	b = append(binary.AppendVarint(b, int64(len(body))), body...)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-record.LogOverhead))
	return b
}

// given builds a state from what stands in a log.
func given(batches ...interface{ bytes() record.Batch }) *Producers {
	p := new(Producers)
	for _, b := range batches {
		p.Update(b.bytes())
	}
	return p
}

type raw record.Batch

func (r raw) bytes() record.Batch { return record.Batch(r) }

const maxSeq = math.MaxInt32

var (
	client      = ProducerCheck{Origin: FromClient}
	clientTV2   = ProducerCheck{Origin: FromClient, RequireFirstSequence: true}
	coordinator = ProducerCheck{Origin: FromCoordinator}
	markerTV2   = ProducerCheck{Origin: FromCoordinator, TransactionVersion: 2}
)

func TestProducersCheckData(t *testing.T) {
	two := given(testBatch{id: 7, epoch: 3, seq: 0, count: 10, offset: 100}, testBatch{id: 7, epoch: 3, seq: 10, count: 5, offset: 110})
	atEnd := given(testBatch{id: 7, epoch: 3, seq: maxSeq, offset: 100})
	wrapped := given(testBatch{id: 7, epoch: 3, seq: maxSeq - 1, count: 4, offset: 100}) // max-1, max, 0, 1
	bumped := given(testBatch{id: 7, epoch: 3, seq: 5, offset: 100, txn: true}, testMarker{id: 7, epoch: 4, offset: 101})
	sameEpochMarker := given(testBatch{id: 7, epoch: 3, seq: 5, offset: 100, txn: true}, testMarker{id: 7, epoch: 3, offset: 101})
	open := given(testBatch{id: 7, epoch: 3, seq: 0, offset: 100, txn: true})
	offsets := given(testBatch{id: 7, epoch: 3, seq: kafka.NoSequence, count: 2, offset: 100, txn: true})

	for _, c := range []struct {
		name  string
		state *Producers
		batch testBatch
		check ProducerCheck
		want  kafka.Code
		dup   bool
	}{
		{"next in order", two, testBatch{id: 7, epoch: 3, seq: 15}, client, kafka.None, false},
		{"gap", two, testBatch{id: 7, epoch: 3, seq: 16}, client, kafka.OutOfOrderSequenceNumber, false},
		{"duplicate of the newest", two, testBatch{id: 7, epoch: 3, seq: 10, count: 5}, client, kafka.None, true},
		{"duplicate of an older one", two, testBatch{id: 7, epoch: 3, seq: 0, count: 10}, client, kafka.None, true},
		{"same first, other last sequence", two, testBatch{id: 7, epoch: 3, seq: 10, count: 4}, client, kafka.OutOfOrderSequenceNumber, false},
		{"same last, other first sequence", two, testBatch{id: 7, epoch: 3, seq: 11, count: 4}, client, kafka.OutOfOrderSequenceNumber, false},
		{"two remembered ones in one", two, testBatch{id: 7, epoch: 3, seq: 0, count: 15}, client, kafka.OutOfOrderSequenceNumber, false},
		{"old epoch", two, testBatch{id: 7, epoch: 2, seq: 15}, client, kafka.InvalidProducerEpoch, false},
		{"old epoch is no duplicate", two, testBatch{id: 7, epoch: 2, seq: 10, count: 5}, client, kafka.InvalidProducerEpoch, false},
		{"new epoch from zero", two, testBatch{id: 7, epoch: 4, seq: 0}, client, kafka.None, false},
		{"new epoch is no duplicate", two, testBatch{id: 7, epoch: 4, seq: 0, count: 10}, client, kafka.None, false},
		{"new epoch, next sequence", two, testBatch{id: 7, epoch: 4, seq: 15}, client, kafka.OutOfOrderSequenceNumber, false},
		{"no sequence", two, testBatch{id: 7, epoch: 3, seq: kafka.NoSequence}, client, kafka.InvalidRecord, false},

		{"zero after the last sequence", atEnd, testBatch{id: 7, epoch: 3, seq: 0}, client, kafka.None, false},
		{"one after the last sequence", atEnd, testBatch{id: 7, epoch: 3, seq: 1}, client, kafka.OutOfOrderSequenceNumber, false},
		{"after a wrap inside", wrapped, testBatch{id: 7, epoch: 3, seq: 2}, client, kafka.None, false},
		{"zero after a wrap inside", wrapped, testBatch{id: 7, epoch: 3, seq: 0}, client, kafka.OutOfOrderSequenceNumber, false},
		{"duplicate with a wrap inside", wrapped, testBatch{id: 7, epoch: 3, seq: maxSeq - 1, count: 4}, client, kafka.None, true},

		{"after a bumping marker", bumped, testBatch{id: 7, epoch: 4, seq: 0}, client, kafka.None, false},
		{"after a bumping marker, not zero", bumped, testBatch{id: 7, epoch: 4, seq: 6}, client, kafka.OutOfOrderSequenceNumber, false},
		{"after a bumping marker, old epoch", bumped, testBatch{id: 7, epoch: 3, seq: 6}, client, kafka.InvalidProducerEpoch, false},
		{"resent across a bumping marker", bumped, testBatch{id: 7, epoch: 3, seq: 5}, client, kafka.InvalidProducerEpoch, false},
		{"sequences go on after a marker", sameEpochMarker, testBatch{id: 7, epoch: 3, seq: 6, txn: true}, client, kafka.None, false},
		{"resent after a marker", sameEpochMarker, testBatch{id: 7, epoch: 3, seq: 5, txn: true}, client, kafka.None, true},

		{"in an open transaction", open, testBatch{id: 7, epoch: 3, seq: 1, txn: true}, client, kafka.None, false},
		{"plain in an open transaction", open, testBatch{id: 7, epoch: 3, seq: 1}, client, kafka.InvalidTxnState, false},
		{"plain in an open transaction, new epoch", open, testBatch{id: 7, epoch: 4, seq: 0}, client, kafka.InvalidTxnState, false},
		{"plain of the coordinator in an open transaction", open, testBatch{id: 7, epoch: 3, seq: -1}, coordinator, kafka.InvalidTxnState, false},

		{"unknown producer starts anywhere", two, testBatch{id: 8, epoch: 0, seq: 99}, client, kafka.None, false},
		{"unknown producer on v2 starts at zero", two, testBatch{id: 8, epoch: 0, seq: 0, txn: true}, clientTV2, kafka.None, false},
		{"unknown producer on v2 starts elsewhere", two, testBatch{id: 8, epoch: 0, seq: 99, txn: true}, clientTV2, kafka.OutOfOrderSequenceNumber, false},
		{"known producer on v2", two, testBatch{id: 7, epoch: 3, seq: 15, txn: true}, clientTV2, kafka.None, false},
		{"known producer on v2, gap", bumped, testBatch{id: 7, epoch: 4, seq: 1, txn: true}, clientTV2, kafka.OutOfOrderSequenceNumber, false},
		{"unknown producer over the limit", two, testBatch{id: 8, seq: 0}, ProducerCheck{Origin: FromClient, RefuseNew: true}, kafka.PolicyViolation, false},
		{"known producer over the limit", two, testBatch{id: 7, epoch: 3, seq: 15}, ProducerCheck{Origin: FromClient, RefuseNew: true}, kafka.None, false},
		{"new epoch over the limit", two, testBatch{id: 7, epoch: 4, seq: 0}, ProducerCheck{Origin: FromClient, RefuseNew: true}, kafka.None, false},

		{"offsets have no sequences", offsets, testBatch{id: 7, epoch: 3, seq: -1, count: 2, txn: true}, coordinator, kafka.None, false},
		{"offsets of an old epoch", offsets, testBatch{id: 7, epoch: 2, seq: -1, txn: true}, coordinator, kafka.InvalidProducerEpoch, false},
		{"offsets of a new epoch", offsets, testBatch{id: 7, epoch: 9, seq: -1, txn: true}, coordinator, kafka.None, false},

		{"replicated gap", two, testBatch{id: 7, epoch: 3, seq: 99}, ProducerCheck{}, kafka.None, false},
		{"replicated old epoch", two, testBatch{id: 7, epoch: 0, seq: 99}, ProducerCheck{}, kafka.None, false},
		{"replicated repetition", two, testBatch{id: 7, epoch: 3, seq: 10, count: 5}, ProducerCheck{}, kafka.None, false},
		{"replicated plain in an open transaction", open, testBatch{id: 7, epoch: 3, seq: 1}, ProducerCheck{}, kafka.None, false},
		{"replicated over the limit", two, testBatch{id: 8}, ProducerCheck{RefuseNew: true}, kafka.None, false},
		{"without producer", two, testBatch{id: -1, epoch: -1, seq: -1}, client, kafka.None, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.state.All()
			v, err := c.state.Check(c.batch.bytes(), c.check)
			if kafka.CodeOf(err) != c.want || v.Duplicate != c.dup {
				t.Errorf("got %v %v (%v), want %v duplicate %v", kafka.CodeOf(err), v, err, c.want, c.dup)
			}
			if diff := cmp.Diff(before, c.state.All()); diff != "" {
				t.Errorf("Check changed the state: %s", diff)
			}
		})
	}
}

// TestProducersWindow resends each batch of a run: the last five answer with their own place, older ones are refused.
func TestProducersWindow(t *testing.T) {
	p := new(Producers)
	var sent []testBatch
	seq, offset := int32(maxSeq-5), kafka.Offset(50)
	for i := range int32(9) {
		x := testBatch{id: 1, seq: seq, count: i + 1, offset: offset, ts: int64(1000 + i)}
		if v, err := p.Check(x.bytes(), client); err != nil || v.Duplicate {
			t.Fatalf("batch %d: %v %v", i, v, err)
		}
		p.Update(x.bytes())
		sent = append(sent, x)
		seq, offset = record.AddSequence(seq, i+1), offset+kafka.Offset(i)+4
	}
	for i, x := range sent {
		resent := x
		resent.offset, resent.ts = 0, 5
		v, err := p.Check(resent.bytes(), client)
		if i < len(sent)-producerWindow {
			if kafka.CodeOf(err) != kafka.OutOfOrderSequenceNumber {
				t.Errorf("batch %d beyond the window: %v %v", i, v, err)
			}
			continue
		}
		want := Verdict{Duplicate: true, First: x.offset, Last: x.offset + kafka.Offset(x.count) - 1, TimestampMs: x.ts}
		if err != nil || v != want {
			t.Errorf("batch %d: %v %v, want %v", i, v, err, want)
		}
	}
}

func TestProducersCheckMarker(t *testing.T) {
	open := given(testBatch{id: 7, epoch: 3, offset: 100, txn: true})
	done := given(testBatch{id: 7, epoch: 3, offset: 100, txn: true}, testMarker{id: 7, epoch: 3, coordinator: 5, offset: 101})
	reopened := given(testBatch{id: 7, epoch: 3, offset: 100, txn: true}, testMarker{id: 7, epoch: 4, coordinator: 5, offset: 101},
		testBatch{id: 7, epoch: 4, offset: 102, txn: true})
	last := given(testBatch{id: 7, epoch: 32767, offset: 100, txn: true})
	for _, c := range []struct {
		name   string
		state  *Producers
		marker testMarker
		check  ProducerCheck
		want   kafka.Code
	}{
		{"v1 same epoch", open, testMarker{id: 7, epoch: 3}, coordinator, kafka.None},
		{"v1 higher epoch fences", open, testMarker{id: 7, epoch: 4}, coordinator, kafka.None},
		{"v1 older epoch", open, testMarker{id: 7, epoch: 2}, coordinator, kafka.InvalidProducerEpoch},
		{"v1 says 1", open, testMarker{id: 7, epoch: 3}, ProducerCheck{Origin: FromCoordinator, TransactionVersion: 1}, kafka.None},
		{"v2 same epoch", open, testMarker{id: 7, epoch: 3}, markerTV2, kafka.InvalidProducerEpoch},
		{"v2 higher epoch", open, testMarker{id: 7, epoch: 4}, markerTV2, kafka.None},
		{"v2 older epoch", open, testMarker{id: 7, epoch: 2}, markerTV2, kafka.InvalidProducerEpoch},
		{"v2 sent twice", done, testMarker{id: 7, epoch: 3, coordinator: 5}, markerTV2, kafka.None},
		{"v2 late, the next transaction is open", reopened, testMarker{id: 7, epoch: 4, coordinator: 5}, markerTV2, kafka.InvalidProducerEpoch},
		{"v2 at the last epoch", last, testMarker{id: 7, epoch: 32767}, markerTV2, kafka.None},
		{"older coordinator", done, testMarker{id: 7, epoch: 3, coordinator: 4}, coordinator, kafka.TransactionCoordinatorFenced},
		{"older coordinator, v2", done, testMarker{id: 7, epoch: 4, coordinator: 4}, markerTV2, kafka.TransactionCoordinatorFenced},
		{"newer coordinator", done, testMarker{id: 7, epoch: 3, coordinator: 6}, coordinator, kafka.None},
		{"epoch is judged before the coordinator", done, testMarker{id: 7, epoch: 2, coordinator: 4}, coordinator, kafka.InvalidProducerEpoch},
		{"unknown producer", done, testMarker{id: 8, epoch: 0, coordinator: 0}, markerTV2, kafka.None},
		{"unknown producer over the limit", done, testMarker{id: 8}, ProducerCheck{Origin: FromCoordinator, RefuseNew: true}, kafka.None},
		{"replicated, all wrong", done, testMarker{id: 7, epoch: 1, coordinator: 1}, ProducerCheck{}, kafka.None},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := c.state.Check(c.marker.bytes(), c.check); kafka.CodeOf(err) != c.want {
				t.Errorf("got %v (%v), want %v", kafka.CodeOf(err), err, c.want)
			}
		})
	}
}

func TestProducersMarkersOnTheLog(t *testing.T) {
	p := given(
		testBatch{id: 1, epoch: 0, offset: 10, txn: true},
		testBatch{id: 2, epoch: 0, offset: 11, txn: true},
		testBatch{id: 3, epoch: 0, offset: 12, txn: true},
	)
	end := func(m testMarker) CompletedTxn {
		t.Helper()
		c, ok := p.Update(m.bytes())
		if !ok {
			t.Fatal("no transaction was completed")
		}
		return c
	}
	if got := end(testMarker{id: 2, abort: true, offset: 20}); got != (CompletedTxn{ProducerID: 2, First: 11, Last: 20, LastStable: 10, Aborted: true}) {
		t.Errorf("%+v", got)
	}
	if got := end(testMarker{id: 1, abort: false, offset: 21}); got != (CompletedTxn{ProducerID: 1, First: 10, Last: 21, LastStable: 12}) {
		t.Errorf("%+v", got)
	}
	if got := p.FirstUnstable(20); got != 10 {
		t.Errorf("first unstable %d: markers at 20 and 21 do not lie below 20", got)
	}
	if got := p.FirstUnstable(21); got != 10 {
		t.Errorf("first unstable %d: the marker of 10 is at 21", got)
	}
	if got := p.FirstUnstable(22); got != 12 {
		t.Errorf("first unstable %d, producer 3 is open since 12", got)
	}
	got := end(testMarker{id: 3, abort: true, offset: 22})
	if got.LastStable != 23 || got.Entry() != (AbortedTxn{ProducerID: 3, First: 12, Last: 22, LastStable: 23}) {
		t.Errorf("%+v %+v", got, got.Entry())
	}
	if p.FirstUnstable(22) != 12 || p.FirstUnstable(23) != kafka.NoOffset {
		t.Error("the last marker passes at 23")
	}
	if c, ok := p.Update(testMarker{id: 3, abort: true, offset: 23, epoch: 1, coordinator: 9}.bytes()); ok {
		t.Errorf("a marker without a transaction completed %+v", c)
	}
	if x, _ := p.Lookup(3); x.Epoch != 1 || x.CoordinatorEpoch != 9 || x.LastSequence != kafka.NoSequence {
		t.Errorf("%+v", x)
	}
	if _, ok := p.Update(testMarker{id: 4, offset: 24}.bytes()); ok || p.Len() != 4 {
		t.Error("a marker of an unknown producer makes it known and completes nothing")
	}
}

func TestProducersHasOpenTxn(t *testing.T) {
	p := given(testBatch{id: 1, epoch: 2, offset: 10, txn: true}, testBatch{id: 2, epoch: 2, offset: 11})
	for _, c := range []struct {
		id    kafka.ProducerID
		epoch kafka.ProducerEpoch
		want  bool
	}{{1, 2, true}, {1, 3, false}, {2, 2, false}, {3, 0, false}} {
		if got := p.HasOpenTxn(c.id, c.epoch); got != c.want {
			t.Errorf("HasOpenTxn(%d, %d) = %v", c.id, c.epoch, got)
		}
	}
}

func TestProducersOddControlBatches(t *testing.T) {
	empty := testMarker{id: 1, abort: true, offset: 11}.bytes()
	binary.BigEndian.PutUint32(empty[57:], 0)
	leaderChange := controlBatch(testMarker{id: 1, offset: 11}, 2, []byte{0})
	for name, b := range map[string]record.Batch{"emptied by compaction": empty[:record.HeaderSize], "of another type": leaderChange} {
		p := given(testBatch{id: 1, offset: 10, txn: true})
		if _, err := p.Check(b, coordinator); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, ok := p.Update(b); ok || !p.HasOpenTxn(1, 0) {
			t.Errorf("%s: ended the transaction", name)
		}
	}
	good := testMarker{id: 1, abort: true, offset: 11}.bytes()
	p := given(testBatch{id: 1, offset: 10, txn: true})
	for cut := record.HeaderSize; cut < len(good); cut++ {
		for _, c := range []ProducerCheck{coordinator, {}} {
			if _, err := p.Check(good[:cut], c); kafka.CodeOf(err) != kafka.InvalidRecord {
				t.Errorf("cut to %d bytes: %v", cut, err)
			}
		}
		if _, ok := p.Update(good[:cut]); ok {
			t.Errorf("cut to %d bytes: ended the transaction", cut)
		}
	}
	packed := testMarker{id: 1, offset: 11}.bytes()
	packed[22] |= 1
	if _, err := p.Check(packed, coordinator); kafka.CodeOf(err) != kafka.InvalidRecord {
		t.Errorf("compressed: %v", err)
	}
	short := controlBatch(testMarker{id: 1, offset: 11}, uint16(record.ControlAbort), []byte{0, 0, 0})
	if _, err := p.Check(short, coordinator); kafka.CodeOf(err) != kafka.InvalidRecord {
		t.Errorf("short value: %v", err)
	}
}

// TestProducersRealMarker reads the marker batch of a real broker.
func TestProducersRealMarker(t *testing.T) {
	b, err := hex.DecodeString(realMarker)
	if err != nil {
		t.Fatal(err)
	}
	m, err := parseMarker(record.Batch(b))
	if want := (marker{kind: markerCommit, coordinatorEpoch: 0, timestamp: record.Batch(b).MaxTimestamp()}); err != nil || m != want {
		t.Errorf("%+v %v, want %+v", m, err, want)
	}
}

func TestProducersExpire(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	p := given(
		testBatch{id: 1, ts: 400_000, offset: 0},
		testBatch{id: 2, ts: 400_001, offset: 1},
		testBatch{id: 3, ts: 1, offset: 2, txn: true},
		testBatch{id: 4, ts: 1, offset: 3, txn: true}, testMarker{id: 4, ts: 900_000, offset: 4},
		testBatch{id: 5, ts: -1, offset: 5},
		testBatch{id: 6, ts: math.MinInt64, offset: 6},
		testBatch{id: 7, ts: math.MaxInt64, offset: 7},
	)
	if gone := p.Expire(now, 10*time.Minute); gone != 3 {
		t.Errorf("%d expired, want 1, 5 and 6", gone)
	}
	var left []kafka.ProducerID
	for _, x := range p.All() {
		left = append(left, x.ProducerID)
	}
	if diff := cmp.Diff([]kafka.ProducerID{2, 3, 4, 7}, left); diff != "" {
		t.Error(diff)
	}
	if p.FirstUnstable(1) != 2 {
		t.Error("an open transaction keeps counting")
	}
	p.Reset()
	if p.Len() != 0 || p.FirstUnstable(0) != kafka.NoOffset || len(p.All()) != 0 {
		t.Error("Reset left something")
	}
}

func TestProducersAllIsOrdered(t *testing.T) {
	p := new(Producers)
	for i := range 100 {
		p.Update(testBatch{id: kafka.ProducerID(i * 37 % 101), offset: kafka.Offset(i)}.bytes())
	}
	for i, x := range p.All() {
		if i > 0 && x.ProducerID <= p.All()[i-1].ProducerID {
			t.Fatalf("place %d holds %d", i, x.ProducerID)
		}
	}
	want := ProducerInfo{ProducerID: 37, Epoch: 0, CoordinatorEpoch: -1, LastSequence: 0, LastOffset: 1, TxnStart: kafka.NoOffset}
	if got, ok := p.Lookup(37); !ok || got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestProducersMemory holds the promise of at most 200 bytes per idle producer id, the map included.
func TestProducersMemory(t *testing.T) {
	if invariant.Enabled {
		t.Skip("builds with assertions, such as the race detector's, say nothing about size")
	}
	const n = 1_000_000
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	p := new(Producers)
	x := testBatch{count: 10}
	b := x.bytes()
	for i := range n {
		x.id, x.offset = kafka.ProducerID(i), kafka.Offset(i)
		x.put(b)
		p.Update(b)
	}
	per := float64(heap()-before) / n
	t.Logf("%.0f bytes per producer id", per)
	if per > 200 {
		t.Errorf("%.0f bytes per producer id, want at most 200", per)
	}
	runtime.KeepAlive(p)
}

// TestProducersAllocations: checking and noting batches of known producers, transactions included, allocates nothing.
func TestProducersAllocations(t *testing.T) {
	p := new(Producers)
	x := testBatch{id: 5, txn: true}
	b, m := x.bytes(), testMarker{id: 5}.bytes()
	round := func() {
		for range 3 {
			x.put(b)
			if _, err := p.Check(b, client); err != nil {
				t.Fatal(err)
			}
			p.Update(b)
			x.seq, x.offset = x.seq+1, x.offset+1
		}
		m.SetBaseOffset(x.offset)
		if _, err := p.Check(m, coordinator); err != nil {
			t.Fatal(err)
		}
		if _, ok := p.Update(m); !ok {
			t.Fatal("nothing completed")
		}
		x.offset++
		p.FirstUnstable(x.offset)
	}
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkProducersAppend(b *testing.B) {
	for _, ids := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprint(ids), func(b *testing.B) {
			p := new(Producers)
			x := testBatch{}
			buf := x.bytes()
			seqs := make([]int32, ids)
			for i := 0; b.Loop(); i++ {
				id := i % ids
				x.id, x.seq, x.offset = kafka.ProducerID(id), seqs[id], kafka.Offset(i)
				x.put(buf)
				if _, err := p.Check(buf, client); err != nil {
					b.Fatal(err)
				}
				p.Update(buf)
				seqs[id]++
			}
		})
	}
}

// BenchmarkProducersMemory tells what a million producer ids take on the heap, and how long their snapshot takes to load.
// Run it with -benchtime=1x.
func BenchmarkProducersMemory(b *testing.B) {
	const ids = 1_000_000
	for _, batches := range []int32{1, 2} {
		b.Run(fmt.Sprintf("batches=%d", batches), func(b *testing.B) {
			for b.Loop() {
				before := liveHeap()
				p := new(Producers)
				x := testBatch{}
				buf := x.bytes()
				for id := range ids {
					for x.seq = range batches {
						x.id = kafka.ProducerID(id)
						x.offset++
						x.put(buf)
						p.Update(buf)
					}
				}
				b.ReportMetric(float64(liveHeap()-before)/ids, "B/id")
				snapshot := p.encode()
				start := time.Now()
				loaded, err := decodeSnapshot(snapshot, time.UnixMilli(0), time.Hour)
				if err != nil || loaded.Len() != ids {
					b.Fatal(loaded.Len(), err)
				}
				b.ReportMetric(time.Since(start).Seconds()*1000, "load-ms")
				runtime.KeepAlive(p)
			}
		})
	}
}

func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Written by Apache Kafka 4.4.0: a commit marker, and the snapshot of a log in which one producer's last marker
// changed the epoch, so that no batch is remembered.
const (
	realMarker = "0000000000000029000000420000000002bc52f1de003000000000000001a22d0c6b55000001a22d0c6b550000000000000000" +
		"0002ffffffff000000012000000008000000010c00000000000000"
	realSnapshot = "0001f5187e2e0000000100000000000000000004ffffffffffffffffffffffff00000000000001a22d0c6c03" +
		"00000000ffffffffffffffff"
)
