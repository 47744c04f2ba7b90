package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kadm"
)

// resetFlags are the flags of group reset-offsets.
type resetFlags struct {
	client    *clientFlags
	output    *choice
	topics    []string
	allTopics bool
	execute   bool
	export    string

	earliest, latest, current bool
	offset, shift             int64
	at, ago, file             string
}

// resetTargets are the flags that say where to.
var resetTargets = []string{"to-earliest", "to-latest", "to-current", "to-offset", "to-datetime", "by-duration", "shift-by",
	"from-file"}

func newGroupReset(s streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "reset-offsets GROUP",
		Short: "Move the offsets that a group has committed",
		Long: `Move the offsets that a group has committed, or give it offsets before it begins. Only the plan is printed unless
--execute is given, and the group must have no members then. Offsets outside of a partition are moved to its nearest end.

A file has a line topic,partition,offset for each partition; --export writes one, of the plan, so that what --to-current
exports now can be restored later.`,
		Example: `  moldau group reset-offsets billing --all-topics --to-earliest
  moldau group reset-offsets billing --topic orders:0,1 --shift-by -100 --execute
  moldau group reset-offsets billing --topic orders --to-datetime 2026-03-01T00:00:00Z --execute
  moldau group reset-offsets billing --all-topics --to-current --export before.csv
  moldau group reset-offsets billing --from-file before.csv --execute`,
		Args: args(1, 1, "the name of a group"),
	}
	f := &resetFlags{client: clientFlagsOf(c), output: outputFlag(c)}
	fl := c.Flags()
	fl.StringArrayVarP(&f.topics, "topic", "t", nil, "a topic, or `topic:0,1` for some partitions; may be given again")
	fl.BoolVar(&f.allTopics, "all-topics", false, "every topic that the group has offsets of")
	fl.BoolVar(&f.earliest, "to-earliest", false, "to the first record")
	fl.BoolVar(&f.latest, "to-latest", false, "to the end")
	fl.BoolVar(&f.current, "to-current", false, "to where they are: with --export, or to mend offsets out of range")
	fl.Int64Var(&f.offset, "to-offset", 0, "to this `offset`")
	fl.StringVar(&f.at, "to-datetime", "", "to the first record of a `time` or later: RFC 3339, or ms since 1970")
	fl.StringVar(&f.ago, "by-duration", "", "to the first record not older than an `age` such as 15m or 7d")
	fl.Int64Var(&f.shift, "shift-by", 0, "by this many `records`, backwards if negative")
	fl.StringVar(&f.file, "from-file", "", "to the offsets of a CSV `file`")
	fl.StringVar(&f.export, "export", "", "write the plan to a CSV `file`")
	fl.BoolVar(&f.execute, "execute", false, "do it")
	c.ValidArgsFunction = f.client.completeGroups(1)
	c.RunE = func(cmd *cobra.Command, names []string) error {
		target, err := f.target(fl)
		if err != nil {
			return err
		}
		ses, err := f.client.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		r := &resetting{streams: s, session: ses, flags: f, group: names[0], target: target}
		return r.run(cmd.Context())
	}
	return c
}

// target gives the one flag that says where to.
func (f *resetFlags) target(fl *pflag.FlagSet) (string, error) {
	var given []string
	for _, name := range resetTargets {
		if fl.Changed(name) {
			given = append(given, name)
		}
	}
	switch {
	case len(given) == 0:
		return "", errors.New("say where to: one of --" + strings.Join(resetTargets, ", --"))
	case len(given) > 1:
		return "", fmt.Errorf("--%s and --%s both say where to; give one", given[0], given[1])
	case f.allTopics && len(f.topics) > 0:
		return "", errors.New("--all-topics and --topic both say what to reset; give one")
	case given[0] == "from-file" && (f.allTopics || len(f.topics) > 0):
		return "", errors.New("--from-file says what to reset; leave out --topic and --all-topics")
	case given[0] != "from-file" && !f.allTopics && len(f.topics) == 0:
		return "", errors.New("say what to reset: --topic, which may be given again, or --all-topics")
	}
	return given[0], nil
}

// resetRow is one partition of a plan. Before is -1 when nothing is committed.
type resetRow struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Before    int64  `json:"before"`
	After     int64  `json:"after"`
	Note      string `json:"note,omitempty"`
}

// resetting is one run of group reset-offsets.
type resetting struct {
	streams
	*session
	flags  *resetFlags
	group  string
	target string
}

