package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// clusterView is what cluster info tells.
type clusterView struct {
	ClusterID  string        `json:"clusterId"`
	Controller int32         `json:"controller"`
	Brokers    []brokerView  `json:"brokers"`
	Quorum     *quorumView   `json:"quorum"` // null when the brokers do not tell
	Features   []featureView `json:"features"`
	Topics     int           `json:"topics"`
	Partitions int           `json:"partitions"`
	NoLeader   int           `json:"partitionsWithoutLeader"`
	UnderRepl  int           `json:"partitionsUnderReplicated"`
}

// brokerView is a broker of the cluster.
type brokerView struct {
	ID       int32        `json:"id"`
	Host     string       `json:"host"`
	Port     int32        `json:"port"`
	Rack     string       `json:"rack,omitempty"`
	Software string       `json:"software"`
	Leads    int          `json:"leads"`
	Replicas int          `json:"replicas"`
	LogDirs  []logDirView `json:"logDirs"`
}

// logDirView is a log directory of a broker. Bytes are -1 when they are not told.
type logDirView struct {
	Path       string `json:"path"`
	Error      string `json:"error,omitempty"`
	Size       int64  `json:"sizeBytes"`
	TotalBytes int64  `json:"volumeBytes"`
	FreeBytes  int64  `json:"freeBytes"`
}

// quorumView is the state of the metadata quorum.
type quorumView struct {
	Leader        int32   `json:"leader"`
	LeaderEpoch   int32   `json:"leaderEpoch"`
	HighWatermark int64   `json:"highWatermark"`
	Voters        []int32 `json:"voters"`
	Observers     []int32 `json:"observers"`
}

// featureView is a feature with its finalized level.
type featureView struct {
	Name  string `json:"name"`
	Level int16  `json:"level"`
}

func newCluster(s streams) *cobra.Command {
	info := &cobra.Command{Use: "info", Short: "Show brokers, controller, quorum and features",
		Args: args(0, 0, "no argument")}
	f := clientFlagsOf(info)
	info.RunE = shows(s, f, outputFlag(info), (*session).clusterInfo,
		func(w io.Writer, v *clusterView) error { return v.print(w) })
	return group("cluster", "Show the cluster", info, newClusterStatus(s), newClusterBrokers(s), newClusterQuorum(s),
		newClusterUp(s))
}

func (s *session) clusterInfo(ctx context.Context) (*clusterView, error) {
	meta, err := s.admin.Metadata(ctx)
	if err != nil {
		return nil, s.about("cluster", err)
	}
	v := &clusterView{ClusterID: meta.Cluster, Controller: meta.Controller, Topics: len(meta.Topics),
		Brokers: []brokerView{}, Features: []featureView{}}
	leads, replicas := map[int32]int{}, map[int32]int{}
	for _, t := range meta.Topics {
		v.Partitions += len(t.Partitions)
		row := rowOf(t)
		v.NoLeader += row.WithoutLeader
		v.UnderRepl += row.UnderReplicated
		for _, p := range t.Partitions {
			leads[p.Leader]++
			for _, r := range p.Replicas {
				replicas[r]++
			}
		}
	}
	dirs, _ := s.admin.DescribeAllLogDirs(ctx, nil) // a broker that does not tell has none listed
	for _, b := range meta.Brokers {
		view := brokerView{ID: b.NodeID, Host: b.Host, Port: b.Port, Leads: leads[b.NodeID], Replicas: replicas[b.NodeID],
			LogDirs: dirsOf(dirs[b.NodeID])}
		if b.Rack != nil {
			view.Rack = *b.Rack
		}
		v.Brokers = append(v.Brokers, view)
	}
	s.addVersions(ctx, v)
	v.Quorum = s.quorum(ctx)
	return v, nil
}

