package cli

import (
	"bufio"
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"
)

// commitEvery is how often a member of a group commits what it has printed, and looks at what others have committed.
const commitEvery = time.Second

// groupFlags are the flags of consume that concern its group.
type groupFlags struct {
	name     string
	instance string
	assignor *choice
	session  time.Duration
}

func (g *groupFlags) add(fl *pflag.FlagSet) {
	g.assignor = oneOf("cooperative-sticky", "range", "roundrobin", "sticky", "server")
	fl.StringVarP(&g.name, "group", "g", "", "read as a member of this `group` and commit what was printed")
	fl.Var(g.assignor, "assignor", "how the members share partitions out; server: the broker does (KIP-848)")
	fl.StringVar(&g.instance, "instance", "", "be a static member with this group.instance.`id`")
	fl.DurationVar(&g.session, "session-timeout", 45*time.Second, "how long the group waits for a member that is silent")
}

// check says what does not go together. alone lists flags of a group that were given without one.
func (g *groupFlags) check(fl *pflag.FlagSet, partitions []int32, begin position) error {
	if g.name == "" {
		for _, flag := range []string{"assignor", "instance", "session-timeout"} {
			if fl.Changed(flag) {
				return errors.New("--" + flag + " is for members of a group; give --group too")
			}
		}
		return nil
	}
	switch {
	case len(partitions) > 0:
		return errors.New("--group shares the partitions out; leave out --partition")
	case begin.explicit || begin.back > 0:
		return errors.New("with --group, --offset takes beginning or end, for partitions that the group has no offset of; " +
			"moldau group reset-offsets moves a group")
	}
	return nil
}

// options gives what makes a client a member. Only what is marked is committed: every second, before partitions go to
// somebody else, and at the end.
func (g *groupFlags) options(topics []string, begin position) []kgo.Opt {
	if g.name == "" {
		return nil
	}
	reset := kgo.NewOffset().AtStart()
	switch {
	case begin.end:
		reset = kgo.NewOffset().AtEnd()
	case !begin.since.IsZero():
		reset = kgo.NewOffset().AfterMilli(begin.since.UnixMilli())
	}
	opts := []kgo.Opt{kgo.ConsumerGroup(g.name), kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(reset),
		kgo.AutoCommitMarks(), kgo.AutoCommitInterval(commitEvery), kgo.BlockRebalanceOnPoll(), kgo.SessionTimeout(g.session)}
	if g.instance != "" {
		opts = append(opts, kgo.InstanceID(g.instance))
	}
	switch g.assignor.value {
	case "range":
		return append(opts, kgo.Balancers(kgo.RangeBalancer()))
	case "roundrobin":
		return append(opts, kgo.Balancers(kgo.RoundRobinBalancer()))
	case "sticky":
		return append(opts, kgo.Balancers(kgo.StickyBalancer()))
	case "server": // the balancer only names what is asked of the broker: sticky stands for uniform
		return append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	return append(opts, kgo.Balancers(kgo.CooperativeStickyBalancer()))
}

// share finds what the group has not read: the partitions that will be done when their ends are committed or read here.
func (r *consuming) share(parent context.Context, at position) error {
	ctx, cancel := r.bound(parent)
	defer cancel()
	all, times, err := r.ranges(ctx, at)
	if err != nil {
		return err
	}
	committed, err := r.committed(parent, r.flags.group.name)
	if err != nil {
		return err
	}
	r.left = map[string]map[int32]int64{}
	for topic, partitions := range all {
		r.left[topic] = map[int32]int64{}
		for p, b := range partitions {
			begin, err := at.from(topic, p, b, times)
			if err != nil {
				return err
			}
			if o, ok := committed.Lookup(topic, p); ok && o.At >= 0 {
				begin = max(o.At, b.start)
			}
			if begin < b.end {
				r.left[topic][p] = b.end
			}
		}
	}
	return nil
}

// member prints what this member of the group is given. Everything printed is committed before it ends, as long as the
// broker answers.
func (r *consuming) member(ctx context.Context, out *bufio.Writer) (err error) {
	defer func() {
		last, cancel := r.bound(context.WithoutCancel(ctx))
		defer cancel()
		r.AllowRebalance()
		if commit := r.CommitMarkedOffsets(last); err == nil && commit != nil {
			err = r.about("group "+r.flags.group.name, commit)
		}
		r.LeaveGroupContext(last)
	}()
	progress, looked := time.Now(), time.Now()
	for !r.done() {
		poll, cancel := context.WithTimeout(ctx, min(pollWait, commitEvery))
		fetches := r.PollRecords(poll, pollRecords)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := r.fetchError(fetches); err != nil {
			return err
		}
		printed, err := r.write(out, fetches)
		if err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		r.MarkCommitRecords(printed...)
		r.AllowRebalance()
		if len(printed) > 0 {
			progress = time.Now()
		}
		if r.flags.follow || time.Since(looked) < commitEvery || r.done() {
			continue
		}
		looked = time.Now()
		if others, err := r.readByOthers(ctx); err != nil {
			return err
		} else if others {
			progress = looked
		}
		if time.Since(progress) > r.timeout+r.flags.group.session {
			return r.stuck(ctx)
		}
	}
	return nil
}

// readByOthers takes the partitions off the account that other members have read to the end, and says whether there were
// any.
func (r *consuming) readByOthers(ctx context.Context) (bool, error) {
	committed, err := r.committed(ctx, r.flags.group.name)
	if err != nil {
		return false, err
	}
	found := false
	for topic, partitions := range r.left {
		for p, end := range partitions {
			if o, ok := committed.Lookup(topic, p); ok && o.At >= end {
				delete(partitions, p)
				found = true
			}
		}
	}
	return found, nil
}
