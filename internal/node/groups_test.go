package node

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
	"moldau/internal/promise"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
	"moldau/internal/telemetry"
)

// appendAt writes a batch of records whose times follow each other by a second.
func appendAt(t *testing.T, n *Node, topic string, at time.Time, values ...string) {
	t.Helper()
	p, err := n.manager.Get(kafka.TopicPartition{Topic: topic})
	if err != nil {
		t.Fatal(err)
	}
	b := record.NewBuilder(record.Options{})
	for i, v := range values {
		b.Append(at.Add(time.Duration(i)*time.Second).UnixMilli(), nil, []byte(v), nil)
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	done := &promise.Promise[error]{}
	w := &replica.AppendWaiter{Done: func(w *replica.AppendWaiter) { done.Set(w.Result.Err) }}
	e, err := p.Append(n.o.Now(), replica.AppendRequest{Batch: batch, Acks: replica.AcksAll, LeaderEpoch: kafka.NoEpoch}, w)
	if err != nil {
		t.Fatal(err)
	}
	e.Run(n)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err, waited := done.Wait(ctx); err != nil || waited != nil {
		t.Fatal(err, waited)
	}
}

func TestGroupLag(t *testing.T) {
	n := start(t, vfs.NewMem(vfs.MemOptions{}))
	defer n.Kill()
	createTopic(t, n, "orders")
	createOffsets(t, n, 3)
	now := n.o.Now()
	appendAt(t, n, "orders", now.Add(-100*time.Second), "a", "b", "c")
	appendAt(t, n, "orders", now.Add(-50*time.Second), "d", "e")
	for group, offset := range map[string]int64{"new": 0, "middle": 1, "second": 3, "through": 5} {
		if err := commit(t, n, group, "orders", offset); err != nil {
			t.Fatal(err)
		}
	}
	lags := func() map[string]telemetry.GroupLag {
		n.upkeep.lag.compute()
		out := map[string]telemetry.GroupLag{}
		for _, x := range *n.upkeep.lag.newest.Load() {
			x.Seconds = float64(int(x.Seconds) / 2 * 2) // the test itself takes time
			out[x.Group] = x
		}
		return out
	}
	of := func(group string, records int64, seconds float64) telemetry.GroupLag {
		return telemetry.GroupLag{Group: group, Topic: "orders", Partition: "0", Records: records, Seconds: seconds}
	}
	want := map[string]telemetry.GroupLag{"new": of("new", 5, 100), "middle": of("middle", 4, 98),
		"second": of("second", 2, 50), "through": of("through", 0, 0)}
	if diff := cmp.Diff(want, lags()); diff != "" {
		t.Error(diff)
	}
	n.upkeep.lag.max = 2 // those that lag most are kept
	delete(want, "second")
	delete(want, "through")
	if diff := cmp.Diff(want, lags()); diff != "" {
		t.Error(diff)
	}
}

// TestExplainGroup asks the admin listener's handler.
func TestExplainGroup(t *testing.T) {
	n := start(t, vfs.NewMem(vfs.MemOptions{}))
	defer n.Kill()
	explain := func(name string) (int, GroupExplanation, string) {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /groups/{name}", n.serveGroup)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", "/groups/"+name, nil))
		var e struct {
			GroupExplanation
			Error string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil {
			t.Fatal(err, w.Body.String())
		}
		return w.Code, e.GroupExplanation, e.Error
	}
	if code, _, why := explain("g"); code != http.StatusMisdirectedRequest || why == "" {
		t.Errorf("without a topic: %d %q", code, why)
	}
	createTopic(t, n, "orders")
	createOffsets(t, n, 3)
	if err := commit(t, n, "a/b ü", "orders", 0); err != nil {
		t.Fatal(err)
	}
	code, e, why := explain("a%2Fb%20%C3%BC")
	if code != http.StatusOK || e.Group != "a/b ü" || e.Type != "classic" || e.State != "Empty" || e.Members == nil || why != "" {
		t.Errorf("%d %+v %q", code, e, why)
	}
	if code, _, why := explain("other"); code != http.StatusNotFound || why == "" {
		t.Errorf("an unknown group: %d %q", code, why)
	}
}
