package controller

import (
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// State is what a decision is made from.
type State struct {
	// Image holds every record that was appended, committed or not.
	Image *metadata.Image
	// Liveness is what heartbeats have told in this term. Handle and Tick change it in place.
	Liveness *Liveness
	// NextOffset is where the next record will be appended. A broker epoch is such an offset.
	NextOffset kafka.Offset
	// Epoch is the quorum epoch of the term.
	Epoch    kafka.LeaderEpoch
	Settings *Settings
}

// Request is one request to the controller.
type Request struct {
	Principal kafka.Principal
	ClientID  string
	// Connected says whether the connection that the request came on is still open; nil for a request from
	// inside the node. Liveness keeps it for registrations: a broker whose connection is closed may be
	// replaced at once.
	Connected func() bool
	// Body is the request with its version set. The controller keeps parts of it: it must own its memory.
	Body kmsg.Request
}

// Result is a decision. The records must be appended before anything else is, all or none of them; the reply
// leaves once they are committed, and without records once everything that was appended before is.
type Result struct {
	Records []metadata.Record
	// Atomic asks for one batch; else the records may be cut into several.
	Atomic bool
	// Reply is the response with its version set; nil for Activate and Tick.
	Reply kmsg.Response
}

// turn is one decision under way.
type turn struct {
	State
	now time.Time
	rnd *rand.Rand
	// ELR says whether eligible leader replicas (KIP-966) are on.
	elr bool
	mv  int16
	// facts are the settings of topics that were looked at, common those of a topic that sets nothing.
	facts  map[kafka.UUID]topicFacts
	common topicFacts
}

func newTurn(now time.Time, s State, rnd *rand.Rand) *turn {
	return &turn{State: s, now: now, rnd: rnd, elr: s.Image.Feature(metadata.ElrVersionFeature) > 0,
		mv: s.Image.MetadataVersion()}
}

// Handles says whether Handle knows an API.
func Handles(key int16) bool {
	switch kmsg.Key(key) {
	case kmsg.CreateTopics, kmsg.DeleteTopics, kmsg.CreatePartitions, kmsg.AlterConfigs,
		kmsg.IncrementalAlterConfigs, kmsg.ElectLeaders, kmsg.AlterPartition, kmsg.UpdateFeatures,
		kmsg.BrokerRegistration, kmsg.BrokerHeartbeat, kmsg.UnregisterBroker, kmsg.AllocateProducerIDs,
		kmsg.ControllerRegistration, kmsg.AssignReplicasToDirs, kmsg.AlterPartitionAssignments,
		kmsg.ListPartitionReassignments, kmsg.UnregisterController:
		return true
	}
	return false
}

// Handle answers one request. The API must be one that Handles knows; for any other the result is empty and
// has no reply.
func Handle(now time.Time, s State, r Request, rnd *rand.Rand) Result {
	t := newTurn(now, s, rnd)
	out := t.handle(r)
	if out.Reply != nil {
		out.Reply.SetVersion(r.Body.GetVersion())
	}
	return out
}

func (t *turn) handle(r Request) Result {
	switch body := r.Body.(type) {
	case *kmsg.BrokerRegistrationRequest:
		return t.registerBroker(body, r.Connected)
	case *kmsg.BrokerHeartbeatRequest:
		return t.heartbeat(body, r.Connected)
	case *kmsg.AlterPartitionRequest:
		return t.alterPartition(body)
	case *kmsg.AssignReplicasToDirsRequest:
		return t.assignReplicasToDirs(body)
	case *kmsg.AllocateProducerIDsRequest:
		return t.allocateProducerIDs(body)
	case *kmsg.UnregisterBrokerRequest:
		return t.unregisterBroker(body)
	case *kmsg.ControllerRegistrationRequest:
		return t.registerController(body)
	case *kmsg.UnregisterControllerRequest:
		return t.unregisterController(body)
	case *kmsg.CreateTopicsRequest:
		return t.createTopics(body)
	case *kmsg.DeleteTopicsRequest:
		return t.deleteTopics(body)
	case *kmsg.CreatePartitionsRequest:
		return t.createPartitions(body)
	case *kmsg.AlterConfigsRequest:
		return t.alterConfigs(body)
	case *kmsg.IncrementalAlterConfigsRequest:
		return t.incrementalAlterConfigs(body)
	case *kmsg.ElectLeadersRequest:
		return t.electLeaders(body)
	case *kmsg.UpdateFeaturesRequest:
		return t.updateFeatures(body)
	case *kmsg.AlterPartitionAssignmentsRequest:
		return t.alterReassignments(body)
	case *kmsg.ListPartitionReassignmentsRequest:
		return t.listReassignments(body)
	}
	return Result{}
}
