package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// entry is one line of the table: an API and what its callers must be allowed to do. Lines are written without field
// names, so that an API without an access entry does not compile.
type entry struct {
	api    server.API
	access access
}

// entries is the table. ApiVersions is not in it: the server derives it from the rows.
func (b *Broker) entries() []entry {
	return []entry{
		{b.produceRow(), writeTopics},
		{b.fetchRow(), fetchTopics},
		{b.listOffsetsRow(), describeTopics},
		{b.metadataRow(), describeOrCreateTopics},
		{b.offsetCommitRow(), commitOffsets},
		{b.offsetFetchRow(), fetchOffsets},
		{b.findCoordinatorRow(), findCoordinators},
		{b.joinGroupRow(), readGroup},
		{b.heartbeatRow(), readGroup},
		{b.leaveGroupRow(), readGroup},
		{b.syncGroupRow(), readGroup},
		{b.describeGroupsRow(), describeGroups},
		{b.listGroupsRow(), describeCluster},
		{b.createTopicsRow(), createTopics},
		{b.deleteTopicsRow(), deleteTopics},
		{b.deleteRecordsRow(), deleteTopics},
		{b.initProducerIDRow(), idempotentWrite},
		{b.offsetForLeaderEpochRow(), describeTopics},
		{b.addPartitionsToTxnRow(), addToTransactions},
		{b.addOffsetsToTxnRow(), addOffsets},
		{b.endTxnRow(), writeTransaction},
		{b.writeTxnMarkersRow(), writeMarkers},
		{b.txnOffsetCommitRow(), commitInTransaction},
		{b.describeConfigsRow(), describeConfigs},
		{b.alterReplicaLogDirsRow(), alterCluster},
		{b.describeLogDirsRow(), describeCluster},
		{b.alterConfigsRow(), alterConfigs},
		{b.createPartitionsRow(), alterTopics},
		{b.deleteGroupsRow(), deleteGroups},
		{b.electLeadersRow(), alterCluster},
		{b.incrementalAlterConfigsRow(), alterConfigs},
		{b.alterPartitionReassignmentsRow(), alterCluster},
		{b.listPartitionReassignmentsRow(), describeCluster},
		{b.describeQuorumRow(), describeCluster},
		{b.offsetDeleteRow(), deleteOffsets},
		{b.updateFeaturesRow(), alterCluster},
		{b.envelopeRow(), actForCluster},
		{b.describeClusterRow(), nothing},
		{b.describeProducersRow(), readTopics},
		{b.unregisterBrokerRow(), alterCluster},
		{b.describeTransactionsRow(), describeTransactions},
		{b.listTransactionsRow(), listTransactions},
		{b.consumerGroupHeartbeatRow(), joinConsumers},
		{b.consumerGroupDescribeRow(), describeGroups},
		{b.listConfigResourcesRow(), describeClusterConfigs},
		{b.describeTopicPartitionsRow(), describeTopics},
		{b.unregisterControllerRow(), alterCluster},
		{b.voteRow(), clusterAction},
		{b.beginQuorumEpochRow(), clusterAction},
		{b.endQuorumEpochRow(), clusterAction},
		{b.fetchSnapshotRow(), clusterAction},
		{b.addRaftVoterRow(), alterCluster},
		{b.removeRaftVoterRow(), alterCluster},
		{b.updateRaftVoterRow(), clusterAction},
		{b.alterPartitionRow(), clusterAction},
		{b.brokerRegistrationRow(), clusterAction},
		{b.brokerHeartbeatRow(), clusterAction},
		{b.allocateProducerIDsRow(), clusterAction},
		{b.controllerRegistrationRow(), clusterAction},
		{b.assignReplicasToDirsRow(), clusterAction},
	}
}

// Rows lists the APIs with their authorization.
func (b *Broker) Rows() []server.API {
	entries := b.entries()
	rows := make([]server.API, len(entries))
	for i, e := range entries {
		rows[i] = e.row()
	}
	return rows
}

// row joins an API with its access entry. Handlers answer as if everything were allowed, so a request of which anything
// is refused must not reach them: it costs the connection. Answers per resource come with the authorizer itself.
func (e entry) row() server.API {
	r, handle := e.api, e.api.Handle
	r.Authorize, r.Access = e.access.checks, e.access.needs
	r.Handle = func(c *server.Call, req kmsg.Request) *promise.Promise[server.Reply] {
		if c.Denied() {
			return answer(server.Reply{None: true, Close: true, Code: kafka.ClusterAuthorizationFailed})
		}
		return handle(c, req)
	}
	return r
}