func (r *resetting) run(ctx context.Context) error {
	plan, err := r.plan(ctx)
	if err != nil {
		return err
	}
	if len(plan) == 0 {
		return fmt.Errorf("group %s: there is nothing to reset; name topics with --topic", r.group)
	}
	if r.flags.export != "" {
		if err := exportOffsets(r.flags.export, plan); err != nil {
			return fmt.Errorf("--export: %w", plain(err))
		}
	}
	if r.flags.execute {
		if err := r.execute(ctx, plan); err != nil {
			return err
		}
	}
	if r.flags.output.value == "json" {
		err = writeJSON(r.out, plan)
	} else {
		t := newTable("TOPIC", "PARTITION", "BEFORE", "AFTER", "NOTE")
		for _, x := range plan {
			t.add(x.Topic, x.Partition, known(x.Before), x.After, x.Note)
		}
		err = t.print(r.out)
	}
	if !r.flags.execute {
		fmt.Fprintln(r.err, dryRunRemark)
	}
	return err
}

// execute commits the plan for a group without members.
func (r *resetting) execute(ctx context.Context, plan []resetRow) error {
	views, err := r.describeGroups(ctx, []string{r.group})
	if err != nil && !errors.Is(err, errNoGroup.code) {
		return err
	}
	if len(views) > 0 && len(views[0].Members) > 0 {
		return fmt.Errorf("group %s has %s, which would go on from where they are; stop them first", r.group,
			count(len(views[0].Members), "member"))
	}
	offsets := kadm.Offsets{}
	for _, x := range plan {
		offsets.Add(kadm.Offset{Topic: x.Topic, Partition: x.Partition, At: x.After, LeaderEpoch: -1})
	}
	ctx, cancel := r.bound(ctx)
	defer cancel()
	got, err := r.admin.CommitOffsets(ctx, r.group, offsets)
	if err != nil {
		return r.about("group "+r.group, err)
	}
	var failed problems
	for _, o := range got.Sorted() {
		if o.Err != nil {
			failed.add(fmt.Sprintf("topic %s, partition %d", o.Topic, o.Partition), r.explain(o.Err))
		}
	}
	return failed.err()
}

// plan finds out what would be committed.
func (r *resetting) plan(ctx context.Context) ([]resetRow, error) {
	before, err := r.committed(ctx, r.group)
	if err != nil {
		return nil, err
	}
	wanted, err := r.wanted(before)
	if err != nil {
		return nil, err
	}
	topics := slices.Sorted(maps.Keys(wanted))
	if len(topics) == 0 {
		return nil, nil
	}
	starts, ends, targets, err := r.bounds(ctx, topics)
	if err != nil {
		return nil, err
	}
	var plan []resetRow
	for _, topic := range topics {
		partitions, err := r.partitions(topic, wanted[topic], ends)
		if err != nil {
			return nil, err
		}
		for _, p := range partitions {
			row := resetRow{Topic: topic, Partition: p, Before: -1}
			if o, ok := before.Lookup(topic, p); ok {
				row.Before = o.At
			}
			start, _ := starts.Lookup(topic, p)
			end, _ := ends.Lookup(topic, p)
			at, ok := r.at(row, wanted[topic][p], start.Offset, end.Offset, targets)
			if !ok {
				continue
			}
			row.After = min(max(at, start.Offset), end.Offset)
			if row.After != at {
				row.Note = fmt.Sprintf("%d is outside of %d to %d", at, start.Offset, end.Offset)
			}
			plan = append(plan, row)
		}
	}
	return plan, nil
}

// anyOffset stands for an offset that the target says.
const anyOffset = int64(-1)

// wanted gives the topics with their partitions and the offsets of a file; no partitions means all of a topic.
func (r *resetting) wanted(before kadm.OffsetResponses) (map[string]map[int32]int64, error) {
	out := map[string]map[int32]int64{}
	add := func(topic string, partition int32, offset int64) {
		if out[topic] == nil {
			out[topic] = map[int32]int64{}
		}
		out[topic][partition] = offset
	}
	switch {
	case r.target == "from-file":
		rows, err := importOffsets(r.flags.file, r.group)
		if err != nil {
			return nil, fmt.Errorf("--from-file: %w", plain(err))
		}
		for _, x := range rows {
			add(x.Topic, x.Partition, x.After)
		}
	case r.flags.allTopics:
		before.Each(func(o kadm.OffsetResponse) { add(o.Topic, o.Partition, anyOffset) })
	default:
		chosen, err := parsePartitionChoice(r.flags.topics)
		if err != nil {
			return nil, err
		}
		for topic, partitions := range chosen {
			out[topic] = map[int32]int64{}
			for _, p := range partitions {
				add(topic, p, anyOffset)
			}
		}
	}
	return out, nil
}

