package record

import (
	"fmt"
	"io"
	"strings"
	"time"

	"moldau/internal/kafka"
)

// KeepCodec as a target means that a batch stays compressed, or not, as the producer sent it
// (compression.type=producer).
const KeepCodec Codec = -1

// Checks is what a topic and a request ask of a batch that a producer sends.
type Checks struct {
	Partition      kafka.TopicPartition // for messages to the client
	ProduceVersion int16                // of the request; 0: not from a Produce request

	MaxBatchBytes    int   // max.message.bytes, for the batch as it came and as it is stored; 0: no limit
	MaxSegmentBytes  int   // segment.bytes: a batch must fit into one segment; 0: no limit
	MaxExpandedBytes int64 // as in Limits

	AllowControl       bool // false for clients
	AllowTransactional bool // the request carries a transactional id that its principal may use
	RequireKeys        bool // the topic is compacted

	Now           time.Time
	LogAppendTime bool  // message.timestamp.type: every record gets the time Now
	BeforeMaxMs   int64 // message.timestamp.before.max.ms; math.MaxInt64: no limit
	AfterMaxMs    int64 // message.timestamp.after.max.ms

	TargetCodec Codec // compression.type; the zero value is uncompressed, KeepCodec the producer's own
	Level       int   // compression.<codec>.level for TargetCodec; 0: the codec's default
}

// Checked is a batch that may be appended, and what the walk over it found.
type Checked struct {
	Batch     Batch
	Rewritten bool // Batch is a new buffer and does not alias the one that was checked

	Count        int32
	MaxTimestamp int64 // of the records as stored
	// OffsetOfMax is the first record that has MaxTimestamp, counted from the base offset.
	OffsetOfMax int32

	// RecordErrors tells which records were refused; the whole batch is. At most 1,000 are listed.
	RecordErrors []RecordError
}

// RecordError is one refused record, for the RecordErrors of a Produce response.
type RecordError struct {
	Index   int32 // of the record in its batch
	Message string
}

// String is Kafka's form, which stands in the message of the whole batch.
func (e RecordError) String() string {
	return fmt.Sprintf("RecordError(batchIndex=%d, message='%s')", e.Index, e.Message)
}

// Validate checks a producer's batch and makes it what the log stores, but for base offset and leader epoch.
// It may rewrite b's header in place (a wrong max timestamp, LogAppendTime) and answers a new batch if the
// codec changes. Every record is looked at, in compressed batches too, in a stream of bounded memory. An
// uncompressed batch costs one pass for the checksum and one over the records, and no allocation.
//
// Errors carry Kafka's codes, found with kafka.CodeOf; kafka.MessageOf is empty where Kafka sends no message.
// Where Kafka answers UNKNOWN_SERVER_ERROR to what is only broken input (unknown codec, bytes that do not
// decompress), the answer here is INVALID_RECORD, which producers do not retry either. Stricter than Kafka:
// record offsets must be dense, and a producer needs an epoch.
func (b Batch) Validate(c Checks) (Checked, error) {
	in := inspection{batch: b, checks: c, max: NoTimestamp}
	if err := b.checkHeader(&in.checks); err != nil {
		return Checked{}, err
	}
	in.setTimes()
	out, err := in.run()
	if err != nil {
		return Checked{}, err
	}
	if err := in.refusal(); err != nil {
		return Checked{RecordErrors: in.errors}, err
	}
	checked := Checked{Batch: b, Count: b.Count(), MaxTimestamp: in.max, OffsetOfMax: in.maxAt}
	timestampType := int16(0)
	if c.LogAppendTime {
		timestampType = attrLogAppendTime
		checked.MaxTimestamp, checked.OffsetOfMax = in.now, 0
	}
	if out == nil {
		b.setMaxTimestamp(timestampType, checked.MaxTimestamp)
	} else {
		checked.Batch = b.recoded(out, c.TargetCodec, timestampType, checked.MaxTimestamp)
		checked.Rewritten = true
	}
	if c.MaxSegmentBytes > 0 && len(checked.Batch) > c.MaxSegmentBytes {
		return Checked{}, kafka.RecordListTooLarge
	}
	return checked, nil
}

