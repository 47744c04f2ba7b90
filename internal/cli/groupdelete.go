package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// dryRunRemark ends a run that has only told what it would do.
const dryRunRemark = "moldau: nothing was changed; --execute does it"

func newGroupDelete(s streams) *cobra.Command {
	c := &cobra.Command{Use: "delete GROUP...", Short: "Delete groups without members, and what they have committed",
		Long: `Delete groups without members, and what they have committed. Only what would go is printed unless --execute is
given.`,
		Example: `  moldau group delete billing
  moldau group delete billing reports --execute`,
		Args: args(1, -1, "the name of a group")}
	f := clientFlagsOf(c)
	execute := c.Flags().Bool("execute", false, "do it")
	c.ValidArgsFunction = f.completeGroups(-1)
	c.RunE = func(cmd *cobra.Command, names []string) error {
		ses, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		if *execute {
			return ses.deleteGroups(cmd.Context(), s, names)
		}
		views, failed := ses.describeGroups(cmd.Context(), names)
		for _, v := range views {
			offsets, err := ses.committed(cmd.Context(), v.Group)
			if err != nil {
				return err
			}
			n := 0
			offsets.Each(func(kadm.OffsetResponse) { n++ })
			if len(v.Members) > 0 {
				failed = errors.Join(failed, fmt.Errorf("group %s has %s; stop them first", v.Group,
					count(len(v.Members), "member")))
				continue
			}
			fmt.Fprintf(s.out, "would delete group %s with %s\n", v.Group, count(n, "offset"))
		}
		fmt.Fprintln(s.err, dryRunRemark)
		return failed
	}
	return c
}

func (s *session) deleteGroups(parent context.Context, to streams, names []string) error {
	if err := s.awaitCoordinators(parent, s.admin.FindGroupCoordinators, names...); err != nil {
		return err
	}
	ctx, cancel := s.bound(parent)
	defer cancel()
	got, err := s.admin.DeleteGroups(ctx, names...)
	if err != nil {
		return s.about("delete groups", err)
	}
	var failed problems
	for _, g := range got.Sorted() {
		switch {
		case g.Err != nil:
			failed.add("group "+g.Group, s.explain(g.Err))
		default:
			fmt.Fprintf(to.out, "deleted group %s\n", g.Group)
		}
	}
	return failed.err()
}

func newGroupDeleteOffsets(s streams) *cobra.Command {
	c := &cobra.Command{Use: "delete-offsets GROUP --topic TOPIC...", Short: "Forget what a group has committed of topics",
		Long: `Forget what a group has committed of topics that its members do not read. Only what would go is printed unless
--execute is given.`,
		Example: `  moldau group delete-offsets billing --topic old-orders --execute
  moldau group delete-offsets billing --topic orders:3,4`,
		Args: args(1, 1, "the name of a group")}
	f := clientFlagsOf(c)
	topics := c.Flags().StringArrayP("topic", "t", nil, "a topic, or `topic:0,1` for some partitions; may be given again")
	execute := c.Flags().Bool("execute", false, "do it")
	c.ValidArgsFunction = f.completeGroups(1)
	c.RunE = func(cmd *cobra.Command, names []string) error {
		chosen, err := parsePartitionChoice(*topics)
		if err != nil {
			return err
		}
		if len(chosen) == 0 {
			return errors.New("say what to forget: --topic, which may be given again")
		}
		ses, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		return ses.deleteOffsets(cmd.Context(), s, names[0], chosen, *execute)
	}
	return c
}

func (s *session) deleteOffsets(parent context.Context, to streams, name string, chosen partitionChoice, execute bool) error {
	committed, err := s.committed(parent, name)
	if err != nil {
		return err
	}
	going := kadm.TopicsSet{}
	var rows []kadm.OffsetResponse
	for _, o := range committed.Sorted() {
		if chosen.has(o.Topic, o.Partition) {
			going.Add(o.Topic, o.Partition)
			rows = append(rows, o)
		}
	}
	if len(rows) == 0 {
		return fmt.Errorf("group %s has committed nothing of these topics; moldau group lag %s shows what it has", name, name)
	}
	if !execute {
		for _, o := range rows {
			fmt.Fprintf(to.out, "would delete offset %d of topic %s, partition %d\n", o.At, o.Topic, o.Partition)
		}
		fmt.Fprintln(to.err, dryRunRemark)
		return nil
	}
	ctx, cancel := s.bound(parent)
	defer cancel()
	got, err := s.admin.DeleteOffsets(ctx, name, going)
	if err != nil {
		return s.about("group "+name, err)
	}
	var failed problems
	for _, o := range rows {
		if err := got[o.Topic][o.Partition]; err != nil {
			failed.add(fmt.Sprintf("topic %s, partition %d", o.Topic, o.Partition), s.explain(err))
			continue
		}
		fmt.Fprintf(to.out, "deleted offset %d of topic %s, partition %d\n", o.At, o.Topic, o.Partition)
	}
	return failed.err()
}

