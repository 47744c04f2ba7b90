package api

import (
	"iter"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicsOf goes through the topics that a request names, in its order. A request about all topics names none: those that
// may not be seen are left out of the answer instead.
func topicsOf(r kmsg.Request) iter.Seq[string] {
	switch r := r.(type) {
	case *kmsg.ProduceRequest:
		return each(r.Topics, func(t *kmsg.ProduceRequestTopic) string { return byNameOrID(&t.Topic, t.TopicID) })
	case *kmsg.FetchRequest:
		return each(r.Topics, func(t *kmsg.FetchRequestTopic) string { return byNameOrID(&t.Topic, t.TopicID) })
	case *kmsg.ListOffsetsRequest:
		return each(r.Topics, func(t *kmsg.ListOffsetsRequestTopic) string { return t.Topic })
	case *kmsg.OffsetForLeaderEpochRequest:
		return each(r.Topics, func(t *kmsg.OffsetForLeaderEpochRequestTopic) string { return t.Topic })
	case *kmsg.DeleteRecordsRequest:
		return each(r.Topics, func(t *kmsg.DeleteRecordsRequestTopic) string { return t.Topic })
	case *kmsg.DescribeProducersRequest:
		return each(r.Topics, func(t *kmsg.DescribeProducersRequestTopic) string { return t.Topic })
	case *kmsg.MetadataRequest:
		return each(r.Topics, func(t *kmsg.MetadataRequestTopic) string { return byNameOrID(t.Topic, t.TopicID) })
	case *kmsg.DescribeTopicPartitionsRequest:
		return each(r.Topics, func(t *kmsg.DescribeTopicPartitionsRequestTopic) string { return t.Topic })
	case *kmsg.CreateTopicsRequest:
		return each(r.Topics, func(t *kmsg.CreateTopicsRequestTopic) string { return t.Topic })
	case *kmsg.CreatePartitionsRequest:
		return each(r.Topics, func(t *kmsg.CreatePartitionsRequestTopic) string { return t.Topic })
	case *kmsg.OffsetCommitRequest:
		return each(r.Topics, func(t *kmsg.OffsetCommitRequestTopic) string { return byNameOrID(&t.Topic, t.TopicID) })
	case *kmsg.TxnOffsetCommitRequest:
		return each(r.Topics, func(t *kmsg.TxnOffsetCommitRequestTopic) string { return byNameOrID(&t.Topic, t.TopicID) })
	case *kmsg.AddPartitionsToTxnRequest:
		return each(r.Topics, func(t *kmsg.AddPartitionsToTxnRequestTopic) string { return t.Topic })
	case *kmsg.OffsetDeleteRequest:
		return each(r.Topics, func(t *kmsg.OffsetDeleteRequestTopic) string { return t.Topic })
	case *kmsg.OffsetFetchRequest:
		return fetchedTopics(r)
	case *kmsg.ConsumerGroupHeartbeatRequest:
		return each(r.SubscribedTopicNames, func(name *string) string { return *name })
	case *kmsg.DeleteTopicsRequest:
		if r.Version < 6 {
			return each(r.TopicNames, func(name *string) string { return *name })
		}
		return each(r.Topics, func(t *kmsg.DeleteTopicsRequestTopic) string { return byNameOrID(t.Topic, t.TopicID) })
	}
	return func(func(string) bool) {}
}

func each[T any](all []T, name func(*T) string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range all {
			if !yield(name(&all[i])) {
				return
			}
		}
	}
}

// fetchedTopics goes through the topics of every group in an OffsetFetch.
func fetchedTopics(r *kmsg.OffsetFetchRequest) iter.Seq[string] {
	if r.Version < 8 {
		return each(r.Topics, func(t *kmsg.OffsetFetchRequestTopic) string { return t.Topic })
	}
	return func(yield func(string) bool) {
		for i := range r.Groups {
			for j := range r.Groups[i].Topics {
				if t := &r.Groups[i].Topics[j]; !yield(byNameOrID(&t.Topic, t.TopicID)) {
					return
				}
			}
		}
	}
}