// checkHeader looks at all that the header tells, in Kafka's order, which decides the code when several
// things are wrong.
func (b Batch) checkHeader(c *Checks) error {
	switch {
	case len(b) < HeaderSize || b.Size() != len(b):
		return ErrCorrupt
	case b.Magic() < Magic:
		return ErrLegacy
	case b.Magic() > Magic:
		return corrupt("Invalid magic found in record: %d", b.Magic())
	case c.ProduceVersion > 0 && c.ProduceVersion < zstdMinProduce && b.Codec() == Zstd:
		return kafka.UnsupportedCompressionType
	case b.IsTransactional() && !c.AllowTransactional:
		return kafka.TransactionalIDAuthorizationFailed
	case b.BaseOffset() != 0:
		return invalid("base offset %d is not 0", b.BaseOffset())
	case c.MaxBatchBytes > 0 && len(b) > c.MaxBatchBytes:
		return kafka.MessageTooLarge
	}
	if err := b.CheckCRC(); err != nil {
		return err
	}
	switch {
	case b.Codec() > Zstd:
		return invalid("unknown compression codec %d", b.Codec())
	case b.LastOffsetDelta() < 0:
		return invalid("offset range ends at %d", b.LastOffsetDelta())
	case b.Count() <= 0:
		return invalid("record count %d", b.Count())
	case int64(b.LastOffsetDelta())+1 != int64(b.Count()):
		return invalid("%d records in an offset range of %d", b.Count(), int64(b.LastOffsetDelta())+1)
	case b.IsControl() && !c.AllowControl:
		return invalid("control batch from a client")
	}
	return b.checkProducer()
}

// checkProducer wants a producer id to come with all that belongs to it. Without an id the epoch and the
// sequence mean nothing: some clients fill them with zeros.
func (b Batch) checkProducer() error {
	switch {
	case !b.HasProducer():
		if b.IsTransactional() {
			return invalid("transactional batch without producer id")
		}
		return nil
	case b.BaseSequence() < 0 && !b.IsControl():
		return invalid("producer id without sequence")
	case b.ProducerEpoch() < 0:
		return fmt.Errorf("producer id without epoch: %w", kafka.InvalidProducerEpoch)
	}
	return nil
}

// maxRecordErrors bounds how many refused records are told: a batch may hold a hundred thousand.
const maxRecordErrors = 1000

// inspection is one walk over a batch's records.
type inspection struct {
	batch  Batch
	checks Checks

	now, earliest, latest int64
	base                  int64
	claimed               int64 // the batch's own append time, which it should not have
	hasClaimed            bool

	max    int64
	maxAt  int32
	errors []RecordError
	failed int  // records refused, listed or not
	time   bool // one of them for its time
}

func (in *inspection) setTimes() {
	c := &in.checks
	in.now = c.Now.UnixMilli()
	in.earliest = in.now - c.BeforeMaxMs
	in.latest = in.now + c.AfterMaxMs
	if in.latest < in.now {
		in.latest = 1<<63 - 1
	}
	in.base = in.batch.BaseTimestamp()
	in.hasClaimed = in.batch.IsLogAppendTime()
	in.claimed = in.batch.MaxTimestamp()
}

// run walks over the records. The sink holds the new records if the codec changes, else it is nil.
func (in *inspection) run() (*sink, error) {
	c, b := &in.checks, in.batch
	if c.TargetCodec != KeepCodec && c.TargetCodec != b.Codec() {
		return in.recompress()
	}
	var w walker
	if b.Codec() == Uncompressed {
		w.buf = b.payload()
		return nil, in.walk(&w)
	}
	done, err := b.open(&w, Limits{c.MaxExpandedBytes}.expanded(len(b)-HeaderSize))
	if err != nil {
		return nil, err
	}
	defer done()
	return nil, in.walk(&w)
}

