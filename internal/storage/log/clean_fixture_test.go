package log

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// cleanRun writes to a compacted log at random and remembers what a consumer must be able to read.
type cleanRun struct {
	t       tb
	dir     *Dir
	log     *Log
	config  *Config
	rnd     *rand.Rand
	now     time.Time
	epoch   kafka.LeaderEpoch
	history []record.Batch // all that was appended
	seq     map[kafka.ProducerID]int32
	open    map[kafka.ProducerID]bool
	keys    int
	keyRoom int64 // 0: plenty
	long    bool  // some keys are too long for the map
	// highWatermark bounds what may be compacted; 0: the log end.
	highWatermark kafka.Offset
	// unclean: the log was cut below that, as after an unclean election: newest values may be lost.
	unclean bool
}

func cleanConfig() *Config {
	c := smallConfig()
	c.Compact, c.Delete = true, false
	c.SegmentBytes = 1500
	c.MinCleanableDirty = 0
	c.DeleteRetentionMs = 1000
	c.ProducerExpiryMs = 1 << 50
	c.FileDeleteDelayMs = 0
	return c
}

func newCleanRun(t tb, d *Dir, c *Config, rnd *rand.Rand) *cleanRun {
	t.Helper()
	return &cleanRun{t: t, dir: d, config: c, rnd: rnd, now: epoch0, keys: 12,
		seq: map[kafka.ProducerID]int32{}, open: map[kafka.ProducerID]bool{}}
}

func (x *cleanRun) create() error {
	l, err := x.dir.Create(tp("t", 0), x.config, CreateOptions{TopicID: kafka.UUID{3: 3, 15: 200}}, x.now)
	x.log = l
	return err
}

func (x *cleanRun) put(b record.Batch, origin Origin) error {
	b.SetBaseOffset(x.log.View().End)
	b.SetLeaderEpoch(x.epoch)
	x.history = append(x.history, bytes.Clone(b))
	s := leader(x.epoch)
	s.Producer.Origin = origin
	_, err := x.log.Append(b, s, x.now)
	return err
}

// batch builds a batch of a few records with random keys; some are tombstones.
func (x *cleanRun) batch(o record.Options) record.Batch {
	o.Codec = []record.Codec{record.Uncompressed, record.Uncompressed, record.LZ4, record.Zstd}[x.rnd.IntN(4)]
	b := record.NewBuilder(o)
	x.now = x.now.Add(time.Duration(x.rnd.IntN(20)) * time.Millisecond)
	for range 1 + x.rnd.IntN(4) {
		key := fmt.Appendf(nil, "key-%d", x.rnd.IntN(x.keys))
		if x.long && x.rnd.IntN(5) == 0 {
			key = bytes.Repeat(key, 400)
		}
		value := fmt.Appendf(nil, "%d-%s", x.log.View().End, bytes.Repeat([]byte{'v'}, x.rnd.IntN(60)))
		if x.rnd.IntN(4) == 0 {
			value = nil
		}
		var headers []record.Header
		if x.rnd.IntN(5) == 0 {
			headers = []record.Header{{Key: "h", Value: []byte("w")}}
		}
		b.Append(x.now.UnixMilli()-int64(x.rnd.IntN(30)), key, value, headers)
	}
	out, err := b.Build()
	if err != nil {
		x.t.Fatal(err)
	}
	return out
}

// write appends something: plain, of an idempotent producer, of a transaction, or the end of one.
func (x *cleanRun) write() error {
	id := kafka.ProducerID(1 + x.rnd.IntN(3))
	switch n := x.rnd.IntN(10); {
	case n < 4:
		return x.put(x.batch(record.Options{}), FromClient)
	case n < 5:
		id += 10 // never transactional
		b := x.batch(record.Options{Producer: &record.Producer{ID: id, Sequence: x.seq[id]}})
		x.seq[id] += b.Count()
		return x.put(b, FromClient)
	case n < 8:
		x.open[id] = true
		b := x.batch(record.Options{Producer: &record.Producer{ID: id, Sequence: x.seq[id]}, Transactional: true})
		x.seq[id] += b.Count()
		return x.put(b, FromClient)
	case n < 9 && !x.open[id] && x.rnd.IntN(4) > 0:
		return nil
	}
	return x.end(id)
}

