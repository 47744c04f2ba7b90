package api

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

func TestProduceThenFetchInEveryVersion(t *testing.T) {
	f := newFixture(t)
	f.poison = true
	id := f.create("orders", 2)
	var want []string
	for v := int16(3); v <= 13; v++ {
		for _, acks := range []int16{1, -1} {
			req := produceRequest(v, "orders", 0, acks, batchOf(t, record.Options{}, "a", "b"))
			r := ask[*kmsg.ProduceResponse](f, req).Topics[0]
			if v < 13 && r.Topic != "orders" || v >= 13 && r.TopicID != id {
				t.Fatalf("version %d: %+v", v, r)
			}
			start := int64(0)
			if v < 5 {
				start = -1 // not told yet
			}
			p := r.Partitions[0]
			if p.ErrorCode != 0 || p.BaseOffset != int64(len(want)) || p.LogAppendTime != -1 || p.LogStartOffset != start {
				t.Fatalf("version %d: %+v", v, p)
			}
			want = append(want, "a", "b")
		}
	}
	for v := int16(4); v <= 18; v++ {
		resp := ask[*kmsg.FetchResponse](f, fetchRequest(v, "orders", 0, 0))
		p := resp.Topics[0].Partitions[0]
		if got := valuesIn(t, p.RecordBatches); p.ErrorCode != 0 || !slices.Equal(got, want) {
			t.Fatalf("version %d: %+v, %d values", v, p, len(got))
		}
	}
}

// one sends one batch in version 9 with acks=all.
func (f *fixture) one(topic string, partition int32, records []byte) kmsg.ProduceResponseTopicPartition {
	f.t.Helper()
	return ask[*kmsg.ProduceResponse](f, produceRequest(9, topic, partition, -1, records)).Topics[0].Partitions[0]
}

// edit changes a batch's header and gives it a fresh checksum.
func edit(b record.Batch, change func(b []byte)) []byte {
	out := bytes.Clone(b)
	change(out)
	if len(out) > 21 {
		binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[21:], crc32.MakeTable(crc32.Castagnoli)))
	}
	return out
}