// bounds asks where the partitions begin and end and, for a time, what the first offset of it is.
func (r *resetting) bounds(parent context.Context, topics []string) (starts, ends, targets kadm.ListedOffsets, err error) {
	ctx, cancel := r.bound(parent)
	defer cancel()
	if starts, err = r.admin.ListStartOffsets(ctx, topics...); err != nil {
		return nil, nil, nil, r.about("first offsets", err)
	}
	if ends, err = r.admin.ListEndOffsets(ctx, topics...); err != nil {
		return nil, nil, nil, r.about("last offsets", err)
	}
	at := time.Time{}
	switch r.target {
	case "to-datetime":
		if at, err = parseMoment(r.flags.at); err != nil {
			return nil, nil, nil, fmt.Errorf("--to-datetime: %w", err)
		}
	case "by-duration":
		if at, err = parseSince(r.flags.ago, time.Now()); err != nil {
			return nil, nil, nil, fmt.Errorf("--by-duration: %w", err)
		}
	default:
		return starts, ends, nil, nil
	}
	targets, err = r.admin.ListOffsetsAfterMilli(ctx, at.UnixMilli(), topics...)
	return starts, ends, targets, r.about("offsets by time", err)
}

// partitions lists the partitions of a topic to reset; each must exist.
func (r *resetting) partitions(topic string, wanted map[int32]int64, ends kadm.ListedOffsets) ([]int32, error) {
	exist := ends[topic]
	if missing, ok := exist[-1]; ok {
		return nil, r.about("topic "+topic, missing.Err)
	}
	if len(wanted) == 0 {
		return slices.Sorted(maps.Keys(exist)), nil
	}
	partitions := slices.Sorted(maps.Keys(wanted))
	for _, p := range partitions {
		o, ok := exist[p]
		if !ok {
			return nil, fmt.Errorf("topic %s has no partition %d: it has %s, counted from 0", topic, p,
				count(len(exist), "partition"))
		}
		if o.Err != nil {
			return nil, r.about(fmt.Sprintf("topic %s, partition %d", topic, p), o.Err)
		}
	}
	return partitions, nil
}

// at gives the offset that a partition shall have; false when it stays without.
func (r *resetting) at(row resetRow, inFile, start, end int64, targets kadm.ListedOffsets) (int64, bool) {
	switch r.target {
	case "to-earliest":
		return start, true
	case "to-latest":
		return end, true
	case "to-offset":
		return r.flags.offset, true
	case "from-file":
		return inFile, true
	case "to-current":
		return row.Before, row.Before >= 0
	case "shift-by":
		return row.Before + r.flags.shift, row.Before >= 0
	}
	o, ok := targets.Lookup(row.Topic, row.Partition)
	if !ok || o.Err != nil || o.Offset < 0 {
		return end, true
	}
	return o.Offset, true
}

// exportOffsets writes a plan as topic,partition,offset.
func exportOffsets(name string, plan []resetRow) error {
	var b strings.Builder
	for _, r := range plan {
		fmt.Fprintf(&b, "%s,%d,%d\n", r.Topic, r.Partition, r.After)
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}

func importOffsets(name, group string) ([]resetRow, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readOffsets(f, name, group)
}

// readOffsets reads topic,partition,offset lines; a group may stand before them, as in the files of Kafka's own tool.
func readOffsets(from io.Reader, name, group string) ([]resetRow, error) {
	var rows []resetRow
	lines := bufio.NewScanner(from)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" {
			continue
		}
		cells := strings.Split(text, ",")
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), `"`)
		}
		if len(cells) == 4 {
			if cells[0] != group {
				continue // of another group
			}
			cells = cells[1:]
		}
		if len(cells) != 3 {
			return nil, fmt.Errorf("%s:%d: write topic,partition,offset", name, n)
		}
		p, err1 := strconv.ParseInt(cells[1], 10, 32)
		o, err2 := strconv.ParseInt(cells[2], 10, 64)
		if err := errors.Join(err1, err2); err != nil || p < 0 || o < 0 {
			return nil, fmt.Errorf("%s:%d: partition and offset are numbers from 0 on", name, n)
		}
		rows = append(rows, resetRow{Topic: cells[0], Partition: int32(p), After: o})
	}
	return rows, lines.Err()
}
