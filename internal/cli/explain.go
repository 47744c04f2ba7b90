package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"moldau/internal/node"
)

const (
	defaultAdmin = "127.0.0.1:9644"
	adminEnv     = "MOLDAU_ADMIN"
	// maxExplanation bounds what is read of an explanation.
	maxExplanation = 64 << 20
)

func newExplain(s streams) *cobra.Command {
	return group("explain", "Say why something is as it is", newExplainGroup(s), newExplainPartition(s), newExplainTxn(s))
}

// explainFlags say where the node is that knows.
type explainFlags struct {
	admin   string
	timeout time.Duration
	given   func() bool
}

func newExplainGroup(s streams) *cobra.Command {
	c := &cobra.Command{Use: "group GROUP", Short: "Say who is in a group, what it waits for and why it rebalanced",
		Long: `Say who is in a group, what each member waits for, and who caused the last rebalances and why. The node that coordinates
the group is asked at its admin listener (moldau.admin.listener), since Kafka's protocol does not tell; the history is
kept in memory and begins with the node.`,
		Example: `  moldau explain group billing
  moldau explain group billing --admin 10.0.0.7:9644 -o json`,
		Args: args(1, 1, "the name of a group")}
	return explains(c, s, func(name string) (question, error) {
		return question{path: "/groups/" + url.PathEscape(name), what: "group " + name,
			elsewhere: "moldau group describe names the coordinator of a group"}, nil
	}, printExplanation)
}

// question is what an explain command asks of a node's admin listener. what names what it is about, elsewhere says how to
// find the node that knows when this one does not.
type question struct{ path, what, elsewhere string }

// explains makes a command that asks about its argument and prints the explanation.
func explains[E any](c *cobra.Command, s streams, about func(arg string) (question, error),
	print func(io.Writer, E) error) *cobra.Command {
	f := explainFlags{given: func() bool { return c.Flags().Changed("admin") }}
	c.Flags().StringVar(&f.admin, "admin", defaultAdmin, "`host:port` of the node's admin listener (environment "+adminEnv+")")
	c.Flags().DurationVar(&f.timeout, "timeout", 10*time.Second, "how long to wait for an answer")
	output := outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		q, err := about(args[0])
		if err != nil {
			return err
		}
		e, err := askNode[E](cmd.Context(), f, q)
		if err != nil {
			return err
		}
		if output.value == "json" {
			return writeJSON(s.out, e)
		}
		return print(s.out, e)
	}
	return c
}

func (f explainFlags) address() string {
	if env := os.Getenv(adminEnv); env != "" && !f.given() {
		return env
	}
	return f.admin
}

// askNode gets an explanation from a node's admin listener.
func askNode[E any](ctx context.Context, f explainFlags, q question) (E, error) {
	var e E
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.address()+q.path, nil)
	if err != nil {
		return e, fmt.Errorf("--admin %s: it must be host:port, such as %s", f.address(), defaultAdmin)
	}
	resp, err := http.DefaultClient.Do(req)
	switch {
	case errors.Is(err, context.Canceled):
		return e, err
	case errors.Is(err, context.DeadlineExceeded):
		return e, fmt.Errorf("no answer from %s within %s", f.address(), f.timeout)
	case err != nil:
		return e, fmt.Errorf("no node answers at %s (%s); name its admin listener with --admin", f.address(), cause(err))
	}
	defer resp.Body.Close()
	body := json.NewDecoder(io.LimitReader(resp.Body, maxExplanation))
	if resp.StatusCode != http.StatusOK {
		var why struct{ Error string }
		if err := body.Decode(&why); err != nil || why.Error == "" {
			return e, fmt.Errorf("%s answers %s; see whether it is a moldau node's admin listener", f.address(), resp.Status)
		}
		if resp.StatusCode == http.StatusMisdirectedRequest {
			why.Error += "; " + q.elsewhere
		}
		return e, fmt.Errorf("%s: %s", q.what, why.Error)
	}
	if err := body.Decode(&e); err != nil {
		return e, fmt.Errorf("%s answers something else (%w); see whether it is a moldau node's admin listener", f.address(), err)
	}
	return e, nil
}

func printExplanation(w io.Writer, e node.GroupExplanation) error {
	word := "generation"
	if e.Type == "consumer" {
		word = "epoch"
	}
	fmt.Fprintf(w, "group %s, type %s, state %s, %s %d, %s\n", e.Group, e.Type, e.State, word, e.Generation,
		count(len(e.Members), "member"))
	t := newTable("MEMBER", "INSTANCE", "CLIENT", "HOST", "PROTOCOL", "EPOCH", "ASSIGNED", "WAITS FOR")
	for _, m := range e.Members {
		t.add(m.Member, m.Instance, m.ClientID, hostText(m.ClientHost), m.Protocol, m.Epoch, assignmentText(m.Assigned), m.Waits)
	}
	if err := t.print(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if len(e.Rebalances) == 0 {
		fmt.Fprintln(w, "no rebalance since the node began to coordinate the group")
		return nil
	}
	fmt.Fprintln(w, "last rebalances, newest first")
	t = newTable("WHEN", "AGO", "TO", "BY", "WHY")
	for _, r := range slices.Backward(e.Rebalances) {
		t.add(r.At.Local().Format(time.DateTime), agoText(e.Now.Sub(r.At)), r.Generation, r.Member, r.Reason)
	}
	return t.print(w)
}

// agoText gives an age in its largest units.
func agoText(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours())/24)
	case d >= time.Minute:
		return d.Truncate(time.Minute).String()[:len(d.Truncate(time.Minute).String())-2]
	}
	return d.Truncate(time.Second).String()
}
