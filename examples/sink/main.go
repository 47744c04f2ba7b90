// An idempotent sink: records go into a database together with the position they bring the program to, in one transaction
// of the database. After a crash the program asks the database where to go on, so each record counts once, without a group
// and without transactions in the log.
//
// The database here is a directory with a file for each partition, replaced as a whole; it has the totals by key and the
// position. With SQL they would be two tables, and the position a row that is updated where it still has the old value: a
// second instance of the program, or one that was thought dead, then fails instead of counting twice.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// table is what the database has of a partition.
type table struct {
	Totals map[string]int `json:"totals"`
	Next   int64          `json:"next"` // offset of the first record that is not in Totals
}

// batch is how many records are worked on between two commits of the database.
const batch = 10

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "brokers to ask first, as host:port,host:port")
	topic := flag.String("topic", "example-sink", "topic to read, whose values are numbers")
	dir := flag.String("database", "sink", "directory of the database, made if missing")
	work := flag.Duration("work", 0, "how long the work on a record takes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, strings.Split(*brokers, ","), *topic, *dir, *work); err != nil {
		log.Fatal(err)
	}
}

// run works until the input that was there at the beginning is in the database.
func run(ctx context.Context, out io.Writer, brokers []string, topic, dir string, work time.Duration) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// Only what was committed counts, should producers of the topic use transactions. The markers that end those are kept,
	// because positions move over them.
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords())
	if err != nil {
		return err
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListCommittedOffsets(ctx, topic)
	if err != nil {
		return err
	}
	tables, left := map[int32]*table{}, 0
	for partition, end := range ends[topic] {
		t, err := load(dir, partition)
		if err != nil {
			return err
		}
		if tables[partition] = t; t.Next < end.Offset {
			left++
			// NoResetOffset: if the position is gone (retention deleted it), stop with an error instead of leaving a gap.
			client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NoResetOffset().At(t.Next)}})
		}
	}
	for left > 0 {
		fetches := client.PollRecords(ctx, batch)
		if err := fetches.Err(); err != nil {
			return err
		}
		touched := map[int32]bool{}
		for r := range fetches.RecordsAll() {
			t := tables[r.Partition]
			if err := t.add(r); err != nil {
				return err
			}
			if touched[r.Partition] = true; t.Next == ends[topic][r.Partition].Offset {
				left--
			}
			if !r.Attrs.IsControl() {
				time.Sleep(work)
				fmt.Fprintf(out, "added %s to %s\n", r.Value, r.Key)
			}
		}
		for partition := range touched {
			if err := tables[partition].store(dir, partition); err != nil {
				return err
			}
		}
	}
	return nil
}

// add counts a record and moves the position.
func (t *table) add(r *kgo.Record) error {
	t.Next = r.Offset + 1
	if r.Attrs.IsControl() {
		return nil
	}
	n, err := strconv.Atoi(string(r.Value))
	if err != nil {
		return fmt.Errorf("offset %d: %w", r.Offset, err)
	}
	t.Totals[string(r.Key)] += n
	return nil
}

func load(dir string, partition int32) (*table, error) {
	t := &table{Totals: map[string]int{}}
	raw, err := os.ReadFile(file(dir, partition))
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	return t, json.Unmarshal(raw, t)
}

func file(dir string, partition int32) string {
	return filepath.Join(dir, fmt.Sprintf("%d.json", partition))
}

// store replaces the file: after a crash it holds the old state or the new one, never a mixture.
func (t *table) store(dir string, partition int32) error {
	raw, err := json.Marshal(t)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "new.*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it is renamed
	_, err = f.Write(raw)
	// Synced before the rename, or the name could lead to an empty file after a power cut.
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file(dir, partition))
}
