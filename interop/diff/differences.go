package diff

import "regexp"

// Difference is an answer of Moldau that deliberately is not Apache Kafka's. All three must match: another answer to the
// same step is a mistake like any other.
type Difference struct {
	Step   *regexp.Regexp // steps it is about
	Kafka  *regexp.Regexp // Apache Kafka's answer
	Moldau *regexp.Regexp
	Reason string
}

// Differences that are meant to be.
var Differences = []Difference{
	{regexp.MustCompile(`^\d+ Produce v\d+ ".*"-[01] acks .* spoilt: codec 5$`), code(`UNKNOWN_SERVER_ERROR`), code(`INVALID_RECORD`),
		"an unknown codec is the client's fault"},
	{regexp.MustCompile(`^\d+ (Incremental)?AlterConfigs .*(=null| (0|1|2|3) =)`), code(`UNKNOWN_SERVER_ERROR`),
		code(`INVALID_REQUEST|INVALID_CONFIG|UNKNOWN_TOPIC_OR_PARTITION`), "a config without name or value is the client's fault"},
	{regexp.MustCompile(`^\d+ Fetch .* bytes \d+/-1 `), code(`UNKNOWN_SERVER_ERROR`), code(`NONE`),
		"a negative partition limit counts as the smallest: at least one batch is sent"},
	{regexp.MustCompile(`^\d+ DescribeTopicPartitions v0 ""`), code(`UNKNOWN_SERVER_ERROR`), code(`INVALID_TOPIC_EXCEPTION`),
		"an empty topic name is the client's fault"},
}

// code finds an error code in an answer.
func code(names string) *regexp.Regexp { return regexp.MustCompile(`ErrorCode":"(` + names + `)"`) }

func deliberate(step, kafka, moldau string) bool {
	for _, d := range Differences {
		if d.Step.MatchString(step) && d.Kafka.MatchString(kafka) && d.Moldau.MatchString(moldau) {
			return true
		}
	}
	return false
}
