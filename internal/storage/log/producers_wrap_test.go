package log

import (
	"math"
	"math/rand/v2"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// TestTenMillionSequences goes over the wrap of sequence numbers, five million on either side, in batches of any size: the
// next batch is taken, the last five are known, and nothing else is.
func TestTenMillionSequences(t *testing.T) {
	const around = 5_000_000
	rnd := rand.New(rand.NewPCG(1, 2))
	check := ProducerCheck{Origin: FromClient}
	var p Producers
	b := make(record.Batch, record.HeaderSize)
	var window []testBatch
	offset, wrapped := kafka.Offset(0), false
	for at := int64(math.MaxInt32 - around); at < int64(math.MaxInt32)+around; {
		x := testBatch{id: 7, epoch: 3, seq: int32(at & math.MaxInt32), count: 1 + rnd.Int32N(60), offset: offset, txn: true}
		x.put(b)
		if v, err := p.Check(b, check); err != nil || v.Duplicate {
			t.Fatalf("sequence %d: %+v, %v", x.seq, v, err)
		}
		wrapped = wrapped || b.LastSequence() < x.seq
		p.Update(b)
		window = append(window, x)
		for i, w := range window {
			w.put(b)
			v, err := p.Check(b, check)
			known := len(window)-i <= producerWindow
			if known && (err != nil || !v.Duplicate || v.First != w.offset) || !known && kafka.CodeOf(err) != kafka.OutOfOrderSequenceNumber {
				t.Fatalf("sequence %d again after %d: %+v, %v", w.seq, x.seq, v, err)
			}
		}
		next := record.AddSequence(x.seq, x.count)
		for _, seq := range []int32{record.AddSequence(next, 1), record.AddSequence(next, math.MaxInt32/2), (next - 1) & math.MaxInt32} {
			w := testBatch{id: 7, epoch: 3, seq: seq, count: 1000, txn: true}
			w.put(b)
			if _, err := p.Check(b, check); kafka.CodeOf(err) != kafka.OutOfOrderSequenceNumber {
				t.Fatalf("sequence %d is taken, %d is next: %v", seq, next, err)
			}
		}
		if len(window) > producerWindow {
			window = window[1:]
		}
		at += int64(x.count)
		offset += kafka.Offset(x.count)
	}
	if !wrapped {
		t.Error("no batch wraps inside")
	}
}

// TestLastEpochs goes through the last epochs of a producer by transactions v2: each transaction begins at sequence 0 in the
// epoch that the marker before it brought, a late batch or marker of an epoch before is refused, and the last one, 32767,
// only ends what 32766 began.
func TestLastEpochs(t *testing.T) {
	var p Producers
	offset := kafka.Offset(0)
	client := ProducerCheck{Origin: FromClient, RequireFirstSequence: true}
	take := func(b record.Batch, c ProducerCheck) kafka.Code {
		b.SetBaseOffset(offset)
		v, err := p.Check(b, c)
		if err == nil && !v.Duplicate {
			p.Update(b)
			offset++
		}
		return kafka.CodeOf(err)
	}
	for epoch := kafka.ProducerEpoch(32700); epoch < 32767; epoch++ {
		marker := testMarker{id: 7, epoch: epoch + 1}
		for _, x := range []struct {
			what string
			b    record.Batch
			c    ProducerCheck
			want kafka.Code
		}{
			{"begins above 0", testBatch{id: 7, epoch: epoch, seq: 1, txn: true}.bytes(), client, kafka.OutOfOrderSequenceNumber},
			{"first", testBatch{id: 7, epoch: epoch, txn: true}.bytes(), client, kafka.None},
			{"second", testBatch{id: 7, epoch: epoch, seq: 1, txn: true}.bytes(), client, kafka.None},
			{"marker of the transaction before", testMarker{id: 7, epoch: epoch}.bytes(), markerTV2, kafka.InvalidProducerEpoch},
			{"marker", marker.bytes(), markerTV2, kafka.None},
			{"marker again", marker.bytes(), markerTV2, kafka.None},
			{"late batch", testBatch{id: 7, epoch: epoch, seq: 2, txn: true}.bytes(), client, kafka.InvalidProducerEpoch},
		} {
			if got := take(x.b, x.c); got != x.want {
				t.Fatalf("epoch %d, %s: %v, want %v", epoch, x.what, got, x.want)
			}
		}
		if p.HasOpenTxn(7, epoch) || p.FirstUnstable(offset) != kafka.NoOffset {
			t.Fatalf("epoch %d: still open", epoch)
		}
	}
}