func TestProduceRefusals(t *testing.T) {
	f := newFixture(t)
	f.poison = true
	f.create("pr", 1)
	f.create("compact", 1, "cleanup.policy", "compact")
	f.create("small", 1, "max.message.bytes", "300")
	f.create("strict", 1, "message.timestamp.before.max.ms", "1000")
	f.create("tight", 1, "max.decompressed.message.bytes", "1000")
	f.create("__consumer_offsets", 1)
	good := func() record.Batch { return batchOf(t, record.Options{}, "a", "b") }
	u16 := func(at int, v uint16) []byte {
		return edit(good(), func(b []byte) { binary.BigEndian.PutUint16(b[at:], v) })
	}
	u32 := func(at int, v uint32) []byte {
		return edit(good(), func(b []byte) { binary.BigEndian.PutUint32(b[at:], v) })
	}
	keyless := record.NewBuilder(record.Options{})
	keyless.Append(t0.UnixMilli(), []byte("k"), nil, nil)
	keyless.Append(t0.UnixMilli(), nil, []byte("v"), nil)
	noKey, _ := keyless.Build()
	old := record.NewBuilder(record.Options{})
	old.Append(t0.UnixMilli()-5000, nil, []byte("v"), nil)
	tooOld, _ := old.Build()

	// start -1: the refusal came before the log was asked.
	for _, c := range []struct {
		what    string
		topic   string
		index   int32
		records []byte
		code    kafka.Code
		start   int64
		message bool
		refused []int32
	}{
		{"no such topic", "none", 0, good(), kafka.UnknownTopicOrPartition, -1, false, nil},
		{"no such partition", "pr", 9, good(), kafka.UnknownTopicOrPartition, -1, false, nil},
		{"negative partition", "pr", -1, good(), kafka.UnknownTopicOrPartition, -1, false, nil},
		{"null records", "pr", 0, nil, kafka.InvalidRecord, -1, false, nil},
		{"empty records", "pr", 0, []byte{}, kafka.InvalidRecord, -1, false, nil},
		{"short records", "pr", 0, []byte{1, 2, 3}, kafka.InvalidRecord, -1, false, nil},
		{"bad checksum", "pr", 0, append(good()[:len(good())-1:len(good())-1], 'x'), kafka.CorruptMessage, -1, false, nil},
		{"magic 1", "pr", 0, edit(good(), func(b []byte) { b[16] = 1 }), kafka.InvalidRecord, -1, false, nil},
		{"magic 3", "pr", 0, edit(good(), func(b []byte) { b[16] = 3 }), kafka.CorruptMessage, -1, true, nil},
		{"two batches", "pr", 0, append(good(), good()...), kafka.InvalidRecord, -1, false, nil},
		{"base offset", "pr", 0, edit(good(), func(b []byte) { b[7] = 5 }), kafka.InvalidRecord, 0, false, nil},
		{"last delta", "pr", 0, u32(23, 7), kafka.InvalidRecord, 0, false, nil},
		{"count", "pr", 0, u32(57, 3), kafka.InvalidRecord, 0, false, nil},
		{"control", "pr", 0, u16(21, 0x20), kafka.InvalidRecord, 0, false, nil},
		{"transactional", "pr", 0, u16(21, 0x10), kafka.TransactionalIDAuthorizationFailed, -1, false, nil},
		{"codec 5", "pr", 0, u16(21, 5), kafka.InvalidRecord, 0, false, nil},
		{"gzip garbage", "pr", 0, u16(21, 1), kafka.InvalidRecord, 0, false, nil},
		{"keyless", "compact", 0, noKey, kafka.InvalidRecord, 0, true, []int32{1}},
		{"too large", "small", 0, batchOf(t, record.Options{}, string(make([]byte, 400))), kafka.MessageTooLarge, -1, false, nil},
		{"too old", "strict", 0, tooOld, kafka.InvalidTimestamp, 0, true, []int32{0}},
		{"expands too far", "tight", 0, batchOf(t, record.Options{Codec: record.Gzip}, string(make([]byte, 4000))),
			kafka.MessageTooLarge, -1, false, nil},
		{"internal", "__consumer_offsets", 0, good(), kafka.InvalidTopicException, -1, false, nil},
		{"sequence gap", "pr", 0, batchOf(t, record.Options{Producer: &record.Producer{ID: 7, Sequence: 5}}, "x"), 0, 0, false, nil},
		{"sequence gap", "pr", 0, batchOf(t, record.Options{Producer: &record.Producer{ID: 7, Sequence: 9}}, "x"),
			kafka.OutOfOrderSequenceNumber, 0, false, nil},
	} {
		p := f.one(c.topic, c.index, c.records)
		got := kafka.Code(p.ErrorCode)
		if got != c.code || p.LogStartOffset != c.start || (p.ErrorMessage != nil) != c.message || (c.code != 0 && (p.BaseOffset != -1 || p.LogAppendTime != -1)) {
			t.Errorf("%s: %v with log start %d, message %v: %+v", c.what, got, p.LogStartOffset, p.ErrorMessage, p)
		}
		var indexes []int32
		for _, r := range p.ErrorRecords {
			indexes = append(indexes, r.RelativeOffset)
		}
		if !slices.Equal(indexes, c.refused) {
			t.Errorf("%s: error records %v", c.what, indexes)
		}
	}
	seven := ask[*kmsg.ProduceResponse](f, produceRequest(7, "compact", 0, -1, noKey))
	if p := seven.Topics[0].Partitions[0]; len(p.ErrorRecords) > 0 {
		t.Error("version 7 has no error records")
	}
	_, pr := f.startAs(adminClientID, produceRequest(9, "__consumer_offsets", 0, -1, good()))
	if r := f.reply(pr); r.Code != 0 {
		t.Errorf("Kafka's admin client may write to internal topics: %v", r.Code)
	}
}

