package coordinator

import (
	"errors"

	"moldau/internal/kafka"
)

// refusalOf is what the client of a coordinator is told about an error of the append: Kafka's mapping, by which clients
// tell what to retry here and what at another coordinator.
func refusalOf(err error) error {
	if err == nil {
		return nil
	}
	switch kafka.CodeOf(err) {
	case kafka.UnknownTopicOrPartition, kafka.NotEnoughReplicas, kafka.NotEnoughReplicasAfterAppend, kafka.RequestTimedOut:
		return kafka.CoordinatorNotAvailable
	case kafka.NotLeaderOrFollower, kafka.FencedLeaderEpoch, kafka.UnknownLeaderEpoch, kafka.KafkaStorageError:
		return kafka.NotCoordinator
	case kafka.MessageTooLarge, kafka.RecordListTooLarge:
		return kafka.UnknownServerError
	}
	return err
}

// isLost says that what was appended may not be in the log any more, or that nobody will ever tell.
func isLost(err error) bool {
	return errors.Is(err, kafka.NotLeaderOrFollower) || errors.Is(err, kafka.KafkaStorageError)
}
