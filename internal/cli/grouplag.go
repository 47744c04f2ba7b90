package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// lagView is how far a group is behind.
type lagView struct {
	Group      string   `json:"group"`
	State      string   `json:"state"`
	Partitions []lagRow `json:"partitions"`
	Records    int64    `json:"records"` // all partitions together
	// Seconds is the worst of the partitions; null when it is not known of any.
	Seconds *float64 `json:"seconds"`
}

// lagRow is one partition of a group. Offsets are -1 when there is none, Records -1 and Seconds null when not known.
type lagRow struct {
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Committed int64    `json:"committed"`
	Start     int64    `json:"start"`
	End       int64    `json:"end"`
	Records   int64    `json:"records"`
	Seconds   *float64 `json:"seconds"`
	Member    string   `json:"member,omitempty"`
	ClientID  string   `json:"clientId,omitempty"`
	Host      string   `json:"host,omitempty"`
	Error     string   `json:"error,omitempty"`
}

func newGroupLag(s streams) *cobra.Command {
	c := &cobra.Command{Use: "lag GROUP...", Short: "Show how far groups are behind, in records and in seconds",
		Long: `Show how far groups are behind, in records and in seconds. RECORDS counts offsets from the committed one to the end of
the partition; SECONDS is the age of the first record that is not committed, which is read for that. A partition that is
assigned and has no committed offset shows neither.`,
		Example: `  moldau group lag billing
  moldau group lag --all -o json`,
		Args: args(0, -1, "the name of a group")}
	f := clientFlagsOf(c)
	output := outputFlag(c)
	all := c.Flags().Bool("all", false, "show every group")
	c.ValidArgsFunction = f.completeGroups(-1)
	c.RunE = func(cmd *cobra.Command, names []string) error {
		if *all == (len(names) > 0) {
			return fmt.Errorf("%s wants names of groups, or --all", cmd.CommandPath())
		}
		ses, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		if *all {
			if names, err = ses.groupNames(cmd.Context()); err != nil {
				return err
			}
		}
		groups, failed := ses.describeGroups(cmd.Context(), names)
		views := []lagView{}
		for _, g := range groups {
			view, err := ses.lag(cmd.Context(), f, g)
			if err != nil {
				return err
			}
			views = append(views, view)
		}
		if output.value == "json" {
			err = writeJSON(s.out, views)
		} else {
			err = printLags(s.out, views)
		}
		return cmp.Or(failed, err)
	}
	return c
}

func (s *session) groupNames(parent context.Context) ([]string, error) {
	ctx, cancel := s.bound(parent)
	defer cancel()
	groups, err := s.admin.ListGroups(ctx)
	return groups.Groups(), s.about("list groups", err)
}

// lag gathers what a group has committed and what its members have, and measures both against the partitions.
func (s *session) lag(parent context.Context, f *clientFlags, g groupView) (lagView, error) {
	view := lagView{Group: g.Group, State: g.State, Partitions: []lagRow{}}
	committed, err := s.committed(parent, g.Group)
	if err != nil {
		return view, err
	}
	rows := map[string]map[int32]*lagRow{}
	row := func(topic string, partition int32) *lagRow {
		if rows[topic] == nil {
			rows[topic] = map[int32]*lagRow{}
		}
		if rows[topic][partition] == nil {
			rows[topic][partition] = &lagRow{Topic: topic, Partition: partition, Committed: -1, Start: -1, End: -1, Records: -1}
		}
		return rows[topic][partition]
	}
	committed.Each(func(o kadm.OffsetResponse) { row(o.Topic, o.Partition).Committed = o.At })
	for _, m := range g.Members {
		for topic, partitions := range m.Assigned {
			for _, p := range partitions {
				r := row(topic, p)
				r.Member, r.ClientID, r.Host = m.Member, m.ClientID, m.Host
			}
		}
	}
	if len(rows) == 0 {
		return view, nil
	}
	if err := s.measure(parent, rows); err != nil {
		return view, err
	}
	if err := s.age(parent, f, rows); err != nil {
		return view, err
	}
	for _, topic := range slices.Sorted(maps.Keys(rows)) {
		for _, p := range slices.Sorted(maps.Keys(rows[topic])) {
			r := rows[topic][p]
			view.Partitions = append(view.Partitions, *r)
			view.Records += max(r.Records, 0)
			if r.Seconds != nil && (view.Seconds == nil || *r.Seconds > *view.Seconds) {
				view.Seconds = r.Seconds
			}
		}
	}
	return view, nil
}