func TestProduceTransactional(t *testing.T) {
	f := newFixture(t)
	f.create("pr", 1)
	id := "tx"
	plain := produceRequest(9, "pr", 0, -1, batchOf(t, record.Options{}, "a"))
	plain.TransactionID = &id
	if p := ask[*kmsg.ProduceResponse](f, plain).Topics[0].Partitions[0]; p.ErrorCode != 0 {
		t.Fatalf("a plain batch under a transactional id: %v", kafka.Code(p.ErrorCode))
	}
	o := record.Options{Producer: &record.Producer{ID: 5}, Transactional: true}
	tx := produceRequest(9, "pr", 0, -1, batchOf(t, o, "a"))
	tx.TransactionID = &id
	if p := ask[*kmsg.ProduceResponse](f, tx).Topics[0].Partitions[0]; kafka.Code(p.ErrorCode) != kafka.InvalidTxnState {
		t.Fatalf("a transactional batch: %v", kafka.Code(p.ErrorCode))
	}
}

// TestProduceTransactionalBatchWithoutID: the whole request is refused, also for partitions that are not there
// and for batches that are in order.
func TestProduceTransactionalBatchWithoutID(t *testing.T) {
	f := newFixture(t)
	f.create("pr", 1)
	o := record.Options{Producer: &record.Producer{ID: 5}, Transactional: true}
	req := produceRequest(9, "pr", 0, -1, batchOf(t, record.Options{}, "a"))
	req.Topics = append(req.Topics, produceRequest(9, "none", 3, -1, batchOf(t, o, "a")).Topics...)
	for _, topic := range ask[*kmsg.ProduceResponse](f, req).Topics {
		p := topic.Partitions[0]
		if kafka.Code(p.ErrorCode) != kafka.TransactionalIDAuthorizationFailed || p.BaseOffset != -1 || p.LogStartOffset != -1 {
			t.Errorf("%s: %v, %+v", topic.Topic, kafka.Code(p.ErrorCode), p)
		}
	}
	if p := f.one("pr", 0, batchOf(t, record.Options{}, "a")); p.ErrorCode != 0 || p.BaseOffset != 0 {
		t.Errorf("something of the refused request was appended: %+v", p)
	}
}

// TestProduceWithoutBatchHead: bytes that cannot begin a batch spoil the whole request as well, before acks and partitions
// are looked at.
func TestProduceWithoutBatchHead(t *testing.T) {
	f := newFixture(t)
	f.create("pr", 1)
	for what, change := range map[string]func(b []byte){
		"magic 3":     func(b []byte) { b[16] = 3 },
		"length zero": func(b []byte) { clear(b[8:12]) },
		"length 13":   func(b []byte) { copy(b[8:12], []byte{0, 0, 0, 13}) },
	} {
		bad := batchOf(t, record.Options{}, "a")
		change(bad)
		req := produceRequest(9, "pr", 0, 2, batchOf(t, record.Options{}, "a"))
		req.Topics = append(req.Topics, produceRequest(9, "none", 3, 2, bad).Topics...)
		for _, topic := range ask[*kmsg.ProduceResponse](f, req).Topics {
			p := topic.Partitions[0]
			if kafka.Code(p.ErrorCode) != kafka.CorruptMessage || p.BaseOffset != -1 || p.LogStartOffset != -1 {
				t.Errorf("%s, %s: %v, %+v", what, topic.Topic, kafka.Code(p.ErrorCode), p)
			}
		}
	}
	if p := f.one("pr", 0, batchOf(t, record.Options{}, "a")); p.ErrorCode != 0 || p.BaseOffset != 0 {
		t.Errorf("something of a refused request was appended: %+v", p)
	}
}

