package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// consumeFlags are the flags of consume.
type consumeFlags struct {
	client     *clientFlags
	output     *choice
	format     string
	separator  string
	null       string
	partitions []int32
	offset     string
	since      string
	count      int64
	follow     bool
	isolation  *choice
	group      groupFlags
}

func newConsume(s streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "consume TOPIC...",
		Short: "Read records to standard output",
		Long: `Read records to standard output, from the beginning to what was the end when it began; --follow goes on with what
comes in. Records of one partition come in order.

With --group it reads as a member of a group: partitions are shared out among the members, reading begins where the group
has committed, and what was printed is committed. Without, no group is joined and nothing committed.

--format makes a line of each record from its text and these: %v value, %k key, %t topic, %p partition, %o offset,
%T timestamp (ms), %D timestamp (RFC 3339), %h headers (k=v,k=v), %% and \n, \t, \\.`,
		Example: `  moldau consume orders -n 10
  moldau consume orders --follow --offset end
  moldau consume orders --since 15m --format '%D %k: %v\n'
  moldau consume orders -p 0 --offset 1000 -n 1 -o json
  moldau consume orders --group billing --assignor server --follow`,
		Args: args(1, -1, "the name of a topic"),
	}
	f := &consumeFlags{client: clientFlagsOf(c), output: oneOf("text", "json"),
		isolation: oneOf("read-uncommitted", "read-committed")}
	fl := c.Flags()
	fl.VarP(f.output, "output", "o", "how to print: a line of text or of JSON for each record")
	fl.StringVar(&f.format, "format", "", "print each record so")
	fl.StringVarP(&f.separator, "key-separator", "K", "", "print the key, this `text` and the value")
	fl.StringVar(&f.null, "null", "", "`text` to print for a null key or value")
	fl.Int32SliceVarP(&f.partitions, "partition", "p", nil, "read only these `partitions`")
	fl.StringVar(&f.offset, "offset", "beginning",
		"where to begin: beginning, end, an offset, or -N for the last N records of each partition")
	fl.StringVar(&f.since, "since", "", "begin at a `time`: RFC 3339, ms since 1970, or an age such as 15m or 7d")
	fl.Int64VarP(&f.count, "count", "n", 0, "end after this many records")
	fl.BoolVarP(&f.follow, "follow", "f", false, "wait for new records at the end")
	fl.Var(f.isolation, "isolation", "whether records of open and aborted transactions are read")
	f.group.add(fl)
	c.ValidArgsFunction = f.client.completeTopics(-1)
	_ = c.RegisterFlagCompletionFunc("group", f.client.completeGroups(-1))
	c.RunE = func(cmd *cobra.Command, topics []string) error {
		print, err := f.printer()
		if err != nil {
			return err
		}
		begin, err := f.begin(fl.Changed("offset"), time.Now())
		if err != nil {
			return err
		}
		if err := f.group.check(fl, f.partitions, begin); err != nil {
			return err
		}
		level := kgo.ReadUncommitted()
		if f.isolation.value == "read-committed" {
			level = kgo.ReadCommitted()
		}
		ses, err := f.client.connect(cmd.Context(), append(f.group.options(topics, begin), kgo.FetchIsolationLevel(level),
			kgo.KeepControlRecords(), kgo.FetchMaxWait(500*time.Millisecond))...)
		if err != nil {
			return err
		}
		defer ses.Close()
		r := &consuming{streams: s, session: ses, flags: f, topics: topics, print: print, known: map[string]int{}}
		prepare := r.assign
		if f.group.name != "" {
			prepare = r.share
		}
		if err := prepare(cmd.Context(), begin); err != nil {
			return err
		}
		return r.run(cmd.Context())
	}
	return c
}

// position says where to begin in every partition.
type position struct {
	since    time.Time // not zero: at the first record of that time or later
	end      bool      // relative to the end, else absolute
	absolute int64
	back     int64
	explicit bool // an offset that must exist
}

// begin reads --offset and --since.
func (f *consumeFlags) begin(offsetGiven bool, now time.Time) (position, error) {
	if f.since != "" {
		if offsetGiven {
			return position{}, errors.New("--offset and --since both say where to begin; give one")
		}
		at, err := parseSince(f.since, now)
		if err != nil {
			return position{}, fmt.Errorf("--since: %w", err)
		}
		return position{since: at}, nil
	}
	switch f.offset {
	case "beginning", "start", "earliest":
		return position{}, nil
	case "end", "latest":
		return position{end: true}, nil
	}
	n, err := strconv.ParseInt(f.offset, 10, 64)
	if err != nil {
		return position{}, fmt.Errorf("--offset %s: it takes beginning, end, an offset or -N", f.offset)
	}
	if n < 0 {
		return position{end: true, back: -n}, nil
	}
	return position{absolute: n, explicit: true}, nil
}

// bounds are the offsets that a partition holds: from start up to but not with end.
type bounds struct{ start, end int64 }

