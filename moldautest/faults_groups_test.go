package moldautest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/moldautest"
)

// committed asks until the coordinator has loaded.
func committed(ctx context.Context, t *testing.T, admin *kadm.Client, group, topic string, partition int32) int64 {
	t.Helper()
	for {
		got, err := admin.FetchOffsets(ctx, group)
		if err == nil {
			if o, ok := got.Lookup(topic, partition); ok {
				return o.At
			}
			return -1
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func commitTo(ctx context.Context, t *testing.T, admin *kadm.Client, group, topic string, partition int32, at int64) {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, partition, at, -1)
	for {
		err := admin.CommitAllOffsets(ctx, group, offsets)
		if err == nil {
			return
		}
		if !kerr.IsRetriable(err) || ctx.Err() != nil {
			t.Fatalf("%s: %v", group, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestCompactedOffsetsSurvive is scenario 18 for the topic that holds offsets: while its cleaner never rests, the node is
// killed and loses power again and again; the newest offset of each group is always there.
func TestCompactedOffsetsSurvive(t *testing.T) {
	n := moldautest.Start(t, moldautest.Seed(3), moldautest.Config("offsets.topic.num.partitions", "1"),
		moldautest.Config("log.cleaner.backoff.ms", "1"),
		moldautest.Config("log.cleaner.min.cleanable.ratio", "0.01"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := kadm.NewClient(n.Client(t)).CreateTopic(ctx, 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	const groups = 10
	first := kadm.NewClient(n.Client(t))
	commitTo(ctx, t, first, "first", "t", 0, 1) // makes the topic
	short := "5"
	altered, err := first.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "segment.ms", Value: &short}}, "__consumer_offsets")
	if err != nil || altered[0].Err != nil {
		t.Fatal(err, altered)
	}
	want := map[string]int64{}
	for round := range 12 {
		client := n.Client(t)
		admin := kadm.NewClient(client)
		for g := range groups {
			name := fmt.Sprint("g", g)
			if at, ok := want[name]; ok {
				if got := committed(ctx, t, admin, name, "t", 0); got != at {
					t.Fatalf("round %d: %s is at %d instead of %d", round, name, got, at)
				}
			}
		}
		for i := range 200 {
			name := fmt.Sprint("g", i%groups)
			want[name] = int64(1000*round + i)
			commitTo(ctx, t, admin, name, "t", 0, want[name])
		}
		client.Close()
		switch round % 3 {
		case 0:
			n.Kill()
		case 1:
			n.PowerCut()
		case 2:
			n.Stop(t)
		}
		n.Restart(t)
	}
	ends, err := kadm.NewClient(n.Client(t)).ListEndOffsets(ctx, "__consumer_offsets")
	if err := errors.Join(err, ends.Error()); err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup("__consumer_offsets", 0)
	left := 0
	for c := n.Client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"__consumer_offsets": {0: kgo.NewOffset().AtStart()}})); ; {
		f := c.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatal(err)
		}
		left += f.NumRecords()
		if rs := f.Records(); len(rs) > 0 && rs[len(rs)-1].Offset >= end.Offset-1 {
			break
		}
	}
	t.Logf("%d of %d records are left", left, end.Offset)
	if int64(left) > end.Offset/2 {
		t.Error("nothing was compacted, so the test shows nothing")
	}
}

// TestCommittedOffsetOutsideTheLog is scenario 29: records are deleted from under a committed offset, and one is committed
// beyond the end. The broker says so, and touches neither; the client's policy decides.
func TestCommittedOffsetOutsideTheLog(t *testing.T) {
	n := moldautest.Start(t, moldautest.Config("group.initial.rebalance.delay.ms", "0"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	client := n.Client(t)
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	commitTo(ctx, t, admin, "below", "t", 0, 2)
	commitTo(ctx, t, admin, "above", "t", 0, 100)
	cut := kadm.Offsets{}
	cut.AddOffset("t", 0, 5, -1)
	if _, err := admin.DeleteRecords(ctx, cut); err != nil {
		t.Fatal(err)
	}
	for group, at := range map[string]int64{"below": 2, "above": 100} {
		strict := n.Client(t, kgo.ConsumerGroup(group), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
		fetches := strict.PollFetches(ctx)
		if !errors.Is(fetches.Err(), kerr.OffsetOutOfRange) {
			t.Errorf("%s: %v, %d records, instead of OFFSET_OUT_OF_RANGE", group, fetches.Err(), fetches.NumRecords())
		}
		strict.Close()
		if got := committed(ctx, t, admin, group, "t", 0); got != at {
			t.Errorf("%s is at %d instead of %d", group, got, at)
		}
		lenient := n.Client(t, kgo.ConsumerGroup(group), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		fetches = lenient.PollFetches(ctx)
		if rs := fetches.Records(); fetches.Err() != nil || len(rs) == 0 || rs[0].Offset != 5 {
			t.Errorf("%s, reset to the start: %v, %d records", group, fetches.Err(), len(rs))
		}
		lenient.Close()
	}
}

// TestTopicMadeAnew is scenario 32: a topic is deleted and made again under its name while groups of each protocol read it.
// Nobody inherits what was committed to the old one, and every record of the new one is read.
func TestTopicMadeAnew(t *testing.T) {
	for name, options := range groupProtocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCircle(t, "g", options, "t")
			c.create("t", 2)
			c.begin("t")
			m := c.join("")
			c.await("the first topic", parts("t", 2))
			c.goesOn("a while")
			c.stop()
			c.running.Add(0)
			c.leave(m)
			c.running.Wait()
			admin := c.admin()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if committed(ctx, t, admin, "g", "t", 0) < 1 {
				t.Error("nothing was committed, so the test shows nothing")
			}
			if _, err := admin.DeleteTopic(ctx, "t"); err != nil {
				t.Fatal(err)
			}
			c.mu.Lock()
			clear(c.sent)
			clear(c.handled)
			clear(c.prefix)
			clear(c.committed)
			clear(c.owners)
			c.mu.Unlock()
			c.create("t", 2)
			if got := committed(ctx, t, admin, "g", "t", 0); got != -1 {
				t.Errorf("the new topic inherits the offset %d", got)
			}
			c.node.Kill() // and does not after a load either
			c.node.Restart(t)
			again := c.admin()
			if got := committed(ctx, t, again, "g", "t", 0); got != -1 {
				t.Errorf("the new topic inherits the offset %d after a load", got)
			}
			c.begin("t")
			c.join("")
			c.await("the second topic", parts("t", 2))
			c.finish()
		})
	}
}

// TestTenThousandGroups is scenario 30: a coordinator that has just begun answers nothing until it has read all, and then the
// newest of everything.
func TestTenThousandGroups(t *testing.T) {
	n := moldautest.Start(t, moldautest.Config("offsets.topic.num.partitions", "10"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	admin := kadm.NewClient(n.Client(t))
	topic, err := admin.CreateTopic(ctx, 4, 1, nil, "t")
	if err != nil {
		t.Fatal(err)
	}
	const groups, workers = 10_000, 32
	each := func(f func(client *kgo.Client, i int)) {
		t.Helper()
		done := make(chan struct{})
		client := n.Client(t)
		for w := range workers {
			go func() {
				for i := w; i < groups; i += workers {
					f(client, i)
				}
				done <- struct{}{}
			}()
		}
		for range workers {
			<-done
		}
		client.Close()
	}
	commitTo(ctx, t, admin, "first", "t", 0, 1) // makes the topic
	for round := range 2 {
		each(func(client *kgo.Client, i int) {
			r := kmsg.NewPtrOffsetCommitRequest()
			r.Group, r.Generation = fmt.Sprint("group-", i), -1
			r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", TopicID: topic.ID, Partitions: []kmsg.OffsetCommitRequestTopicPartition{
				{Partition: int32(i % 4), Offset: int64(i + round*groups), LeaderEpoch: -1}}}}
			resp, err := r.RequestWith(ctx, client)
			if err == nil {
				err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
			}
			if err != nil {
				t.Errorf("group %d: %v", i, err)
			}
		})
	}
	n.Kill()
	began := time.Now()
	n.Restart(t)
	admin = kadm.NewClient(n.Client(t))
	listed, err := admin.ListGroups(ctx)
	for err != nil && ctx.Err() == nil {
		listed, err = admin.ListGroups(ctx)
	}
	t.Logf("%d groups %v after the restart began", len(listed), time.Since(began).Round(time.Millisecond))
	if len(listed) != groups+1 {
		t.Errorf("%d groups instead of %d", len(listed), groups+1)
	}
	each(func(client *kgo.Client, i int) {
		name := fmt.Sprint("group-", i)
		if got := committed(ctx, t, kadm.NewClient(client), name, "t", int32(i%4)); got != int64(i+groups) {
			t.Errorf("%s is at %d instead of %d", name, got, i+groups)
		}
	})
}
