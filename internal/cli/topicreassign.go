package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// reassignFlags are what topic reassign is told to do.
type reassignFlags struct {
	to                  []int32
	factor              int
	all, execute, watch bool
	cancel, list        bool
	// throttle is the most that a broker copies for the moves, in bytes per second; 0: no bound.
	throttle int64
	// keep leaves throttles in place when the moves have ended.
	keep bool
}

func newTopicReassign(s streams) *cobra.Command {
	var r reassignFlags
	c := &cobra.Command{
		Use:   "reassign [TOPIC...]",
		Short: "Move partitions between brokers, change their replication factor, watch or cancel such moves",
		Long: `Spread the partitions of topics evenly over brokers and racks, moving as few replicas as possible. The plan is printed with
what has to be copied; with --execute it is carried out, with --watch until it is done.

--list shows what is on the way, --watch alone waits for it, and --cancel takes it back.

--throttle bounds what brokers copy for the moves, by the same configurations that kafka-reassign-partitions sets; replicas
that are in sync are not held up by it. --watch and --cancel take it back from the topics and from all brokers, as the verify
step of Kafka's tool does, unless --preserve-throttles says otherwise.`,
		Example: `  moldau topic reassign orders --to 1,2,3            the plan
  moldau topic reassign orders --to 1,2,3 --execute --watch
  moldau topic reassign orders -r 3 --execute        three copies of everything
  moldau topic reassign orders --to 4,5,6 --execute --watch --throttle 50000000
  moldau topic reassign --all --execute              use brokers that are new
  moldau topic reassign orders --cancel --execute`,
	}
	f := clientFlagsOf(c)
	output := outputFlag(c)
	c.Flags().Int32SliceVar(&r.to, "to", nil, "`ids` of the brokers to use (default: all that are in service)")
	c.Flags().IntVarP(&r.factor, "replication-factor", "r", 0, "copies of each partition (default: as many as there are)")
	c.Flags().BoolVar(&r.all, "all", false, "all topics, internal ones too")
	c.Flags().BoolVar(&r.execute, "execute", false, "do it")
	c.Flags().BoolVarP(&r.watch, "watch", "w", false, "wait until everything has moved")
	c.Flags().BoolVar(&r.cancel, "cancel", false, "take back what is on the way")
	c.Flags().BoolVar(&r.list, "list", false, "show what is on the way")
	c.Flags().Int64Var(&r.throttle, "throttle", 0, "the most that a broker may copy in a second, in `bytes`")
	c.Flags().BoolVar(&r.keep, "preserve-throttles", false, "leave throttles in place")
	c.ValidArgsFunction = f.completeTopics(-1)
	c.RunE = func(cmd *cobra.Command, topics []string) error {
		if err := r.check(topics); err != nil {
			return err
		}
		ses, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		json := output.value == "json"
		switch {
		case r.list:
			return ses.showMoves(cmd.Context(), s, topics, json)
		case r.cancel:
			return ses.cancelMoves(cmd.Context(), s, topics, r)
		case r.watch && !r.execute:
			return ses.endMoves(cmd.Context(), s.out, topics, r)
		}
		return ses.reassign(cmd.Context(), s, topics, r, json)
	}
	return c
}

func (r reassignFlags) check(topics []string) error {
	ways := 0
	for _, on := range []bool{r.cancel, r.list, r.watch && !r.execute} {
		if on {
			ways++
		}
	}
	switch {
	case ways > 1:
		return errors.New("give one of --list, --cancel and --watch")
	case r.list && r.execute:
		return errors.New("--list executes nothing")
	case ways == 1 && (len(r.to) > 0 || r.factor != 0):
		return errors.New("--to and --replication-factor make a plan, which --list, --cancel and --watch alone do not")
	case r.all && len(topics) > 0:
		return errors.New("name topics or give --all")
	case ways == 0 && !r.all && len(topics) == 0:
		return errors.New("say what to move: topics, or --all; --list shows what is on the way")
	case r.throttle < 0:
		return errors.New("--throttle must be 1 or more")
	case r.throttle > 0 && !r.execute:
		return errors.New("--throttle goes with --execute")
	case r.factor < 0:
		return errors.New("--replication-factor must be 1 or more")
	}
	return nil
}

