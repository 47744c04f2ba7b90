package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
)

// access is the authorization entry of an API: what its callers must be allowed to do, as in Apache Kafka 4.4.
type access struct {
	needs  string // in words, for the reference page
	checks func(*server.Call, kmsg.Request) []server.AccessCheck
}

// clusterName names the one resource of type cluster.
const clusterName = "kafka-cluster"

// notAsked is the value of an authorized-operations field that was not asked for.
const notAsked int32 = -2147483648

// Sets of operations that a caller with every permission has, bit n for operation n (KIP-430).
var (
	allTopicOperations = operations(kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationCreate,
		kmsg.ACLOperationDelete, kmsg.ACLOperationAlter, kmsg.ACLOperationDescribe, kmsg.ACLOperationDescribeConfigs,
		kmsg.ACLOperationAlterConfigs)
	allClusterOperations = operations(kmsg.ACLOperationCreate, kmsg.ACLOperationAlter, kmsg.ACLOperationDescribe,
		kmsg.ACLOperationClusterAction, kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs,
		kmsg.ACLOperationIdempotentWrite)
)

func operations(ops ...kmsg.ACLOperation) int32 {
	var set int32
	for _, op := range ops {
		set |= 1 << op
	}
	return set
}

// operationsIf gives a set of operations if it was asked for.
func operationsIf(asked bool, all int32) int32 {
	if asked {
		return all
	}
	return notAsked
}

var (
	nothing                = access{"nothing", noChecks}
	describeCluster        = onCluster("Describe", kmsg.ACLOperationDescribe)
	alterCluster           = onCluster("Alter", kmsg.ACLOperationAlter)
	clusterAction          = onCluster("ClusterAction", kmsg.ACLOperationClusterAction)
	describeClusterConfigs = onCluster("DescribeConfigs", kmsg.ACLOperationDescribeConfigs)
	actForCluster          = onCluster("ClusterAction", kmsg.ACLOperationClusterAction)
	idempotentWrite        = access{"IdempotentWrite on the cluster; with a transactional id Write on that",
		initProducer}

	writeTopics = access{"Write on the topics; with a transactional id also Write on that",
		func(_ *server.Call, r kmsg.Request) []server.AccessCheck {
			checks := onTopics(kmsg.ACLOperationWrite, r)
			if id := r.(*kmsg.ProduceRequest).TransactionID; id != nil {
				checks = append(checks, transactionalCheck(kmsg.ACLOperationWrite, *id))
			}
			return checks
		}}
	readTopics      = topicAccess("Read", kmsg.ACLOperationRead)
	describeTopics  = topicAccess("Describe", kmsg.ACLOperationDescribe)
	createTopics    = topicAccess("Create", kmsg.ACLOperationCreate)
	deleteTopics    = topicAccess("Delete", kmsg.ACLOperationDelete)
	alterTopics     = topicAccess("Alter", kmsg.ACLOperationAlter)
	describeConfigs = access{"DescribeConfigs on the resource (topic, group; the cluster for brokers)", resourceChecks}
	alterConfigs    = access{"AlterConfigs on the resource (topic, group; the cluster for brokers)", resourceChecks}

	describeOrCreateTopics = access{"Describe on the topics; Create on those that are to be created",
		func(_ *server.Call, r kmsg.Request) []server.AccessCheck {
			checks := onTopics(kmsg.ACLOperationDescribe, r)
			if r.(*kmsg.MetadataRequest).AllowAutoTopicCreation {
				checks = append(checks, onTopics(kmsg.ACLOperationCreate, r)...)
			}
			return checks
		}}
	fetchTopics = access{"Read on the topics; ClusterAction on the cluster for replicas",
		func(_ *server.Call, r kmsg.Request) []server.AccessCheck {
			f := r.(*kmsg.FetchRequest)
			if f.ReplicaID >= 0 || f.ReplicaState.ID >= 0 {
				return []server.AccessCheck{clusterCheck(kmsg.ACLOperationClusterAction)}
			}
			return onTopics(kmsg.ACLOperationRead, r)
		}}
)

func noChecks(*server.Call, kmsg.Request) []server.AccessCheck { return nil }

func clusterCheck(op kmsg.ACLOperation) server.AccessCheck {
	return server.AccessCheck{Operation: op, Type: kmsg.ACLResourceTypeCluster, Name: clusterName}
}

func transactionalCheck(op kmsg.ACLOperation, id string) server.AccessCheck {
	return server.AccessCheck{Operation: op, Type: kmsg.ACLResourceTypeTransactionalId, Name: id}
}

func onCluster(word string, op kmsg.ACLOperation) access {
	check := []server.AccessCheck{clusterCheck(op)}
	return access{word + " on the cluster", func(*server.Call, kmsg.Request) []server.AccessCheck { return check }}
}

func topicAccess(word string, op kmsg.ACLOperation) access {
	return access{word + " on the topics",
		func(_ *server.Call, r kmsg.Request) []server.AccessCheck { return onTopics(op, r) }}
}

// onTopics asks for one operation on every topic that a request names. A topic named by id is asked for by the text of
// the id, which no literal or prefixed rule matches by accident.
func onTopics(op kmsg.ACLOperation, r kmsg.Request) []server.AccessCheck {
	var checks []server.AccessCheck
	for name := range topicsOf(r) {
		checks = append(checks, server.AccessCheck{Operation: op, Type: kmsg.ACLResourceTypeTopic, Name: name})
	}
	return checks
}

// initProducer: a transactional producer needs its id, any other the right to be idempotent. Kafka lets Write on any topic
// stand for the latter.
func initProducer(_ *server.Call, r kmsg.Request) []server.AccessCheck {
	if id := r.(*kmsg.InitProducerIDRequest).TransactionalID; id != nil {
		return []server.AccessCheck{transactionalCheck(kmsg.ACLOperationWrite, *id)}
	}
	return []server.AccessCheck{clusterCheck(kmsg.ACLOperationIdempotentWrite)}
}

// resourceChecks asks for the right to read or alter the configuration of every resource in a request.
func resourceChecks(_ *server.Call, r kmsg.Request) []server.AccessCheck {
	var checks []server.AccessCheck
	add := func(op kmsg.ACLOperation, t kmsg.ConfigResourceType, name string) {
		check := clusterCheck(op)
		switch t {
		case kmsg.ConfigResourceTypeTopic:
			check.Type, check.Name = kmsg.ACLResourceTypeTopic, name
		case kmsg.ConfigResourceTypeGroupConfig:
			check.Type, check.Name = kmsg.ACLResourceTypeGroup, name
		}
		checks = append(checks, check)
	}
	switch r := r.(type) {
	case *kmsg.DescribeConfigsRequest:
		for i := range r.Resources {
			add(kmsg.ACLOperationDescribeConfigs, r.Resources[i].ResourceType, r.Resources[i].ResourceName)
		}
	case *kmsg.AlterConfigsRequest:
		for i := range r.Resources {
			add(kmsg.ACLOperationAlterConfigs, r.Resources[i].ResourceType, r.Resources[i].ResourceName)
		}
	case *kmsg.IncrementalAlterConfigsRequest:
		for i := range r.Resources {
			add(kmsg.ACLOperationAlterConfigs, r.Resources[i].ResourceType, r.Resources[i].ResourceName)
		}
	}
	return checks
}

// byNameOrID is what a check names a topic by.
func byNameOrID(name *string, id [16]byte) string {
	if name != nil && *name != "" {
		return *name
	}
	return kafka.UUID(id).String()
}
