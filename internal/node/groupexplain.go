package node

import (
	"net/http"
	"time"

	"moldau/internal/coordinator"
	"moldau/internal/coordinator/group"
	"moldau/internal/kafka"
)

// GroupExplanation is what GET /groups/NAME of the admin listener answers: why a group is as it is. Its JSON names are an
// interface.
type GroupExplanation struct {
	Group      string          `json:"group"`
	Type       string          `json:"type"` // classic or consumer
	State      string          `json:"state"`
	Generation int32           `json:"generation"` // or group epoch
	Now        time.Time       `json:"now"`
	Members    []MemberWait    `json:"members"`
	Rebalances []RebalanceNote `json:"rebalances"` // the last ones, oldest first
}

// MemberWait is a member, what it has, and what it, or the group for it, waits for.
type MemberWait struct {
	Member     string             `json:"member"`
	Instance   string             `json:"instance,omitempty"`
	ClientID   string             `json:"clientId"`
	ClientHost string             `json:"clientHost"`
	Protocol   string             `json:"protocol"`
	Epoch      int32              `json:"epoch"`
	Assigned   map[string][]int32 `json:"assigned"`
	Waits      string             `json:"waits,omitempty"`
}

// RebalanceNote is a rebalance, the generation or epoch that it led to, and who caused it.
type RebalanceNote struct {
	At         time.Time `json:"at"`
	Generation int32     `json:"generation"`
	Member     string    `json:"member,omitempty"`
	Reason     string    `json:"reason"`
}

// serveGroup answers GET /groups/NAME.
func (n *Node) serveGroup(w http.ResponseWriter, r *http.Request) {
	e, err := n.explainGroup(r.PathValue("name"))
	answerAdmin(w, e, err)
}

func (n *Node) explainGroup(name string) (GroupExplanation, error) {
	var found group.Explanation
	known := false
	err := n.coordinators.groups.Inspect(name, func(m coordinator.Machine) {
		found, known = m.(*group.Machine).Explain(n.o.Now(), name)
	})
	if err == nil && !known {
		err = kafka.Errorf(kafka.GroupIDNotFound, "this node has no group %s", name)
	}
	if err != nil {
		return GroupExplanation{}, err
	}
	out := GroupExplanation{Group: found.Group, Type: found.Type, State: found.State, Generation: found.Generation,
		Now: n.o.Now(), Members: []MemberWait{}, Rebalances: []RebalanceNote{}}
	for _, m := range found.Members {
		out.Members = append(out.Members, MemberWait{Member: m.Member, Instance: m.Instance, ClientID: m.ClientID,
			ClientHost: m.ClientHost, Protocol: m.Protocol, Epoch: m.Epoch, Assigned: m.Assigned, Waits: m.Waits})
	}
	for _, h := range found.History {
		out.Rebalances = append(out.Rebalances, RebalanceNote(h))
	}
	return out, nil
}
