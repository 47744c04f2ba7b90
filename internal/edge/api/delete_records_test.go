package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

func TestDeleteRecords(t *testing.T) {
	f := newFixture(t)
	f.create("lo", 1)
	f.create("compacted", 1, "cleanup.policy", "compact")
	f.create("__consumer_offsets", 1)
	f.createElsewhere("far")
	for range 5 {
		f.produce("lo", 0, "a", "b")
	}
	for _, c := range []struct {
		what   string
		topic  string
		index  int32
		offset int64
		code   kafka.Code
		low    int64
	}{
		{"to 3", "lo", 0, 3, 0, 3},
		{"below the start", "lo", 0, 1, 0, 3},
		{"beyond the end", "lo", 0, 99, kafka.OffsetOutOfRange, -1},
		{"negative", "lo", 0, -2, kafka.OffsetOutOfRange, -1},
		{"no such partition", "lo", 9, 1, kafka.UnknownTopicOrPartition, -1},
		{"no such topic", "none", 0, 1, kafka.UnknownTopicOrPartition, -1},
		{"elsewhere", "far", 0, 1, kafka.NotLeaderOrFollower, -1},
		{"compacted", "compacted", 0, 0, kafka.PolicyViolation, -1},
		{"internal", "__consumer_offsets", 0, 0, kafka.InvalidTopicException, -1},
		{"to the end", "lo", 0, -1, 0, 10},
	} {
		for v := int16(0); v <= 2; v++ {
			req := kmsg.NewPtrDeleteRecordsRequest()
			req.Version = v
			x := kmsg.NewDeleteRecordsRequestTopic()
			x.Topic = c.topic
			p := kmsg.NewDeleteRecordsRequestTopicPartition()
			p.Partition, p.Offset = c.index, c.offset
			x.Partitions = append(x.Partitions, p)
			req.Topics = append(req.Topics, x)
			got := ask[*kmsg.DeleteRecordsResponse](f, req).Topics[0].Partitions[0]
			if kafka.Code(got.ErrorCode) != c.code || got.LowWatermark != c.low || got.Partition != c.index {
				t.Errorf("%s, version %d: %v %+v", c.what, v, kafka.Code(got.ErrorCode), got)
			}
		}
	}
	if p := f.listed(listRequest(5, "lo", 0, -2)); p.Offset != 10 {
		t.Errorf("the log starts at %d", p.Offset)
	}
	if p := f.fetched(fetchRequest(12, "lo", 0, 1)); kafka.Code(p.ErrorCode) != kafka.OffsetOutOfRange {
		t.Errorf("what was deleted: %+v", p)
	}
}

// TestDeleteRecordsWakesReaders: a session is told of a new log start, and a reader below it of its error.
func TestDeleteRecordsWakesReaders(t *testing.T) {
	f := newFixture(t)
	f.create("lo", 1)
	f.produce("lo", 0, "a", "b")
	r := newReader(f, 12)
	r.fetch(fetchTopic("lo", fetchPartition(0, 2)))
	part, err := f.Partitions.Get(kafka.TopicPartition{Topic: "lo"})
	if err != nil {
		t.Fatal(err)
	}
	_, e, err := part.DeleteRecords(t0, 1)
	if err != nil {
		t.Fatal(err)
	}
	e.Run(f)
	resp := r.fetch()
	if wantTold(t, resp, "lo0:[]"); resp.Topics[0].Partitions[0].LogStartOffset != 1 {
		t.Fatalf("%+v", resp)
	}
	wantTold(t, r.fetch())
}
