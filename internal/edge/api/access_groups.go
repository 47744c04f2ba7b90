package api

import (
	"iter"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
)

var (
	readGroup      = groupAccess("Read on the group", kmsg.ACLOperationRead)
	describeGroups = groupAccess("Describe on the groups", kmsg.ACLOperationDescribe)
	deleteGroups   = groupAccess("Delete on the groups", kmsg.ACLOperationDelete)
	commitOffsets  = groupAndTopics("Read on the group and on the topics", kmsg.ACLOperationRead, kmsg.ACLOperationRead)
	fetchOffsets   = groupAndTopics("Describe on the groups and on the topics", kmsg.ACLOperationDescribe,
		kmsg.ACLOperationDescribe)
	deleteOffsets = groupAndTopics("Delete on the group and Read on the topics", kmsg.ACLOperationDelete,
		kmsg.ACLOperationRead)
	joinConsumers = groupAndTopics("Read on the group and Describe on the topics that it names", kmsg.ACLOperationRead,
		kmsg.ACLOperationDescribe)
	findCoordinators = access{"Describe on the groups, or on the transactional ids; ClusterAction on the cluster for share groups",
		coordinatorChecks}
)

func groupAccess(words string, op kmsg.ACLOperation) access {
	return access{words, func(_ *server.Call, r kmsg.Request) []server.AccessCheck { return onGroups(op, r) }}
}

// groupAndTopics asks for the groups first, as Kafka does.
func groupAndTopics(words string, onGroup, onTopic kmsg.ACLOperation) access {
	return access{words, func(_ *server.Call, r kmsg.Request) []server.AccessCheck {
		return append(onGroups(onGroup, r), onTopics(onTopic, r)...)
	}}
}

// onGroups asks for one operation on every group that a request names.
func onGroups(op kmsg.ACLOperation, r kmsg.Request) []server.AccessCheck {
	var checks []server.AccessCheck
	for id := range groupsOf(r) {
		checks = append(checks, server.AccessCheck{Operation: op, Type: kmsg.ACLResourceTypeGroup, Name: id})
	}
	return checks
}

// groupsOf goes through the groups that a request names, in its order.
func groupsOf(r kmsg.Request) iter.Seq[string] {
	switch r := r.(type) {
	case *kmsg.JoinGroupRequest:
		return only(r.Group)
	case *kmsg.SyncGroupRequest:
		return only(r.Group)
	case *kmsg.HeartbeatRequest:
		return only(r.Group)
	case *kmsg.LeaveGroupRequest:
		return only(r.Group)
	case *kmsg.ConsumerGroupHeartbeatRequest:
		return only(r.Group)
	case *kmsg.OffsetCommitRequest:
		return only(r.Group)
	case *kmsg.OffsetDeleteRequest:
		return only(r.Group)
	case *kmsg.AddOffsetsToTxnRequest:
		return only(r.Group)
	case *kmsg.TxnOffsetCommitRequest:
		return only(r.Group)
	case *kmsg.OffsetFetchRequest:
		if r.Version < 8 {
			return only(r.Group)
		}
		return each(r.Groups, func(g *kmsg.OffsetFetchRequestGroup) string { return g.Group })
	case *kmsg.DescribeGroupsRequest:
		return each(r.Groups, func(id *string) string { return *id })
	case *kmsg.ConsumerGroupDescribeRequest:
		return each(r.Groups, func(id *string) string { return *id })
	case *kmsg.DeleteGroupsRequest:
		return each(r.Groups, func(id *string) string { return *id })
	}
	return func(func(string) bool) {}
}

func only(name string) iter.Seq[string] { return func(yield func(string) bool) { yield(name) } }

// coordinatorChecks asks for the right to see what a coordinator is looked for; only brokers look for those of share
// groups.
func coordinatorChecks(_ *server.Call, r kmsg.Request) []server.AccessCheck {
	req := r.(*kmsg.FindCoordinatorRequest)
	keys := req.CoordinatorKeys
	if req.Version < 4 {
		keys = []string{req.CoordinatorKey}
	}
	var checks []server.AccessCheck
	for _, key := range keys {
		check := server.AccessCheck{Operation: kmsg.ACLOperationDescribe, Type: kmsg.ACLResourceTypeGroup, Name: key}
		switch req.CoordinatorType {
		case transactionCoordinator:
			check.Type = kmsg.ACLResourceTypeTransactionalId
		case shareCoordinator:
			check = clusterCheck(kmsg.ACLOperationClusterAction)
		}
		checks = append(checks, check)
	}
	return checks
}
