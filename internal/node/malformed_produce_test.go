package node

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// produceCodes gives the error codes of an answer to Produce, in its order.
func produceCodes(want ...kafka.Code) func(kmsg.Response) error {
	return func(resp kmsg.Response) error {
		var got []int16
		for _, t := range resp.(*kmsg.ProduceResponse).Topics {
			for _, p := range t.Partitions {
				got = append(got, p.ErrorCode)
			}
		}
		return codes(want...)(got)
	}
}

// refused wants any error that says it is the client's fault.
func refused(resp kmsg.Response) error {
	for _, t := range resp.(*kmsg.ProduceResponse).Topics {
		for _, p := range t.Partitions {
			switch c := kafka.Code(p.ErrorCode); c {
			case kafka.InvalidRecord, kafka.CorruptMessage, kafka.MessageTooLarge, kafka.UnsupportedCompressionType,
				kafka.UnknownServerError:
			default:
				return fmt.Errorf("answered %v", c)
			}
		}
	}
	return nil
}

// batchCase sends one batch, made from a good one of two records, to a topic.
func batchCase(name, topic string, want kafka.Code, change func(*lie)) hostile {
	h := request(name, nil, nil)
	h.send = func(*suite) []byte {
		l := batchOf("a", "b")
		change(&l)
		return frame(produceRequest(9, topic, 0, -1, l.bytes()), 1)
	}
	h.want = request(name, produceRequest(9, topic, 0, -1, nil), produceCodes(want)).want
	return h
}

