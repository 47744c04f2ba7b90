package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
)

var (
	writeTransaction = access{"Write on the transactional id", func(_ *server.Call, r kmsg.Request) []server.AccessCheck {
		return []server.AccessCheck{transactionalCheck(kmsg.ACLOperationWrite, r.(*kmsg.EndTxnRequest).TransactionalID)}
	}}
	addToTransactions = access{"Write on the transactional id and on the topics; ClusterAction on the cluster for brokers",
		func(_ *server.Call, r kmsg.Request) []server.AccessCheck {
			req := r.(*kmsg.AddPartitionsToTxnRequest)
			if req.Version >= 4 {
				return []server.AccessCheck{clusterCheck(kmsg.ACLOperationClusterAction)}
			}
			return append(onTopics(kmsg.ACLOperationWrite, r), transactionalCheck(kmsg.ACLOperationWrite, req.TransactionalID))
		}}
	addOffsets = access{"Write on the transactional id and Read on the group",
		func(_ *server.Call, r kmsg.Request) []server.AccessCheck {
			id := r.(*kmsg.AddOffsetsToTxnRequest).TransactionalID
			return append(onGroups(kmsg.ACLOperationRead, r), transactionalCheck(kmsg.ACLOperationWrite, id))
		}}
	commitInTransaction = access{"Write on the transactional id, Read on the group and on the topics",
		func(_ *server.Call, r kmsg.Request) []server.AccessCheck {
			id := r.(*kmsg.TxnOffsetCommitRequest).TransactionalID
			checks := append(onGroups(kmsg.ACLOperationRead, r), transactionalCheck(kmsg.ACLOperationWrite, id))
			return append(checks, onTopics(kmsg.ACLOperationRead, r)...)
		}}
	// Kafka leaves out the ids that may not be described. While handlers do not, whoever asks must be trusted with all.
	listTransactions     = access{"Describe on the cluster", describeCluster.checks}
	writeMarkers         = onCluster("ClusterAction", kmsg.ACLOperationClusterAction)
	describeTransactions = access{"Describe on the transactional ids; topics that may not be described are left out",
		func(_ *server.Call, r kmsg.Request) []server.AccessCheck {
			var checks []server.AccessCheck
			for _, id := range r.(*kmsg.DescribeTransactionsRequest).TransactionalIDs {
				checks = append(checks, transactionalCheck(kmsg.ACLOperationDescribe, id))
			}
			return checks
		}}
)
