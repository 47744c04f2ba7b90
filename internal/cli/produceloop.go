package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// maxLine bounds a line of input. Brokers take records up to message.max.bytes, 1 MiB by default.
const maxLine = 128 << 20

// watchEvery is how often produce looks whether it gets on.
const watchEvery = 200 * time.Millisecond

// producing is one run of produce.
type producing struct {
	streams
	*session
	flags   *produceFlags
	topic   string
	key     []byte // of records that bring none; nil: none
	headers []kgo.RecordHeader
	txn     transacting

	mu     sync.Mutex
	stored int
	failed error
	fail   func(error) // called with mu held
}

// line is one line of input, or why there is none.
type line struct {
	text []byte
	err  error
}

// run sends what comes in until the input ends, a record fails or the user interrupts. What was sent is waited for, as
// long as acknowledgements come in.
func (p *producing) run(ctx context.Context) error {
	lines := make(chan line, 256)
	done := make(chan struct{})
	defer close(done)
	go readLines(p.in, lines, done) // outlives this only while its read blocks
	sending, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	p.fail = func(err error) {
		if p.failed == nil {
			p.failed = err
			cancel(err)
		}
	}
	var watch sync.WaitGroup
	watch.Go(func() { p.watch(sending, done) })
	out := bufio.NewWriter(p.out)
	err := p.feed(ctx, sending, lines, out)
	if flushErr := p.Flush(sending); err == nil && flushErr != nil {
		err = p.explain(flushErr)
	}
	err = p.txn.finish(sending, err, out)
	cancel(nil)
	watch.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil {
		err = p.failed
	}
	if flushErr := out.Flush(); err == nil {
		err = flushErr
	}
	if !p.flags.quiet {
		fmt.Fprintf(p.streams.err, "%s written to %s\n", count(p.txn.written(p.stored), "record"), p.topic)
	}
	return err
}

// watch fails the run when records wait and no answer comes. (The client's own limit counts from the time of the
// record, which may lie in the past.)
func (p *producing) watch(ctx context.Context, done <-chan struct{}) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	last, since := -1, time.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		case <-done:
			return
		}
		p.mu.Lock()
		if p.stored != last || p.BufferedProduceRecords() == 0 {
			last, since = p.stored, time.Now()
		} else if time.Since(since) > p.timeout {
			p.fail(fmt.Errorf("%s not acknowledged: %w", count(int(p.BufferedProduceRecords()), "record"),
				p.explain(context.DeadlineExceeded)))
		}
		p.mu.Unlock()
	}
}

// feed hands lines to the client.
func (p *producing) feed(ctx, sending context.Context, lines <-chan line, out io.Writer) error {
	for n := 1; ; n++ {
		var l line
		select {
		case l = <-lines:
		case <-ctx.Done():
			return ctx.Err()
		case <-sending.Done():
			return context.Cause(sending)
		}
		if errors.Is(l.err, io.EOF) {
			return nil
		}
		if l.err != nil {
			return fmt.Errorf("standard input, line %d: %w", n, l.err)
		}
		r, err := p.record(l.text)
		if err != nil {
			return fmt.Errorf("standard input, line %d: %w", n, err)
		}
		if err := p.txn.next(sending, out); err != nil {
			return err
		}
		p.Produce(sending, r, func(r *kgo.Record, err error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					p.fail(fmt.Errorf("line %d was not written: %w", n, p.explain(err)))
				}
				return
			}
			p.stored++
			if p.flags.print {
				fmt.Fprintf(p.txn.to(out), "%s %d %d\n", r.Topic, r.Partition, r.Offset)
			}
		})
	}
}

// record makes a record of a line.
func (p *producing) record(text []byte) (*kgo.Record, error) {
	var r *kgo.Record
	if p.flags.input.value == "json" {
		var err error
		if r, err = parseJSON(text); err != nil {
			return nil, err
		}
	} else {
		r = &kgo.Record{Timestamp: time.Now(), Value: text}
		if sep := unescape(p.flags.separator); sep != "" {
			key, value, ok := bytes.Cut(text, []byte(sep))
			if !ok {
				return nil, fmt.Errorf("there is no %q between key and value", sep)
			}
			r.Key, r.Value = p.orNull(key), value
		}
		r.Value = p.orNull(r.Value)
	}
	if r.Key == nil {
		r.Key = p.key
	}
	if p.flags.partition >= 0 {
		r.Partition = p.flags.partition
	}
	r.Headers = append(r.Headers, p.headers...)
	return r, nil
}

func (p *producing) orNull(b []byte) []byte {
	if p.flags.null != "" && string(b) == p.flags.null {
		return nil
	}
	return b
}

// readLines sends lines without their end, an empty one included, and then an error.
func readLines(r io.Reader, out chan<- line, done <-chan struct{}) {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		text, err := readLine(in)
		if errors.Is(err, io.EOF) && len(text) > 0 {
			err = nil
		}
		select {
		case out <- line{text, err}:
		case <-done:
			return
		}
		if err != nil {
			return
		}
	}
}

// readLine reads a line of at most maxLine bytes into a slice of its own.
func readLine(in *bufio.Reader) ([]byte, error) {
	text := []byte{}
	for {
		part, err := in.ReadSlice('\n')
		text = append(text, part...)
		if len(text) > maxLine {
			return nil, fmt.Errorf("it is longer than %s", sizeText(maxLine))
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if n := len(text) - 1; n >= 0 && text[n] == '\n' {
			text = bytes.TrimSuffix(text[:n], []byte{'\r'})
		}
		return text, err
	}
}
