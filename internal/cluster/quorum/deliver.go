package quorum

import (
	"fmt"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// Delivery is the next thing that a replica's image has to take in: a snapshot, which replaces everything, or
// a committed batch.
type Delivery struct {
	// Snapshot, when not nil, is the new beginning: the image starts empty and takes the whole of it. The
	// receiver closes it.
	Snapshot *SnapshotReader
	Batch    Batch
}

// Batch is one committed batch.
type Batch struct {
	Base, Last kafka.Offset
	Epoch      kafka.LeaderEpoch
	// TimestampMs is the time of all its records.
	TimestampMs int64
	// Control is set for a batch of the quorum's own records: it has an offset, and nothing for the image.
	Control bool
	// Bytes is the size of the batch in the log.
	Bytes int
	raw   record.Batch
}

// Values are the metadata records in their encoded form. They are the receiver's.
func (b Batch) Values() ([][]byte, error) {
	if b.Control {
		return nil, nil
	}
	return dataValues(b.raw)
}

// Records decodes the metadata records. A leader that has kept what it proposed need not.
func (b Batch) Records() ([]metadata.Record, error) {
	values, err := b.Values()
	if err != nil {
		return nil, err
	}
	return DecodeRecords(values)
}

// DecodeRecords decodes the values of a batch or snapshot.
func DecodeRecords(values [][]byte) ([]metadata.Record, error) {
	out := make([]metadata.Record, 0, len(values))
	for _, v := range values {
		r, err := metadata.Decode(v)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// deliverer hands committed batches to the driver, in order and once.
type deliverer struct {
	committed kafka.Offset // highest high watermark so far
	// at is the end of what was delivered: the offset of the next record, the epoch and the time of the last
	// batch.
	at          OffsetAndEpoch
	timestampMs int64
	// pending is a snapshot to deliver before anything else.
	pending *OffsetAndEpoch
	buffer  []record.Batch
	// bytes were delivered since the last snapshot.
	bytes int64
}

// newDeliverer begins at the newest snapshot, or at the log's start when there is none.
func newDeliverer(s *Store) deliverer {
	d := deliverer{committed: kafka.NoOffset, timestampMs: -1}
	if latest, ok := s.latest(); ok {
		d.restart(latest.id)
	}
	return d
}

// restart makes a snapshot the next delivery.
func (d *deliverer) restart(id OffsetAndEpoch) {
	d.pending, d.buffer = &id, nil
	d.committed = max(d.committed, id.Offset)
}

func (d *deliverer) commit(highWatermark kafka.Offset) { d.committed = max(d.committed, highWatermark) }

// Next gives the next delivery; false: there is nothing more so far.
func (p *Pump) Next() (Delivery, bool) {
	if p.err != nil {
		return Delivery{}, false
	}
	d := &p.reader
	if d.pending != nil {
		return p.nextSnapshot()
	}
	if d.at.Offset >= d.committed {
		return Delivery{}, false
	}
	if len(d.buffer) == 0 {
		batches, err := p.store.read(d.at.Offset, d.committed, readChunk)
		if err != nil {
			p.fail(err)
			return Delivery{}, false
		}
		d.buffer = batches
	}
	b := d.buffer[0]
	if b.BaseOffset() != d.at.Offset {
		p.fail(fmt.Errorf("offset %d is followed by a batch at %d", d.at.Offset-1, b.BaseOffset()))
		return Delivery{}, false
	}
	if b.NextOffset() > d.committed {
		// The commit point lies inside the batch, which a foreign leader may bring about: wait for the rest.
		d.buffer = nil
		return Delivery{}, false
	}
	d.buffer = d.buffer[1:]
	d.at = OffsetAndEpoch{Offset: b.NextOffset(), Epoch: b.LeaderEpoch()}
	d.timestampMs = b.MaxTimestamp()
	d.bytes += int64(len(b))
	return Delivery{Batch: Batch{Base: b.BaseOffset(), Last: b.LastOffset(), Epoch: b.LeaderEpoch(),
		TimestampMs: b.MaxTimestamp(), Control: b.IsControl(), Bytes: len(b), raw: b}}, true
}

func (p *Pump) nextSnapshot() (Delivery, bool) {
	d := &p.reader
	r, err := openSnapshot(p.store.fs, p.store.dir, *d.pending)
	if err != nil {
		p.fail(err)
		return Delivery{}, false
	}
	d.at, d.pending, d.bytes = *d.pending, nil, 0
	for _, f := range p.store.snapshots {
		if f.id == d.at {
			d.timestampMs = f.lastContainedMs
		}
	}
	return Delivery{Snapshot: r}, true
}

// Delivered is the end of what Next has given: the offset of the next record to come and the epoch of the
// last batch.
func (p *Pump) Delivered() OffsetAndEpoch { return p.reader.at }
