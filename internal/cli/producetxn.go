package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"
)

// txnFlags put what is written into transactions.
type txnFlags struct {
	id      string
	timeout time.Duration
	records int
}

func (f *txnFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.id, "transactional-id", "", "write in transactions of this `id`; a producer that had it before is fenced")
	fl.IntVar(&f.records, "transaction-records", 0, "commit after so many records; 0: all of the input is one transaction")
	fl.DurationVar(&f.timeout, "transaction-timeout", time.Minute, "how long a transaction may stay open before the broker aborts it")
}

// check refuses what does not go together.
func (f *txnFlags) check(fl *pflag.FlagSet, p *produceFlags) error {
	switch {
	case f.id == "" && (fl.Changed("transaction-records") || fl.Changed("transaction-timeout")):
		return errors.New("--transaction-records and --transaction-timeout are for transactions; give --transactional-id too")
	case f.id == "":
		return nil
	case p.acks.value != "all" || !p.idempotent:
		return errors.New("--transactional-id needs --acks all and --idempotent")
	case f.records < 0:
		return fmt.Errorf("--transaction-records %d: it cannot be less than 0", f.records)
	case f.timeout < time.Millisecond:
		return fmt.Errorf("--transaction-timeout %s: it must be at least 1ms", f.timeout)
	}
	return nil
}

func (f *txnFlags) options() []kgo.Opt {
	if f.id == "" {
		return nil
	}
	return []kgo.Opt{kgo.TransactionalID(f.id), kgo.TransactionTimeout(f.timeout)}
}

// transacting puts the records of a run into transactions. Without a transactional id it does nothing.
type transacting struct {
	p *producing
	txnFlags
	open      bool
	sent      int          // records of the open transaction
	committed int          // records of those before
	held      bytes.Buffer // what is printed of the open transaction once it is committed; the run's mu guards it
}

// next makes room for a record: it begins a transaction, after the one before has been committed if that is full.
func (t *transacting) next(ctx context.Context, out io.Writer) error {
	if t.id == "" {
		return nil
	}
	if t.open && t.records > 0 && t.sent == t.records {
		if err := t.commit(ctx, out); err != nil {
			return err
		}
	}
	if !t.open {
		if err := t.p.BeginTransaction(); err != nil {
			return t.p.explain(err)
		}
		t.open, t.sent = true, 0
	}
	t.sent++
	return nil
}

// commit waits until all records are acknowledged and commits.
func (t *transacting) commit(ctx context.Context, out io.Writer) error {
	if err := t.p.Flush(ctx); err != nil {
		return t.p.explain(err)
	}
	t.p.mu.Lock()
	failed := t.p.failed
	t.p.mu.Unlock()
	if failed != nil {
		return failed
	}
	end, cancel := t.p.bound(context.WithoutCancel(ctx))
	defer cancel()
	if err := t.p.EndTransaction(end, kgo.TryCommit); err != nil {
		return fmt.Errorf("the transaction could not be committed: %w", t.p.explain(err))
	}
	t.open = false
	t.committed += t.sent
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	_, err := t.held.WriteTo(out)
	return err
}

// finish ends what is open: with a commit, or with an abort when the run has failed or was interrupted.
func (t *transacting) finish(ctx context.Context, failed error, out io.Writer) error {
	if !t.open {
		return failed
	}
	if failed == nil {
		if failed = t.commit(ctx, out); failed == nil {
			return nil
		}
	}
	end, cancel := t.p.bound(context.WithoutCancel(ctx))
	defer cancel()
	err := t.p.AbortBufferedRecords(end)
	if err == nil {
		err = t.p.EndTransaction(end, kgo.TryAbort)
	}
	if err != nil {
		fmt.Fprintf(t.p.streams.err, "moldau: the transaction of %s is left for the broker to abort\n", count(t.sent, "record"))
		return failed
	}
	fmt.Fprintf(t.p.streams.err, "moldau: the transaction of %s was aborted\n", count(t.sent, "record"))
	return failed
}

// written is how many records of the run count.
func (t *transacting) written(acknowledged int) int {
	if t.id == "" {
		return acknowledged
	}
	return t.committed
}

// to is where a record of the run is printed to: at once, or when its transaction is committed.
func (t *transacting) to(out io.Writer) io.Writer {
	if t.id == "" {
		return out
	}
	return &t.held
}