func TestProduceAcks(t *testing.T) {
	f := newFixture(t)
	f.create("pr", 1)
	for _, acks := range []int16{2, -2} {
		req := produceRequest(9, "pr", 0, acks, batchOf(t, record.Options{}, "a"))
		p := ask[*kmsg.ProduceResponse](f, req).Topics[0].Partitions[0]
		if kafka.Code(p.ErrorCode) != kafka.InvalidRequiredAcks || p.LogStartOffset != -1 {
			t.Fatalf("acks %d: %+v", acks, p)
		}
	}
	_, p := f.start(produceRequest(9, "pr", 0, 0, batchOf(t, record.Options{}, "a")))
	if r := f.reply(p); !r.None || r.Close {
		t.Fatalf("acks 0: %+v", r)
	}
	_, p = f.start(produceRequest(9, "none", 0, 0, batchOf(t, record.Options{}, "a")))
	if r := f.reply(p); !r.None || !r.Close || r.Code != kafka.UnknownTopicOrPartition {
		t.Fatalf("acks 0 to an unknown topic: %+v", r)
	}
	if at := f.produce("pr", 0, "b"); at != 1 {
		t.Fatalf("the batch with acks 0 is not there: the next one is at %d", at)
	}
}

func TestProduceWaitsForTheDisk(t *testing.T) {
	f := newFixture(t)
	f.poison = true
	f.create("pr", 2)
	f.create("lazy", 1, "moldau.flush", "async")
	f.hold()
	req := produceRequest(9, "pr", 0, -1, batchOf(t, record.Options{}, "a"))
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, kmsg.ProduceRequestTopicPartition{Partition: 1,
		Records: batchOf(t, record.Options{}, "b")})
	_, all := f.start(req)
	one := produceRequest(9, "pr", 0, 1, batchOf(t, record.Options{}, "c"))
	_, leader := f.start(one)
	_, none := f.start(produceRequest(9, "pr", 0, 0, batchOf(t, record.Options{}, "d")))
	lazy := produceRequest(9, "lazy", 0, -1, batchOf(t, record.Options{}, "e"))
	_, async := f.start(lazy)
	if _, ok := all.Get(); ok {
		t.Fatal("acks=all was answered before the sync")
	}
	if _, ok := leader.Get(); ok {
		t.Fatal("acks=1 was answered before the sync")
	}
	f.reply(none)
	f.body(lazy, f.reply(async))
	if n := f.waits().count.Load(); n != 2 {
		t.Fatalf("%d requests wait", n)
	}
	f.flush()
	for i, p := range f.body(req, f.reply(all)).(*kmsg.ProduceResponse).Topics[0].Partitions {
		if p.ErrorCode != 0 || p.BaseOffset != 0 || p.Partition != int32(i) {
			t.Fatalf("%+v", p)
		}
	}
	if p := f.body(one, f.reply(leader)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.BaseOffset != 1 {
		t.Fatalf("%+v", p)
	}
	if n := f.waits().count.Load(); n != 0 {
		t.Fatalf("%d requests wait", n)
	}
}

