package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// produceFlags are the flags of produce.
type produceFlags struct {
	client      *clientFlags
	input       *choice
	key         string
	separator   string
	null        string
	headers     []string
	partition   int32
	partitioner *choice
	acks        *choice
	compression *choice
	idempotent  bool
	create      bool
	print       bool
	quiet       bool
	txn         txnFlags
}

func newProduce(s streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Write records from standard input, one a line",
		Long: `Write records from standard input, one a line. A line is the value; with --key-separator the key stands before it.
With --input json a line is an object with key, value, headers (a list of {"key","value"}), timestamp and partition;
keyBase64 and valueBase64 take bytes that are no text, and a value that is no string is sent as its JSON text. What
moldau consume -o json prints goes in as it is.

It ends when standard input does and every record was acknowledged. The first record that is refused ends it with exit
status 1.

With --transactional-id all of the input is one transaction, or a transaction for every --transaction-records: consumers
that read committed records see each as a whole or not at all. An error or an interrupt aborts the one that is open.`,
		Example: `  echo hello | moldau produce greetings
  moldau produce orders --key-separator : < orders.txt
  moldau consume a -o json | moldau produce b --input json --compression zstd
  moldau produce orders --transactional-id import-7 < orders.txt`,
		Args: args(1, 1, "the name of a topic"),
	}
	f := &produceFlags{client: clientFlagsOf(c), input: oneOf("text", "json"),
		partitioner: oneOf("key", "sticky", "round-robin", "random", "manual"),
		acks:        oneOf("all", "1", "0"), compression: oneOf("none", "gzip", "snappy", "lz4", "zstd")}
	fl := c.Flags()
	f.add(fl)
	c.ValidArgsFunction = f.client.completeTopics(1)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.txn.check(fl, f); err != nil {
			return err
		}
		opts, err := f.options(args[0], fl.Changed("idempotent"), fl.Changed("partitioner"))
		if err != nil {
			return err
		}
		headers, err := f.parseHeaders()
		if err != nil {
			return err
		}
		ses, err := f.client.connect(cmd.Context(), opts...)
		if err != nil {
			return err
		}
		defer ses.Close()
		if err := f.knows(cmd.Context(), ses, args[0]); err != nil {
			return err
		}
		if f.txn.id != "" {
			if err := ses.awaitCoordinators(cmd.Context(), ses.admin.FindTxnCoordinators, f.txn.id); err != nil {
				return err
			}
		}
		p := &producing{streams: s, flags: f, topic: args[0], headers: headers, session: ses}
		p.txn = transacting{p: p, txnFlags: f.txn}
		if f.key != "" || fl.Changed("key") {
			p.key = []byte(f.key)
		}
		return p.run(cmd.Context())
	}
	return c
}

func (f *produceFlags) add(fl *pflag.FlagSet) {
	fl.VarP(f.input, "input", "i", "what a line is")
	fl.StringVarP(&f.key, "key", "k", "", "key of every record that brings none")
	fl.StringVarP(&f.separator, "key-separator", "K", "", "`text` between key and value in a line, such as : or \\t")
	fl.StringVar(&f.null, "null", "", "`text` that stands for a null key or value in a line")
	fl.StringArrayVarP(&f.headers, "header", "H", nil, "add a header `key=value` to every record; may be given again")
	fl.Int32VarP(&f.partition, "partition", "p", -1, "write to this partition (implies --partitioner manual)")
	fl.Var(f.partitioner, "partitioner",
		"how partitions are chosen; key: by hash as Kafka's clients do, records without key like sticky")
	fl.Var(f.acks, "acks", "who must have a record: all in-sync replicas, the leader, or nobody")
	fl.VarP(f.compression, "compression", "z", "how batches are compressed")
	fl.BoolVar(&f.idempotent, "idempotent", true, "let the broker drop what a retry sends twice (needs acks all)")
	fl.BoolVar(&f.create, "create", true, "let the broker create a topic that does not exist, if it allows that")
	fl.BoolVarP(&f.print, "verbose", "v", false, "print topic, partition and offset of every record")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "do not say how many records were written")
	f.txn.add(fl)
}

