// Offsets kept outside: the application stores its position together with its result, in one atomic step. Whatever
// happens, the result counts each record exactly once, and neither a group nor a transaction is needed.
//
// Here the result is a sum, and both are in one file that is replaced as a whole. With a database they would be two rows
// written in one transaction.
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

	"github.com/twmb/franz-go/pkg/kgo"
)

// state is the result and the position that belongs to it.
type state struct {
	Sum  int   `json:"sum"`
	Next int64 `json:"next"` // offset of the first record that is not in Sum
}

const count = 4 // records per run

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "brokers to ask first, as host:port,host:port")
	topic := flag.String("topic", "example-offsets-outside", "topic, made if missing")
	file := flag.String("state", "offsets-outside.json", "file with the sum and the position")
	crash := flag.Bool("crash", false, "stop after the work and before the state is stored")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, strings.Split(*brokers, ","), *topic, *file, *crash); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, brokers []string, topic, file string, crash bool) error {
	s, err := load(file)
	if err != nil {
		return err
	}
	end, err := produce(ctx, brokers, topic)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "starting at offset %d with sum %d\n", s.Next, s.Sum)
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		// NoResetOffset: if the position is gone (retention deleted it), stop with an error instead of leaving a gap.
		topic: {0: kgo.NoResetOffset().At(s.Next)},
	}))
	if err != nil {
		return err
	}
	defer client.Close()
	for s.Next < end {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for r := range fetches.RecordsAll() {
			amount, err := strconv.Atoi(string(r.Value))
			if err != nil {
				return fmt.Errorf("offset %d: %w", r.Offset, err)
			}
			s.Sum += amount
			s.Next = r.Offset + 1
		}
		if crash {
			return errors.New("crashed")
		}
		if err := store(file, s); err != nil { // once per poll: a sync of the disk per record would be slow
			return err
		}
	}
	fmt.Fprintf(out, "stored sum %d and offset %d\n", s.Sum, s.Next)
	return nil
}

// produce writes the amounts 1 to count and returns the offset after them.
func produce(ctx context.Context, brokers []string, topic string) (int64, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	var end int64
	for i := 1; i <= count; i++ {
		r, err := client.ProduceSync(ctx, kgo.StringRecord(strconv.Itoa(i))).First()
		if err != nil {
			return 0, err
		}
		end = r.Offset + 1
	}
	return end, nil
}

func load(file string) (state, error) {
	var s state
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(raw, &s)
}

// store replaces the file: after a crash it holds the old state or the new one, never a mixture.
func store(file string, s state) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it is renamed
	_, err = f.Write(raw)
	// Synced before the rename, or the name could lead to an empty file after a power cut.
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}
