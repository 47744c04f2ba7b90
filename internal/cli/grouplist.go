package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// groupRow is a group in a listing.
type groupRow struct {
	Group        string `json:"group"`
	Type         string `json:"type"`
	ProtocolType string `json:"protocolType"`
	State        string `json:"state"`
	Coordinator  int32  `json:"coordinator"`
}

func newGroupList(s streams) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List groups", Args: args(0, 0, "no argument"),
		Example: `  moldau group list
  moldau group list --state stable --type consumer -o json`}
	f := clientFlagsOf(c)
	output := outputFlag(c)
	states := c.Flags().StringSlice("state", nil, "only groups in these `states`, such as stable,empty")
	types := c.Flags().StringSlice("type", nil, "only groups of these `types`: classic, consumer")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		ses, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		ctx, cancel := ses.bound(cmd.Context())
		defer cancel()
		groups, err := ses.admin.ListGroupsByType(ctx, *types, *states...)
		if err != nil {
			return ses.about("list groups", err)
		}
		rows := []groupRow{}
		for _, g := range groups.Sorted() {
			rows = append(rows, groupRow{g.Group, g.GroupType, g.ProtocolType, g.State, g.Coordinator})
		}
		if output.value == "json" {
			return writeJSON(s.out, rows)
		}
		t := newTable("GROUP", "TYPE", "PROTOCOL", "STATE", "COORDINATOR")
		for _, r := range rows {
			t.add(r.Group, r.Type, r.ProtocolType, r.State, r.Coordinator)
		}
		return t.print(s.out)
	}
	return c
}

func newGroupDescribe(s streams) *cobra.Command {
	c := &cobra.Command{Use: "describe GROUP...", Short: "Show groups with their members and what each of them reads",
		Long: `Show groups with their members and what each of them reads. TARGET is what the coordinator wants a member of the
consumer protocol to have, where that is not what it has. moldau explain group says what members wait for, moldau group
lag how far they are behind.`,
		Args: args(1, -1, "the name of a group")}
	f := clientFlagsOf(c)
	output := outputFlag(c)
	c.ValidArgsFunction = f.completeGroups(-1)
	c.RunE = func(cmd *cobra.Command, names []string) error {
		ses, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		views, failed := ses.describeGroups(cmd.Context(), names)
		if output.value == "json" && views != nil {
			err = writeJSON(s.out, views)
		} else {
			err = printGroups(s.out, views)
		}
		if failed != nil {
			return failed
		}
		return err
	}
	return c
}

func printGroups(w io.Writer, views []groupView) error {
	for i, v := range views {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := v.print(w); err != nil {
			return err
		}
	}
	return nil
}

func (v groupView) print(w io.Writer) error {
	fmt.Fprintf(w, "group %s, type %s, state %s", v.Group, v.Type, v.State)
	if v.Epoch != nil {
		fmt.Fprintf(w, ", epoch %d", *v.Epoch)
	}
	if v.Assignor != "" {
		fmt.Fprintf(w, ", assignor %s", v.Assignor)
	}
	fmt.Fprintf(w, ", coordinator %d, %s\n", v.Coordinator, count(len(v.Members), "member"))
	t := newTable("MEMBER", "INSTANCE", "CLIENT", "HOST", "EPOCH", "ASSIGNED", "TARGET")
	for _, m := range v.Members {
		epoch, target := "", assignmentText(m.Target)
		if m.Epoch != nil {
			epoch = fmt.Sprint(*m.Epoch)
		}
		if target == assignmentText(m.Assigned) {
			target = ""
		}
		t.add(m.Member, m.Instance, m.ClientID, m.Host, epoch, assignmentText(m.Assigned), target)
	}
	return t.print(w)
}
