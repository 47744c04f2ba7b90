package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// electionNotNeeded is the code ELECTION_NOT_NEEDED.
const electionNotNeeded = 84

func newTopicElect(s streams) *cobra.Command {
	c := &cobra.Command{Use: "elect [TOPIC-PARTITION...]", Short: "Give partitions back to their preferred leaders, or accept a loss",
		Long: `Make the first replica of partitions lead again, if it is in sync: of those that are named, or of all with --all.

With --unclean a partition that has no leader gets one that may lack acknowledged records, which are then lost for good: for
when the replicas that have them never come back. moldau explain partition says what each replica has.`,
		Example: `  moldau topic elect --all
  moldau topic elect orders-3 orders-4
  moldau topic elect orders-3 --unclean`,
		Args: args(0, -1, "partitions")}
	f := clientFlagsOf(c)
	all := c.Flags().Bool("all", false, "all partitions")
	unclean := c.Flags().Bool("unclean", false, "elect a replica that may lack acknowledged records, where nothing else is left")
	c.RunE = func(cmd *cobra.Command, names []string) error {
		switch {
		case *all == (len(names) > 0):
			return fmt.Errorf("name partitions, such as orders-3, or give --all")
		case *all && *unclean:
			return fmt.Errorf("--unclean wants the partitions by name: their records may be lost")
		}
		req, err := electionOf(names, *unclean)
		if err != nil {
			return err
		}
		ses, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		req.TimeoutMillis = int32(f.timeout.Milliseconds())
		return ses.elect(cmd.Context(), s, req)
	}
	return c
}

func electionOf(names []string, unclean bool) (*kmsg.ElectLeadersRequest, error) {
	req := kmsg.NewPtrElectLeadersRequest()
	if unclean {
		req.ElectionType = 1
	}
	for _, name := range names {
		topic, p, err := parsePartition(name)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(req.Topics, func(t kmsg.ElectLeadersRequestTopic) bool { return t.Topic == topic })
		if i < 0 {
			i = len(req.Topics)
			req.Topics = append(req.Topics, kmsg.ElectLeadersRequestTopic{Topic: topic})
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	return req, nil
}

func (s *session) elect(parent context.Context, to streams, req *kmsg.ElectLeadersRequest) error {
	ctx, cancel := s.bound(parent)
	defer cancel()
	resp, err := req.RequestWith(ctx, s)
	if err == nil {
		err = answered(resp.ErrorCode, nil)
	}
	if err != nil {
		return s.about("elect", err)
	}
	var failed problems
	elected := 0
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			name := fmt.Sprintf("%s-%d", t.Topic, p.Partition)
			switch {
			case p.ErrorCode == 0:
				elected++
				fmt.Fprintf(to.out, "%s has a new leader\n", name)
			case p.ErrorCode != electionNotNeeded:
				failed.add(name, answered(p.ErrorCode, p.ErrorMessage))
			case len(req.Topics) > 0:
				fmt.Fprintf(to.out, "%s needs no election\n", name)
			}
		}
	}
	if elected == 0 && len(req.Topics) == 0 && len(failed.errs) == 0 {
		fmt.Fprintln(to.out, "every partition is led as it should be")
	}
	return failed.err()
}
