package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// brokerState is a broker, in service or not, and what it has.
type brokerState struct {
	ID        int32  `json:"id"`
	Address   string `json:"address"`
	Rack      string `json:"rack,omitempty"`
	State     string `json:"state"` // in service, drained or fenced
	Leads     int    `json:"leads"`
	Preferred int    `json:"preferred"` // partitions that it would lead if all were well
	Replicas  int    `json:"replicas"`
	OutOfSync int    `json:"outOfSync"`
	SizeBytes int64  `json:"sizeBytes"` // -1: not known
}

// The states of a broker.
const (
	inService = "in service"
	drained   = "drained" // in service, and closed to new replicas
	fenced    = "fenced"
)

func newClusterBrokers(s streams) *cobra.Command {
	c := &cobra.Command{Use: "brokers", Short: "Show every registered broker, whether it is in service, and what it has",
		Args: args(0, 0, "no argument")}
	f := clientFlagsOf(c)
	c.RunE = shows(s, f, outputFlag(c), (*session).brokerStates, printBrokers)
	return c
}

// registered lists the brokers of a cluster, fenced ones too where the broker that is asked can tell (KIP-1073).
func (s *session) registered(ctx context.Context) (*kmsg.DescribeClusterResponse, error) {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType, req.IncludeFencedBrokers = 1, true
	resp, err := req.RequestWith(ctx, s)
	if err == nil {
		err = answered(resp.ErrorCode, resp.ErrorMessage)
	}
	if err != nil {
		return nil, s.about("cluster", err)
	}
	return resp, nil
}

// brokerStates lists the brokers by id.
func (s *session) brokerStates(ctx context.Context) ([]brokerState, error) {
	known, err := s.registered(ctx)
	if err != nil {
		return nil, err
	}
	meta, err := s.admin.Metadata(ctx)
	if err != nil {
		return nil, s.about("cluster", err)
	}
	out := []brokerState{}
	var alive []int32
	for _, b := range known.Brokers {
		x := brokerState{ID: b.NodeID, Address: fmt.Sprintf("%s:%d", b.Host, b.Port), State: inService, SizeBytes: -1}
		if b.Rack != nil {
			x.Rack = *b.Rack
		}
		if b.IsFenced {
			x.State = fenced
		} else {
			alive = append(alive, b.NodeID)
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b brokerState) int { return int(a.ID - b.ID) })
	sizes, cordoned := s.replicaSizes(ctx, alive, nil)
	at := map[int32]*brokerState{}
	for i := range out {
		at[out[i].ID] = &out[i]
		if slices.Contains(cordoned, out[i].ID) {
			out[i].State = drained
		}
	}
	for r, n := range sizes {
		if b := at[r.broker]; b != nil {
			b.SizeBytes = max(b.SizeBytes, 0) + n
		}
	}
	for _, t := range meta.Topics {
		for _, p := range t.Partitions {
			for i, id := range p.Replicas {
				b := at[id]
				if b == nil {
					continue
				}
				b.Replicas++
				if i == 0 {
					b.Preferred++
				}
				if p.Leader == id {
					b.Leads++
				}
				if !slices.Contains(p.ISR, id) {
					b.OutOfSync++
				}
			}
		}
	}
	return out, nil
}

func printBrokers(w io.Writer, all []brokerState) error {
	t := newTable("BROKER", "ADDRESS", "RACK", "STATE", "LEADS", "PREFERRED", "REPLICAS", "OUT OF SYNC", "SIZE")
	for _, b := range all {
		t.add(b.ID, b.Address, b.Rack, b.State, b.Leads, b.Preferred, b.Replicas, b.OutOfSync, sizeOr(b.SizeBytes))
	}
	return t.print(w)
}
