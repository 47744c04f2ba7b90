package api

import (
	"regexp"

	"moldau/internal/kafka"
)

// maxTopicName is the longest topic name; a directory name has room for it and a partition number.
const maxTopicName = 249

var topicNamePattern = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

// checkTopicName says whether a topic may have this name: INVALID_TOPIC_EXCEPTION if not.
func checkTopicName(name string) error {
	switch {
	case name == "", name == ".", name == "..", len(name) > maxTopicName, !topicNamePattern.MatchString(name):
		return kafka.Errorf(kafka.InvalidTopicException,
			"topic %q: a name has 1 to %d of a-z, A-Z, 0-9, '.', '_' and '-' and is not '.' or '..'", shown(name), maxTopicName)
	}
	return nil
}

// shown cuts a hostile name to what a message can bear.
func shown(name string) string {
	if len(name) > maxTopicName {
		return name[:maxTopicName] + "..."
	}
	return name
}
