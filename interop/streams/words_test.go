package streams

import (
	"context"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/interop/committed"
	"moldau/interop/process"
)

//go:embed WordCount.java
var wordCount []byte

const (
	words   = 97
	perLine = 3
)

// TestWordCount: the counts that readers of committed records see go 1, 2, 3 and so on for each word, to what the lines
// hold, however often the program and its state are interrupted.
func TestWordCount(t *testing.T) {
	lines, rnd, n, ctx := setup(t)
	text, want := someLines(rnd, lines)
	cl := producer(ctx, t, n, "lines", "counts")
	counts := map[string]int{}
	o := committed.Watch(t, n.Addr, countsUp(counts), "counts")
	written := make(chan error, 1)
	go func() { written <- write(ctx, cl, text) }()
	newApp(t, n, "WordCount.java", wordCount).keepRunning(ctx, rnd, o, lines*perLine)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	o.Finish(ctx, t)
	sameCounts(t, counts, want)
	n.Stop(t)
}

// someLines makes lines of random words, and counts them.
func someLines(rnd *rand.Rand, lines int) (text []*kgo.Record, want map[string]int) {
	want = map[string]int{}
	for range lines {
		var line []string
		for range perLine {
			w := fmt.Sprint("w", rnd.IntN(words))
			want[w]++
			line = append(line, w)
		}
		text = append(text, &kgo.Record{Topic: "lines", Value: []byte(strings.Join(line, " "))})
	}
	return text, want
}

// countsUp takes a change of a word's count, which is by one.
func countsUp(counts map[string]int) func(*kgo.Record) error {
	return func(r *kgo.Record) error {
		word := string(r.Key)
		k, err := strconv.Atoi(string(r.Value))
		if err == nil && k != counts[word]+1 {
			err = fmt.Errorf("%s is counted %d after %d", word, k, counts[word])
		}
		counts[word] = k
		return err
	}
}

func sameCounts(t *testing.T, got, want map[string]int) {
	t.Helper()
	for w, k := range want {
		if got[w] != k {
			t.Errorf("%s is counted %d times, want %d", w, got[w], k)
		}
	}
}

// producer creates topics of three partitions and returns a client to write with.
func producer(ctx context.Context, t *testing.T, n *process.Node, topics ...string) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	made, err := kadm.NewClient(cl).CreateTopics(ctx, 3, 1, nil, topics...)
	if err == nil {
		err = made.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// write writes over some ten seconds or more, so that the program is killed while there is work.
func write(ctx context.Context, cl *kgo.Client, records []*kgo.Record) error {
	for i, r := range records {
		cl.Produce(ctx, r, nil)
		if i%100 == 99 {
			time.Sleep(10 * time.Second * 100 / time.Duration(len(records)))
		}
	}
	return cl.Flush(ctx)
}
