package api

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// fetched gives the one partition of a fetch that must be answered at once.
func (f *fixture) fetched(req *kmsg.FetchRequest) kmsg.FetchResponseTopicPartition {
	f.t.Helper()
	r := ask[*kmsg.FetchResponse](f, req)
	if r.ErrorCode != 0 || len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		f.t.Fatalf("%+v", r)
	}
	return r.Topics[0].Partitions[0]
}

func TestFetchAnswersInEveryVersion(t *testing.T) {
	f := newFixture(t)
	f.poison = true
	id := f.create("fe", 2)
	for range 3 {
		f.produce("fe", 0, "a", "b", "c")
	}
	for v := int16(4); v <= 18; v++ {
		start := int64(0)
		if v < 5 {
			start = -1
		}
		for _, c := range []struct {
			what   string
			topic  string
			index  int32
			offset int64
			code   kafka.Code
			values int
			listed bool // an empty list of aborted transactions and not none
		}{
			{"from 0", "fe", 0, 0, 0, 9, false},
			{"middle of a batch", "fe", 0, 4, 0, 6, false},
			{"at the end", "fe", 0, 9, 0, 0, false},
			{"beyond the end", "fe", 0, 10, kafka.OffsetOutOfRange, 0, false},
			{"negative", "fe", 0, -1, kafka.OffsetOutOfRange, 0, false},
			{"unknown partition", "fe", 5, 0, kafka.UnknownTopicOrPartition, 0, true},
			{"unknown topic", "none", 0, 0, kafka.UnknownTopicOrPartition, 0, true},
		} {
			if c.topic == "none" && v >= 13 {
				c.code = kafka.UnknownTopicID
			}
			req := fetchRequest(v, c.topic, c.index, c.offset)
			req.MaxWaitMillis = 0
			p := f.fetched(req)
			known := int64(-1)
			if c.code == 0 {
				known = 9
			} else {
				start = -1
			}
			if kafka.Code(p.ErrorCode) != c.code || len(valuesIn(t, p.RecordBatches)) != c.values ||
				p.HighWatermark != known || p.LastStableOffset != known || p.LogStartOffset != start || (p.AbortedTransactions != nil) != c.listed ||
				p.RecordBatches == nil || p.Partition != c.index || p.PreferredReadReplica != -1 {
				t.Errorf("version %d, %s: %v %+v", v, c.what, kafka.Code(p.ErrorCode), p)
			}
			if c.code == 0 {
				continue
			}
			start = 0
			if v < 5 {
				start = -1
			}
		}
		r := ask[*kmsg.FetchResponse](f, fetchRequest(v, "fe", 0, 0))
		if v < 13 && r.Topics[0].Topic != "fe" || v >= 13 && r.Topics[0].TopicID != id {
			t.Errorf("version %d: %+v", v, r.Topics[0])
		}
	}
}