func produceCases() []hostile {
	const ok, invalid, corrupt = kafka.None, kafka.InvalidRecord, kafka.CorruptMessage
	hour := time.Hour.Milliseconds()
	good := func() []byte { return batchOf("a").bytes() }
	out := []hostile{
		batchCase("base offset 5", "m", invalid, func(l *lie) { l.base = 5 }),
		batchCase("base offset -1", "m", invalid, func(l *lie) { l.base = -1 }),
		batchCase("leader epoch 7", "m", ok, func(l *lie) { l.epoch = 7 }),
		batchCase("magic 0", "m", invalid, func(l *lie) { l.magic = 0 }),
		batchCase("magic 1", "m", invalid, func(l *lie) { l.magic = 1 }),
		batchCase("magic 3", "m", corrupt, func(l *lie) { l.magic = 3 }),
		batchCase("magic -1", "m", corrupt, func(l *lie) { l.magic = -1 }),
		batchCase("bad crc", "m", corrupt, func(l *lie) { l.badCRC = true }),
		batchCase("last delta too big", "m", invalid, func(l *lie) { l.last = 7 }),
		batchCase("last delta too small", "m", invalid, func(l *lie) { l.last = 0 }),
		batchCase("last delta negative", "m", invalid, func(l *lie) { l.last = -1 }),
		batchCase("last delta 2^31-1", "m", invalid, func(l *lie) { l.last = 1<<31 - 1 }),
		batchCase("count too big", "m", invalid, func(l *lie) { l.count = 3 }),
		batchCase("count too small", "m", invalid, func(l *lie) { l.count = 1 }),
		batchCase("count 0", "m", invalid, func(l *lie) { l.count = 0 }),
		batchCase("count negative", "m", invalid, func(l *lie) { l.count = -5 }),
		batchCase("count and last delta of 2^31-1", "m", invalid,
			func(l *lie) { l.count, l.last = 1<<31-1, 1<<31-2 }),
		batchCase("control bit", "m", invalid, func(l *lie) { l.attributes = 0x20 }),
		batchCase("control and transactional bit with a producer", "m", kafka.TransactionalIDAuthorizationFailed,
			func(l *lie) { l.attributes, l.producer, l.pepoch, l.sequence = 0x30, 5, 0, 0 }),
		batchCase("transactional bit without a producer", "m", kafka.TransactionalIDAuthorizationFailed,
			func(l *lie) { l.attributes = 0x10 }),
		batchCase("log append time bit", "m", ok, func(l *lie) { l.attributes = 0x08 }),
		batchCase("delete horizon bit", "m", ok, func(l *lie) { l.attributes = 0x40 }),
		batchCase("unknown attribute bit", "m", ok, func(l *lie) { l.attributes = 0x200 }),
		batchCase("producer without an epoch", "m", invalid, func(l *lie) { l.producer = 5 }),
		batchCase("producer without a sequence", "m", invalid, func(l *lie) { l.producer, l.pepoch = 5, 0 }),
		batchCase("empty batch", "m", invalid, func(l *lie) { l.values, l.count, l.last = nil, 0, 0 }),
		batchCase("length too big", "m", invalid, func(l *lie) { l.length = 7 }),
		batchCase("length too small", "m", corrupt, func(l *lie) { l.length = -7 }),
		batchCase("length of less than a header", "m", corrupt, func(l *lie) { l.length = -1000 }),
		batchCase("max timestamp lies", "m", ok,
			func(l *lie) { l.first = time.Now().UnixMilli(); l.max = l.first + 1 }),
		batchCase("timestamp -1", "m", ok, func(l *lie) { l.first, l.max = -1, -1 }),
		batchCase("timestamp of tomorrow", "m", kafka.InvalidTimestamp,
			func(l *lie) { l.first = time.Now().UnixMilli() + 48*hour }),
		batchCase("timestamp -2^63", "m", kafka.InvalidTimestamp,
			func(l *lie) { l.first, l.max = -1<<63, -1<<63 }),
		batchCase("too old for the topic", "m-time", kafka.InvalidTimestamp,
			func(l *lie) { l.first = time.Now().UnixMilli() - hour }),
		batchCase("too new for the topic", "m-time", kafka.InvalidTimestamp,
			func(l *lie) { l.first = time.Now().UnixMilli() + hour }),
		batchCase("no key in a compacted topic", "m-compact", invalid, func(l *lie) { l.nullKeys = true }),
		batchCase("too large for the topic", "m-small", kafka.MessageTooLarge,
			func(l *lie) { l.values[0] = string(make([]byte, 400)) }),
		request("unknown topic", produceRequest(9, "none", 0, -1, good()),
			produceCodes(kafka.UnknownTopicOrPartition)),
		request("unknown partition", produceRequest(9, "m", 9, -1, good()),
			produceCodes(kafka.UnknownTopicOrPartition)),
		request("negative partition", produceRequest(9, "m", -1, -1, good()),
			produceCodes(kafka.UnknownTopicOrPartition)),
		request("unknown topic id", produceRequest(13, "", 0, -1, good()), produceCodes(kafka.UnknownTopicID)),
		request("acks 2", produceRequest(9, "m", 0, 2, good()), produceCodes(kafka.InvalidRequiredAcks)),
		request("acks -2", produceRequest(9, "m", 0, -2, good()), produceCodes(kafka.InvalidRequiredAcks)),
		request("two batches", produceRequest(9, "m", 0, -1, append(good(), good()...)), produceCodes(invalid)),
		request("empty records", produceRequest(9, "m", 0, -1, []byte{}), produceCodes(invalid)),
		request("short records", produceRequest(9, "m", 0, -1, []byte{1, 2, 3}), produceCodes(invalid)),
		request("the internal metadata topic", produceRequest(9, "__cluster_metadata", 0, -1, good()),
			produceCodes(kafka.UnknownTopicOrPartition)),
		// Apache Kafka leaves these without any answer: its handler fails.
		bytesCase("null records", frame(produceRequest(9, "m", 0, -1, nil), 1), either),
		bytesCase("acks 0, good", frame(produceRequest(9, "m", 0, 0, good()), 1), goesOn),
		bytesCase("acks 0, unknown topic", frame(produceRequest(9, "none", 0, 0, good()), 1), closed),
		bytesCase("acks 0, bad crc", frame(
			produceRequest(9, "m", 0, 0, func() []byte { l := batchOf("a"); l.badCRC = true; return l.bytes() }()), 1), closed),
	}
	return append(out, sameTwice()...)
}

// sameTwice are topics and partitions that a request names more than once.
func sameTwice() []hostile {
	topics := produceRequest(9, "m", 0, -1, batchOf("x").bytes())
	topics.Topics = append(topics.Topics, produceRequest(9, "m", 7, -1, batchOf("y").bytes()).Topics...)
	topics.Topics = append(topics.Topics, produceRequest(9, "none", 0, -1, batchOf("y").bytes()).Topics...)
	partitions := produceRequest(9, "m", 0, -1, batchOf("x").bytes())
	t := &partitions.Topics[0]
	t.Partitions = append(t.Partitions, t.Partitions[0], t.Partitions[0])
	return []hostile{
		request("same topic twice", topics,
			produceCodes(kafka.None, kafka.UnknownTopicOrPartition, kafka.UnknownTopicOrPartition)),
		request("same partition three times", partitions, produceCodes(kafka.None)),
	}
}

