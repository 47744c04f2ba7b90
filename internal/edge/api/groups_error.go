package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// firstError is the error that metrics count a group response under: its own, or the first of its parts.
func firstError(r kmsg.Response) kafka.Code {
	switch r := r.(type) {
	case *kmsg.FindCoordinatorResponse:
		return firstOf(r.ErrorCode, r.Coordinators, func(x *kmsg.FindCoordinatorResponseCoordinator) int16 { return x.ErrorCode })
	case *kmsg.JoinGroupResponse:
		return kafka.Code(r.ErrorCode)
	case *kmsg.SyncGroupResponse:
		return kafka.Code(r.ErrorCode)
	case *kmsg.HeartbeatResponse:
		return kafka.Code(r.ErrorCode)
	case *kmsg.LeaveGroupResponse:
		return firstOf(r.ErrorCode, r.Members, func(x *kmsg.LeaveGroupResponseMember) int16 { return x.ErrorCode })
	case *kmsg.DescribeGroupsResponse:
		return firstOf(0, r.Groups, func(x *kmsg.DescribeGroupsResponseGroup) int16 { return x.ErrorCode })
	case *kmsg.ListGroupsResponse:
		return kafka.Code(r.ErrorCode)
	case *kmsg.DeleteGroupsResponse:
		return firstOf(0, r.Groups, func(x *kmsg.DeleteGroupsResponseGroup) int16 { return x.ErrorCode })
	case *kmsg.ConsumerGroupHeartbeatResponse:
		return kafka.Code(r.ErrorCode)
	case *kmsg.ConsumerGroupDescribeResponse:
		return firstOf(0, r.Groups, func(x *kmsg.ConsumerGroupDescribeResponseGroup) int16 { return x.ErrorCode })
	case *kmsg.OffsetCommitResponse:
		return firstOf(0, r.Topics, func(t *kmsg.OffsetCommitResponseTopic) int16 {
			return int16(firstOf(0, t.Partitions, func(x *kmsg.OffsetCommitResponseTopicPartition) int16 { return x.ErrorCode }))
		})
	case *kmsg.OffsetDeleteResponse:
		return firstOf(r.ErrorCode, r.Topics, func(t *kmsg.OffsetDeleteResponseTopic) int16 {
			return int16(firstOf(0, t.Partitions, func(x *kmsg.OffsetDeleteResponseTopicPartition) int16 { return x.ErrorCode }))
		})
	case *kmsg.OffsetFetchResponse:
		return firstFetchError(r)
	case *kmsg.InitProducerIDResponse:
		return kafka.Code(r.ErrorCode)
	case *kmsg.AddOffsetsToTxnResponse:
		return kafka.Code(r.ErrorCode)
	case *kmsg.EndTxnResponse:
		return kafka.Code(r.ErrorCode)
	case *kmsg.TxnOffsetCommitResponse:
		return firstOf(0, r.Topics, func(t *kmsg.TxnOffsetCommitResponseTopic) int16 {
			return int16(firstOf(0, t.Partitions, func(x *kmsg.TxnOffsetCommitResponseTopicPartition) int16 { return x.ErrorCode }))
		})
	case *kmsg.DescribeTransactionsResponse:
		return firstOf(0, r.TransactionStates,
			func(x *kmsg.DescribeTransactionsResponseTransactionState) int16 { return x.ErrorCode })
	}
	return kafka.None
}

func firstFetchError(r *kmsg.OffsetFetchResponse) kafka.Code {
	whole := firstOf(r.ErrorCode, r.Groups, func(g *kmsg.OffsetFetchResponseGroup) int16 {
		return int16(firstOf(g.ErrorCode, g.Topics, func(t *kmsg.OffsetFetchResponseGroupTopic) int16 {
			return int16(firstOf(0, t.Partitions,
				func(x *kmsg.OffsetFetchResponseGroupTopicPartition) int16 { return x.ErrorCode }))
		}))
	})
	return firstOf(int16(whole), r.Topics, func(t *kmsg.OffsetFetchResponseTopic) int16 {
		return int16(firstOf(0, t.Partitions, func(x *kmsg.OffsetFetchResponseTopicPartition) int16 { return x.ErrorCode }))
	})
}

// firstOf gives whole if it is an error, else the first error among the parts.
func firstOf[T any](whole int16, parts []T, code func(*T) int16) kafka.Code {
	if whole != 0 {
		return kafka.Code(whole)
	}
	for i := range parts {
		if c := code(&parts[i]); c != 0 {
			return kafka.Code(c)
		}
	}
	return kafka.None
}
