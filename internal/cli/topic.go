package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func newTopic(s streams) *cobra.Command {
	return group("topic", "Create, list, describe, alter, move and delete topics",
		newTopicCreate(s), newTopicList(s), newTopicDescribe(s), newTopicAlter(s), newTopicReassign(s), newTopicElect(s),
		newTopicMoveDir(s), newTopicDelete(s))
}

// topicSpec is what the flags of topic create ask for.
type topicSpec struct {
	partitions  int32
	replication int16
	configs     []string
	assignment  string
	ifNotExists bool
}

func newTopicCreate(s streams) *cobra.Command {
	var t topicSpec
	c := &cobra.Command{
		Use:   "create TOPIC...",
		Short: "Create topics",
		Example: `  moldau topic create orders --partitions 6
  moldau topic create state --config cleanup.policy=compact --config min.insync.replicas=2`,
		Args: args(1, -1, "the name of a topic"),
	}
	f := clientFlagsOf(c)
	c.Flags().Int32VarP(&t.partitions, "partitions", "p", -1, "number of partitions (default: the broker's num.partitions)")
	c.Flags().Int16VarP(&t.replication, "replication-factor", "r", -1,
		"copies of each partition (default: the broker's default.replication.factor)")
	c.Flags().StringArrayVarP(&t.configs, "config", "c", nil, "set `key=value` for the topic; may be given again")
	c.Flags().StringVar(&t.assignment, "assignment", "",
		"brokers of each partition, `0:1,1:2`: partitions parted by commas, replicas by colons, the leader first")
	c.Flags().BoolVar(&t.ifNotExists, "if-not-exists", false, "leave a topic that exists as it is")
	c.ValidArgsFunction = cobra.NoFileCompletions
	c.RunE = func(cmd *cobra.Command, names []string) error {
		req, err := t.request(names)
		if err != nil {
			return err
		}
		ses, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		ctx, cancel := ses.bound(cmd.Context())
		defer cancel()
		req.TimeoutMillis = int32(f.timeout.Milliseconds())
		resp, err := req.RequestWith(ctx, ses)
		if err != nil {
			return ses.explain(err)
		}
		return reportCreated(s.out, resp, t.ifNotExists)
	}
	return c
}

// topicExists is the code TOPIC_ALREADY_EXISTS, unknownTopic UNKNOWN_TOPIC_OR_PARTITION.
const (
	topicExists  = 36
	unknownTopic = 3
)

func reportCreated(w io.Writer, resp *kmsg.CreateTopicsResponse, ifNotExists bool) error {
	var failed problems
	for _, t := range resp.Topics {
		switch {
		case t.ErrorCode == topicExists && ifNotExists:
			fmt.Fprintf(w, "topic %s exists\n", t.Topic)
		case t.ErrorCode != 0:
			failed.add("topic "+t.Topic, answered(t.ErrorCode, t.ErrorMessage))
		case t.NumPartitions > 0:
			fmt.Fprintf(w, "created topic %s (%s, replication factor %d)\n", t.Topic,
				count(int(t.NumPartitions), "partition"), t.ReplicationFactor)
		default:
			fmt.Fprintf(w, "created topic %s\n", t.Topic)
		}
	}
	return failed.err()
}

func (t topicSpec) request(names []string) (*kmsg.CreateTopicsRequest, error) {
	configs, err := keyValues("--config", t.configs)
	if err != nil {
		return nil, err
	}
	assignment, err := parseAssignment(t.assignment)
	if err != nil {
		return nil, err
	}
	if len(assignment) > 0 && (t.partitions > 0 || t.replication > 0) {
		return nil, fmt.Errorf("--assignment says how many partitions and replicas there are; " +
			"leave out --partitions and --replication-factor")
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	for _, name := range names {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, t.partitions, t.replication
		for _, kv := range configs {
			c := kmsg.NewCreateTopicsRequestTopicConfig()
			c.Name, c.Value = kv.key, &kv.value
			topic.Configs = append(topic.Configs, c)
		}
		for i, replicas := range assignment {
			a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			a.Partition, a.Replicas = int32(i), replicas
			topic.ReplicaAssignment = append(topic.ReplicaAssignment, a)
		}
		req.Topics = append(req.Topics, topic)
	}
	return req, nil
}

// parseAssignment reads 0:1,1:2.
func parseAssignment(s string) ([][]int32, error) {
	if s == "" {
		return nil, nil
	}
	var out [][]int32
	for partition := range strings.SplitSeq(s, ",") {
		var replicas []int32
		for id := range strings.SplitSeq(partition, ":") {
			n, err := strconv.ParseInt(strings.TrimSpace(id), 10, 32)
			if err != nil {
				return nil, fmt.Errorf("--assignment %s: %q is no broker id; write 0:1,1:2", s, id)
			}
			replicas = append(replicas, int32(n))
		}
		out = append(out, replicas)
	}
	return out, nil
}

func newTopicDelete(s streams) *cobra.Command {
	c := &cobra.Command{Use: "delete TOPIC...", Short: "Delete topics and all their records",
		Args: args(1, -1, "the name of a topic")}
	f := clientFlagsOf(c)
	ifExists := c.Flags().Bool("if-exists", false, "say nothing of a topic that does not exist")
	c.ValidArgsFunction = f.completeTopics(-1)
	c.RunE = func(cmd *cobra.Command, names []string) error {
		ses, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		ctx, cancel := ses.bound(cmd.Context())
		defer cancel()
		got, err := ses.admin.DeleteTopics(ctx, names...)
		if err != nil {
			return ses.about("delete", err)
		}
		var failed problems
		for _, t := range got.Sorted() {
			e, isBroker := asBrokerError(t.Err)
			switch {
			case t.Err == nil:
				fmt.Fprintf(s.out, "deleted topic %s\n", t.Topic)
			case isBroker && e.code.Code == unknownTopic && *ifExists:
			case isBroker:
				failed.add("topic "+t.Topic, &brokerError{e.code, t.ErrMessage})
			default:
				failed.add("topic "+t.Topic, t.Err)
			}
		}
		return failed.err()
	}
	return c
}
