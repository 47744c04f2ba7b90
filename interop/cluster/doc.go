// Package cluster runs three nodes in processes of their own, of Moldau or of Apache Kafka: a transcript of raw requests
// about leaders, in-sync replicas, brokers and the quorum, whose answers are compared with those recorded from Apache
// Kafka; Apache Kafka's administrative tools; and its verifiable clients while the nodes are restarted one by one.
//
// CLUSTER_RECORD=file records the transcript of three Apache Kafka nodes, CLUSTER_KEEP=file keeps that of ours. Start
// reading at nodes_test.go.
package cluster