// end writes a marker; also for a transaction that wrote nothing.
func (x *cleanRun) end(id kafka.ProducerID) error {
	delete(x.open, id)
	b, err := record.MarkerBatch(id, 0, record.EndTxnMarker{Commit: x.rnd.IntN(2) == 0, CoordinatorEpoch: 1}, x.now.UnixMilli())
	if err != nil {
		x.t.Fatal(err)
	}
	return x.put(b, FromCoordinator)
}

func (x *cleanRun) fill(n int) error {
	for range n {
		if err := x.write(); err != nil {
			return err
		}
	}
	return nil
}

// endAll ends what is open, so that everything is stable.
func (x *cleanRun) endAll() error {
	for _, id := range slices.Sorted(maps.Keys(x.open)) {
		if err := x.end(id); err != nil {
			return err
		}
	}
	return nil
}

func (x *cleanRun) flush() error {
	t := x.log.Dirty()
	if err := t.Sync(); err != nil {
		return err
	}
	x.log.MarkDurable(t)
	return nil
}

func (x *cleanRun) roll() error {
	if err := x.log.Roll(x.now); err != nil {
		return err
	}
	return x.flush()
}

// stable is the last stable offset.
func (x *cleanRun) stable() kafka.Offset {
	end := x.hw()
	if first := x.log.FirstUnstable(end); first != kafka.NoOffset {
		return min(first, end)
	}
	return end
}

func (x *cleanRun) hw() kafka.Offset {
	if x.highWatermark > 0 {
		return x.highWatermark
	}
	return x.log.View().End
}

func (x *cleanRun) begin() (*Cleaning, error) {
	d, err := x.log.Dirt(x.stable(), x.now)
	if err != nil {
		return nil, err
	}
	c, err := x.log.Clean(d, x.hw(), x.now, CleanOptions{Hash: seededHash(), KeyLoad: 0.9})
	if err == nil && x.keyRoom > 0 {
		c.sieve.keys = newKeyMap(seededHash(), x.keyRoom, 0.9)
	}
	return c, err
}

// clean compacts once; without anything to do it does nothing.
func (x *cleanRun) clean() (Cleaned, error) {
	c, err := x.begin()
	if errors.Is(err, ErrCleanAborted) {
		return Cleaned{}, nil
	}
	if err != nil {
		return Cleaned{}, err
	}
	for {
		_, done, err := c.Step(400)
		if err != nil {
			c.Abandon()
			return Cleaned{}, err
		}
		if done {
			return c.Progress(), nil
		}
	}
}

// plain is a record as a test compares it.
type plain struct {
	offset     kafka.Offset
	timestamp  int64
	key, value string
	tombstone  bool
	headers    int
}

func plainOf(r record.Record) plain {
	return plain{offset: r.Offset, timestamp: r.Timestamp, key: string(r.Key), value: string(r.Value),
		tombstone: r.Value == nil, headers: r.Headers.Len()}
}

// committedHistory gives the records below end that a read_committed consumer sees of what was appended.
func (x *cleanRun) committedHistory(end kafka.Offset) []plain {
	var out []plain
	pending := map[kafka.ProducerID][]plain{}
	for _, b := range x.history {
		if b.LastOffset() >= end {
			break
		}
		id := b.ProducerID()
		if b.IsControl() {
			if kind, _ := b.ControlType(); kind == record.ControlCommit {
				out = append(out, pending[id]...)
			}
			delete(pending, id)
			continue
		}
		for r, err := range b.Records(record.Limits{}) {
			if err != nil {
				x.t.Fatal(err)
			}
			if b.IsTransactional() {
				pending[id] = append(pending[id], plainOf(r))
			} else {
				out = append(out, plainOf(r))
			}
		}
	}
	slices.SortFunc(out, func(a, b plain) int { return cmp.Compare(a.offset, b.offset) })
	return out
}

// consume reads [v.Start, end) as a read_committed consumer does, fetch by fetch.
func consume(v *View, end kafka.Offset, maxBytes int) ([]plain, error) {
	var out []plain
	for from := v.Start; from < end; {
		e, err := v.Read(from, end, maxBytes, true)
		if err != nil {
			return nil, err
		}
		data, err := e.ReadAll()
		if err != nil {
			return nil, err
		}
		if len(data) == 0 {
			e.Release()
			break // nothing but holes
		}
		upper, err := e.View().UpperBound(&e)
		if err != nil {
			return nil, err
		}
		aborted, err := e.View().Aborted(from, upper)
		e.Release()
		if err != nil {
			return nil, err
		}
		got, next, err := clientSide(data, from, aborted)
		if err != nil {
			return nil, err
		}
		if next <= from {
			return nil, fmt.Errorf("no progress at %d", from)
		}
		out, from = append(out, got...), next
	}
	return out, nil
}

