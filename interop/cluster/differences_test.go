package cluster

import "regexp"

// difference is an answer of Moldau that deliberately is not Apache Kafka's. All must match: another answer to the same
// request is a mistake like any other.
type difference struct {
	asked  *regexp.Regexp
	kafka  *regexp.Regexp
	moldau *regexp.Regexp
	reason string
}

var differences = []difference{
	{matching(`^describing: DescribeQuorum v\d, controller [23]`), matching(`"NOT_LEADER_FOR_PARTITION","HighWatermark":0,`),
		matching(`"CurrentVoters":.*"ErrorCode":"NOT_LEADER_FOR_PARTITION"`),
		"every controller tells the voters it knows: nodes that found a cluster, or join it, find out from any of them"},
	{matching(`^fetches of metadata: FetchSnapshot`), matching(`^\{"ErrorCode":"UNKNOWN_SERVER_ERROR"\}$`),
		matching(`"ErrorCode":"(FENCED_LEADER_EPOCH|UNKNOWN_LEADER_EPOCH|UNKNOWN_TOPIC_OR_PARTITION|NOT_LEADER_FOR_PARTITION|` +
			`SNAPSHOT_NOT_FOUND)"`),
		"Apache Kafka fails to encode an answer that refuses one partition (its records are null)"},
	{matching(`^features: .*the same feature twice`), matching(`^\{\}$`), matching(`^\{"ErrorCode":"INVALID_REQUEST"\}$`),
		"Apache Kafka drops all but one of several updates of one feature"},
	{matching(`^brokers: ListPartitionReassignments v0, controller 2,`), matching(`^\{"Topics":`), matching(`^\{"ErrorCode":"NOT_CONTROLLER"\}$`),
		"a controller that is not active may be behind; its client asks the active one"},
	{matching(`^unclean elections: Fetch .* a replica that was not in sync`), matching(`"HighWatermark":0,`),
		matching(`"ErrorCode":"NOT_LEADER_FOR_PARTITION"`), "a replica that follows nobody serves nothing"},
	{matching(`^unclean elections: ElectLeaders .* unclean, all`), matching(`"Topic":"two"`), matching(`^\{"Topics":`),
		"a broker that comes back after a crash with all it acknowledged stays eligible, so that a leader is there already"},
}

func matching(pattern string) *regexp.Regexp { return regexp.MustCompile(pattern) }

func deliberate(asked, kafka, moldau string) bool {
	for _, d := range differences {
		if d.asked.MatchString(asked) && d.kafka.MatchString(kafka) && d.moldau.MatchString(moldau) {
			return true
		}
	}
	return false
}
