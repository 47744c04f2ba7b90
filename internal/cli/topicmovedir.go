package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func newTopicMoveDir(s streams) *cobra.Command {
	c := &cobra.Command{Use: "move-dir TOPIC-PARTITION DIR", Short: "Move a broker's replica of a partition to another of its log directories",
		Long: `Move a broker's replica of a partition to another of its log directories (log.dirs). It is copied while it serves, and the
copy takes its place once it has everything; kafka-log-dirs --describe shows how far it is. Naming the directory it is in
takes a move back. A broker that has no such replica yet makes it there when it gets one.`,
		Example: `  moldau topic move-dir orders-3 /data2 --broker 1`,
		Args:    args(2, 2, "a partition and a directory")}
	f := clientFlagsOf(c)
	broker := c.Flags().Int32("broker", -1, "`id` of the broker whose replica is meant")
	c.RunE = func(cmd *cobra.Command, names []string) error {
		topic, partition, err := parsePartition(names[0])
		if err != nil {
			return err
		}
		if *broker < 0 {
			return fmt.Errorf("--broker says whose replica is meant; moldau topic describe %s shows who has one", topic)
		}
		ses, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		if err := ses.moveDir(cmd.Context(), *broker, topic, partition, names[1]); err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.out, "%s moves to %s on broker %d\n", names[0], names[1], *broker)
		return err
	}
	return c
}

func (s *session) moveDir(parent context.Context, broker int32, topic string, partition int32, dir string) error {
	ctx, cancel := s.bound(parent)
	defer cancel()
	req := kmsg.NewPtrAlterReplicaLogDirsRequest()
	req.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{Dir: dir,
		Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: topic, Partitions: []int32{partition}}}}}
	resp, err := req.RequestWith(ctx, s.Broker(int(broker)))
	if err != nil {
		return s.about(fmt.Sprintf("broker %d", broker), err)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := answered(p.ErrorCode, nil); err != nil {
				return s.about(fmt.Sprintf("%s-%d on broker %d", t.Topic, p.Partition, broker), err)
			}
		}
	}
	return nil
}