// clientSide takes the records out of one answer as Kafka's consumer does: a producer is ignored from the first offset of
// an aborted transaction on until its abort marker.
func clientSide(data []byte, from kafka.Offset, aborted []AbortedTxn) (out []plain, next kafka.Offset, err error) {
	slices.SortFunc(aborted, func(a, b AbortedTxn) int { return cmp.Compare(a.First, b.First) })
	ignored := map[kafka.ProducerID]bool{}
	next = from
	for len(data) > 0 {
		b, rest, err := record.Split(data)
		if errors.Is(err, record.ErrTruncated) {
			break
		}
		if err == nil {
			err = b.CheckCRC()
		}
		if err != nil {
			return nil, next, err
		}
		data, next = rest, max(next, b.NextOffset())
		if b.HasProducer() {
			for len(aborted) > 0 && aborted[0].First <= b.LastOffset() {
				ignored[aborted[0].ProducerID] = true
				aborted = aborted[1:]
			}
			if b.IsControl() {
				if b.Count() > 0 {
					if kind, _ := b.ControlType(); kind == record.ControlAbort {
						delete(ignored, b.ProducerID())
					}
				}
				continue
			}
			if b.IsTransactional() && ignored[b.ProducerID()] {
				continue
			}
		}
		for r, err := range b.Records(record.Limits{}) {
			if err != nil {
				return nil, next, err
			}
			if r.Offset >= from {
				out = append(out, plainOf(r))
			}
		}
	}
	return out, next, nil
}

// table gives the newest value of each key.
func table(records []plain) map[string]plain {
	out := map[string]plain{}
	for _, r := range records {
		if r.tombstone {
			delete(out, r.key)
		} else {
			out[r.key] = r
		}
	}
	return out
}

// judge compares what a log serves with what was written: no record that was not committed, none changed or moved, the
// newest value of each key, and from clean on everything.
func (x *cleanRun) judge(l *Log, clean kafka.Offset) error {
	v := l.View()
	end := v.End
	if first := l.FirstUnstable(end); first != kafka.NoOffset {
		end = first
	}
	want := x.committedHistory(v.End)
	want = slices.DeleteFunc(want, func(r plain) bool { return r.offset >= end || r.offset < v.Start })
	known := map[kafka.Offset]plain{}
	for _, r := range want {
		known[r.offset] = r
	}
	for _, maxBytes := range []int{1, 700, 1 << 20} {
		got, err := consume(v, end, maxBytes)
		if err != nil {
			return err
		}
		last, rest := kafka.NoOffset, 0
		for _, r := range got {
			if w, ok := known[r.offset]; !ok || w != r || r.offset <= last {
				return fmt.Errorf("record %+v after offset %d; was written as %+v (%v)", r, last, w, ok)
			}
			last = r.offset
			if r.offset >= clean {
				rest++
			}
		}
		kept := 0
		for _, w := range want {
			if w.offset >= clean {
				kept++
			}
		}
		if x.unclean {
			return checkSegments(l)
		}
		if rest != kept {
			return fmt.Errorf("%d records from %d on, %d were written", rest, clean, kept)
		}
		if have, need := table(got), table(want); !maps.Equal(have, need) {
			return fmt.Errorf("log [%d, %d) with clean end %d says %v, want %v", v.Start, end, clean, have, need)
		}
	}
	if err := checkSegments(l); err != nil {
		return err
	}
	return x.judgeProducers(l)
}

// judgeProducers rebuilds producer state from nothing but the log: sequences must go on, and no transaction may be open
// that is not.
func (x *cleanRun) judgeProducers(l *Log) error {
	v := l.View()
	if v.Start > 0 {
		return nil // what was deleted is not known from the log
	}
	var p Producers
	for _, b := range readEverything(v) {
		p.Update(b)
	}
	for _, want := range l.Producers() {
		if want.LastOffset == kafka.NoOffset {
			continue // it only wrote markers, which tell nothing once they are emptied
		}
		got, ok := p.Lookup(want.ProducerID)
		if !ok || got.Epoch != want.Epoch || got.LastSequence != want.LastSequence || got.LastOffset != want.LastOffset ||
			(got.TxnStart == kafka.NoOffset) != (want.TxnStart == kafka.NoOffset) {
			return fmt.Errorf("the log says of producer %d %+v, want %+v", want.ProducerID, got, want)
		}
	}
	return nil
}