// recordsCases are batches whose header is right and whose records are not.
func recordsCases() []hostile {
	payload := func(name string, b ...byte) hostile {
		return batchCase(name, "m", kafka.InvalidRecord, func(l *lie) { l.values, l.payload = l.values[:1], b })
	}
	any := func(name string, codec int16, b []byte) hostile {
		h := batchCase(name, "m", 0,
			func(l *lie) { l.values, l.payload, l.attributes = l.values[:1], b, codec })
		h.want = request(name, produceRequest(9, "m", 0, -1, nil), refused).want
		return h
	}
	good := recordOf(0, []byte("k"), []byte("v"))
	varint := func(v int64) []byte { return binary.AppendVarint(nil, v) }
	return []hostile{
		batchCase("key of length -2, which is null", "m", kafka.None, func(l *lie) {
			l.values, l.payload = l.values[:1], append(varint(6), 0, 0, 0, 3, 0, 0)
		}),
		payload("records of garbage", 1, 2, 3, 4),
		payload("record of length -1", varint(-1)...),
		payload("record of length -2^31", varint(-1<<31)...),
		payload("record of length 2^31-1", append(varint(1<<31-1), 0, 0, 0)...),
		payload("record length in six bytes", 0x80, 0x80, 0x80, 0x80, 0x80, 1),
		payload("record of length 0", 0, 0, 0, 0),
		payload("offset delta 5", recordOf(5, []byte("k"), []byte("v"))...),
		payload("offset delta -1", recordOf(-1, []byte("k"), []byte("v"))...),
		payload("bytes behind the last record", append(slices.Clone(good), 0, 0)...),
		payload("key longer than the record", append(varint(8), 0, 0, 0, 0xfe, 0xff, 0x0f, 0, 0)...),
		payload("2^31-1 headers", recordOf(0, []byte("k"), []byte("v"), varint(1<<31-1)...)...),
		payload("-1 headers", recordOf(0, []byte("k"), []byte("v"), varint(-1)...)...),
		payload("header without a key", recordOf(0, []byte("k"), []byte("v"), 2, 1, 0)...),
		payload("header key longer than the record", recordOf(0, []byte("k"), []byte("v"), 2, 100, 'a', 0)...),
		any("codec 5", 5, good), any("codec 6", 6, good), any("codec 7", 7, good),
		any("gzip garbage", 1, good), any("snappy garbage", 2, good), any("lz4 garbage", 3, good), any("zstd garbage", 4, good),
		any("gzip of nothing", 1, []byte{}), any("zstd of nothing", 4, []byte{}),
		any("gzip in gzip", 1, gzipped(gzipped(good))),
		any("a batch in a batch", 1, gzipped(batchOf("inner").bytes())),
		any("zstd in gzip", 1, gzipped(zstded(good))),
		any("gzip cut short", 1, gzipped(good)[:12]),
		any("zstd cut short", 4, zstded(bytes.Repeat(good, 100))[:20]),
		any("snappy that tells 2^31-1 bytes", 2, append([]byte{0xff, 0xff, 0xff, 0xff, 7}, good...)),
		any("xerial block of length -1", 2, append(xerialHead(), 255, 255, 255, 255, 1, 2, 3)),
		any("xerial block of length 2^31-1", 2, append(xerialHead(), 127, 255, 255, 255, 1, 2, 3)),
		any("zstd window of 2^41", 4, []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 1, 0, 0}),
		any("zstd that tells 2^63 bytes", 4,
			[]byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 255, 255, 255, 255, 255, 255, 255, 127, 1, 0, 0}),
		any("lz4 that tells 2^63 bytes", 3, []byte{4, 0x22, 0x4d, 0x18, 0x48, 0x70, 255, 255, 255, 255, 255, 255, 255, 127, 0, 0, 0, 0, 0}),
	}
}

