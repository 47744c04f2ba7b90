package api

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
)

// headCase makes random results and the response that kmsg should write for them.
type headCase struct {
	f     *fixture
	rnd   *rand.Rand
	op    *fetchOp
	reply *fetchReply
	want  *kmsg.FetchResponse
}

// FuzzFetchHead holds the hand-written response body against kmsg's, byte for byte, in all versions.
func FuzzFetchHead(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	fix := newFixture(f)
	fix.create("near", 1)
	fix.createElsewhere("far")
	for i := range 20 {
		fix.produce("near", 0, fmt.Sprintf("value %d", i))
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		fix.t = t
		rnd := rand.New(rand.NewPCG(seed, 1))
		for v := int16(4); v <= 18; v++ {
			c := &headCase{f: fix, rnd: rnd}
			c.make(t, v)
			r := c.op.encode(fix.image, c.reply)
			if got, want := wireOf(t, v, r), c.want.AppendTo(nil); string(got) != string(want) {
				at := 0
				for at < min(len(got), len(want)) && got[at] == want[at] {
					at++
				}
				t.Fatalf("seed %d version %d: %d bytes, want %d; they differ from byte %d", seed, v, len(got), len(want), at)
			}
			r.Release()
		}
	})
}

func (c *headCase) make(t *testing.T, version int16) {
	h := newFetchHandler(c.f.Broker)
	req := kmsg.NewPtrFetchRequest()
	req.Version = version
	req.IsolationLevel = int8(c.rnd.IntN(2))
	c.op = h.begin(c.f.call(req), req)
	c.op.set = newFetchSet(version >= 13, false)
	c.reply = h.replies.get()
	c.want = kmsg.NewPtrFetchResponse()
	c.want.Version = version
	if version >= 7 {
		c.op.sessionID = c.rnd.Int32()
		c.want.SessionID = c.op.sessionID
	}
	for range c.rnd.IntN(6) {
		topic := []string{"near", "far", "", "ghost", strings.Repeat("x", 249)}[c.rnd.IntN(5)]
		c.topic(topic, 1+c.rnd.IntN(4))
	}
}

// topic adds results of one topic, which join those before if the topic is the same.
func (c *headCase) topic(name string, partitions int) {
	topics := &c.want.Topics
	n := len(*topics)
	if n == 0 || (*topics)[n-1].Topic != name {
		*topics = append(*topics, kmsg.FetchResponseTopic{Topic: name, TopicID: topicID(name)})
		n++
	}
	for range partitions {
		r, want := c.partition(name)
		c.reply.results = append(c.reply.results, r)
		(*topics)[n-1].Partitions = append((*topics)[n-1].Partitions, want)
	}
}

func (c *headCase) partition(topic string) (fetchResult, kmsg.FetchResponseTopicPartition) {
	v := c.op.version
	want := kmsg.NewFetchResponseTopicPartition()
	want.RecordBatches = []byte{}
	r := fetchResult{entry: &fetchEntry{topic: topic, id: topicID(topic), partition: int32(c.rnd.IntN(3))}, preferred: kafka.NoNode,
		ReadResult: replica.ReadResult{HighWatermark: kafka.Offset(c.rnd.Int64()), LastStable: kafka.Offset(c.rnd.Int64()),
			LogStart: kafka.Offset(c.rnd.Int64()), DivergingEpoch: kafka.NoEpoch, DivergingEnd: kafka.NoOffset}}
	want.Partition, want.HighWatermark, want.LastStableOffset = r.entry.partition, int64(r.HighWatermark), int64(r.LastStable)
	want.LogStartOffset = int64(r.LogStart)
	switch c.rnd.IntN(6) {
	case 5:
		if v >= 11 {
			r.preferred = kafka.NodeID(c.rnd.IntN(9))
			want.PreferredReadReplica = int32(r.preferred)
		}
	case 0:
		r.code = []kafka.Code{kafka.NotLeaderOrFollower, kafka.FencedLeaderEpoch, kafka.KafkaStorageError,
			kafka.OffsetOutOfRange}[c.rnd.IntN(4)]
		r.unread = c.rnd.IntN(2) == 0
	case 1:
		r.DivergingEpoch, r.DivergingEnd = kafka.LeaderEpoch(c.rnd.IntN(9)), kafka.Offset(c.rnd.IntN(99))
		want.DivergingEpoch.Epoch, want.DivergingEpoch.EndOffset = int32(r.DivergingEpoch), int64(r.DivergingEnd)
	case 2, 3:
		c.records(&r, &want)
	}
	want.ErrorCode = int16(r.code)
	if r.code == kafka.KafkaStorageError && v <= 5 {
		want.ErrorCode = int16(kafka.NotLeaderOrFollower)
	}
	listed := c.op.readCommitted && r.code == 0 && r.DivergingEpoch == kafka.NoEpoch && r.preferred == kafka.NoNode
	if listed || r.unread {
		want.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
	}
	for range c.rnd.IntN(3) {
		if !listed {
			break
		}
		a := log.AbortedTxn{ProducerID: kafka.ProducerID(c.rnd.Int64()), First: kafka.Offset(c.rnd.Int64())}
		r.Aborted = append(r.Aborted, a)
		want.AbortedTransactions = append(want.AbortedTransactions, kmsg.FetchResponseTopicPartitionAbortedTransaction{
			ProducerID: int64(a.ProducerID), FirstOffset: int64(a.First)})
	}
	c.leader(&r, &want)
	return r, want
}

// records reads some of the stored batches.
func (c *headCase) records(r *fetchResult, want *kmsg.FetchResponseTopicPartition) {
	part, err := c.f.Partitions.Get(kafka.TopicPartition{Topic: "near"})
	if err != nil {
		c.f.t.Fatal(err)
	}
	read := part.Read(replica.ReadSpec{Replica: kafka.NoNode, Offset: kafka.Offset(c.rnd.IntN(20)),
		MaxBytes: 1 + c.rnd.IntN(3000), LeaderEpoch: kafka.NoEpoch, LastEpoch: kafka.NoEpoch})
	if read.Err != nil {
		c.f.t.Fatal(read.Err)
	}
	r.Extents = read.Extents
	if want.RecordBatches, err = r.Extents.ReadAll(); err != nil {
		c.f.t.Fatal(err)
	}
}

// leader adds the hint that clients get who came to the wrong broker.
func (c *headCase) leader(r *fetchResult, want *kmsg.FetchResponseTopicPartition) {
	if c.op.version < 16 || r.code != kafka.NotLeaderOrFollower && r.code != kafka.FencedLeaderEpoch || r.entry.partition != 0 {
		return
	}
	id, epoch := int32(0), int32(0)
	switch r.entry.topic {
	case "near":
		id, epoch = 1, 0
	case "far":
		id, epoch = 2, 5
	default:
		return
	}
	want.CurrentLeader.LeaderID, want.CurrentLeader.LeaderEpoch = id, epoch
	for _, b := range c.want.Brokers {
		if b.NodeID == id {
			return
		}
	}
	c.want.Brokers = append(c.want.Brokers, kmsg.FetchResponseBroker{NodeID: id, Host: fmt.Sprintf("host-%d", id), Port: 9092})
}