// reassign plans, and carries the plan out if told to.
func (s *session) reassign(ctx context.Context, to streams, topics []string, r reassignFlags, json bool) error {
	l, err := s.layout(ctx)
	if err != nil {
		return err
	}
	chosen, rest, err := l.choose(topics)
	if err != nil {
		return err
	}
	brokers, err := l.targets(r.to)
	if err != nil {
		return err
	}
	moves, err := plan(planInput{partitions: chosen, brokers: brokers, factor: r.factor, level: true, load: loadOf(rest)})
	if err != nil {
		return err
	}
	return s.carryOut(ctx, to, moves, r, json)
}

// carryOut prints a plan, and starts and watches it if told to.
func (s *session) carryOut(ctx context.Context, to streams, moves []plannedMove, r reassignFlags, json bool) error {
	v := planViewOf(moves)
	if json {
		if err := writeJSON(to.out, v); err != nil {
			return err
		}
	} else if err := v.print(to.out); err != nil {
		return err
	}
	if len(moves) == 0 {
		return nil
	}
	if !r.execute {
		if !json {
			fmt.Fprintln(to.out, "do it with --execute")
		}
		return nil
	}
	if err := s.refuseBusy(ctx, moves); err != nil {
		return err
	}
	if r.throttle > 0 {
		if err := s.throttle(ctx, moves, r.throttle); err != nil {
			return err
		}
	}
	if err := s.startMoves(ctx, moves); err != nil {
		return err
	}
	topics := topicsOfMoves(moves)
	switch {
	case r.watch:
		return s.endMoves(ctx, to.err, topics, r)
	case r.throttle > 0:
		fmt.Fprintf(to.err, "started; moldau topic reassign %s --watch waits for the end and takes the throttle back\n",
			strings.Join(topics, " "))
	default:
		fmt.Fprintln(to.err, "started; moldau topic reassign --watch waits for the end")
	}
	return nil
}

// endMoves waits for the end of moves and takes their throttles back.
func (s *session) endMoves(ctx context.Context, out io.Writer, topics []string, r reassignFlags) error {
	seen, err := s.watchMoves(ctx, out, topics)
	if err != nil || r.keep {
		return err
	}
	if topics = distinct(append(seen, topics...)); len(topics) == 0 {
		return nil
	}
	return s.unthrottle(ctx, topics)
}

func distinct(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

func topicsOfMoves(moves []plannedMove) []string {
	var out []string
	for i, m := range moves {
		if i == 0 || m.Topic != moves[i-1].Topic { // they are in order
			out = append(out, m.Topic)
		}
	}
	return out
}

// showMoves lists what is on the way.
func (s *session) showMoves(ctx context.Context, to streams, topics []string, json bool) error {
	all, err := s.listMoves(ctx, topics)
	if err != nil {
		return err
	}
	if json {
		return writeJSON(to.out, all)
	}
	t := newTable("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING", "LEFT")
	for _, m := range all {
		t.add(m.Topic, m.Partition, joinInts(m.Replicas), joinInts(m.Adding), joinInts(m.Removing), sizeOr(m.LeftBytes))
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(to.out, "no partition is being reassigned")
		return err
	}
	return t.print(to.out)
}

// cancelMoves takes back what is on the way.
func (s *session) cancelMoves(ctx context.Context, to streams, topics []string, r reassignFlags) error {
	all, err := s.listMoves(ctx, topics)
	if err != nil {
		return err
	}
	if len(all) == 0 || !r.execute {
		if err := s.showMoves(ctx, to, topics, false); err != nil || len(all) == 0 {
			return err
		}
		fmt.Fprintln(to.out, "take it back with --execute")
		return nil
	}
	var moves []plannedMove
	for _, m := range all {
		moves = append(moves, plannedMove{Topic: m.Topic, Partition: m.Partition})
		topics = append(topics, m.Topic)
	}
	if err := s.startMoves(ctx, moves); err != nil {
		return err
	}
	fmt.Fprintf(to.out, "took back %s\n", count(len(moves), "reassignment"))
	if r.keep {
		return nil
	}
	return s.unthrottle(ctx, distinct(topics))
}