func TestProduceTimesOut(t *testing.T) {
	f := newFixture(t)
	f.create("pr", 1)
	f.hold()
	req := produceRequest(9, "pr", 0, -1, batchOf(t, record.Options{}, "a"))
	req.TimeoutMillis = 100
	_, p := f.start(req)
	f.advance(99 * time.Millisecond)
	if _, ok := p.Get(); ok {
		t.Fatal("answered too early")
	}
	f.advance(time.Millisecond)
	r := f.body(req, f.reply(p)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if kafka.Code(r.ErrorCode) != kafka.RequestTimedOut || r.BaseOffset != 0 {
		t.Fatalf("%+v", r)
	}
	f.flush()
	if at := f.produce("pr", 0, "b"); at != 1 {
		t.Fatal("what was appended must stay")
	}
	got := valuesIn(t, f.fetched(fetchRequest(12, "pr", 0, 0)).RecordBatches)
	if !slices.Equal(got, []string{"a", "b"}) {
		t.Fatal(got)
	}
}

func TestProduceNegativeTimeoutTimesOutAtOnce(t *testing.T) {
	f := newFixture(t)
	f.create("pr", 1)
	f.hold()
	req := produceRequest(9, "pr", 0, -1, batchOf(t, record.Options{}, "a"))
	req.TimeoutMillis = math.MinInt32
	_, p := f.start(req)
	f.advance(0)
	r := f.body(req, f.reply(p)).(*kmsg.ProduceResponse)
	if kafka.Code(r.Topics[0].Partitions[0].ErrorCode) != kafka.RequestTimedOut {
		t.Fatalf("%+v", r)
	}
}

func TestProduceToTheWrongBroker(t *testing.T) {
	f := newFixture(t)
	f.createElsewhere("far")
	for v := int16(3); v <= 13; v++ {
		r := ask[*kmsg.ProduceResponse](f, produceRequest(v, "far", 0, -1, batchOf(t, record.Options{}, "a")))
		p := r.Topics[0].Partitions[0]
		if kafka.Code(p.ErrorCode) != kafka.NotLeaderOrFollower {
			t.Fatalf("version %d: %+v", v, p)
		}
		hinted := p.CurrentLeader.LeaderID == 2 && p.CurrentLeader.LeaderEpoch == 5 && len(r.Brokers) == 1 &&
			r.Brokers[0].NodeID == 2 && r.Brokers[0].Host == "host-2" && r.Brokers[0].Port == 9092
		if hinted != (v >= 10) {
			t.Fatalf("version %d: %+v %+v", v, p, r.Brokers)
		}
	}
}

func TestProduceByIDOfNoTopic(t *testing.T) {
	f := newFixture(t)
	id := f.create("pr", 1)
	r := ask[*kmsg.ProduceResponse](f, produceRequest(13, "ghost", 0, -1, batchOf(t, record.Options{}, "a"))).Topics[0]
	if kafka.Code(r.Partitions[0].ErrorCode) != kafka.UnknownTopicID || r.TopicID != topicID("ghost") {
		t.Fatalf("%+v", r)
	}
	r = ask[*kmsg.ProduceResponse](f, produceRequest(13, "pr", 9, -1, batchOf(t, record.Options{}, "a"))).Topics[0]
	if kafka.Code(r.Partitions[0].ErrorCode) != kafka.UnknownTopicOrPartition || r.TopicID != id {
		t.Fatalf("%+v", r)
	}
}

func TestProduceNamesTwice(t *testing.T) {
	f := newFixture(t)
	f.poison = true
	f.create("pr", 2)
	req := produceRequest(9, "pr", 0, -1, batchOf(t, record.Options{}, "dropped"))
	again := produceRequest(9, "pr", 0, -1, batchOf(t, record.Options{}, "kept"))
	other := produceRequest(9, "pr", 1, -1, batchOf(t, record.Options{}, "other"))
	none := produceRequest(9, "none", 1, -1, batchOf(t, record.Options{}, "none"))
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, again.Topics[0].Partitions...)
	req.Topics = append(req.Topics, other.Topics[0], none.Topics[0])
	r := ask[*kmsg.ProduceResponse](f, req)
	if len(r.Topics) != 2 || len(r.Topics[0].Partitions) != 2 || r.Topics[0].Topic != "pr" || r.Topics[1].Topic != "none" {
		t.Fatalf("%+v", r.Topics)
	}
	got := valuesIn(t, ask[*kmsg.FetchResponse](f, fetchRequest(12, "pr", 0, 0)).Topics[0].Partitions[0].RecordBatches)
	if !slices.Equal(got, []string{"kept"}) {
		t.Fatalf("stored %q", got)
	}
	empty := kmsg.NewPtrProduceRequest()
	empty.Version, empty.Acks = 9, -1
	if r := ask[*kmsg.ProduceResponse](f, empty); len(r.Topics) != 0 {
		t.Fatalf("%+v", r)
	}
}

