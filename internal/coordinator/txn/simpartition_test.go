package txn

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
)

// simPartition is a partition: a log, what it knows of producers, and the first-write verification of KIP-890.
type simPartition struct {
	s         *sim
	index     int32
	log       []simBatch
	producers log.Producers
	hw        kafka.Offset
	life      int // counts crashes
	down      bool
	markers   map[kafka.ProducerID]int // invalidate verifications
	waiting   []simAck
	openSince time.Time // of the transaction that holds readers back
	openAt    kafka.Offset
}

// simBatch is a batch of one record, or a marker.
type simBatch struct {
	batch record.Batch
	value string
}

type simAck struct {
	end  kafka.Offset
	told func(error)
}

func (p *simPartition) batch(c coordinator.Stamp, sequence int32, value string) record.Batch {
	b := record.NewBuilder(record.Options{Transactional: true,
		Producer: &record.Producer{ID: c.ID, Epoch: c.Epoch, Sequence: sequence}})
	b.Append(p.s.now.UnixMilli(), nil, []byte(value), nil)
	batch, err := b.Build()
	if err != nil {
		p.s.fatal("%v", err)
	}
	return batch
}

// produce takes a client's batch. By transactions v2 the first one of a transaction adds the partition to it, otherwise
// the coordinator only confirms that it is in.
func (p *simPartition) produce(id string, from coordinator.Stamp, sequence int32, value string, v2 bool, told func(error)) {
	if p.down {
		told(kafka.NotLeaderOrFollower)
		return
	}
	check := log.ProducerCheck{Origin: log.FromClient, RequireFirstSequence: v2}
	b := p.batch(from, sequence, value)
	if p.producers.HasOpenTxn(from.ID, from.Epoch) {
		p.append(b, value, check, told)
		return
	}
	life, guard := p.life, p.markers[from.ID]
	r := addRequest(5, id, int64(from.ID), int16(from.Epoch), !v2, p.index)
	p.s.soon(15*time.Millisecond, func() {
		p.s.ask(r, func(a coordinator.Answer) {
			p.s.soon(15*time.Millisecond, func() {
				switch err := added(a); {
				case p.life != life || p.down:
					told(kafka.NotLeaderOrFollower)
				case err != nil:
					told(err)
				case p.markers[from.ID] != guard:
					told(kafka.NotEnoughReplicas)
				default:
					p.append(b, value, check, told)
				}
			})
		})
	})
}

func added(a coordinator.Answer) error {
	if a.Err != nil {
		return a.Err
	}
	r := a.Body.(*kmsg.AddPartitionsToTxnResponse)
	if code := kafka.Code(r.Transactions[0].Topics[0].Partitions[0].ErrorCode); code != kafka.None {
		return code
	}
	return nil
}

func (p *simPartition) append(b record.Batch, value string, c log.ProducerCheck, told func(error)) {
	v, err := p.producers.Check(b, c)
	switch {
	case err != nil:
		p.s.note("partition %d refuses %s: %v", p.index, value, err)
		told(err)
		return
	case v.Duplicate:
		p.ack(v.Last+1, told)
		return
	}
	b.SetBaseOffset(kafka.Offset(len(p.log)))
	p.log = append(p.log, simBatch{b, value})
	p.producers.Update(b)
	p.s.note("partition %d %d: %s of %d/%d", p.index, len(p.log)-1, value, b.ProducerID(), b.ProducerEpoch())
	p.ack(kafka.Offset(len(p.log)), told)
	life := p.life
	p.s.soon(15*time.Millisecond, func() {
		if p.life == life {
			p.advance()
		}
	})
}

func (p *simPartition) ack(end kafka.Offset, told func(error)) {
	if end <= p.hw {
		told(nil)
		return
	}
	p.waiting = append(p.waiting, simAck{end, told})
}

// advance moves the high watermark to the end.
func (p *simPartition) advance() {
	p.hw = kafka.Offset(len(p.log))
	waiting := p.waiting
	p.waiting = nil
	for _, w := range waiting {
		w.told(nil)
	}
}

// mark writes a marker.
func (p *simPartition) mark(w WriteMarkers, told func(error)) {
	if p.down {
		told(kafka.NotLeaderOrFollower)
		return
	}
	b, err := record.MarkerBatch(w.Producer.ID, w.Producer.Epoch,
		record.EndTxnMarker{Commit: w.Commit, CoordinatorEpoch: w.CoordinatorEpoch}, p.s.now.UnixMilli())
	if err != nil {
		p.s.fatal("%v", err)
	}
	if p.markers == nil {
		p.markers = map[kafka.ProducerID]int{}
	}
	p.markers[w.Producer.ID]++
	value := "abort"
	if w.Commit {
		value = "commit"
	}
	p.append(b, value, log.ProducerCheck{Origin: log.FromCoordinator, TransactionVersion: w.TransactionVersion}, told)
}

// crash loses what is not below the high watermark, for a while everything.
func (p *simPartition) crash() {
	if p.down {
		return
	}
	p.s.note("partition %d crashes at %d of %d", p.index, p.hw, len(p.log))
	p.life++
	p.down, p.waiting = true, nil
	p.log = p.log[:p.hw]
	p.producers.Reset()
	for _, b := range p.log {
		p.producers.Update(b.batch)
	}
	p.s.soon(300*time.Millisecond, func() { p.down = false })
}

// stable is the last stable offset.
func (p *simPartition) stable() kafka.Offset {
	if first := p.producers.FirstUnstable(p.hw); first != kafka.NoOffset {
		return min(p.hw, first)
	}
	return p.hw
}

// checkStable fails when one transaction holds readers back for too long.
func (p *simPartition) checkStable() {
	if p.down {
		return
	}
	at := p.stable()
	if at == p.hw || at != p.openAt || p.openSince.IsZero() {
		p.openAt, p.openSince = at, p.s.now
		return
	}
	if d := p.s.now.Sub(p.openSince); d > simTimeout+4*time.Second {
		p.s.fatal("partition %d has been stable up to %d only, for %v", p.index, at, d)
	}
}

// committed is what a read_committed consumer sees.
func (p *simPartition) committed() []string {
	var out []string
	open := map[kafka.ProducerID][]string{}
	for _, b := range p.log {
		id := b.batch.ProducerID()
		if !b.batch.IsControl() {
			open[id] = append(open[id], b.value)
			continue
		}
		if b.value == "commit" {
			out = append(out, open[id]...)
		}
		delete(open, id)
	}
	return out
}
