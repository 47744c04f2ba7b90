package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// clusterStatus is how a cluster is.
type clusterStatus struct {
	ClusterID       string           `json:"clusterId"`
	Well            bool             `json:"well"`
	Quorum          *quorumDetail    `json:"quorum"` // null when the brokers do not tell
	Brokers         int              `json:"brokers"`
	Fenced          []int32          `json:"fenced"`
	Partitions      int              `json:"partitions"`
	WithoutLeader   int              `json:"withoutLeader"`
	UnderReplicated int              `json:"underReplicated"`
	NotPreferred    int              `json:"notPreferred"` // led by another replica than the preferred one
	Moving          int              `json:"moving"`
	Troubles        []partitionIssue `json:"troubles"` // the worst first, at most --limit
	Hidden          int              `json:"hidden"`   // how many more there are
}

// partitionIssue is what is wrong with one partition.
type partitionIssue struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Leader    int32   `json:"leader"`
	Replicas  []int32 `json:"replicas"`
	ISR       []int32 `json:"isr"`
	Why       string  `json:"why"`
}

// staleVoter is how long a voter may have been silent before it counts as missing.
const staleVoter = 10 * time.Second

var errUnwell = errors.New("the cluster is not well")

func newClusterStatus(s streams) *cobra.Command {
	c := &cobra.Command{Use: "status", Short: "Say whether the cluster is well, and what is wrong with it",
		Long: `Say whether the cluster is well: whether its metadata quorum has a majority, which brokers are missing, which partitions have
no leader or replicas that are not in sync, and what is being moved. With --check the exit status is 1 when it is not well.`,
		Args: args(0, 0, "no argument")}
	f := clientFlagsOf(c)
	output := outputFlag(c)
	check := c.Flags().Bool("check", false, "exit with status 1 when the cluster is not well")
	limit := c.Flags().Int("limit", 20, "how many partitions in trouble are listed")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		ses, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer ses.Close()
		v, err := ses.clusterStatus(cmd.Context(), max(*limit, 0))
		if err != nil {
			return err
		}
		if output.value == "json" {
			err = writeJSON(s.out, v)
		} else {
			err = v.print(s.out)
		}
		if err == nil && *check && !v.Well {
			return errUnwell
		}
		return err
	}
	return c
}

func (s *session) clusterStatus(parent context.Context, limit int) (*clusterStatus, error) {
	ctx, cancel := s.bound(parent)
	defer cancel()
	known, err := s.registered(ctx)
	if err != nil {
		return nil, err
	}
	meta, err := s.admin.Metadata(ctx)
	if err != nil {
		return nil, s.about("cluster", err)
	}
	v := &clusterStatus{ClusterID: known.ClusterID, Brokers: len(known.Brokers), Fenced: []int32{}, Troubles: []partitionIssue{}}
	for _, b := range known.Brokers {
		if b.IsFenced {
			v.Fenced = append(v.Fenced, b.NodeID)
		}
	}
	slices.Sort(v.Fenced)
	if p, nodes, err := s.describeQuorum(ctx); err == nil {
		d := quorumDetailOf(p, nodes)
		v.Quorum = &d
	}
	if moves, err := s.listMoves(parent, nil); err == nil { // an old broker may not know the request
		v.Moving = len(moves)
	}
	issues := v.judge(meta)
	v.Hidden = max(0, len(issues)-limit)
	v.Troubles = append(v.Troubles, issues[:len(issues)-v.Hidden]...)
	v.Well = len(issues) == 0 && len(v.Fenced) == 0 && v.Quorum != nil && v.Quorum.Leader >= 0 && len(v.missingVoters(time.Now())) == 0
	return v, nil
}

// judge counts the partitions and gives those in trouble, the worst first.
func (v *clusterStatus) judge(meta kadm.Metadata) []partitionIssue {
	var out []partitionIssue
	for _, t := range meta.Topics.Sorted() {
		for _, p := range t.Partitions.Sorted() {
			v.Partitions++
			if len(p.Replicas) > 0 && p.Leader >= 0 && p.Leader != p.Replicas[0] {
				v.NotPreferred++
			}
			why := ""
			switch {
			case p.Leader < 0:
				v.WithoutLeader++
				why = "no leader: " + v.absent(p.Replicas)
			case len(p.ISR) < len(p.Replicas):
				v.UnderReplicated++
				out := slices.DeleteFunc(slices.Clone(p.Replicas), func(id int32) bool { return slices.Contains(p.ISR, id) })
				why = "not in sync: " + v.absent(out)
			default:
				continue
			}
			out = append(out, partitionIssue{Topic: t.Topic, Partition: p.Partition, Leader: p.Leader, Replicas: notNull(p.Replicas),
				ISR: notNull(p.ISR), Why: why})
		}
	}
	slices.SortStableFunc(out, func(a, b partitionIssue) int { // without leader first
		return int(min(a.Leader, 0)) - int(min(b.Leader, 0))
	})
	return out
}

// absent names brokers, and which of them are out of service.
func (v *clusterStatus) absent(ids []int32) string {
	var parts []string
	for _, id := range ids {
		if slices.Contains(v.Fenced, id) {
			parts = append(parts, fmt.Sprintf("%d (fenced)", id))
		} else {
			parts = append(parts, fmt.Sprint(id))
		}
	}
	return strings.Join(parts, ", ")
}

// missingVoters are those that the leader has not heard of for a while.
func (v *clusterStatus) missingVoters(now time.Time) []int32 {
	var out []int32
	for _, r := range v.Quorum.Replicas {
		if r.Role == "voter" && r.LastFetchMs >= 0 && now.Sub(time.UnixMilli(r.LastFetchMs)) > staleVoter {
			out = append(out, r.Node)
		}
	}
	return out
}

func (v *clusterStatus) print(w io.Writer) error {
	word := "well"
	if !v.Well {
		word = "not well"
	}
	fmt.Fprintf(w, "cluster     %s, %s\n", v.ClusterID, word)
	if q := v.Quorum; q != nil {
		voters := 0
		for _, r := range q.Replicas {
			if r.Role != "observer" {
				voters++
			}
		}
		fmt.Fprintf(w, "quorum      leader %d, epoch %d, %s", q.Leader, q.LeaderEpoch, count(voters, "voter"))
		if missing := v.missingVoters(time.Now()); len(missing) > 0 {
			fmt.Fprintf(w, ", silent %s", joinInts(missing))
		}
		fmt.Fprintln(w)
	} else {
		fmt.Fprintln(w, "quorum      nobody describes it")
	}
	fmt.Fprintf(w, "brokers     %d of %d in service", v.Brokers-len(v.Fenced), v.Brokers)
	if len(v.Fenced) > 0 {
		fmt.Fprintf(w, ", fenced %s", joinInts(v.Fenced))
	}
	fmt.Fprintf(w, "\npartitions  %d, %d without leader, %d under-replicated, %d not led by their preferred replica, %d being reassigned\n",
		v.Partitions, v.WithoutLeader, v.UnderReplicated, v.NotPreferred, v.Moving)
	if len(v.Troubles) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := newTable("PARTITION", "LEADER", "REPLICAS", "IN SYNC", "WHY")
	for _, x := range v.Troubles {
		leader := fmt.Sprint(x.Leader)
		if x.Leader < 0 {
			leader = "none"
		}
		t.add(fmt.Sprintf("%s-%d", x.Topic, x.Partition), leader, joinInts(x.Replicas), joinInts(x.ISR), x.Why)
	}
	if err := t.print(w); err != nil || v.Hidden == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "and %d more, see --limit\n", v.Hidden)
	return err
}
