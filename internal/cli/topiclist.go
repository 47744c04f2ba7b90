package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// topicRow is a topic in a listing.
type topicRow struct {
	Name              string `json:"name"`
	ID                string `json:"id"`
	Partitions        int    `json:"partitions"`
	ReplicationFactor int    `json:"replicationFactor"`
	Internal          bool   `json:"internal"`
	UnderReplicated   int    `json:"underReplicated"`
	WithoutLeader     int    `json:"withoutLeader"`
}

func newTopicList(s streams) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List topics", Args: args(0, 0, "no argument")}
	f := clientFlagsOf(c)
	output := outputFlag(c)
	internal := c.Flags().Bool("internal", false, "list internal topics too")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		ses, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		ctx, cancel := ses.bound(cmd.Context())
		defer cancel()
		topics, err := ses.admin.ListTopicsWithInternal(ctx)
		if err != nil {
			return ses.about("list topics", err)
		}
		rows := []topicRow{}
		for _, t := range topics.Sorted() {
			if t.Err == nil && (*internal || !t.IsInternal) {
				rows = append(rows, rowOf(t))
			}
		}
		if output.value == "json" {
			return writeJSON(s.out, rows)
		}
		out := newTable("NAME", "PARTITIONS", "REPLICATION", "STATE")
		for _, r := range rows {
			out.add(r.Name, r.Partitions, r.ReplicationFactor, r.state())
		}
		return out.print(s.out)
	}
	return c
}

func rowOf(t kadm.TopicDetail) topicRow {
	r := topicRow{Name: t.Topic, ID: kafka.UUID(t.ID).String(), Partitions: len(t.Partitions),
		ReplicationFactor: t.Partitions.NumReplicas(), Internal: t.IsInternal}
	for _, p := range t.Partitions {
		if p.Leader < 0 {
			r.WithoutLeader++
		}
		if len(p.ISR) < len(p.Replicas) {
			r.UnderReplicated++
		}
	}
	return r
}

func (r topicRow) state() string {
	switch {
	case r.WithoutLeader > 0:
		return fmt.Sprintf("%d without leader", r.WithoutLeader)
	case r.UnderReplicated > 0:
		return fmt.Sprintf("%d under-replicated", r.UnderReplicated)
	}
	return "ok"
}

// topicView is a topic described.
type topicView struct {
	topicRow
	SizeBytes int64           `json:"sizeBytes"` // of the largest replica of each partition; -1: not known
	Configs   []configEntry   `json:"configs"`
	Parts     []partitionView `json:"partitionList"`
}

// partitionView is a partition described. Offsets and size are -1 when they cannot be had.
type partitionView struct {
	Partition   int32   `json:"partition"`
	Leader      int32   `json:"leader"` // -1: none
	LeaderEpoch int32   `json:"leaderEpoch"`
	Replicas    []int32 `json:"replicas"`
	ISR         []int32 `json:"isr"`
	Offline     []int32 `json:"offline"`
	StartOffset int64   `json:"startOffset"`
	EndOffset   int64   `json:"endOffset"`
	SizeBytes   int64   `json:"sizeBytes"`
}

func newTopicDescribe(s streams) *cobra.Command {
	c := &cobra.Command{Use: "describe [TOPIC...]",
		Short: "Show configurations, leaders, replicas, offsets and sizes of topics"}
	f := clientFlagsOf(c)
	output := outputFlag(c)
	all := c.Flags().Bool("all", false, "show every configuration, not only what was set")
	c.ValidArgsFunction = f.completeTopics(-1)
	c.RunE = func(cmd *cobra.Command, names []string) error {
		ses, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		ctx, cancel := ses.bound(cmd.Context())
		defer cancel()
		views, err := ses.describeTopics(ctx, names, *all)
		if views == nil && err != nil {
			return err
		}
		if output.value == "json" {
			if jsonErr := writeJSON(s.out, views); jsonErr != nil {
				return jsonErr
			}
			return err
		}
		for i, v := range views {
			if i > 0 {
				fmt.Fprintln(s.out)
			}
			if printErr := v.print(s.out); printErr != nil {
				return printErr
			}
		}
		return err
	}
	return c
}

