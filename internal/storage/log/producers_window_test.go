package log

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// sentBatch is a batch of an idempotent producer that the log took.
type sentBatch struct {
	batch record.Batch
	first kafka.Offset
}

// senders are idempotent producers that write to one log in turn.
type senders struct {
	rig  *rig
	rnd  *rand.Rand
	seq  map[kafka.ProducerID]int32
	sent map[kafka.ProducerID][]sentBatch
}

func (s *senders) send(id kafka.ProducerID) {
	s.rig.t.Helper()
	size := 10
	if s.rnd.IntN(8) == 0 {
		size = 500
	}
	count := 1 + s.rnd.IntN(3)
	b := buildBatch(s.rig.t, record.Options{Producer: &record.Producer{ID: id, Sequence: s.seq[id]}}, count, 1_700_000_000_000, size)
	stamp := leader(0)
	stamp.Producer.Origin = FromClient
	kept := append(record.Batch(nil), b...)
	out := s.rig.append(b, stamp)
	s.seq[id] += int32(count)
	s.sent[id] = append(s.sent[id], sentBatch{kept, out.First})
}

// cut forgets what a truncation to end took away.
func (s *senders) cut(end kafka.Offset) {
	for id, sent := range s.sent {
		for n := len(sent); n > 0 && sent[n-1].first >= end; n-- {
			s.seq[id] = sent[n-1].batch.BaseSequence()
			sent = sent[:n-1]
		}
		s.sent[id] = sent
	}
}

// check resends what each producer may still have in flight.
func (s *senders) check(when string) {
	s.rig.t.Helper()
	for id, sent := range s.sent {
		for _, x := range sent[max(len(sent)-producerWindow, 0):] {
			v, err := s.rig.log.CheckProducer(x.batch, ProducerCheck{Origin: FromClient})
			if err != nil || !v.Duplicate || v.First != x.first {
				s.rig.t.Fatalf("%s: producer %d resends sequence %d of offset %d: %+v, %v", when, id, x.batch.BaseSequence(), x.first, v, err)
			}
		}
	}
}

// TestBatchesInFlightAreKnown ends the log in every way a node can, with rolls, snapshots and several producers between
// each other's batches: what a client may have in flight, five batches, is known again afterwards.
func TestBatchesInFlightAreKnown(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 5))
			s := &senders{rig: newRig(t, vfs.NewMem(vfs.MemOptions{}), smallConfig()), rnd: rnd,
				seq: map[kafka.ProducerID]int32{}, sent: map[kafka.ProducerID][]sentBatch{}}
			for range 8 {
				for range rnd.IntN(30) {
					s.send(kafka.ProducerID(rnd.IntN(4)))
				}
				when := s.end()
				for range rnd.IntN(4) { // what was sent again is not the first that the log sees
					s.send(kafka.ProducerID(rnd.IntN(4)))
				}
				s.check(when)
			}
		})
	}
}

func (s *senders) end() string {
	s.rig.t.Helper()
	switch s.rnd.IntN(4) {
	case 0:
		s.rig.stop()
		s.rig.reopen()
		return "stop"
	case 1:
		s.rig.flush()
		s.rig.log.Close(false, epoch0)
		s.rig.dir.Close(false, 1)
		s.rig.reopen()
		return "kill"
	case 2: // an orderly stop follows a kill at once: the snapshot it leaves is all that the next start has
		s.rig.log.Close(false, epoch0)
		s.rig.dir.Close(false, 1)
		s.rig.reopen()
		s.rig.stop()
		s.rig.reopen()
		return "kill and stop"
	}
	v := s.rig.log.View()
	var starts []kafka.Offset
	for _, sent := range s.sent {
		for _, x := range sent {
			if x.first >= v.Start {
				starts = append(starts, x.first)
			}
		}
	}
	if len(starts) == 0 {
		return "nothing"
	}
	end := starts[s.rnd.IntN(len(starts))]
	if err := s.rig.log.TruncateTo(end); err != nil {
		s.rig.t.Fatal(err)
	}
	s.cut(end)
	return fmt.Sprint("truncation to ", end)
}

// TestRefillReadsABoundedTail shows that a long log costs a clean start no more than its tail.
func TestRefillReadsABoundedTail(t *testing.T) {
	c := DefaultConfig()
	s := &senders{rig: newRig(t, vfs.NewMem(vfs.MemOptions{}), &c), rnd: rand.New(rand.NewPCG(1, 1)),
		seq: map[kafka.ProducerID]int32{}, sent: map[kafka.ProducerID][]sentBatch{}}
	s.send(1) // and never again: out of reach in the end
	for s.rig.log.View().tail.size < 3*refillBytes {
		b := buildBatch(t, record.Options{Producer: &record.Producer{ID: 2, Sequence: s.seq[2]}}, 1, 1_700_000_000_000, 16<<10)
		stamp := leader(0)
		stamp.Producer.Origin = FromClient
		kept := append(record.Batch(nil), b...)
		out := s.rig.append(b, stamp)
		s.seq[2]++
		s.sent[2] = append(s.sent[2], sentBatch{kept, out.First})
	}
	s.rig.stop()
	s.rig.reopen()
	s.check("stop") // the newest batch of producer 1 comes from the snapshot
	v := s.rig.log.View()
	i, pos, err := v.backFrom(0, v.End)
	if err != nil || i != 0 {
		t.Fatal(i, err)
	}
	if back := v.tail.size - pos; back < refillBytes || back > refillBytes+100<<10 {
		t.Errorf("%d bytes are read", back)
	}
}
