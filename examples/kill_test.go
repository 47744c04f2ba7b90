package examples

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau"
)

const (
	inputs = 200
	kills  = 6
)

// killed starts a program again and again and kills it after it has printed a random number of lines. Then it is let run
// to its end.
func killed(t *testing.T, random *rand.Rand, dir, name string, args ...string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	for i := range kills + 1 {
		lines := 3 + random.IntN(20)
		if i == kills {
			lines = -1
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		c := exec.CommandContext(ctx, path, args...)
		var problem strings.Builder
		c.Stderr = &problem
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		printed := 0
		for s := bufio.NewScanner(out); s.Scan(); {
			if printed++; printed == lines {
				_ = c.Process.Kill()
			}
		}
		err = c.Wait()
		cancel()
		if _, exited := errors.AsType[*exec.ExitError](err); err != nil && (!exited || printed < lines || lines < 0) {
			t.Fatalf("%s, run %d, %d lines printed: %v\n%s", name, i, printed, err, problem.String())
		}
	}
}

// input makes a topic with inputs records, the numbers from 0 on, in partitions.
func input(t *testing.T, broker, topic string, partitions int32) {
	t.Helper()
	admin, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := kadm.NewClient(admin).CreateTopic(t.Context(), partitions, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	var records []*kgo.Record
	for i := range inputs {
		n := strconv.Itoa(i)
		records = append(records, &kgo.Record{Topic: topic, Key: []byte("k" + strconv.Itoa(i%7)), Value: []byte(n)})
	}
	// In transactions, one of them aborted: it must not count, and markers must not stop anybody.
	producer, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.TransactionalID("input-"+topic))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	for i, part := range [][]*kgo.Record{records[:inputs/2], {{Topic: topic, Value: []byte("1000000")}}, records[inputs/2:]} {
		if err := producer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := producer.ProduceSync(t.Context(), part...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := producer.EndTransaction(t.Context(), i != 1); err != nil {
			t.Fatal(err)
		}
	}
}

// killedPrograms kills programs at random points and looks at what is lost and what is there twice.
func killedPrograms(t *testing.T, dir string, n *moldau.Node) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i, want := range []struct {
		guarantee    string
		lost, doubly bool
	}{{"exactly-once", false, false}, {"at-least-once", false, true}, {"at-most-once", true, false}} {
		t.Run(want.guarantee, func(t *testing.T) {
			in, out := want.guarantee+"-in", want.guarantee+"-out"
			input(t, n.Address(), in, 2)
			killed(t, rand.New(rand.NewPCG(seed, uint64(i))), dir, "transform", "-brokers", n.Address(), "-in", in, "-out", out,
				"-group", want.guarantee, "-guarantee", want.guarantee, "-work", "1ms")
			times := outcome(t, n.Address(), out)
			lost, doubly := 0, 0
			for i := range inputs {
				switch n := times[fmt.Sprintf("done %d", i)]; {
				case n == 0:
					lost++
				case n > 1:
					doubly++
				}
			}
			t.Logf("%d of %d lost, %d more than once", lost, inputs, doubly)
			if lost > 0 != want.lost || doubly > 0 != want.doubly {
				t.Errorf("%d of %d are lost, %d are there more than once", lost, inputs, doubly)
			}
		})
	}
	t.Run("sink", func(t *testing.T) {
		input(t, n.Address(), "sink", 3)
		database := t.TempDir()
		killed(t, rand.New(rand.NewPCG(seed, 9)), dir, "sink", "-brokers", n.Address(), "-topic", "sink", "-database", database,
			"-work", "1ms")
		want, got := map[string]int{}, map[string]int{}
		for i := range inputs {
			want["k"+strconv.Itoa(i%7)] += i
		}
		for p := range 3 {
			raw, err := os.ReadFile(filepath.Join(database, fmt.Sprintf("%d.json", p)))
			if err != nil {
				t.Fatal(err)
			}
			var table struct{ Totals map[string]int }
			if err := json.Unmarshal(raw, &table); err != nil {
				t.Fatal(err)
			}
			for k, v := range table.Totals {
				got[k] += v
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("totals %v instead of %v", got, want)
		}
	})
}

// outcome counts the committed values of a topic.
func outcome(t *testing.T, broker, topic string) map[string]int {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ends := settled(t, client, topic)
	left := 0
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left++
		}
	})
	times := map[string]int{}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for r := range fetches.RecordsAll() {
			if !r.Attrs.IsControl() {
				times[string(r.Value)]++
			}
			if end, _ := ends.Lookup(r.Topic, r.Partition); r.Offset+1 == end.Offset {
				left--
			}
		}
	}
	return times
}

// settled waits until the markers of all transactions are written, which a commit does not wait for, and gives the ends of
// the partitions.
func settled(t *testing.T, client *kgo.Client, topic string) kadm.ListedOffsets {
	t.Helper()
	admin := kadm.NewClient(client)
	for range 200 {
		stable, err := admin.ListCommittedOffsets(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		ends, err := admin.ListEndOffsets(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		open := 0
		ends.Each(func(o kadm.ListedOffset) {
			if at, _ := stable.Lookup(o.Topic, o.Partition); at.Offset < o.Offset {
				open++
			}
		})
		if open == 0 {
			return ends
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("transactions stay open on %s", topic)
	return nil
}
