package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func newBroker(s streams) *cobra.Command {
	return group("broker", "Empty brokers, open them again, remove them",
		newBrokerDrain(s), newBrokerUndrain(s), newBrokerRemove(s))
}

// brokerID reads the argument of the commands on brokers.
func brokerID(text string) (int32, error) {
	id, err := strconv.ParseInt(text, 10, 32)
	if err != nil || id < 0 {
		return 0, fmt.Errorf("%q is no broker id; moldau cluster brokers shows them", text)
	}
	return int32(id), nil
}

// onBroker is what a command does that is given the id of a broker.
func (f *clientFlags) onBroker(run func(context.Context, *session, int32) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, names []string) error {
		id, err := brokerID(names[0])
		if err != nil {
			return err
		}
		ses, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		return run(cmd.Context(), ses, id)
	}
}

const cordonKey = "cordoned.log.dirs"

// cordon closes a broker to new replicas, or opens it again. It must be in service to hear of it.
func (s *session) cordon(ctx context.Context, id int32, closed bool) error {
	change := configChange{key: cordonKey, op: kmsg.IncrementalAlterConfigOpDelete}
	if closed {
		change.value, change.op = "*", kmsg.IncrementalAlterConfigOpSet
	}
	return s.alterConfigs(ctx, resource{kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(id))}, []configChange{change})
}

func newBrokerDrain(s streams) *cobra.Command {
	r := reassignFlags{}
	c := &cobra.Command{Use: "drain ID", Short: "Move all replicas away from a broker",
		Long: `Move all replicas away from a broker, to those with the fewest, and close it to new ones (cordoned.log.dirs). The broker goes
on running; moldau broker undrain opens it again, moldau broker remove forgets it once it has stopped. A broker that is lost
can be drained too, when other replicas of its partitions are in sync.

Only what would happen is printed unless --execute is given.`,
		Example: `  moldau broker drain 3
  moldau broker drain 3 --execute --watch`,
		Args: args(1, 1, "the id of a broker")}
	f := clientFlagsOf(c)
	output := outputFlag(c)
	c.Flags().Int32SliceVar(&r.to, "to", nil, "`ids` of the brokers that take the replicas (default: all others)")
	c.Flags().BoolVar(&r.execute, "execute", false, "do it")
	c.Flags().BoolVarP(&r.watch, "watch", "w", false, "wait until everything has moved")
	c.Flags().Int64Var(&r.throttle, "throttle", 0, "the most that a broker may copy in a second, in `bytes`")
	c.RunE = f.onBroker(func(ctx context.Context, ses *session, id int32) error {
		return ses.drain(ctx, s, id, r, output.value == "json")
	})
	return c
}

func (s *session) drain(ctx context.Context, to streams, id int32, r reassignFlags, json bool) error {
	l, err := s.layout(ctx)
	if err != nil {
		return err
	}
	var leaves, rest []placedPartition
	for _, p := range l.partitions {
		if slices.Contains(p.Replicas, id) {
			leaves = append(leaves, p)
		} else {
			rest = append(rest, p)
		}
	}
	open, err := l.targets(r.to)
	if err != nil {
		return err
	}
	in := planInput{partitions: leaves, load: loadOf(rest)}
	for _, b := range l.keepers(leaves) {
		if b.ID == id {
			continue
		}
		in.brokers = append(in.brokers, b)
		if !slices.Contains(open, b) {
			in.closed = append(in.closed, b.ID)
		}
	}
	moves, err := plan(in)
	if err != nil {
		return fmt.Errorf("broker %d cannot be drained: %w", id, err)
	}
	alive := slices.ContainsFunc(l.brokers, func(b planBroker) bool { return b.ID == id })
	if r.execute && alive {
		if err := s.cordon(ctx, id, true); err != nil {
			return err
		}
		fmt.Fprintf(to.err, "broker %d takes no new replicas\n", id)
	}
	return s.carryOut(ctx, to, moves, r, json)
}

// keepers are the brokers whose replicas may stay where they are: all but those that are cordoned, which the controller
// takes into no assignment. One that is down keeps its replicas too.
func (l *layout) keepers(partitions []placedPartition) []planBroker {
	out := slices.DeleteFunc(slices.Clone(l.brokers), func(b planBroker) bool { return slices.Contains(l.cordoned, b.ID) })
	for _, p := range partitions {
		for _, id := range p.Replicas {
			known := func(b planBroker) bool { return b.ID == id }
			if !slices.ContainsFunc(l.brokers, known) && !slices.ContainsFunc(out, known) {
				out = append(out, planBroker{ID: id})
			}
		}
	}
	return out
}

func newBrokerUndrain(s streams) *cobra.Command {
	c := &cobra.Command{Use: "undrain ID", Short: "Let a broker take new replicas again",
		Long: `Let a broker take new replicas again. What was moved away stays where it is: moldau topic reassign --all spreads everything
anew.`,
		Args: args(1, 1, "the id of a broker")}
	f := clientFlagsOf(c)
	c.RunE = f.onBroker(func(ctx context.Context, ses *session, id int32) error {
		if err := ses.cordon(ctx, id, false); err != nil {
			return err
		}
		_, err := fmt.Fprintf(s.out, "broker %d takes new replicas\n", id)
		return err
	})
	return c
}

func newBrokerRemove(s streams) *cobra.Command {
	c := &cobra.Command{Use: "remove ID", Short: "Forget a broker that has stopped for good",
		Long: `Forget a broker that has stopped for good. It must have no replicas any more (moldau broker drain), unless --force is given:
its partitions then go on without it, and those that had no other replica in sync are lost until it comes back.`,
		Args: args(1, 1, "the id of a broker")}
	f := clientFlagsOf(c)
	force := c.Flags().Bool("force", false, "even if it has replicas")
	c.RunE = f.onBroker(func(ctx context.Context, ses *session, id int32) error {
		return ses.removeBroker(ctx, s, id, *force)
	})
	return c
}

func (s *session) removeBroker(parent context.Context, to streams, id int32, force bool) error {
	l, err := s.layout(parent)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(l.brokers, func(b planBroker) bool { return b.ID == id }) {
		return fmt.Errorf("broker %d is in service; stop it first", id)
	}
	if n := loadOf(l.partitions)[id]; n > 0 && !force {
		return fmt.Errorf("broker %d has %s; move them with moldau broker drain %d, or give --force", id, count(n, "replica"), id)
	}
	ctx, cancel := s.bound(parent)
	defer cancel()
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = id
	resp, err := req.RequestWith(ctx, s)
	if err == nil {
		err = answered(resp.ErrorCode, resp.ErrorMessage)
	}
	if err != nil {
		return s.about(fmt.Sprintf("broker %d", id), err)
	}
	fmt.Fprintf(to.out, "removed broker %d\n", id)
	if q := s.quorum(ctx); q != nil && slices.Contains(q.Voters, id) {
		fmt.Fprintf(to.err, "node %d is still a voter of the metadata quorum\n", id)
	}
	return nil
}
