// Package streams runs a Kafka Streams application that counts exactly once (exactly_once_v2) and is killed again and again.
//
// Environment: STREAMS_LINES is how many lines are counted (a long run takes 1,000,000), STREAMS_SEED repeats a run.
package streams

import (
	"context"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/interop/broker"
	"moldau/interop/kafka"
	"moldau/interop/process"
)

//go:embed WordCount.java
var wordCount []byte

const (
	words   = 97
	perLine = 3
)

func setting(t *testing.T, name string, usual int) int {
	t.Helper()
	if s := os.Getenv(name); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return usual
}

// TestWordCount: the counts that readers of committed records see go 1, 2, 3 and so on for each word, to what the lines
// hold, however often the program and its state are interrupted.
func TestWordCount(t *testing.T) {
	if jars, _ := filepath.Glob(filepath.Join(kafka.Libs(t), "kafka-streams-*.jar")); len(jars) == 0 {
		t.Skipf("no kafka-streams among the jars of Apache Kafka: remove %s to have them fetched anew", kafka.Libs(t))
	}
	lines, seed := setting(t, "STREAMS_LINES", 6000), setting(t, "STREAMS_SEED", int(time.Now().UnixNano()%100000))
	t.Logf("STREAMS_LINES=%d STREAMS_SEED=%d", lines, seed)
	rnd := rand.New(rand.NewPCG(uint64(seed), 1))
	n := broker.Start(t, "group.min.session.timeout.ms=1000", "group.initial.rebalance.delay.ms=0")
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute+time.Duration(lines)*time.Millisecond)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addr), kgo.DefaultProduceTopic("lines"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopics(ctx, 3, 1, nil, "lines", "counts"); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	var text []string
	for range lines {
		line := ""
		for i := range perLine {
			w := fmt.Sprint("w", rnd.IntN(words))
			want[w]++
			if i > 0 {
				line += " "
			}
			line += w
		}
		text = append(text, line)
	}
	written := make(chan error, 1)
	go func() { written <- write(ctx, cl, text) }()
	kills := run(ctx, t, n, rnd, lines*perLine)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	counts, _ := read(ctx, t, n)
	for w, k := range want {
		if counts[w] != k {
			t.Errorf("%s is counted %d times, want %d", w, counts[w], k)
		}
	}
	t.Logf("the application was killed %d times", kills)
	n.Stop(t)
}

// write writes the lines over some ten seconds or more, so that the program is killed while there is work.
func write(ctx context.Context, cl *kgo.Client, text []string) error {
	for i, line := range text {
		cl.Produce(ctx, kgo.StringRecord(line), nil)
		if i%100 == 99 {
			time.Sleep(30 * time.Second * 100 / time.Duration(len(text)))
		}
	}
	return cl.Flush(ctx)
}

// run keeps the application running, and kills it, until all is counted.
func run(ctx context.Context, t *testing.T, n *process.Node, rnd *rand.Rand, total int) (kills int) {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "WordCount.java")
	if err := os.WriteFile(source, wordCount, 0o644); err != nil {
		t.Fatal(err)
	}
	var app *exec.Cmd
	defer func() {
		_ = app.Process.Kill()
		_ = app.Wait()
	}()
	for through := 0; through < total; {
		out, err := os.Create(filepath.Join(dir, fmt.Sprint("out-", kills)))
		if err != nil {
			t.Fatal(err)
		}
		app = kafka.Java(t, source, n.Addr, filepath.Join(dir, "state"))
		app.Stdout, app.Stderr = out, out
		if err := app.Start(); err != nil {
			t.Fatal(err)
		}
		window := 7*time.Second + time.Duration(rnd.Int64N(int64(7*time.Second))) // a JVM and a dead member's session take some
		for end := time.Now().Add(window); time.Now().Before(end) && through < total; {
			time.Sleep(time.Second)
			if ctx.Err() == nil {
				_, through = read(ctx, t, n)
			}
		}
		if ctx.Err() != nil {
			tail, _ := os.ReadFile(out.Name())
			t.Fatalf("%d of %d words are counted\n%s", through, total, tail[max(0, len(tail)-3000):])
		}
		if through < total {
			_ = app.Process.Kill()
			_ = app.Wait()
			kills++
			t.Logf("killed with %d of %d words counted", through, total)
		}
	}
	return kills
}

// read reads what is committed of the counts: how far each word is, and how many changes there were. Counts rise by one.
func read(ctx context.Context, t *testing.T, n *process.Node) (map[string]int, int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addr), kgo.ConsumeTopics("counts"), kgo.KeepControlRecords(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, "counts")
	if err != nil {
		t.Fatal(err)
	}
	at, counts, changes := map[int32]int64{}, map[string]int{}, 0
	for {
		missing := false
		ends.Each(func(o kadm.ListedOffset) { missing = missing || at[o.Partition] < o.Offset })
		if !missing {
			return counts, changes
		}
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
		fetches.EachRecord(func(r *kgo.Record) {
			at[r.Partition] = r.Offset + 1
			if r.Attrs.IsControl() {
				return
			}
			k, _ := strconv.Atoi(string(r.Value))
			if word := string(r.Key); k != counts[word]+1 {
				t.Fatalf("%s is counted %d after %d", word, k, counts[word])
			}
			counts[string(r.Key)] = k
			changes++
		})
	}
}
