package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func newGroup(s streams) *cobra.Command {
	return group("group", "List, describe, reset and delete consumer groups",
		newGroupList(s), newGroupDescribe(s), newGroupLag(s), newGroupReset(s), newGroupDelete(s),
		newGroupDeleteOffsets(s), newGroupRemoveMember(s))
}

// groupView is a group of either protocol.
type groupView struct {
	Group        string       `json:"group"`
	Type         string       `json:"type"` // classic or consumer
	ProtocolType string       `json:"protocolType,omitempty"`
	State        string       `json:"state"`
	Coordinator  int32        `json:"coordinator"`
	Epoch        *int32       `json:"epoch,omitempty"` // of consumer groups
	Assignor     string       `json:"assignor"`
	Members      []memberView `json:"members"`
}

// memberView is a member of a group. Target is what the coordinator wants it to have, in consumer groups.
type memberView struct {
	Member     string             `json:"member"`
	Instance   string             `json:"instance,omitempty"`
	ClientID   string             `json:"clientId"`
	Host       string             `json:"host"`
	Rack       string             `json:"rack,omitempty"`
	Type       string             `json:"type"`
	Epoch      *int32             `json:"epoch,omitempty"`
	Subscribed []string           `json:"subscribed"`
	Pattern    string             `json:"pattern,omitempty"`
	Assigned   map[string][]int32 `json:"assigned"`
	Target     map[string][]int32 `json:"target,omitempty"`
}

// errNoGroup is what is said of a group that nobody has heard of.
var errNoGroup = &brokerError{code: kerr.GroupIDNotFound, message: "there is no such group"}

// describeGroups describes groups of both protocols. Groups that cannot be described are in the error.
func (s *session) describeGroups(parent context.Context, names []string) ([]groupView, error) {
	if err := s.awaitCoordinators(parent, s.admin.FindGroupCoordinators, names...); err != nil {
		return nil, err
	}
	ctx, cancel := s.bound(parent)
	defer cancel()
	consumers, err := s.admin.DescribeConsumerGroups(ctx, names...)
	if err != nil && !unsupported(err) {
		return nil, s.about("describe groups", err)
	}
	var classic []string
	for _, name := range names {
		if g, ok := consumers[name]; !ok || errors.Is(g.Err, kerr.GroupIDNotFound) || unsupported(g.Err) {
			classic = append(classic, name)
		}
	}
	described := kadm.DescribedGroups{}
	if len(classic) > 0 {
		if described, err = s.admin.DescribeGroups(ctx, classic...); err != nil {
			return nil, s.about("describe groups", err)
		}
	}
	views := []groupView{}
	var failed problems
	for _, name := range names {
		view, err := viewOf(name, consumers, described)
		if err != nil {
			failed.add("group "+name, s.explain(err))
			continue
		}
		views = append(views, view)
	}
	return views, failed.err()
}

// unsupported says whether a broker is too old for a request.
func unsupported(err error) bool {
	if errors.Is(err, kerr.UnsupportedVersion) {
		return true
	}
	var shards *kadm.ShardErrors
	if errors.As(err, &shards) && len(shards.Errs) > 0 {
		err = shards.Errs[0].Err
	}
	return err != nil && strings.Contains(err.Error(), "broker is too old")
}

func viewOf(name string, consumers kadm.DescribedConsumerGroups, classic kadm.DescribedGroups) (groupView, error) {
	if g, ok := classic[name]; ok {
		switch {
		case errors.Is(g.Err, kerr.GroupIDNotFound), g.Err == nil && g.State == "Dead":
			return groupView{}, errNoGroup
		case g.Err != nil:
			return groupView{}, withMessage(g.Err, g.ErrMessage)
		}
		return classicView(g), nil
	}
	g := consumers[name]
	if g.Err != nil {
		return groupView{}, g.Err
	}
	view := groupView{Group: name, Type: "consumer", ProtocolType: "consumer", State: g.State, Coordinator: g.Coordinator.NodeID,
		Epoch: &g.Epoch, Assignor: g.AssignorName, Members: []memberView{}}
	for _, m := range g.Members {
		x := memberView{Member: m.MemberID, Instance: textOf(m.InstanceID), ClientID: m.ClientID, Host: hostText(m.ClientHost),
			Rack: textOf(m.RackID), Type: "consumer", Epoch: &m.MemberEpoch, Subscribed: m.SubscribedTopics,
			Pattern: textOf(m.SubscribedTopicRegex), Assigned: partitionsOf(m.Assignment), Target: partitionsOf(m.TargetAssignment)}
		if m.MemberType == 0 {
			x.Type = "classic"
		}
		view.Members = append(view.Members, x)
	}
	return view, nil
}

// withMessage gives a broker's error with the broker's own words, if it has any.
func withMessage(err error, message string) error {
	if e, ok := asBrokerError(err); ok && message != "" {
		return &brokerError{code: e.code, message: message}
	}
	return err
}

