package streams

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/interop/committed"
	"moldau/interop/kafka"
)

// TestReset: Kafka's reset tool refuses a running application, and takes back what one that was killed has done: its
// offsets and its internal topics. The program then counts all anew.
func TestReset(t *testing.T) {
	_, rnd, n, ctx := setup(t)
	const lines = 1000
	text, want := someLines(rnd, lines)
	cl := producer(ctx, t, n, "lines", "counts")
	if err := cl.ProduceSync(ctx, text...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	up := countsUp(counts)
	// Each word is counted from one twice.
	o := committed.Watch(t, n.Addr, func(r *kgo.Record) error {
		if word := string(r.Key); counts[word] == want[word] {
			counts[word] = 0
		}
		return up(r)
	}, "counts")
	a := newApp(t, n, "WordCount.java", wordCount)
	a.Start()
	if a.waitFor(ctx, o, lines*perLine, time.Now().Add(time.Hour)); len(internalTopics(ctx, t, cl)) != 2 {
		t.Fatalf("internal topics %q, want a changelog and a repartition topic", internalTopics(ctx, t, cl))
	}
	reset := []string{"--bootstrap-server", n.Addr, "--application-id", "word-count", "--input-topics", "lines"}
	if r := kafka.Run(t, "", "streams-application-reset", reset...); r.Code == 0 || !strings.Contains(r.Stderr, "still active") {
		t.Errorf("a running application is reset: %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	a.End(syscall.SIGKILL) // its member is in the group still: --force takes it out
	kafka.Tool(t, "streams-application-reset", append(reset, "--force", "--dry-run")...)
	if have := internalTopics(ctx, t, cl); len(have) != 2 {
		t.Fatalf("a dry run leaves of the internal topics %q", have)
	}
	kafka.Tool(t, "streams-application-reset", append(reset, "--force")...)
	if have := internalTopics(ctx, t, cl); len(have) > 0 {
		t.Errorf("internal topics %q are left", have)
	}
	offsets, err := kadm.NewClient(cl).FetchOffsets(ctx, "word-count")
	if err != nil {
		t.Fatal(err)
	}
	for partition := range int32(3) {
		if got, ok := offsets.Lookup("lines", partition); !ok || got.At != 0 {
			t.Errorf("the offset of lines-%d is %+v, want 0", partition, got.At)
		}
	}
	again := newApp(t, n, "WordCount.java", wordCount) // with local state of its own: that of the first is to be cleaned
	again.Start()
	again.waitFor(ctx, o, 2*lines*perLine, time.Now().Add(time.Hour))
	again.End(syscall.SIGTERM)
	o.Finish(ctx, t)
	sameCounts(t, counts, want)
	n.Stop(t)
}

// internalTopics of the application.
func internalTopics(ctx context.Context, t *testing.T, cl *kgo.Client) []string {
	t.Helper()
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl) // the client's own list may be seconds old
	if err != nil {
		t.Fatal(err)
	}
	var internal []string
	for _, topic := range resp.Topics {
		if name := *topic.Topic; strings.HasPrefix(name, "word-count-") {
			internal = append(internal, name)
		}
	}
	return internal
}
