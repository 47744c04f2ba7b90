package diff

import "regexp"

// Difference is an answer of Moldau that deliberately is not Apache Kafka's.
type Difference struct {
	Step   *regexp.Regexp // steps it is about
	Kafka  *regexp.Regexp // Apache Kafka's answer, nil for any
	Reason string
}

// Differences that are meant to be.
var Differences = []Difference{
	{regexp.MustCompile(`Produce .* spoilt: codec 5`), regexp.MustCompile(`UNKNOWN_SERVER_ERROR`),
		"an unknown codec is the client's fault: INVALID_RECORD instead of Apache Kafka's UNKNOWN_SERVER_ERROR"},
	{regexp.MustCompile(`AlterConfigs .*=null|AlterConfigs .* (0|1|2|3) =`), regexp.MustCompile(`UNKNOWN_SERVER_ERROR`),
		"a config without name or value is the client's fault: never UNKNOWN_SERVER_ERROR"},
	{regexp.MustCompile(`Fetch .* bytes \d+/-1 `), regexp.MustCompile(`UNKNOWN_SERVER_ERROR`),
		"a negative partition limit counts as the smallest: at least one batch is sent, not UNKNOWN_SERVER_ERROR"},
	{regexp.MustCompile(`DescribeTopicPartitions v0 ""`), regexp.MustCompile(`UNKNOWN_SERVER_ERROR`),
		"an empty topic name is the client's fault: INVALID_TOPIC_EXCEPTION instead of UNKNOWN_SERVER_ERROR"},
	{regexp.MustCompile(`Produce .*-(-1|5|1073741824) .* spoilt: (length|truncated|trailing)`), regexp.MustCompile(`CORRUPT_MESSAGE`),
		"bytes that are no batch for a partition that is not there: Moldau looks for the partition first"},
}

func deliberate(step, kafka string) bool {
	for _, d := range Differences {
		if d.Step.MatchString(step) && (d.Kafka == nil || d.Kafka.MatchString(kafka)) {
			return true
		}
	}
	return false
}
