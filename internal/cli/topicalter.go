package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func newTopicAlter(s streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "alter TOPIC",
		Short: "Add partitions to a topic, or set and delete its configurations",
		Example: `  moldau topic alter orders --partitions 12
  moldau topic alter orders --config retention.ms=86400000 --delete-config segment.bytes`,
		Args: args(1, 1, "the name of a topic"),
	}
	f := clientFlagsOf(c)
	partitions := c.Flags().Int32P("partitions", "p", 0, "raise the number of partitions to this")
	set := c.Flags().StringArrayP("config", "c", nil, "set `key=value`; may be given again")
	remove := c.Flags().StringArray("delete-config", nil, "take back what was set for `key`; may be given again")
	c.ValidArgsFunction = f.completeTopics(1)
	c.RunE = func(cmd *cobra.Command, names []string) error {
		changes, err := configChanges("--config", *set, *remove)
		if err != nil {
			return err
		}
		if *partitions == 0 && len(changes) == 0 {
			return errors.New("nothing to alter: give --partitions, --config or --delete-config")
		}
		ses, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		if len(changes) > 0 {
			r := resource{kmsg.ConfigResourceTypeTopic, names[0]}
			if err := ses.alterConfigs(cmd.Context(), r, changes); err != nil {
				return err
			}
			fmt.Fprintf(s.out, "altered %s of %s\n", count(len(changes), "configuration"), r)
		}
		if *partitions == 0 {
			return nil
		}
		ctx, cancel := ses.bound(cmd.Context())
		defer cancel()
		got, err := ses.admin.UpdatePartitions(ctx, int(*partitions), names[0])
		if err != nil {
			return ses.about("topic "+names[0], err)
		}
		r := got[names[0]]
		if e, ok := asBrokerError(r.Err); ok {
			return ses.about("topic "+names[0], &brokerError{e.code, r.ErrMessage})
		}
		if r.Err != nil {
			return ses.about("topic "+names[0], r.Err)
		}
		fmt.Fprintf(s.out, "topic %s has %s now\n", names[0], count(int(*partitions), "partition"))
		return nil
	}
	return c
}