// ranges gives the bounds of the partitions and, for a point in time, the first offsets of it.
func (r *consuming) ranges(ctx context.Context, at position) (map[string]map[int32]bounds, kadm.ListedOffsets, error) {
	all, err := r.boundsOf(ctx)
	if err != nil || at.since.IsZero() {
		return all, nil, err
	}
	times, err := r.admin.ListOffsetsAfterMilli(ctx, at.since.UnixMilli(), r.topics...)
	return all, times, r.about("offsets by time", err)
}

// assign finds where each partition begins and ends, and gives the client what there is to read.
func (r *consuming) assign(parent context.Context, at position) error {
	ctx, cancel := r.bound(parent)
	defer cancel()
	all, times, err := r.ranges(ctx, at)
	if err != nil {
		return err
	}
	from := map[string]map[int32]kgo.Offset{}
	r.left = map[string]map[int32]int64{}
	for topic, partitions := range all {
		from[topic], r.left[topic] = map[int32]kgo.Offset{}, map[int32]int64{}
		for _, p := range slices.Sorted(maps.Keys(partitions)) {
			b := partitions[p]
			begin, err := at.from(topic, p, b, times)
			if err != nil {
				return r.explain(err)
			}
			if r.flags.follow || begin < b.end {
				from[topic][p] = kgo.NewOffset().At(begin)
				r.left[topic][p] = b.end
			}
		}
	}
	r.AddConsumePartitions(from)
	return nil
}

// from gives the offset of a position in a partition, of which times has the first offset of a point in time.
func (at position) from(topic string, partition int32, b bounds, times kadm.ListedOffsets) (int64, error) {
	begin, err := at.in(b)
	if o, ok := times.Lookup(topic, partition); ok && err == nil {
		if begin, err = o.Offset, o.Err; begin < 0 {
			begin = b.end
		}
	}
	if err != nil {
		return 0, fmt.Errorf("topic %s, partition %d: %w", topic, partition, err)
	}
	return begin, nil
}

// in gives the offset of a position in a partition.
func (at position) in(b bounds) (int64, error) {
	switch {
	case at.end:
		return max(b.start, b.end-at.back), nil
	case at.explicit && (at.absolute < b.start || at.absolute > b.end):
		return 0, fmt.Errorf("there is no offset %d: it has %d up to %d; choose one of these, beginning or end",
			at.absolute, b.start, b.end)
	}
	return max(b.start, at.absolute), nil
}

// boundsOf lists the partitions that are asked for with their bounds.
func (r *consuming) boundsOf(ctx context.Context) (map[string]map[int32]bounds, error) {
	topics, err := r.admin.ListTopicsWithInternal(ctx, r.topics...)
	if err != nil {
		return nil, r.about("list topics", err)
	}
	for _, name := range r.topics {
		t := topics[name]
		if t.Err != nil {
			return nil, r.about("topic "+name, t.Err)
		}
		for _, p := range r.flags.partitions {
			if _, ok := t.Partitions[p]; !ok {
				return nil, fmt.Errorf("topic %s has no partition %d: it has %s, counted from 0", name, p,
					count(len(t.Partitions), "partition"))
			}
		}
		r.known[name] = len(t.Partitions)
	}
	starts, err := r.admin.ListStartOffsets(ctx, r.topics...)
	if err != nil {
		return nil, r.about("first offsets", err)
	}
	list := r.admin.ListEndOffsets
	if r.flags.isolation.value == "read-committed" {
		list = r.admin.ListCommittedOffsets
	}
	ends, err := list(ctx, r.topics...)
	if err != nil {
		return nil, r.about("last offsets", err)
	}
	out := map[string]map[int32]bounds{}
	var failed problems
	starts.Each(func(o kadm.ListedOffset) {
		if len(r.flags.partitions) > 0 && !slices.Contains(r.flags.partitions, o.Partition) {
			return
		}
		end, ok := ends.Lookup(o.Topic, o.Partition)
		if err := errors.Join(o.Err, end.Err); err != nil || !ok {
			failed.add(fmt.Sprintf("topic %s, partition %d", o.Topic, o.Partition), r.explain(err))
			return
		}
		if out[o.Topic] == nil {
			out[o.Topic] = map[int32]bounds{}
		}
		out[o.Topic][o.Partition] = bounds{o.Offset, end.Offset}
	})
	return out, failed.err()
}

// printer gives the function that appends a record as it is to be printed.
func (f *consumeFlags) printer() (func([]byte, *kgo.Record) ([]byte, error), error) {
	if f.output.value == "json" {
		if f.format != "" || f.separator != "" {
			return nil, errors.New("--output json prints every field; leave out --format and --key-separator")
		}
		return appendJSON, nil
	}
	format := f.format
	switch {
	case f.separator != "" && format != "":
		return nil, errors.New("--format says where the key stands; leave out --key-separator")
	case f.separator != "":
		format = "%k" + strings.ReplaceAll(f.separator, "%", "%%") + `%v\n`
	case format == "":
		format = `%v\n`
	}
	return parseFormat(format, f.null)
}