// options makes the client's options of the flags.
func (f *produceFlags) options(topic string, idempotentGiven, partitionerGiven bool) ([]kgo.Opt, error) {
	if f.partition >= 0 {
		if partitionerGiven && f.partitioner.value != "manual" {
			return nil, fmt.Errorf("--partition goes with --partitioner manual, not %s", f.partitioner.value)
		}
		f.partitioner.value = "manual"
	}
	if f.partitioner.value == "manual" && f.partition < 0 && f.input.value != "json" {
		return nil, errors.New("--partitioner manual needs --partition, or --input json whose lines have a partition")
	}
	if f.separator != "" && f.input.value == "json" {
		return nil, errors.New("--key-separator is for --input text; in JSON the key is a field")
	}
	if f.acks.value != "all" && f.idempotent && idempotentGiven {
		return nil, fmt.Errorf("--idempotent needs --acks all, not %s", f.acks.value)
	}
	opts := []kgo.Opt{kgo.DefaultProduceTopic(topic), partitionerOf(f.partitioner.value), acksOf(f.acks.value),
		kgo.ProducerBatchCompression(codecOf(f.compression.value)), kgo.ProducerLinger(0),
		kgo.ProduceRequestTimeout(f.client.timeout), kgo.UnknownTopicRetries(10)}
	if f.acks.value != "all" || !f.idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	if f.create {
		opts = append(opts, kgo.AllowAutoTopicCreation())
	}
	return append(opts, f.txn.options()...), nil
}

// knows asks for the topic and partition before anything is read, so that a mistake shows at once.
func (f *produceFlags) knows(parent context.Context, s *session, topic string) error {
	ctx, cancel := s.bound(parent)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = f.create
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	const created, wait = 5, 50 * time.Millisecond // LEADER_NOT_AVAILABLE while the topic comes to be
	for {
		resp, err := req.RequestWith(ctx, s)
		if err != nil {
			return s.explain(err)
		}
		got := resp.Topics[0]
		switch {
		case got.ErrorCode == created || got.ErrorCode == unknownTopic && f.create:
			select {
			case <-time.After(wait):
				continue
			case <-ctx.Done():
			}
			return s.about("topic "+topic, answered(got.ErrorCode, nil))
		case got.ErrorCode != 0:
			return s.about("topic "+topic, answered(got.ErrorCode, nil))
		case f.partition >= int32(len(got.Partitions)):
			return fmt.Errorf("topic %s has no partition %d: it has %s, counted from 0", topic, f.partition,
				count(len(got.Partitions), "partition"))
		}
		return nil
	}
}

func (f *produceFlags) parseHeaders() ([]kgo.RecordHeader, error) {
	pairs, err := keyValues("--header", f.headers)
	if err != nil {
		return nil, err
	}
	var out []kgo.RecordHeader
	for _, kv := range pairs {
		out = append(out, kgo.RecordHeader{Key: kv.key, Value: []byte(kv.value)})
	}
	return out, nil
}

// partitionerOf gives the partitioner of a word of --partitioner.
func partitionerOf(word string) kgo.Opt {
	switch word {
	case "sticky":
		return kgo.RecordPartitioner(kgo.StickyPartitioner())
	case "round-robin":
		return kgo.RecordPartitioner(kgo.RoundRobinPartitioner())
	case "random":
		return kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
			return func(_ *kgo.Record, n int) int { return rand.IntN(n) }
		}))
	case "manual":
		return kgo.RecordPartitioner(kgo.ManualPartitioner())
	}
	return kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil))
}

func acksOf(word string) kgo.Opt {
	switch word {
	case "0":
		return kgo.RequiredAcks(kgo.NoAck())
	case "1":
		return kgo.RequiredAcks(kgo.LeaderAck())
	}
	return kgo.RequiredAcks(kgo.AllISRAcks())
}

func codecOf(word string) kgo.CompressionCodec {
	switch word {
	case "gzip":
		return kgo.GzipCompression()
	case "snappy":
		return kgo.SnappyCompression()
	case "lz4":
		return kgo.Lz4Compression()
	case "zstd":
		return kgo.ZstdCompression()
	}
	return kgo.NoCompression()
}

// unescape reads \t, \n, \r, \0 and \\ in a separator or format.
func unescape(s string) string {
	return strings.NewReplacer(`\\`, `\`, `\t`, "\t", `\n`, "\n", `\r`, "\r", `\0`, "\x00").Replace(s)
}
