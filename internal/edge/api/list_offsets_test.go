package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

func listRequest(version int16, topic string, partition int32, timestamp int64) *kmsg.ListOffsetsRequest {
	r := kmsg.NewPtrListOffsetsRequest()
	r.Version, r.ReplicaID = version, -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, timestamp, -1
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

func (f *fixture) listed(req *kmsg.ListOffsetsRequest) kmsg.ListOffsetsResponseTopicPartition {
	f.t.Helper()
	r := ask[*kmsg.ListOffsetsResponse](f, req)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 || r.Topics[0].Topic != req.Topics[0].Topic {
		f.t.Fatalf("%+v", r)
	}
	return r.Topics[0].Partitions[0]
}

func TestListOffsets(t *testing.T) {
	f := newFixture(t)
	f.create("lo", 2)
	base := t0.UnixMilli() - 100_000
	for _, off := range []int64{0, 10, 20, 20, 5} {
		b := record.NewBuilder(record.Options{})
		b.Append(base+off*1000, nil, []byte("a"), nil)
		b.Append(base+off*1000+1000, nil, []byte("b"), nil)
		out, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if p := f.one("lo", 0, out); p.ErrorCode != 0 {
			t.Fatal(kafka.Code(p.ErrorCode))
		}
	}
	const since = kafka.UnsupportedVersion
	for v := int16(1); v <= 11; v++ {
		for _, c := range []struct {
			timestamp int64
			since     int16
			offset    int64
			at        int64
		}{
			{-1, 1, 10, -1}, {-2, 1, 0, -1}, {-3, 7, 5, base + 21000}, {-4, 8, 0, -1}, {-5, 9, -1, -1}, {-6, 11, -1, -1},
			{-9, 99, -1, -1}, {0, 1, 0, base}, {base, 1, 0, base}, {base + 500, 1, 1, base + 1000},
			{base + 1001, 1, 2, base + 10000}, {base + 11000, 1, 3, base + 11000}, {base + 20500, 1, 5, base + 21000},
			{base + 21001, 1, -1, -1}, {base + 1e9, 1, -1, -1},
		} {
			p := f.listed(listRequest(v, "lo", 0, c.timestamp))
			code, offset, at, epoch := kafka.Code(0), c.offset, c.at, int32(0)
			if v < c.since {
				code, offset, at = since, -1, -1
			}
			if offset < 0 || v < 4 {
				epoch = -1
			}
			if kafka.Code(p.ErrorCode) != code || p.Offset != offset || p.Timestamp != at || p.LeaderEpoch != epoch {
				t.Errorf("version %d, timestamp %d: %+v", v, c.timestamp, p)
			}
			if code == since {
				if p := f.listed(listRequest(v, "none", 0, c.timestamp)); kafka.Code(p.ErrorCode) != since || p.Offset != -1 {
					t.Errorf("version %d, timestamp %d, no topic: %+v", v, c.timestamp, p)
				}
			}
		}
		if p := f.listed(listRequest(v, "lo", 1, -1)); p.Offset != 0 || p.ErrorCode != 0 {
			t.Errorf("version %d, empty: %+v", v, p)
		}
		for _, req := range []*kmsg.ListOffsetsRequest{listRequest(v, "lo", 7, -1), listRequest(v, "none", 0, -1)} {
			if p := f.listed(req); kafka.Code(p.ErrorCode) != kafka.UnknownTopicOrPartition || p.Offset != -1 {
				t.Errorf("version %d, %s: %+v", v, req.Topics[0].Topic, p)
			}
		}
	}
}

func TestListOffsetsOptions(t *testing.T) {
	f := newFixture(t)
	f.create("lo", 1)
	f.createElsewhere("far")
	f.produce("lo", 0, "a")
	req := listRequest(5, "lo", 0, -1)
	req.Topics[0].Partitions[0].CurrentLeaderEpoch = 7
	if p := f.listed(req); kafka.Code(p.ErrorCode) != kafka.UnknownLeaderEpoch {
		t.Errorf("newer epoch: %+v", p)
	}
	req = listRequest(5, "lo", 0, -1)
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, req.Topics[0].Partitions[0])
	if p := f.listed(req); kafka.Code(p.ErrorCode) != kafka.InvalidRequest || p.Offset != -1 {
		t.Errorf("twice: %+v", p)
	}
	req = listRequest(5, "lo", 0, -1)
	req.IsolationLevel = 1
	if p := f.listed(req); p.Offset != 1 {
		t.Errorf("read committed: %+v", p)
	}
	if p := f.listed(listRequest(5, "far", 0, -1)); kafka.Code(p.ErrorCode) != kafka.NotLeaderOrFollower {
		t.Errorf("elsewhere: %+v", p)
	}
}

func TestListOffsetsSeesOnlyWhatIsDurable(t *testing.T) {
	f := newFixture(t)
	f.hold()
	f.create("lo", 1)
	f.start(produceRequest(9, "lo", 0, -1, batchOf(t, record.Options{}, "a")))
	if p := f.listed(listRequest(9, "lo", 0, -1)); p.Offset != 0 {
		t.Errorf("a consumer is told of what is not durable: %+v", p)
	}
	req := listRequest(9, "lo", 0, -1)
	req.ReplicaID = 1
	if p := f.listed(req); p.Offset != 1 {
		t.Errorf("a replica is told less than the log end: %+v", p)
	}
}

func TestOffsetForLeaderEpoch(t *testing.T) {
	f := newFixture(t)
	f.create("lo", 1)
	for range 5 {
		f.produce("lo", 0, "a", "b")
	}
	for v := int16(2); v <= 4; v++ {
		for _, c := range []struct {
			topic          string
			current, epoch int32
			code           kafka.Code
			answer         int32
			end            int64
		}{
			{"lo", -1, -1, 0, -1, -1}, {"lo", -1, 0, 0, 0, 10}, {"lo", -1, 1, 0, -1, -1}, {"lo", -1, 9, 0, -1, -1},
			{"lo", 0, 0, 0, 0, 10}, {"lo", 4, 0, kafka.UnknownLeaderEpoch, -1, -1},
			{"none", -1, 0, kafka.UnknownTopicOrPartition, -1, -1},
		} {
			req := kmsg.NewPtrOffsetForLeaderEpochRequest()
			req.Version, req.ReplicaID = v, -2
			x := kmsg.NewOffsetForLeaderEpochRequestTopic()
			x.Topic = c.topic
			p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			p.LeaderEpoch, p.CurrentLeaderEpoch = c.epoch, c.current
			x.Partitions = append(x.Partitions, p)
			req.Topics = append(req.Topics, x)
			got := ask[*kmsg.OffsetForLeaderEpochResponse](f, req).Topics[0].Partitions[0]
			if kafka.Code(got.ErrorCode) != c.code || got.LeaderEpoch != c.answer || got.EndOffset != c.end {
				t.Errorf("version %d, %s, current %d, epoch %d: %+v", v, c.topic, c.current, c.epoch, got)
			}
		}
	}
}