// memberChoice says which members to remove.
type memberChoice struct {
	ids, instances []string
	all            bool
	reason         string
}

func newGroupRemoveMember(s streams) *cobra.Command {
	c := &cobra.Command{Use: "remove-member GROUP", Short: "Take members out of a group, such as static ones that are gone",
		Long: `Take members out of a group, such as static ones that are gone for good: their partitions go to the others. A member
that is alive joins again by itself. Only what would happen is printed unless --execute is given.`,
		Example: `  moldau group remove-member billing --instance worker-7 --execute
  moldau group remove-member billing --all`,
		Args: args(1, 1, "the name of a group")}
	f := clientFlagsOf(c)
	var m memberChoice
	c.Flags().StringArrayVar(&m.ids, "member", nil, "a member `id`; may be given again")
	c.Flags().StringArrayVar(&m.instances, "instance", nil, "a static member's group.instance.`id`; may be given again")
	c.Flags().BoolVar(&m.all, "all", false, "every member")
	c.Flags().StringVar(&m.reason, "reason", "removed by moldau group remove-member", "`text` for the broker's log")
	execute := c.Flags().Bool("execute", false, "do it")
	c.ValidArgsFunction = f.completeGroups(1)
	c.RunE = func(cmd *cobra.Command, names []string) error {
		if some := len(m.ids)+len(m.instances) > 0; some == m.all {
			return errors.New("say which members: --member, --instance or --all")
		}
		ses, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		return ses.removeMembers(cmd.Context(), s, names[0], m, *execute)
	}
	return c
}

func (s *session) removeMembers(parent context.Context, to streams, name string, m memberChoice, execute bool) error {
	views, err := s.describeGroups(parent, []string{name})
	if err != nil {
		return err
	}
	going, err := m.choose(views[0])
	if err != nil {
		return err
	}
	if !execute {
		for _, x := range going {
			fmt.Fprintf(to.out, "would remove %s, which has %s\n", x.name(), cmp.Or(assignmentText(x.Assigned), "no partition"))
		}
		fmt.Fprintln(to.err, dryRunRemark)
		return nil
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = name
	for _, x := range going {
		member := kmsg.NewLeaveGroupRequestMember()
		member.Reason = &m.reason
		if member.MemberID = x.Member; x.Instance != "" {
			member.MemberID, member.InstanceID = "", &x.Instance
		}
		req.Members = append(req.Members, member)
	}
	ctx, cancel := s.bound(parent)
	defer cancel()
	resp, err := req.RequestWith(ctx, s)
	if err == nil {
		err = answered(resp.ErrorCode, nil)
	}
	if err != nil {
		return s.about("group "+name, err)
	}
	var failed problems
	for i, x := range resp.Members {
		if err := answered(x.ErrorCode, nil); err != nil && i < len(going) {
			failed.add(going[i].name(), err)
		} else if i < len(going) {
			fmt.Fprintf(to.out, "removed %s\n", going[i].name())
		}
	}
	return failed.err()
}

// choose gives the members that are meant; each must be there.
func (m memberChoice) choose(g groupView) ([]memberView, error) {
	if m.all {
		if len(g.Members) == 0 {
			return nil, fmt.Errorf("group %s has no members", g.Group)
		}
		return g.Members, nil
	}
	var out []memberView
	for _, id := range m.ids {
		i := slices.IndexFunc(g.Members, func(x memberView) bool { return x.Member == id })
		if i < 0 {
			return nil, fmt.Errorf("group %s has no member %s; moldau group describe %s shows them", g.Group, id, g.Group)
		}
		out = append(out, g.Members[i])
	}
	for _, id := range m.instances {
		i := slices.IndexFunc(g.Members, func(x memberView) bool { return x.Instance == id })
		if i < 0 {
			return nil, fmt.Errorf("group %s has no static member %s; moldau group describe %s shows them", g.Group, id, g.Group)
		}
		out = append(out, g.Members[i])
	}
	return out, nil
}

func (x memberView) name() string {
	if x.Instance != "" {
		return fmt.Sprintf("member %s (%s)", x.Instance, x.Member)
	}
	return "member " + x.Member
}