// idempotentCases are one producer's batches; each sees what those before it left.
func idempotentCases() []hostile {
	const ok, order, epoch = kafka.None, kafka.OutOfOrderSequenceNumber, kafka.InvalidProducerEpoch
	var out []hostile
	add := func(name string, producerEpoch int16, sequence int32, count int, want kafka.Code) {
		out = append(out, batchCase(name, "id", want, func(l *lie) {
			*l = batchOf(make([]string, count)...)
			l.producer, l.pepoch, l.sequence = 1<<40, producerEpoch, sequence
		}))
	}
	add("first sequence 5", 0, 5, 1, ok)
	add("sequence 6", 0, 6, 1, ok)
	add("sequence 6 again", 0, 6, 1, ok)
	add("sequence 5 again", 0, 5, 1, ok)
	add("gap to sequence 9", 0, 9, 1, order)
	add("sequences 7 to 9", 0, 7, 3, ok)
	add("the first two of them", 0, 7, 2, order)
	add("the last two of them", 0, 8, 2, order)
	for i := range int32(4) {
		add(fmt.Sprint("sequence ", 10+i), 0, 10+i, 1, ok)
	}
	add("sequence 5, too long ago", 0, 5, 1, order)
	add("sequence 10, not too long ago", 0, 10, 1, ok)
	add("negative epoch", -1, 14, 1, epoch)
	add("new epoch with sequence 3", 1, 3, 1, order)
	add("new epoch with sequence 0", 1, 0, 1, ok)
	add("old epoch", 0, 14, 1, epoch)
	add("epoch 2^15-1", 1<<15-1, 0, 1, ok)
	add("sequence 2^31-1 out of order", 1<<15-1, 1<<31-1, 1, order)
	add("negative sequence", 1<<15-1, -5, 1, kafka.InvalidRecord)
	near := func(name string, sequence int32, count int, want kafka.Code) {
		out = append(out, batchCase(name, "id", want, func(l *lie) {
			*l = batchOf(make([]string, count)...)
			l.producer, l.pepoch, l.sequence = 1<<40+1, 0, sequence
		}))
	}
	near("near the wrap", 1<<31-2, 1, ok)
	near("across the wrap", 1<<31-1, 3, ok)
	near("across the wrap again", 1<<31-1, 3, ok)
	near("after the wrap", 2, 1, ok)
	return out
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

func zstded(b []byte) []byte {
	w, _ := zstd.NewWriter(nil)
	defer w.Close()
	return w.EncodeAll(b, nil)
}

func xerialHead() []byte { return append([]byte("\x82SNAPPY\x00"), 0, 0, 0, 1, 0, 0, 0, 1) }

// zeros writes one record with a value of so many zeros.
func zeros(w io.Writer, size int) {
	head := []byte{0, 0, 0}
	head = binary.AppendVarint(head, -1)
	head = binary.AppendVarint(head, int64(size))
	_, _ = w.Write(binary.AppendVarint(nil, int64(len(head)+size+1)))
	_, _ = w.Write(head)
	for block := make([]byte, 1<<16); size > 0; size -= len(block) {
		_, _ = w.Write(block[:min(size, len(block))])
	}
	_, _ = w.Write([]byte{0})
}

type blockWriter struct{ out []byte }

func (b *blockWriter) Write(p []byte) (int, error) {
	block := snappy.Encode(nil, p)
	b.out = append(binary.BigEndian.AppendUint32(b.out, uint32(len(block))), block...)
	return len(p), nil
}

// bombCases expand to far more than the node allows: it must neither use the memory nor take long.
func bombCases() []hostile {
	size := 8 << 20
	if long() {
		size = 256 << 20
	}
	var gz, zs, l4 bytes.Buffer
	g := gzip.NewWriter(&gz)
	zeros(g, size)
	_ = g.Close()
	z, _ := zstd.NewWriter(&zs)
	zeros(z, size)
	_ = z.Close()
	l := lz4.NewWriter(&l4)
	zeros(l, size)
	_ = l.Close()
	x := &blockWriter{out: xerialHead()}
	zeros(x, size)
	var many bytes.Buffer // a million records of nothing
	m := gzip.NewWriter(&many)
	for i := range 1_000_000 {
		_, _ = m.Write(recordOf(i, nil, nil))
	}
	_ = m.Close()
	bomb := func(name string, codec int16, b []byte) hostile {
		return batchCase(name, "m-large", kafka.MessageTooLarge,
			func(l *lie) { l.values, l.payload, l.attributes = l.values[:1], b, codec })
	}
	return []hostile{
		bomb("gzip bomb", 1, gz.Bytes()), bomb("snappy bomb", 2, x.out), bomb("lz4 bomb", 3, l4.Bytes()),
		bomb("zstd bomb", 4, zs.Bytes()), bomb("gzip in gzip bomb's outside", 1, gz.Bytes()),
		batchCase("a million records", "m-large", kafka.MessageTooLarge, func(l *lie) {
			l.payload, l.attributes, l.count, l.last = many.Bytes(), 1, 1_000_000, 999_999
		}),
	}
}
