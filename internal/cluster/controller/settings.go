package controller

import (
	"time"

	"moldau/internal/config"
	"moldau/internal/kafka"
)

// Settings are the static settings a controller decides by.
type Settings struct {
	Node   kafka.NodeID
	Static *config.Static
	// ClusterID is compared with that of registrations; empty accepts any.
	ClusterID string
	// BrokerSession is how long a broker lives without a heartbeat.
	BrokerSession time.Duration
	// MaxIdle is the interval between two NoOp records, 0 for none.
	MaxIdle time.Duration
	// PreferredElection is the interval between two looks for leaders that are not the preferred ones, 0 for
	// none.
	PreferredElection time.Duration
	// UncleanElection is the interval between two looks for partitions that may elect a leader uncleanly.
	UncleanElection time.Duration

	DefaultPartitions        int32
	DefaultReplicationFactor int16
	DeleteTopics             bool

	// KRaftVersion is the finalized kraft.version, which the quorum knows and the image does not.
	KRaftVersion int16
}

// ownBrokerSession is the session timeout while every broker is one of ours, unless somebody asked for
// another one: ours send heartbeats more often than Kafka's.
const ownBrokerSession = 3 * time.Second

// SettingsFrom reads the settings of a node. The cluster id is not among them: set it afterwards.
// kraft.version is 1, that of a quorum that was founded with the voters in its log.
func SettingsFrom(static *config.Static) *Settings {
	ms := func(key string) time.Duration { return time.Duration(static.Int64(key)) * time.Millisecond }
	s := &Settings{
		Node: static.Node().ID, Static: static,
		BrokerSession: ms("broker.session.timeout.ms"), MaxIdle: ms("metadata.max.idle.interval.ms"),
		UncleanElection:          ms("unclean.leader.election.interval.ms"),
		DefaultPartitions:        int32(static.Int64("num.partitions")),
		DefaultReplicationFactor: int16(static.Int64("default.replication.factor")),
		DeleteTopics:             static.Bool("delete.topic.enable"),
		KRaftVersion:             1,
	}
	if !static.IsSet("broker.session.timeout.ms") {
		s.BrokerSession = ownBrokerSession
	}
	if static.Bool("auto.leader.rebalance.enable") {
		s.PreferredElection = 1000 * ms("leader.imbalance.check.interval.seconds")
	}
	return s
}