func classicView(g kadm.DescribedGroup) groupView {
	view := groupView{Group: g.Group, Type: "classic", ProtocolType: g.ProtocolType, State: g.State,
		Coordinator: g.Coordinator.NodeID, Assignor: g.Protocol, Members: []memberView{}}
	for _, m := range g.Members {
		x := memberView{Member: m.MemberID, Instance: textOf(m.InstanceID), ClientID: m.ClientID, Host: hostText(m.ClientHost),
			Type: "classic", Assigned: map[string][]int32{}}
		if join, ok := m.Join.AsConsumer(); ok {
			x.Subscribed = join.Topics
		}
		if assigned, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range assigned.Topics {
				x.Assigned[t.Topic] = slices.Sorted(slices.Values(t.Partitions))
			}
		}
		view.Members = append(view.Members, x)
	}
	return view
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// hostText takes off the slash that brokers put before an address.
func hostText(host string) string { return strings.TrimPrefix(host, "/") }

func partitionsOf(set kadm.TopicsSet) map[string][]int32 {
	out := map[string][]int32{}
	for topic, partitions := range set {
		out[topic] = slices.Sorted(maps.Keys(partitions))
	}
	return out
}

// assignmentText writes partitions as orders:0-2,5 payments:1.
func assignmentText(assigned map[string][]int32) string {
	var parts []string
	for _, topic := range slices.Sorted(maps.Keys(assigned)) {
		if len(assigned[topic]) > 0 {
			parts = append(parts, topic+":"+rangesText(assigned[topic]))
		}
	}
	return strings.Join(parts, " ")
}

// rangesText writes ascending numbers with runs drawn together.
func rangesText(ns []int32) string {
	var b strings.Builder
	for i := 0; i < len(ns); i++ {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(ns[i])))
		first := i
		for i+1 < len(ns) && ns[i+1] == ns[i]+1 {
			i++
		}
		switch i - first {
		case 0:
		case 1:
			fmt.Fprintf(&b, ",%d", ns[i])
		default:
			fmt.Fprintf(&b, "-%d", ns[i])
		}
	}
	return b.String()
}

// partitionChoice is what --topic flags name: partitions of topics, or all of a topic where the list is empty.
type partitionChoice map[string][]int32

// parsePartitionChoice reads --topic orders and --topic orders:0,2.
func parsePartitionChoice(flags []string) (partitionChoice, error) {
	out := partitionChoice{}
	for _, f := range flags {
		topic, list, some := strings.Cut(f, ":")
		if topic == "" {
			return nil, fmt.Errorf("--topic %q: write a topic, or topic:0,1 for some of its partitions", f)
		}
		if !some {
			out[topic] = []int32{}
			continue
		}
		if had, ok := out[topic]; ok && len(had) == 0 {
			continue // all of them already
		}
		for text := range strings.SplitSeq(list, ",") {
			n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
			if err != nil || n < 0 {
				return nil, fmt.Errorf("--topic %s: %q is no partition; write topic:0,1", f, text)
			}
			out[topic] = append(out[topic], int32(n))
		}
	}
	return out, nil
}

// has says whether a partition is among those chosen.
func (c partitionChoice) has(topic string, partition int32) bool {
	list, ok := c[topic]
	return ok && (len(list) == 0 || slices.Contains(list, partition))
}

// completeGroups offers the groups of the cluster to the shell.
func (f *clientFlags) completeGroups(most int) cobra.CompletionFunc {
	return f.complete(most, func(ctx context.Context, s *session) []string {
		groups, _ := s.admin.ListGroups(ctx)
		return groups.Groups()
	})
}

// awaitCoordinators waits until every group or transactional id has a coordinator. The first question about one makes the
// broker create the topic that holds them, and until that is done the client's own requests fail.
func (s *session) awaitCoordinators(parent context.Context,
	find func(context.Context, ...string) kadm.FindCoordinatorResponses, names ...string) error {
	ctx, cancel := s.bound(parent)
	defer cancel()
	for {
		found := find(ctx, names...)
		err := found.Error()
		if !errors.Is(err, kerr.CoordinatorNotAvailable) {
			return s.about("coordinator", err)
		}
		select {
		case <-ctx.Done():
			return s.about("coordinator", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// committed gives what a group has committed.
func (s *session) committed(parent context.Context, name string) (kadm.OffsetResponses, error) {
	if err := s.awaitCoordinators(parent, s.admin.FindGroupCoordinators, name); err != nil {
		return nil, err
	}
	ctx, cancel := s.bound(parent)
	defer cancel()
	got, err := s.admin.FetchOffsets(ctx, name)
	if err == nil {
		err = got.Error()
	}
	return got, s.about("group "+name, err)
}