func TestFetchOptions(t *testing.T) {
	type request = kmsg.FetchRequest
	type asked = kmsg.FetchRequestTopicPartition
	f := newFixture(t)
	f.create("fe", 2)
	for range 3 {
		f.produce("fe", 0, "a", "b", "c")
	}
	size := len(f.fetched(fetchRequest(12, "fe", 0, 6)).RecordBatches)
	for _, c := range []struct {
		what   string
		change func(*request, *asked)
		code   kafka.Code
		bytes  int
		epoch  int32 // diverging
	}{
		{"partition max bytes 1", func(_ *request, p *asked) { p.PartitionMaxBytes = 1 }, 0, size, -1},
		{"partition max bytes 0", func(_ *request, p *asked) { p.PartitionMaxBytes = 0 }, 0, size, -1},
		{"partition max bytes negative", func(_ *request, p *asked) { p.PartitionMaxBytes = -5 }, 0, size, -1},
		{"max bytes 0", func(r *request, _ *asked) { r.MaxBytes = 0 }, 0, size, -1},
		{"max bytes negative", func(r *request, _ *asked) { r.MaxBytes = -1 }, 0, size, -1},
		{"cut", func(_ *request, p *asked) { p.PartitionMaxBytes = int32(size) + 9 }, 0, size + 9, -1},
		{"own epoch", func(_ *request, p *asked) { p.CurrentLeaderEpoch = 0 }, 0, 3 * size, -1},
		{"newer epoch", func(_ *request, p *asked) { p.CurrentLeaderEpoch = 5 },
			kafka.UnknownLeaderEpoch, 0, -1},
		{"unknown last epoch", func(_ *request, p *asked) {
			p.FetchOffset, p.LastFetchedEpoch = 3, 5
		},
			kafka.OffsetOutOfRange, 0, -1},
		{"known last epoch", func(_ *request, p *asked) {
			p.FetchOffset, p.LastFetchedEpoch = 3, 0
		},
			0, 2 * size, -1},
		{"last epoch ended before", func(_ *request, p *asked) {
			p.FetchOffset, p.LastFetchedEpoch = 30, 0
		},
			0, 0, 0},
		{"tool", func(r *request, _ *asked) { r.ReplicaID = -2 }, 0, 3 * size, -1},
		{"replica of nothing", func(r *request, _ *asked) { r.ReplicaID = 7 },
			kafka.NotLeaderOrFollower, 0, -1},
	} {
		req := fetchRequest(12, "fe", 0, 0)
		c.change(req, &req.Topics[0].Partitions[0])
		p := f.fetched(req)
		if kafka.Code(p.ErrorCode) != c.code || len(p.RecordBatches) != c.bytes || p.DivergingEpoch.Epoch != c.epoch {
			t.Errorf("%s: %v, %d bytes, %+v", c.what, kafka.Code(p.ErrorCode), len(p.RecordBatches), p)
		}
		if c.epoch == 0 && (p.DivergingEpoch.EndOffset != 9 || p.HighWatermark != 9) {
			t.Errorf("%s: %+v", c.what, p)
		}
	}
	// Who is only told where to cut is told of no transactions, not even that there are none.
	for _, lastEpoch := range []int32{-1, 0} {
		req := fetchRequest(12, "fe", 0, 0)
		req.IsolationLevel = 1
		req.Topics[0].Partitions[0].FetchOffset, req.Topics[0].Partitions[0].LastFetchedEpoch = 30*int64(lastEpoch+1), lastEpoch
		if p := f.fetched(req); p.ErrorCode != 0 || (p.AbortedTransactions == nil) != (lastEpoch == 0) {
			t.Errorf("last epoch %d: %+v", lastEpoch, p)
		}
	}
	state := fetchRequest(15, "fe", 0, 0)
	state.ReplicaState.ID, state.ReplicaState.Epoch = 7, 9
	if p := f.fetched(state); kafka.Code(p.ErrorCode) != kafka.NotLeaderOrFollower {
		t.Errorf("replica state: %+v", p)
	}
}

func TestFetchIsolation(t *testing.T) {
	f := newFixture(t)
	f.create("fe", 1)
	f.produce("fe", 0, "a")
	for v := int16(4); v <= 18; v++ {
		req := fetchRequest(v, "fe", 0, 0)
		req.IsolationLevel = 1
		if p := f.fetched(req); p.AbortedTransactions == nil || len(valuesIn(t, p.RecordBatches)) != 1 {
			t.Fatalf("read committed: %+v", p)
		}
		beyond := fetchRequest(v, "fe", 0, 10)
		beyond.IsolationLevel = 1
		if p := f.fetched(beyond); p.AbortedTransactions != nil || kafka.Code(p.ErrorCode) != kafka.OffsetOutOfRange {
			t.Fatalf("read committed, beyond the end: %+v", p)
		}
		req.IsolationLevel = 9
		r := ask[*kmsg.FetchResponse](f, req)
		if v >= 7 && kafka.Code(r.ErrorCode) != kafka.UnknownServerError {
			t.Fatalf("version %d: %+v", v, r)
		}
		if v < 13 && kafka.Code(r.Topics[0].Partitions[0].ErrorCode) != kafka.UnknownServerError {
			t.Fatalf("version %d: %+v", v, r)
		}
	}
}

