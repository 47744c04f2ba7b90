// Offsets in the application's database: the position of each partition is stored in the same transaction as the result,
// so that the result counts every record exactly once, whatever crashes when. The group only shares the partitions out;
// nothing is committed to the broker.
//
// Here the database is SQLite and the result a balance per account. A member that was believed dead, and is not, cannot
// spoil it: the transaction moves a position only from where the member thinks that it is.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	_ "modernc.org/sqlite"
)

const schema = `
CREATE TABLE IF NOT EXISTS balances (account TEXT PRIMARY KEY, amount INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS positions (topic TEXT, partition INTEGER, next INTEGER NOT NULL, PRIMARY KEY (topic, partition));`

var accounts = []string{"alice", "bob"}

const count = 6 // payments per run

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "brokers to ask first, as host:port,host:port")
	topic := flag.String("topic", "example-offsets-in-database", "topic, made if missing")
	file := flag.String("database", "offsets-in-database.sqlite", "file of the database")
	crash := flag.Bool("crash", false, "stop in the middle of a transaction")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, strings.Split(*brokers, ","), *topic, *file, *crash); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, brokers []string, topic, file string, crash bool) error {
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return err
	}
	end, err := produce(ctx, brokers, topic)
	if err != nil {
		return err
	}
	s := &store{db: db, crash: crash}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumerGroup("group-of-"+topic), kgo.ConsumeTopics(topic),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		// If a position is gone (retention deleted it), stop with an error instead of leaving a gap.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.AdjustFetchOffsetsFn(s.positions)) // the database knows where each partition goes on, not the group
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	for {
		next, err := s.next(ctx, topic, 0)
		if err != nil {
			return err
		}
		if next >= end {
			break
		}
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		var failed error
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if failed == nil && len(p.Records) > 0 {
				failed = s.apply(ctx, p.Records)
			}
		})
		client.AllowRebalance()
		if failed != nil {
			return failed
		}
	}
	return s.print(ctx, out)
}

// store is the application's own state.
type store struct {
	db    *sql.DB
	crash bool
}

// positions replaces what the group has committed, which is nothing, by what the database says.
func (s *store) positions(ctx context.Context, assigned map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	for topic, partitions := range assigned {
		for p := range partitions {
			next, err := s.next(ctx, topic, p)
			if err != nil {
				return nil, err
			}
			partitions[p] = kgo.NewOffset().At(next)
		}
	}
	return assigned, nil
}

// next gives the first offset of a partition that is not in the balances.
func (s *store) next(ctx context.Context, topic string, partition int32) (int64, error) {
	var next int64
	err := s.db.QueryRowContext(ctx, "SELECT next FROM positions WHERE topic = ? AND partition = ?", topic, partition).Scan(&next)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return next, err
}

// apply books the payments of one partition and moves its position on, both or neither.
func (s *store) apply(ctx context.Context, records []*kgo.Record) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after the commit
	for _, r := range records {
		amount, err := strconv.Atoi(string(r.Value))
		if err != nil {
			return fmt.Errorf("offset %d: %w", r.Offset, err)
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO balances VALUES (?, ?)
			ON CONFLICT (account) DO UPDATE SET amount = amount + excluded.amount`, string(r.Key), amount); err != nil {
			return err
		}
	}
	if s.crash {
		return errors.New("crashed")
	}
	first, last := records[0], records[len(records)-1]
	if _, err := tx.ExecContext(ctx, "INSERT INTO positions VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
		first.Topic, first.Partition, first.Offset); err != nil {
		return err
	}
	moved, err := tx.ExecContext(ctx, "UPDATE positions SET next = ? WHERE topic = ? AND partition = ? AND next <= ?",
		last.Offset+1, first.Topic, first.Partition, first.Offset)
	if err != nil {
		return err
	}
	if n, err := moved.RowsAffected(); err != nil {
		return err
	} else if n != 1 {
		return fmt.Errorf("partition %d: somebody else has booked from offset %d on", first.Partition, first.Offset)
	}
	return tx.Commit()
}

func (s *store) print(ctx context.Context, out io.Writer) error {
	for _, account := range accounts {
		var amount int
		if err := s.db.QueryRowContext(ctx, "SELECT amount FROM balances WHERE account = ?", account).Scan(&amount); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s has %d\n", account, amount)
	}
	return nil
}

// produce writes the payments 1 to count, in turn to each account, and returns the offset after them.
func produce(ctx context.Context, brokers []string, topic string) (int64, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	var end int64
	for i := 1; i <= count; i++ {
		r, err := client.ProduceSync(ctx, kgo.KeyStringRecord(accounts[i%len(accounts)], strconv.Itoa(i))).First()
		if err != nil {
			return 0, err
		}
		end = r.Offset + 1
	}
	return end, nil
}