func dirsOf(ds kadm.DescribedLogDirs) []logDirView {
	out := []logDirView{}
	for _, d := range ds.Sorted() {
		v := logDirView{Path: d.Dir, Size: d.Size(), TotalBytes: d.TotalBytes, FreeBytes: d.UsableBytes}
		if d.Err != nil {
			v.Error = d.Err.Error()
		}
		out = append(out, v)
	}
	return out
}

// addVersions asks every broker what it is, and the first that answers for the features.
func (s *session) addVersions(ctx context.Context, v *clusterView) {
	for i := range v.Brokers {
		b := &v.Brokers[i]
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "moldau-cli", Version
		answer, err := s.Broker(int(b.ID)).Request(ctx, req)
		resp, ok := answer.(*kmsg.ApiVersionsResponse)
		if err != nil || !ok {
			b.Software = "does not answer"
			continue
		}
		b.Software = fmt.Sprintf("%d APIs", len(resp.ApiKeys))
		if len(v.Features) == 0 {
			for _, f := range resp.FinalizedFeatures {
				v.Features = append(v.Features, featureView{f.Name, f.MaxVersionLevel})
			}
		}
	}
	slices.SortFunc(v.Features, func(a, b featureView) int { return strings.Compare(a.Name, b.Name) })
}

// quorum describes the metadata quorum, nil when nobody tells.
func (s *session) quorum(ctx context.Context) *quorumView {
	p, _, err := s.describeQuorum(ctx)
	if err != nil {
		return nil
	}
	q := &quorumView{Leader: p.LeaderID, LeaderEpoch: p.LeaderEpoch, HighWatermark: p.HighWatermark,
		Voters: []int32{}, Observers: []int32{}}
	for _, r := range p.CurrentVoters {
		q.Voters = append(q.Voters, r.ReplicaID)
	}
	for _, r := range p.Observers {
		q.Observers = append(q.Observers, r.ReplicaID)
	}
	return q
}

func (v *clusterView) print(w io.Writer) error {
	fmt.Fprintf(w, "cluster     %s\ncontroller  %d\n", v.ClusterID, v.Controller)
	if q := v.Quorum; q != nil {
		fmt.Fprintf(w, "quorum      leader %d, epoch %d, high watermark %d, voters %s", q.Leader, q.LeaderEpoch,
			q.HighWatermark, joinInts(q.Voters))
		if len(q.Observers) > 0 {
			fmt.Fprintf(w, ", observers %s", joinInts(q.Observers))
		}
		fmt.Fprintln(w)
	}
	var features []string
	for _, f := range v.Features {
		features = append(features, fmt.Sprintf("%s %d", f.Name, f.Level))
	}
	if len(features) > 0 {
		fmt.Fprintf(w, "features    %s\n", strings.Join(features, ", "))
	}
	fmt.Fprintf(w, "topics      %d with %s, %d without leader, %d under-replicated\n\n", v.Topics,
		count(v.Partitions, "partition"), v.NoLeader, v.UnderRepl)
	brokers := newTable("BROKER", "ADDRESS", "RACK", "ANSWERS", "LEADS", "REPLICAS")
	dirs := newTable("BROKER", "DIRECTORY", "STATE", "SIZE", "FREE", "VOLUME")
	for _, b := range v.Brokers {
		brokers.add(b.ID, fmt.Sprintf("%s:%d", b.Host, b.Port), b.Rack, b.Software, b.Leads, b.Replicas)
		for _, d := range b.LogDirs {
			state := "ok"
			if d.Error != "" {
				state = d.Error
			}
			dirs.add(b.ID, d.Path, state, sizeOr(d.Size), sizeOr(d.FreeBytes), sizeOr(d.TotalBytes))
		}
	}
	if err := brokers.print(w); err != nil || len(dirs.rows) == 0 {
		return err
	}
	fmt.Fprintln(w)
	return dirs.print(w)
}

func sizeOr(n int64) string {
	if n < 0 {
		return "-"
	}
	return sizeText(n)
}