func TestProduceRewritesBatches(t *testing.T) {
	f := newFixture(t)
	f.create("stamped", 1, "message.timestamp.type", "LogAppendTime")
	f.create("zipped", 1, "compression.type", "gzip")
	f.advance(time.Hour)
	if p := f.one("stamped", 0, batchOf(t, record.Options{}, "a")); p.LogAppendTime != f.clock().UnixMilli() {
		t.Fatalf("%+v", p)
	}
	f.one("zipped", 0, batchOf(t, record.Options{}, "a", "b"))
	for topic, attributes := range map[string]uint16{"stamped": 8, "zipped": 1} {
		b := ask[*kmsg.FetchResponse](f, fetchRequest(12, topic, 0, 0)).Topics[0].Partitions[0].RecordBatches
		if got := binary.BigEndian.Uint16(b[21:]); got != attributes {
			t.Fatalf("%s: attributes %#x", topic, got)
		}
		valuesIn(t, b)
	}
}

func TestProduceToOfflinePartition(t *testing.T) {
	f := newFixture(t)
	f.create("pr", 1)
	f.hold()
	req := produceRequest(9, "pr", 0, -1, batchOf(t, record.Options{}, "a"))
	_, waiting := f.start(req)
	f.DirFailed(f.dir, kafka.KafkaStorageError)
	if r := f.reply(waiting); r.Code != kafka.KafkaStorageError {
		t.Fatalf("who waits for a failed disk hears %v", r.Code)
	}
	if p := f.one("pr", 0, batchOf(t, record.Options{}, "b")); kafka.Code(p.ErrorCode) != kafka.KafkaStorageError {
		t.Fatalf("%+v", p)
	}
	for v := int16(4); v <= 18; v++ {
		p := ask[*kmsg.FetchResponse](f, fetchRequest(v, "pr", 0, 0)).Topics[0].Partitions[0]
		want := kafka.KafkaStorageError
		if v <= 5 {
			want = kafka.NotLeaderOrFollower
		}
		if kafka.Code(p.ErrorCode) != want {
			t.Fatalf("version %d: %v", v, kafka.Code(p.ErrorCode))
		}
	}
}

func TestProduceAfterLeadershipMoves(t *testing.T) {
	f := newFixture(t)
	id := f.create("pr", 1)
	f.hold()
	req := produceRequest(10, "pr", 0, -1, batchOf(t, record.Options{}, "a"))
	_, waiting := f.start(req)
	leader := kafka.NodeID(2)
	f.apply(&metadata.PartitionChangeRecord{PartitionID: 0, TopicID: id, Leader: &leader, Replicas: []kafka.NodeID{1, 2},
		ISR: []kafka.NodeID{1, 2}})
	r := f.body(req, f.reply(waiting)).(*kmsg.ProduceResponse)
	p := r.Topics[0].Partitions[0]
	if kafka.Code(p.ErrorCode) != kafka.NotLeaderOrFollower || p.CurrentLeader.LeaderID != 2 || len(r.Brokers) != 1 {
		t.Fatalf("%+v", r)
	}
}

// FuzzProduce sends whatever bytes as records: the broker answers an error or stores a batch that readers
// accept.
func FuzzProduce(f *testing.F) {
	f.Add([]byte(batchOf(f, record.Options{}, "a", "b")), int16(9))
	f.Add([]byte(batchOf(f, record.Options{Codec: record.Zstd}, "a", "b")), int16(13))
	f.Add([]byte{}, int16(3))
	fix := newFixture(f)
	fix.create("fuzz", 1)
	f.Fuzz(func(t *testing.T, records []byte, version int16) {
		fix.t = t
		version = 3 + (version%11+11)%11
		p := ask[*kmsg.ProduceResponse](fix, produceRequest(version, "fuzz", 0, -1, records)).Topics[0].Partitions[0]
		if p.ErrorCode != 0 {
			return
		}
		got := ask[*kmsg.FetchResponse](fix, fetchRequest(12, "fuzz", 0, p.BaseOffset)).Topics[0].Partitions[0]
		valuesIn(t, got.RecordBatches)
	})
}