// measure fills in where partitions begin and end.
func (s *session) measure(parent context.Context, rows map[string]map[int32]*lagRow) error {
	ctx, cancel := s.bound(parent)
	defer cancel()
	topics := slices.Sorted(maps.Keys(rows))
	starts, err := s.admin.ListStartOffsets(ctx, topics...)
	if err != nil {
		return s.about("first offsets", err)
	}
	ends, err := s.admin.ListEndOffsets(ctx, topics...)
	if err != nil {
		return s.about("last offsets", err)
	}
	for _, topic := range topics {
		for p, r := range rows[topic] {
			start, known := starts.Lookup(topic, p)
			end, ok := ends.Lookup(topic, p)
			switch {
			case !known || !ok:
				r.Error = "there is no such partition"
				continue
			case start.Err != nil || end.Err != nil:
				r.Error = s.explain(cmp.Or(start.Err, end.Err)).Error()
				continue
			}
			r.Start, r.End = start.Offset, end.Offset
			if r.Committed >= 0 {
				r.Records = max(r.End-max(r.Committed, r.Start), 0)
			}
			if r.Records == 0 {
				r.Seconds = new(float64)
			}
		}
	}
	return nil
}

// age reads the first record that is not committed of every partition that lags. What cannot be read in time stays
// unknown.
func (s *session) age(parent context.Context, f *clientFlags, rows map[string]map[int32]*lagRow) error {
	from, waiting := map[string]map[int32]kgo.Offset{}, 0
	for topic, partitions := range rows {
		for p, r := range partitions {
			if r.Records > 0 {
				if from[topic] == nil {
					from[topic] = map[int32]kgo.Offset{}
				}
				from[topic][p] = kgo.NewOffset().At(max(r.Committed, r.Start))
				waiting++
			}
		}
	}
	if waiting == 0 {
		return nil
	}
	// One batch of each partition is enough, and more would be thrown away.
	reader, err := f.connect(parent, kgo.ConsumePartitions(from), kgo.FetchMaxPartitionBytes(1), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	defer reader.Close()
	ctx, cancel := s.bound(parent)
	defer cancel()
	for waiting > 0 && ctx.Err() == nil {
		fetches := reader.PollFetches(ctx)
		now := time.Now()
		for r := range fetches.RecordsAll() {
			row := rows[r.Topic][r.Partition]
			if row == nil || row.Seconds != nil {
				continue
			}
			seconds := max(now.Sub(r.Timestamp).Seconds(), 0)
			row.Seconds = &seconds
			waiting--
			reader.PauseFetchPartitions(map[string][]int32{r.Topic: {r.Partition}})
		}
	}
	return parent.Err()
}

func printLags(w io.Writer, views []lagView) error {
	for i, v := range views {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "group %s, state %s: %s behind", v.Group, v.State, count(int(v.Records), "record"))
		if v.Seconds != nil && *v.Seconds > 0 {
			fmt.Fprintf(w, ", %s", secondsText(v.Seconds))
		}
		fmt.Fprintln(w)
		t := newTable("TOPIC", "PARTITION", "COMMITTED", "END", "RECORDS", "SECONDS", "CLIENT", "HOST", "MEMBER")
		for _, r := range v.Partitions {
			if r.Error != "" {
				r.Member = r.Error
			}
			t.add(r.Topic, r.Partition, known(r.Committed), known(r.End), known(r.Records), secondsText(r.Seconds), r.ClientID,
				r.Host, r.Member)
		}
		if err := t.print(w); err != nil {
			return err
		}
	}
	return nil
}

// secondsText gives seconds with one decimal, and nothing for those not known.
func secondsText(s *float64) string {
	switch {
	case s == nil:
		return ""
	case *s == 0:
		return "0"
	}
	return fmt.Sprintf("%.1f", *s)
}
