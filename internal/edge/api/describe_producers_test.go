package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

func TestDescribeProducers(t *testing.T) {
	f := newFixture(t)
	f.create("id", 2)
	f.createElsewhere("far")
	p := f.one("id", 0, batchOf(t, record.Options{Producer: &record.Producer{ID: 7, Epoch: 9, Sequence: 3}}, "a", "b"))
	if p.ErrorCode != 0 {
		t.Fatal(kafka.Code(p.ErrorCode))
	}
	req := kmsg.NewPtrDescribeProducersRequest()
	req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "id", Partitions: []int32{0, 1, 7}},
		{Topic: "far", Partitions: []int32{0}}, {Topic: "none", Partitions: []int32{0}},
		{Topic: "bad/name", Partitions: []int32{0}}}
	r := ask[*kmsg.DescribeProducersResponse](f, req)
	ps := r.Topics[0].Partitions
	if len(ps[0].ActiveProducers) != 1 || len(ps[1].ActiveProducers) != 0 || ps[1].ErrorCode != 0 {
		t.Fatalf("%+v", ps)
	}
	if a := ps[0].ActiveProducers[0]; a.ProducerID != 7 || a.ProducerEpoch != 9 || a.LastSequence != 4 || a.CoordinatorEpoch != -1 ||
		a.CurrentTxnStartOffset != -1 || a.LastTimestamp != t0.UnixMilli()+1 {
		t.Fatalf("%+v", a)
	}
	for i, want := range map[*kmsg.DescribeProducersResponseTopicPartition]kafka.Code{
		&ps[2]: kafka.UnknownTopicOrPartition, &r.Topics[1].Partitions[0]: kafka.NotLeaderOrFollower,
		&r.Topics[2].Partitions[0]: kafka.UnknownTopicOrPartition,
		&r.Topics[3].Partitions[0]: kafka.InvalidTopicException} {
		if kafka.Code(i.ErrorCode) != want {
			t.Errorf("partition %d: %v, want %v", i.Partition, kafka.Code(i.ErrorCode), want)
		}
	}
}
