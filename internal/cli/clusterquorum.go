package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// quorumReplica is a replica of the metadata log.
type quorumReplica struct {
	Node      int32    `json:"node"`
	Directory string   `json:"directory,omitempty"`
	Role      string   `json:"role"` // leader, voter or observer
	Endpoints []string `json:"endpoints,omitempty"`
	LogEnd    int64    `json:"logEnd"`
	Lag       int64    `json:"lag"` // records behind the leader; -1: not known
	// LastFetchMs and LastCaughtUpMs are moments in ms since 1970, -1 when not known.
	LastFetchMs    int64 `json:"lastFetchMs"`
	LastCaughtUpMs int64 `json:"lastCaughtUpMs"`
}

// quorumDetail is what cluster quorum tells.
type quorumDetail struct {
	Leader        int32           `json:"leader"`
	LeaderEpoch   int32           `json:"leaderEpoch"`
	HighWatermark int64           `json:"highWatermark"`
	Replicas      []quorumReplica `json:"replicas"`
}

func newClusterQuorum(s streams) *cobra.Command {
	c := &cobra.Command{Use: "quorum", Short: "Show the voters and observers of the metadata log, and how far each is",
		Args: args(0, 0, "no argument")}
	f := clientFlagsOf(c)
	c.RunE = shows(s, f, outputFlag(c), (*session).quorumDetail,
		func(w io.Writer, d quorumDetail) error { return d.print(w, time.Now()) })
	c.AddCommand(newQuorumRemove(s))
	return c
}

func (s *session) quorumDetail(ctx context.Context) (quorumDetail, error) {
	p, nodes, err := s.describeQuorum(ctx)
	if err != nil {
		return quorumDetail{}, s.about("quorum", err)
	}
	return quorumDetailOf(p, nodes), nil
}

var errNoQuorum = errors.New("the brokers do not describe the quorum")

// describeQuorum asks for the state of the metadata quorum.
func (s *session) describeQuorum(ctx context.Context) (
	p kmsg.DescribeQuorumResponseTopicPartition, nodes []kmsg.DescribeQuorumResponseNode, err error,
) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic = kafka.MetadataTopic
	t.Partitions = append(t.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, s)
	switch {
	case err != nil:
		return p, nil, err
	case resp.ErrorCode != 0:
		return p, nil, answered(resp.ErrorCode, resp.ErrorMessage)
	case len(resp.Topics) == 0 || len(resp.Topics[0].Partitions) == 0:
		return p, nil, errNoQuorum
	}
	p = resp.Topics[0].Partitions[0]
	return p, resp.Nodes, answered(p.ErrorCode, p.ErrorMessage)
}

func quorumDetailOf(p kmsg.DescribeQuorumResponseTopicPartition, nodes []kmsg.DescribeQuorumResponseNode) quorumDetail {
	d := quorumDetail{Leader: p.LeaderID, LeaderEpoch: p.LeaderEpoch, HighWatermark: p.HighWatermark, Replicas: []quorumReplica{}}
	end := int64(-1)
	for _, r := range p.CurrentVoters {
		if r.ReplicaID == p.LeaderID {
			end = r.LogEndOffset
		}
	}
	add := func(r kmsg.DescribeQuorumResponseTopicPartitionReplicaState, role string) {
		x := quorumReplica{Node: r.ReplicaID, Role: role, LogEnd: r.LogEndOffset, Lag: -1, LastFetchMs: r.LastFetchTimestamp,
			LastCaughtUpMs: r.LastCaughtUpTimestamp}
		if id := kafka.UUID(r.ReplicaDirectoryID); !id.IsZero() {
			x.Directory = id.String()
		}
		if r.ReplicaID == p.LeaderID {
			x.Role = "leader"
		}
		if end >= 0 && r.LogEndOffset >= 0 {
			x.Lag = max(0, end-r.LogEndOffset)
		}
		for _, n := range nodes {
			if n.NodeID != r.ReplicaID {
				continue
			}
			for _, l := range n.Listeners {
				x.Endpoints = append(x.Endpoints, fmt.Sprintf("%s:%d", l.Host, l.Port))
			}
		}
		d.Replicas = append(d.Replicas, x)
	}
	for _, r := range p.CurrentVoters {
		add(r, "voter")
	}
	for _, r := range p.Observers {
		add(r, "observer")
	}
	return d
}

func (d quorumDetail) print(w io.Writer, now time.Time) error {
	fmt.Fprintf(w, "leader %d, epoch %d, high watermark %d\n\n", d.Leader, d.LeaderEpoch, d.HighWatermark)
	t := newTable("NODE", "ROLE", "END", "LAG", "FETCHED", "CAUGHT UP", "ADDRESS", "DIRECTORY")
	for _, r := range d.Replicas {
		lag := ""
		if r.Lag >= 0 {
			lag = fmt.Sprint(r.Lag)
		}
		t.add(r.Node, r.Role, r.LogEnd, lag, momentAgo(r.LastFetchMs, now), momentAgo(r.LastCaughtUpMs, now),
			strings.Join(r.Endpoints, ","), r.Directory)
	}
	return t.print(w)
}

// momentAgo gives the age of a moment in ms since 1970, "" when it is not known.
func momentAgo(ms int64, now time.Time) string {
	if ms < 0 {
		return ""
	}
	return agoText(max(0, now.Sub(time.UnixMilli(ms)))) + " ago"
}