// TestFetchLimits: the first partition with data ignores the limits, the others keep within what is left,
// and none is sent the beginning of a batch that does not fit.
func TestFetchLimits(t *testing.T) {
	f := newFixture(t)
	f.create("fe", 3)
	for p := range int32(3) {
		f.produce("fe", p, "first.")
		f.produce("fe", p, "second")
	}
	size := int32(len(f.fetched(fetchRequest(12, "fe", 0, 1)).RecordBatches))
	sizes := func(maxBytes, partitionMax int32) []int32 {
		req := fetchRequest(12, "fe", 0, 0)
		req.MaxBytes = maxBytes
		req.Topics[0].Partitions = nil
		for p := range int32(3) {
			x := fetchPartition(p, 0)
			x.PartitionMaxBytes = partitionMax
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, x)
		}
		var out []int32
		for _, p := range ask[*kmsg.FetchResponse](f, req).Topics[0].Partitions {
			out = append(out, int32(len(p.RecordBatches)))
		}
		return out
	}
	for _, c := range []struct {
		max, partitionMax int32
		want              []int32
	}{
		{1, 1 << 20, []int32{size, 0, 0}},
		{1 << 20, 1, []int32{size, 0, 0}},
		{1 << 20, size, []int32{size, size, size}},
		{size + 1, 1 << 20, []int32{size + 1, 0, 0}},
		{2*size + size - 1, 1 << 20, []int32{2 * size, 0, 0}},
		{2*size + size + 1, 1 << 20, []int32{2 * size, size + 1, 0}},
		{1 << 20, 1 << 20, []int32{2 * size, 2 * size, 2 * size}},
	} {
		if got := sizes(c.max, c.partitionMax); !slices.Equal(got, c.want) {
			t.Errorf("max bytes %d, of a partition %d: %v, want %v", c.max, c.partitionMax, got, c.want)
		}
	}
}

func TestFetchIsBoundedByTheBroker(t *testing.T) {
	f := newFixture(t, "fetch.max.bytes", "1024")
	f.create("fe", 1)
	for range 40 {
		f.produce("fe", 0, string(make([]byte, 100)))
	}
	if n := len(f.fetched(fetchRequest(12, "fe", 0, 0)).RecordBatches); n != 1024 {
		t.Fatalf("%d bytes", n)
	}
	req := fetchRequest(12, "fe", 0, 0)
	req.MinBytes = 1 << 20 // cannot be had, so the broker's limit is what is waited for
	if n := len(f.fetched(req).RecordBatches); n != 1024 {
		t.Fatalf("%d bytes", n)
	}
}

func TestFetchTakesThePartitionsLastWord(t *testing.T) {
	f := newFixture(t)
	f.create("fe", 1)
	f.produce("fe", 0, "a")
	f.produce("fe", 0, "b")
	req := fetchRequest(12, "fe", 0, 0)
	req.Topics = append(req.Topics, fetchTopic("fe", fetchPartition(0, 1)))
	if got := valuesIn(t, f.fetched(req).RecordBatches); !slices.Equal(got, []string{"b"}) {
		t.Fatal(got)
	}
}

func TestFetchFromTheWrongBroker(t *testing.T) {
	f := newFixture(t)
	f.createElsewhere("far")
	for v := int16(4); v <= 18; v++ {
		r := ask[*kmsg.FetchResponse](f, fetchRequest(v, "far", 0, 0))
		p := r.Topics[0].Partitions[0]
		hinted := p.CurrentLeader.LeaderID == 2 && p.CurrentLeader.LeaderEpoch == 5 && len(r.Brokers) == 1
		if kafka.Code(p.ErrorCode) != kafka.NotLeaderOrFollower || hinted != (v >= 16) {
			t.Fatalf("version %d: %+v %+v", v, p, r.Brokers)
		}
	}
}

func TestFetchFromFollowersReplica(t *testing.T) {
	f := newFixture(t)
	f.hold()
	f.create("fe", 1)
	_, p := f.start(produceRequest(9, "fe", 0, 0, batchOf(t, record.Options{}, "not durable yet")))
	f.reply(p)
	consumer := fetchRequest(12, "fe", 0, 0)
	consumer.MaxWaitMillis = 0
	if n := len(f.fetched(consumer).RecordBatches); n != 0 {
		t.Fatal("a consumer saw what a power cut could take")
	}
	replica := fetchRequest(12, "fe", 0, 0)
	replica.ReplicaID = 1
	if n := len(valuesIn(t, f.fetched(replica).RecordBatches)); n != 1 {
		t.Fatal("replicas are served up to the log end")
	}
}
