package moldautest_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/moldautest"
)

// produce sends values to topic "orders", each acknowledged before the next.
func produce(t *testing.T, c *kgo.Client, values ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, v := range values {
		if err := c.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte(v)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// consume reads n values of topic "orders" from its start.
func consume(t *testing.T, n *moldautest.Node, count int) []string {
	t.Helper()
	c := n.Client(t, kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var out []string
	for len(out) < count {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d of %d records: %v", len(out), count, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { out = append(out, string(r.Value)) })
	}
	return out
}

func TestProduceConsume(t *testing.T) {
	n := moldautest.Start(t)
	produce(t, n.Client(t, kgo.AllowAutoTopicCreation()), "a", "b", "c")
	if got := consume(t, n, 3); len(got) != 3 || got[0] != "a" || got[2] != "c" {
		t.Fatalf("consumed %v", got)
	}
}

func TestAcknowledgedRecordsSurvive(t *testing.T) {
	for name, end := range map[string]func(*moldautest.Node){
		"stop":      func(n *moldautest.Node) { n.Stop(t) },
		"kill":      (*moldautest.Node).Kill,
		"power cut": (*moldautest.Node).PowerCut,
	} {
		t.Run(name, func(t *testing.T) {
			n := moldautest.Start(t)
			produce(t, n.Client(t, kgo.AllowAutoTopicCreation()), "a", "b", "c")
			end(n)
			n.Restart(t)
			produce(t, n.Client(t), "d")
			if got := consume(t, n, 4); len(got) != 4 || got[2] != "c" || got[3] != "d" {
				t.Fatalf("consumed %v", got)
			}
		})
	}
}