// describeTopics gathers what brokers tell of topics. It gives the topics that could be described beside the error
// about the others.
func (s *session) describeTopics(ctx context.Context, names []string, allConfigs bool) ([]topicView, error) {
	meta, err := s.admin.Metadata(ctx, names...)
	if err != nil {
		return nil, s.about("describe", err)
	}
	var failed problems
	found := make([]string, 0, len(meta.Topics))
	set := kadm.TopicsSet{}
	for _, t := range meta.Topics.Sorted() {
		if t.Err != nil {
			failed.add("topic "+t.Topic, s.explain(t.Err))
			continue
		}
		found = append(found, t.Topic)
		set.Add(t.Topic, t.Partitions.Numbers()...)
	}
	if len(found) == 0 {
		return nil, failed.err()
	}
	starts, _ := s.admin.ListStartOffsets(ctx, found...) // what is missing shows as -1
	ends, _ := s.admin.ListEndOffsets(ctx, found...)
	dirs, _ := s.admin.DescribeAllLogDirs(ctx, set)
	configs, err := s.describeConfigs(ctx, kmsg.ConfigResourceTypeTopic, found, nil)
	if err != nil {
		return nil, err
	}
	views := []topicView{}
	for _, name := range found {
		t := meta.Topics[name]
		v := topicView{topicRow: rowOf(t), Configs: configs[name]}
		if !allConfigs {
			v.Configs = onlySet(v.Configs, "topic")
		}
		for _, p := range t.Partitions.Sorted() {
			v.Parts = append(v.Parts, partitionView{Partition: p.Partition, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch,
				Replicas: someOf(p.Replicas), ISR: someOf(p.ISR), Offline: someOf(p.OfflineReplicas),
				StartOffset: offsetIn(starts, name, p.Partition), EndOffset: offsetIn(ends, name, p.Partition),
				SizeBytes: sizeIn(dirs, name, p.Partition)})
		}
		for _, p := range v.Parts {
			if p.SizeBytes < 0 {
				v.SizeBytes = -1
				break
			}
			v.SizeBytes += p.SizeBytes
		}
		views = append(views, v)
	}
	return views, failed.err()
}

// someOf makes an empty list of nil, so that JSON shows [] and not null.
func someOf(ids []int32) []int32 { return slices.Concat([]int32{}, ids) }

func offsetIn(l kadm.ListedOffsets, topic string, partition int32) int64 {
	if o, ok := l.Lookup(topic, partition); ok && o.Err == nil {
		return o.Offset
	}
	return -1
}

// sizeIn is the size of the largest replica.
func sizeIn(dirs kadm.DescribedAllLogDirs, topic string, partition int32) int64 {
	size := int64(-1)
	dirs.Each(func(d kadm.DescribedLogDir) {
		if p, ok := d.Topics.Lookup(topic, partition); ok && !p.IsFuture {
			size = max(size, p.Size)
		}
	})
	return size
}

func (v topicView) print(w io.Writer) error {
	fmt.Fprintf(w, "topic %s, id %s, %s, replication factor %d", v.Name, v.ID, count(v.Partitions, "partition"),
		v.ReplicationFactor)
	if v.SizeBytes >= 0 {
		fmt.Fprintf(w, ", %s", sizeText(v.SizeBytes))
	}
	fmt.Fprintln(w)
	for _, c := range v.Configs {
		fmt.Fprintf(w, "  %s=%s (%s)\n", c.Name, c.shown(), c.Source)
	}
	out := newTable("PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "OFFLINE", "START", "END", "SIZE")
	for _, p := range v.Parts {
		leader, size := fmt.Sprint(p.Leader), "-"
		if p.Leader < 0 {
			leader = "none"
		}
		if p.SizeBytes >= 0 {
			size = sizeText(p.SizeBytes)
		}
		out.add(p.Partition, leader, p.LeaderEpoch, joinInts(p.Replicas), joinInts(p.ISR), joinInts(p.Offline),
			known(p.StartOffset), known(p.EndOffset), size)
	}
	return out.print(w)
}

// known shows an offset, and nothing for one that is not known.
func known(offset int64) string {
	if offset < 0 {
		return "-"
	}
	return fmt.Sprint(offset)
}