// recompress walks over the records while they stream into the target codec. Their bytes do not change.
func (in *inspection) recompress() (*sink, error) {
	c, b := &in.checks, in.batch
	var w walker
	done, err := b.open(&w, Limits{c.MaxExpandedBytes}.expanded(len(b)-HeaderSize))
	if err != nil {
		return nil, err
	}
	defer done()
	out := newSink(c.MaxBatchBytes, len(b)-HeaderSize)
	if w.src == nil {
		records := w.buf
		if err := in.walk(&w); err != nil || in.failed > 0 {
			return nil, err
		}
		return out, compressed(out, records, c.TargetCodec, c.Level)
	}
	var to io.Writer = out
	if c.TargetCodec != Uncompressed {
		z, err := compressTo(out, c.TargetCodec, c.Level)
		if err != nil {
			return nil, err
		}
		defer z.release()
		to = z
	}
	t := &tee{r: w.src, w: to}
	w.src = t
	if err := in.walk(&w); err != nil || in.failed > 0 {
		return nil, err
	}
	if z, ok := to.(io.Closer); ok && t.err == nil {
		t.err = z.Close()
	}
	if out.full {
		return nil, kafka.MessageTooLarge
	}
	return out, t.err
}

// tee writes what is read through it until writing fails; reading goes on, because the records decide first.
type tee struct {
	r   io.Reader
	w   io.Writer
	err error
}

// Read implements io.Reader.
func (t *tee) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if n > 0 && t.err == nil {
		_, t.err = t.w.Write(p[:n])
	}
	return n, err
}

// walk checks every record. Broken structure ends it; refused records are collected.
func (in *inspection) walk(w *walker) error {
	var r raw
	for i := range in.batch.Count() {
		if err := w.next(&r); err != nil {
			return err
		}
		if r.offsetDelta != i {
			return invalid("record %d has offset delta %d", i, r.offsetDelta)
		}
		if in.checks.RequireKeys && r.keySize < 0 {
			in.refuse(i, "Compacted topic cannot accept message without key in topic partition "+
				in.checks.Partition.String())
			continue
		}
		ts := in.base + r.timestampDelta
		in.checkTime(i, ts, &r)
		if ts > in.max {
			in.max, in.maxAt = ts, i
		}
	}
	return w.end()
}

// checkTime holds a record's time against the topic's bounds. A batch that claims the broker's timestamp type
// is judged by the time it claims as well, and refused where that claim could be believed, as Kafka does.
func (in *inspection) checkTime(i int32, ts int64, r *raw) {
	if !in.hasClaimed {
		if !in.checks.LogAppendTime && ts != NoTimestamp && (ts < in.earliest || ts > in.latest) {
			in.refuseTime(i, ts)
		}
		return
	}
	if in.checks.LogAppendTime || in.claimed == NoTimestamp {
		in.time = true
		in.refuse(i, fmt.Sprintf("Invalid timestamp type in message DefaultRecord(offset=%d, timestamp=%d, "+
			"key=%d bytes, value=%d bytes). Producer should not set timestamp type to LogAppendTime.",
			i, in.claimed, max(r.keySize, 0), max(r.valueSize, 0)))
		return
	}
	for _, t := range [...]int64{in.claimed, ts} {
		if t < in.earliest || t > in.latest {
			in.refuseTime(i, t)
			return
		}
	}
}

func (in *inspection) refuseTime(i int32, ts int64) {
	in.time = true
	in.refuse(i, fmt.Sprintf("Timestamp %d of message with offset %d is out of range. "+
		"The timestamp should be within [%d, %d]", ts, i, in.earliest, in.latest))
}

func (in *inspection) refuse(i int32, message string) {
	in.failed++
	if len(in.errors) < maxRecordErrors {
		in.errors = append(in.errors, RecordError{i, message})
	}
}

// refusal makes the batch's error of its records' errors.
func (in *inspection) refusal() error {
	switch {
	case in.failed == 0:
		return nil
	case in.time:
		return kafka.Errorf(kafka.InvalidTimestamp,
			"One or more records have been rejected due to invalid timestamp")
	}
	var first []string
	for _, e := range in.errors[:min(len(in.errors), 3)] {
		first = append(first, e.String())
	}
	return kafka.Errorf(kafka.InvalidRecord, "One or more records have been rejected due to %d record errors "+
		"in total, and only showing the first three errors at most: [%s]", in.failed, strings.Join(first, ", "))
}
