// Code generated from kmsg by go generate; DO NOT EDIT.

package server

import (
	"unsafe"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// schemas holds the layout of every request by API key.
var schemas = map[int16]schema{
	// ProduceRequest
	0: {flexible: 9, nodes: []node{
		{kind: kindNullableString, from: 3},
		{kind: kindFixed, n: 2},
		{kind: kindFixed, n: 4},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.ProduceRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindString, until: 13},
			{kind: kindFixed, n: 16, from: 13},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.ProduceRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindNullableBytes},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// FetchRequest
	1: {flexible: 12, nodes: []node{
		{kind: kindFixed, n: 4, until: 15},
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 4, from: 3},
		{kind: kindFixed, n: 1, from: 4},
		{kind: kindFixed, n: 4, from: 7},
		{kind: kindFixed, n: 4, from: 7},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.FetchRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindString, until: 13},
			{kind: kindFixed, n: 16, from: 13},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.FetchRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 4, from: 9},
				{kind: kindFixed, n: 8},
				{kind: kindFixed, n: 4, from: 12},
				{kind: kindFixed, n: 8, from: 5},
				{kind: kindFixed, n: 4},
				{kind: kindTags, sub: []node{
					{kind: kindTag, n: 0, sub: []node{
						{kind: kindFixed, n: 16},
					}},
					{kind: kindTag, n: 1, sub: []node{
						{kind: kindFixed, n: 8},
					}},
				}},
			}},
			{kind: kindTags},
		}},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.FetchRequestForgottenTopic{}), null: neverNull, from: 7, sub: []node{
			{kind: kindString, from: 7, until: 13},
			{kind: kindFixed, n: 16, from: 13},
			{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
			}},
			{kind: kindTags},
		}},
		{kind: kindString, from: 11},
		{kind: kindTags, sub: []node{
			{kind: kindTag, n: 0, sub: []node{
				{kind: kindNullableString},
			}},
			{kind: kindTag, n: 1, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 8},
				{kind: kindTags},
			}},
		}},
	}},
	// ListOffsetsRequest
	2: {flexible: 6, nodes: []node{
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 1, from: 2},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.ListOffsetsRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.ListOffsetsRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 4, from: 4},
				{kind: kindFixed, n: 8},
				{kind: kindFixed, n: 4, until: 1},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindFixed, n: 4, from: 10},
		{kind: kindTags},
	}},
	// MetadataRequest
	3: {flexible: 9, nodes: []node{
		{kind: kindArray, null: 1, size: unsafe.Sizeof(kmsg.MetadataRequestTopic{}), sub: []node{
			{kind: kindFixed, n: 16, from: 10},
			{kind: kindString, size: unsafe.Sizeof(""), until: 10},
			{kind: kindNullableString, from: 10},
			{kind: kindTags},
		}},
		{kind: kindFixed, n: 1, from: 4},
		{kind: kindFixed, n: 1, from: 8, until: 11},
		{kind: kindFixed, n: 1, from: 8},
		{kind: kindTags},
	}},
	// LeaderAndISRRequest
	4: {flexible: 4, nodes: []node{
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 1, from: 7},
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 8, from: 2},
		{kind: kindFixed, n: 1, from: 5},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.LeaderAndISRRequestTopicPartition{}), null: neverNull, until: 2, sub: []node{
			{kind: kindString, until: 2},
			{kind: kindFixed, n: 4},
			{kind: kindFixed, n: 4},
			{kind: kindFixed, n: 4},
			{kind: kindFixed, n: 4},
			{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
			}},
			{kind: kindFixed, n: 4},
			{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
			}},
			{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, from: 3, sub: []node{
				{kind: kindFixed, n: 4},
			}},
			{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, from: 3, sub: []node{
				{kind: kindFixed, n: 4},
			}},
			{kind: kindFixed, n: 1, from: 1},
			{kind: kindFixed, n: 1, from: 6},
			{kind: kindTags},
		}},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.LeaderAndISRRequestTopicState{}), null: neverNull, from: 2, sub: []node{
			{kind: kindString},
			{kind: kindFixed, n: 16, from: 5},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.LeaderAndISRRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindString, until: 2},
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 4},
				{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
					{kind: kindFixed, n: 4},
				}},
				{kind: kindFixed, n: 4},
				{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
					{kind: kindFixed, n: 4},
				}},
				{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, from: 3, sub: []node{
					{kind: kindFixed, n: 4},
				}},
				{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, from: 3, sub: []node{
					{kind: kindFixed, n: 4},
				}},
				{kind: kindFixed, n: 1, from: 1},
				{kind: kindFixed, n: 1, from: 6},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.LeaderAndISRRequestLiveLeader{}), null: neverNull, sub: []node{
			{kind: kindFixed, n: 4},
			{kind: kindString},
			{kind: kindFixed, n: 4},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// StopReplicaRequest
	5: {flexible: 2, nodes: []node{
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 1, from: 4},
		{kind: kindFixed, n: 8, from: 1},
		{kind: kindFixed, n: 1, until: 3},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.StopReplicaRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindFixed, n: 4, until: 1},
			{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, from: 1, until: 3, sub: []node{
				{kind: kindFixed, n: 4},
			}},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.StopReplicaRequestTopicPartitionState{}), null: neverNull, from: 3, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 1},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// UpdateMetadataRequest
	6: {flexible: 6, nodes: []node{
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 1, from: 8},
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 8, from: 5},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.UpdateMetadataRequestTopicPartition{}), null: neverNull, until: 5, sub: []node{
			{kind: kindString, until: 5},
			{kind: kindFixed, n: 4},
			{kind: kindFixed, n: 4},
			{kind: kindFixed, n: 4},
			{kind: kindFixed, n: 4},
			{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
			}},
			{kind: kindFixed, n: 4},
			{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
			}},
			{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, from: 4, sub: []node{
				{kind: kindFixed, n: 4},
			}},
			{kind: kindTags},
		}},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.UpdateMetadataRequestTopicState{}), null: neverNull, from: 5, sub: []node{
			{kind: kindString},
			{kind: kindFixed, n: 16, from: 7},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.UpdateMetadataRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindString, until: 5},
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 4},
				{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
					{kind: kindFixed, n: 4},
				}},
				{kind: kindFixed, n: 4},
				{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
					{kind: kindFixed, n: 4},
				}},
				{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, from: 4, sub: []node{
					{kind: kindFixed, n: 4},
				}},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.UpdateMetadataRequestLiveBroker{}), null: neverNull, sub: []node{
			{kind: kindFixed, n: 4},
			{kind: kindString, until: 1},
			{kind: kindFixed, n: 4, until: 1},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.UpdateMetadataRequestLiveBrokerEndpoint{}), null: neverNull, from: 1, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindString},
				{kind: kindString, from: 3},
				{kind: kindFixed, n: 2},
				{kind: kindTags},
			}},
			{kind: kindNullableString, from: 2},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// ControlledShutdownRequest
	7: {flexible: 3, nodes: []node{
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 8, from: 2},
		{kind: kindTags},
	}},
	// OffsetCommitRequest
	8: {flexible: 8, nodes: []node{
		{kind: kindString},
		{kind: kindFixed, n: 4, from: 1},
		{kind: kindString, from: 1},
		{kind: kindNullableString, from: 7},
		{kind: kindFixed, n: 8, from: 2, until: 5},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.OffsetCommitRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindString, until: 10},
			{kind: kindFixed, n: 16, from: 10},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.OffsetCommitRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 8},
				{kind: kindFixed, n: 8, from: 1, until: 2},
				{kind: kindFixed, n: 4, from: 6},
				{kind: kindNullableString},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// OffsetFetchRequest
	9: {flexible: 6, nodes: []node{
		{kind: kindString, until: 8},
		{kind: kindArray, null: 2, size: unsafe.Sizeof(kmsg.OffsetFetchRequestTopic{}), until: 8, sub: []node{
			{kind: kindString},
			{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
			}},
			{kind: kindTags},
		}},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.OffsetFetchRequestGroup{}), null: neverNull, from: 8, sub: []node{
			{kind: kindString},
			{kind: kindNullableString, from: 9},
			{kind: kindFixed, n: 4, from: 9},
			{kind: kindArray, null: 0, size: unsafe.Sizeof(kmsg.OffsetFetchRequestGroupTopic{}), sub: []node{
				{kind: kindString, from: 8, until: 10},
				{kind: kindFixed, n: 16, from: 10},
				{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
					{kind: kindFixed, n: 4},
				}},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindFixed, n: 1, from: 7},
		{kind: kindTags},
	}},
	// FindCoordinatorRequest
	10: {flexible: 3, nodes: []node{
		{kind: kindString, until: 4},
		{kind: kindFixed, n: 1, from: 1},
		{kind: kindArray, size: unsafe.Sizeof(""), null: neverNull, from: 4, sub: []node{
			{kind: kindString},
		}},
		{kind: kindTags},
	}},
	// JoinGroupRequest
	11: {flexible: 6, nodes: []node{
		{kind: kindString},
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 4, from: 1},
		{kind: kindString},
		{kind: kindNullableString, from: 5},
		{kind: kindString},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.JoinGroupRequestProtocol{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindBytes},
			{kind: kindTags},
		}},
		{kind: kindNullableString, from: 8},
		{kind: kindTags},
	}},
	// HeartbeatRequest
	12: {flexible: 4, nodes: []node{
		{kind: kindString},
		{kind: kindFixed, n: 4},
		{kind: kindString},
		{kind: kindNullableString, from: 3},
		{kind: kindTags},
	}},
	// LeaveGroupRequest
	13: {flexible: 4, nodes: []node{
		{kind: kindString},
		{kind: kindString, until: 3},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.LeaveGroupRequestMember{}), null: neverNull, from: 3, sub: []node{
			{kind: kindString},
			{kind: kindNullableString},
			{kind: kindNullableString, from: 5},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// SyncGroupRequest
	14: {flexible: 4, nodes: []node{
		{kind: kindString},
		{kind: kindFixed, n: 4},
		{kind: kindString},
		{kind: kindNullableString, from: 3},
		{kind: kindNullableString, from: 5},
		{kind: kindNullableString, from: 5},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.SyncGroupRequestGroupAssignment{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindBytes},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// DescribeGroupsRequest
	15: {flexible: 5, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(""), null: neverNull, sub: []node{
			{kind: kindString},
		}},
		{kind: kindFixed, n: 1, from: 3},
		{kind: kindTags},
	}},
	// ListGroupsRequest
	16: {flexible: 3, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(""), null: neverNull, from: 4, sub: []node{
			{kind: kindString},
		}},
		{kind: kindArray, size: unsafe.Sizeof(""), null: neverNull, from: 5, sub: []node{
			{kind: kindString},
		}},
		{kind: kindTags},
	}},
	// SASLHandshakeRequest
	17: {flexible: neverFlexible, nodes: []node{
		{kind: kindPlainString},
	}},
	// ApiVersionsRequest
	18: {flexible: 3, nodes: []node{
		{kind: kindString, from: 3},
		{kind: kindString, from: 3},
		{kind: kindNullableString, from: 5},
		{kind: kindFixed, n: 4, from: 5},
		{kind: kindTags},
	}},
	// CreateTopicsRequest
	19: {flexible: 5, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(kmsg.CreateTopicsRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindFixed, n: 4},
			{kind: kindFixed, n: 2},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.CreateTopicsRequestTopicReplicaAssignment{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
					{kind: kindFixed, n: 4},
				}},
				{kind: kindTags},
			}},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.CreateTopicsRequestTopicConfig{}), null: neverNull, sub: []node{
				{kind: kindString},
				{kind: kindNullableString},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 1, from: 1},
		{kind: kindTags},
	}},
	// DeleteTopicsRequest
	20: {flexible: 4, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(""), null: neverNull, until: 6, sub: []node{
			{kind: kindString},
		}},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.DeleteTopicsRequestTopic{}), null: neverNull, from: 6, sub: []node{
			{kind: kindNullableString},
			{kind: kindFixed, n: 16},
			{kind: kindTags},
		}},
		{kind: kindFixed, n: 4},
		{kind: kindTags},
	}},
	// DeleteRecordsRequest
	21: {flexible: 2, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(kmsg.DeleteRecordsRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.DeleteRecordsRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 8},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindFixed, n: 4},
		{kind: kindTags},
	}},
	// InitProducerIDRequest
	22: {flexible: 2, nodes: []node{
		{kind: kindNullableString},
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 8, from: 3},
		{kind: kindFixed, n: 2, from: 3},
		{kind: kindTags},
	}},
	// OffsetForLeaderEpochRequest
	23: {flexible: 4, nodes: []node{
		{kind: kindFixed, n: 4, from: 3},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.OffsetForLeaderEpochRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.OffsetForLeaderEpochRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 4, from: 2},
				{kind: kindFixed, n: 4},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// AddPartitionsToTxnRequest
	24: {flexible: 3, nodes: []node{
		{kind: kindString, until: 4},
		{kind: kindFixed, n: 8, until: 4},
		{kind: kindFixed, n: 2, until: 4},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.AddPartitionsToTxnRequestTopic{}), null: neverNull, until: 4, sub: []node{
			{kind: kindString},
			{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
			}},
			{kind: kindTags},
		}},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.AddPartitionsToTxnRequestTransaction{}), null: neverNull, from: 4, sub: []node{
			{kind: kindString},
			{kind: kindFixed, n: 8},
			{kind: kindFixed, n: 2},
			{kind: kindFixed, n: 1},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.AddPartitionsToTxnRequestTransactionTopic{}), null: neverNull, sub: []node{
				{kind: kindString},
				{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
					{kind: kindFixed, n: 4},
				}},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// AddOffsetsToTxnRequest
	25: {flexible: 3, nodes: []node{
		{kind: kindString},
		{kind: kindFixed, n: 8},
		{kind: kindFixed, n: 2},
		{kind: kindString},
		{kind: kindTags},
	}},
	// EndTxnRequest
	26: {flexible: 3, nodes: []node{
		{kind: kindString},
		{kind: kindFixed, n: 8},
		{kind: kindFixed, n: 2},
		{kind: kindFixed, n: 1},
		{kind: kindTags},
	}},
	// WriteTxnMarkersRequest
	27: {flexible: 1, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(kmsg.WriteTxnMarkersRequestMarker{}), null: neverNull, sub: []node{
			{kind: kindFixed, n: 8},
			{kind: kindFixed, n: 2},
			{kind: kindFixed, n: 1},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.WriteTxnMarkersRequestMarkerTopic{}), null: neverNull, sub: []node{
				{kind: kindString},
				{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
					{kind: kindFixed, n: 4},
				}},
				{kind: kindTags},
			}},
			{kind: kindFixed, n: 4},
			{kind: kindFixed, n: 1, from: 2},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// TxnOffsetCommitRequest
	28: {flexible: 3, nodes: []node{
		{kind: kindString},
		{kind: kindString},
		{kind: kindFixed, n: 8},
		{kind: kindFixed, n: 2},
		{kind: kindFixed, n: 4, from: 3},
		{kind: kindString, from: 3},
		{kind: kindNullableString, from: 3},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.TxnOffsetCommitRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindString, until: 6},
			{kind: kindFixed, n: 16, from: 6},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.TxnOffsetCommitRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 8},
				{kind: kindFixed, n: 4, from: 2},
				{kind: kindNullableString},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// DescribeACLsRequest
	29: {flexible: 2, nodes: []node{
		{kind: kindFixed, n: 1},
		{kind: kindNullableString},
		{kind: kindFixed, n: 1, from: 1},
		{kind: kindNullableString},
		{kind: kindNullableString},
		{kind: kindFixed, n: 1},
		{kind: kindFixed, n: 1},
		{kind: kindTags},
	}},
	// CreateACLsRequest
	30: {flexible: 2, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(kmsg.CreateACLsRequestCreation{}), null: neverNull, sub: []node{
			{kind: kindFixed, n: 1},
			{kind: kindString},
			{kind: kindFixed, n: 1, from: 1},
			{kind: kindString},
			{kind: kindString},
			{kind: kindFixed, n: 1},
			{kind: kindFixed, n: 1},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// DeleteACLsRequest
	31: {flexible: 2, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(kmsg.DeleteACLsRequestFilter{}), null: neverNull, sub: []node{
			{kind: kindFixed, n: 1},
			{kind: kindNullableString},
			{kind: kindFixed, n: 1, from: 1},
			{kind: kindNullableString},
			{kind: kindNullableString},
			{kind: kindFixed, n: 1},
			{kind: kindFixed, n: 1},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// DescribeConfigsRequest
	32: {flexible: 4, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(kmsg.DescribeConfigsRequestResource{}), null: neverNull, sub: []node{
			{kind: kindFixed, n: 1},
			{kind: kindString},
			{kind: kindArray, null: 0, size: unsafe.Sizeof(""), sub: []node{
				{kind: kindString},
			}},
			{kind: kindTags},
		}},
		{kind: kindFixed, n: 1, from: 1},
		{kind: kindFixed, n: 1, from: 3},
		{kind: kindTags},
	}},
	// AlterConfigsRequest
	33: {flexible: 2, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(kmsg.AlterConfigsRequestResource{}), null: neverNull, sub: []node{
			{kind: kindFixed, n: 1},
			{kind: kindString},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.AlterConfigsRequestResourceConfig{}), null: neverNull, sub: []node{
				{kind: kindString},
				{kind: kindNullableString},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindFixed, n: 1},
		{kind: kindTags},
	}},
	// AlterReplicaLogDirsRequest
	34: {flexible: 2, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(kmsg.AlterReplicaLogDirsRequestDir{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.AlterReplicaLogDirsRequestDirTopic{}), null: neverNull, sub: []node{
				{kind: kindString},
				{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
					{kind: kindFixed, n: 4},
				}},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// DescribeLogDirsRequest
	35: {flexible: 2, nodes: []node{
		{kind: kindArray, null: 0, size: unsafe.Sizeof(kmsg.DescribeLogDirsRequestTopic{}), sub: []node{
			{kind: kindString},
			{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// SASLAuthenticateRequest
	36: {flexible: 2, nodes: []node{
		{kind: kindBytes},
		{kind: kindTags},
	}},
	// CreatePartitionsRequest
	37: {flexible: 2, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(kmsg.CreatePartitionsRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindFixed, n: 4},
			{kind: kindArray, null: 0, size: unsafe.Sizeof(kmsg.CreatePartitionsRequestTopicAssignment{}), sub: []node{
				{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
					{kind: kindFixed, n: 4},
				}},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 1},
		{kind: kindTags},
	}},
	// CreateDelegationTokenRequest
	38: {flexible: 2, nodes: []node{
		{kind: kindNullableString, from: 3},
		{kind: kindNullableString, from: 3},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.CreateDelegationTokenRequestRenewer{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindString},
			{kind: kindTags},
		}},
		{kind: kindFixed, n: 8},
		{kind: kindTags},
	}},
	// RenewDelegationTokenRequest
	39: {flexible: 2, nodes: []node{
		{kind: kindBytes},
		{kind: kindFixed, n: 8},
		{kind: kindTags},
	}},
	// ExpireDelegationTokenRequest
	40: {flexible: 2, nodes: []node{
		{kind: kindBytes},
		{kind: kindFixed, n: 8},
		{kind: kindTags},
	}},
	// DescribeDelegationTokenRequest
	41: {flexible: 2, nodes: []node{
		{kind: kindArray, null: 0, size: unsafe.Sizeof(kmsg.DescribeDelegationTokenRequestOwner{}), sub: []node{
			{kind: kindString},
			{kind: kindString},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// DeleteGroupsRequest
	42: {flexible: 2, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(""), null: neverNull, sub: []node{
			{kind: kindString},
		}},
		{kind: kindTags},
	}},
	// ElectLeadersRequest
	43: {flexible: 2, nodes: []node{
		{kind: kindFixed, n: 1, from: 1},
		{kind: kindArray, null: 0, size: unsafe.Sizeof(kmsg.ElectLeadersRequestTopic{}), sub: []node{
			{kind: kindString},
			{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
			}},
			{kind: kindTags},
		}},
		{kind: kindFixed, n: 4},
		{kind: kindTags},
	}},
	// IncrementalAlterConfigsRequest
	44: {flexible: 1, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(kmsg.IncrementalAlterConfigsRequestResource{}), null: neverNull, sub: []node{
			{kind: kindFixed, n: 1},
			{kind: kindString},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.IncrementalAlterConfigsRequestResourceConfig{}), null: neverNull, sub: []node{
				{kind: kindString},
				{kind: kindFixed, n: 1},
				{kind: kindNullableString},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindFixed, n: 1},
		{kind: kindTags},
	}},
	// AlterPartitionAssignmentsRequest
	45: {flexible: 0, nodes: []node{
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 1, from: 1},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.AlterPartitionAssignmentsRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.AlterPartitionAssignmentsRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindArray, null: 0, size: unsafe.Sizeof(int32(0)), sub: []node{
					{kind: kindFixed, n: 4},
				}},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// ListPartitionReassignmentsRequest
	46: {flexible: 0, nodes: []node{
		{kind: kindFixed, n: 4},
		{kind: kindArray, null: 0, size: unsafe.Sizeof(kmsg.ListPartitionReassignmentsRequestTopic{}), sub: []node{
			{kind: kindString},
			{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// OffsetDeleteRequest
	47: {flexible: neverFlexible, nodes: []node{
		{kind: kindPlainString},
		{kind: kindPlainArray, size: unsafe.Sizeof(kmsg.OffsetDeleteRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindPlainString},
			{kind: kindPlainArray, size: unsafe.Sizeof(kmsg.OffsetDeleteRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
			}},
		}},
	}},
	// DescribeClientQuotasRequest
	48: {flexible: 1, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(kmsg.DescribeClientQuotasRequestComponent{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindFixed, n: 1},
			{kind: kindNullableString},
			{kind: kindTags},
		}},
		{kind: kindFixed, n: 1},
		{kind: kindTags},
	}},
	// AlterClientQuotasRequest
	49: {flexible: 1, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(kmsg.AlterClientQuotasRequestEntry{}), null: neverNull, sub: []node{
			{kind: kindArray, size: unsafe.Sizeof(kmsg.AlterClientQuotasRequestEntryEntity{}), null: neverNull, sub: []node{
				{kind: kindString},
				{kind: kindNullableString},
				{kind: kindTags},
			}},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.AlterClientQuotasRequestEntryOp{}), null: neverNull, sub: []node{
				{kind: kindString},
				{kind: kindFixed, n: 8},
				{kind: kindFixed, n: 1},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindFixed, n: 1},
		{kind: kindTags},
	}},
	// DescribeUserSCRAMCredentialsRequest
	50: {flexible: 0, nodes: []node{
		{kind: kindArray, null: 0, size: unsafe.Sizeof(kmsg.DescribeUserSCRAMCredentialsRequestUser{}), sub: []node{
			{kind: kindString},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// AlterUserSCRAMCredentialsRequest
	51: {flexible: 0, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(kmsg.AlterUserSCRAMCredentialsRequestDeletion{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindFixed, n: 1},
			{kind: kindTags},
		}},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.AlterUserSCRAMCredentialsRequestUpsertion{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindFixed, n: 1},
			{kind: kindFixed, n: 4},
			{kind: kindBytes},
			{kind: kindBytes},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// VoteRequest
	52: {flexible: 0, nodes: []node{
		{kind: kindNullableString},
		{kind: kindFixed, n: 4, from: 1},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.VoteRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.VoteRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 16, from: 1},
				{kind: kindFixed, n: 16, from: 1},
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 8},
				{kind: kindFixed, n: 1, from: 2},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// BeginQuorumEpochRequest
	53: {flexible: 1, nodes: []node{
		{kind: kindNullableString},
		{kind: kindFixed, n: 4, from: 1},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.BeginQuorumEpochRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.BeginQuorumEpochRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 16, from: 1},
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 4},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.BeginQuorumEpochRequestLeaderEndpoint{}), null: neverNull, from: 1, sub: []node{
			{kind: kindString},
			{kind: kindString},
			{kind: kindFixed, n: 2},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// EndQuorumEpochRequest
	54: {flexible: 1, nodes: []node{
		{kind: kindNullableString},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.EndQuorumEpochRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.EndQuorumEpochRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 4},
				{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, until: 1, sub: []node{
					{kind: kindFixed, n: 4},
				}},
				{kind: kindArray, size: unsafe.Sizeof(kmsg.EndQuorumEpochRequestTopicPartitionPreferredCandidate{}), null: neverNull, from: 1, sub: []node{
					{kind: kindFixed, n: 4},
					{kind: kindFixed, n: 16},
					{kind: kindTags},
				}},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.EndQuorumEpochRequestLeaderEndpoint{}), null: neverNull, from: 1, sub: []node{
			{kind: kindString},
			{kind: kindString},
			{kind: kindFixed, n: 2},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// DescribeQuorumRequest
	55: {flexible: 0, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(kmsg.DescribeQuorumRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.DescribeQuorumRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// AlterPartitionRequest
	56: {flexible: 0, nodes: []node{
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 8},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.AlterPartitionRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindString, until: 2},
			{kind: kindFixed, n: 16, from: 2},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.AlterPartitionRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 4},
				{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, until: 3, sub: []node{
					{kind: kindFixed, n: 4},
				}},
				{kind: kindArray, size: unsafe.Sizeof(kmsg.AlterPartitionRequestTopicPartitionNewEpochISR{}), null: neverNull, from: 3, sub: []node{
					{kind: kindFixed, n: 4},
					{kind: kindFixed, n: 8},
					{kind: kindTags},
				}},
				{kind: kindFixed, n: 1, from: 1},
				{kind: kindFixed, n: 4},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// UpdateFeaturesRequest
	57: {flexible: 0, nodes: []node{
		{kind: kindFixed, n: 4},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.UpdateFeaturesRequestFeatureUpdate{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindFixed, n: 2},
			{kind: kindFixed, n: 1, until: 1},
			{kind: kindFixed, n: 1, from: 1},
			{kind: kindTags},
		}},
		{kind: kindFixed, n: 1, from: 1},
		{kind: kindTags},
	}},
	// EnvelopeRequest
	58: {flexible: 0, nodes: []node{
		{kind: kindBytes},
		{kind: kindNullableBytes},
		{kind: kindBytes},
		{kind: kindTags},
	}},
	// FetchSnapshotRequest
	59: {flexible: 0, nodes: []node{
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 4},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.FetchSnapshotRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.FetchSnapshotRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 8},
				{kind: kindFixed, n: 4},
				{kind: kindTags},
				{kind: kindFixed, n: 8},
				{kind: kindTags, sub: []node{
					{kind: kindTag, n: 0, sub: []node{
						{kind: kindFixed, n: 16},
					}},
				}},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags, sub: []node{
			{kind: kindTag, n: 0, sub: []node{
				{kind: kindNullableString},
			}},
		}},
	}},
	// DescribeClusterRequest
	60: {flexible: 0, nodes: []node{
		{kind: kindFixed, n: 1},
		{kind: kindFixed, n: 1, from: 1},
		{kind: kindFixed, n: 1, from: 2},
		{kind: kindTags},
	}},
	// DescribeProducersRequest
	61: {flexible: 0, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(kmsg.DescribeProducersRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// BrokerRegistrationRequest
	62: {flexible: 0, nodes: []node{
		{kind: kindFixed, n: 4},
		{kind: kindString},
		{kind: kindFixed, n: 16},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.BrokerRegistrationRequestListener{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindString},
			{kind: kindFixed, n: 2},
			{kind: kindFixed, n: 2},
			{kind: kindTags},
		}},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.BrokerRegistrationRequestFeature{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindFixed, n: 2},
			{kind: kindFixed, n: 2},
			{kind: kindTags},
		}},
		{kind: kindNullableString},
		{kind: kindFixed, n: 1, from: 1},
		{kind: kindArray, size: unsafe.Sizeof([16]byte{}), null: neverNull, from: 2, sub: []node{
			{kind: kindFixed, n: 16},
		}},
		{kind: kindFixed, n: 8, from: 3},
		{kind: kindTags},
	}},
	// BrokerHeartbeatRequest
	63: {flexible: 0, nodes: []node{
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 8},
		{kind: kindFixed, n: 8},
		{kind: kindFixed, n: 1},
		{kind: kindFixed, n: 1},
		{kind: kindTags, sub: []node{
			{kind: kindTag, n: 0, sub: []node{
				{kind: kindArray, size: unsafe.Sizeof([16]byte{}), null: neverNull, sub: []node{
					{kind: kindFixed, n: 16},
				}},
			}},
			{kind: kindTag, n: 1, sub: []node{
				{kind: kindArray, null: 0, size: unsafe.Sizeof([16]byte{}), sub: []node{
					{kind: kindFixed, n: 16},
				}},
			}},
		}},
	}},
	// UnregisterBrokerRequest
	64: {flexible: 0, nodes: []node{
		{kind: kindFixed, n: 4},
		{kind: kindTags},
	}},
	// DescribeTransactionsRequest
	65: {flexible: 0, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(""), null: neverNull, sub: []node{
			{kind: kindString},
		}},
		{kind: kindTags},
	}},
	// ListTransactionsRequest
	66: {flexible: 0, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(""), null: neverNull, sub: []node{
			{kind: kindString},
		}},
		{kind: kindArray, size: unsafe.Sizeof(int64(0)), null: neverNull, sub: []node{
			{kind: kindFixed, n: 8},
		}},
		{kind: kindFixed, n: 8, from: 1},
		{kind: kindNullableString, from: 2},
		{kind: kindTags},
	}},
	// AllocateProducerIDsRequest
	67: {flexible: 0, nodes: []node{
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 8},
		{kind: kindTags},
	}},
	// ConsumerGroupHeartbeatRequest
	68: {flexible: 0, nodes: []node{
		{kind: kindString},
		{kind: kindString},
		{kind: kindFixed, n: 4},
		{kind: kindNullableString},
		{kind: kindNullableString},
		{kind: kindFixed, n: 4},
		{kind: kindArray, null: 0, size: unsafe.Sizeof(""), sub: []node{
			{kind: kindString},
		}},
		{kind: kindNullableString, from: 1},
		{kind: kindNullableString},
		{kind: kindArray, null: 0, size: unsafe.Sizeof(kmsg.ConsumerGroupHeartbeatRequestTopic{}), sub: []node{
			{kind: kindFixed, n: 16},
			{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// ConsumerGroupDescribeRequest
	69: {flexible: 0, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(""), null: neverNull, sub: []node{
			{kind: kindString},
		}},
		{kind: kindFixed, n: 1},
		{kind: kindTags},
	}},
	// ControllerRegistrationRequest
	70: {flexible: 0, nodes: []node{
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 16},
		{kind: kindFixed, n: 1},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.ControllerRegistrationRequestListener{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindString},
			{kind: kindFixed, n: 2},
			{kind: kindFixed, n: 2},
			{kind: kindTags},
		}},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.ControllerRegistrationRequestFeature{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindFixed, n: 2},
			{kind: kindFixed, n: 2},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// GetTelemetrySubscriptionsRequest
	71: {flexible: 0, nodes: []node{
		{kind: kindFixed, n: 16},
		{kind: kindTags},
	}},
	// PushTelemetryRequest
	72: {flexible: 0, nodes: []node{
		{kind: kindFixed, n: 16},
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 1},
		{kind: kindFixed, n: 1},
		{kind: kindBytes},
		{kind: kindTags},
	}},
	// AssignReplicasToDirsRequest
	73: {flexible: 0, nodes: []node{
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 8},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.AssignReplicasToDirsRequestDirectory{}), null: neverNull, sub: []node{
			{kind: kindFixed, n: 16},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.AssignReplicasToDirsRequestDirectoryTopic{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 16},
				{kind: kindArray, size: unsafe.Sizeof(kmsg.AssignReplicasToDirsRequestDirectoryTopicPartition{}), null: neverNull, sub: []node{
					{kind: kindFixed, n: 4},
					{kind: kindTags},
				}},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// ListConfigResourcesRequest
	74: {flexible: 0, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(int8(0)), null: neverNull, from: 1, sub: []node{
			{kind: kindFixed, n: 1},
		}},
		{kind: kindTags},
	}},
	// DescribeTopicPartitionsRequest
	75: {flexible: 0, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(kmsg.DescribeTopicPartitionsRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindTags},
		}},
		{kind: kindFixed, n: 4},
		{kind: kindNullableStruct, size: unsafe.Sizeof(kmsg.DescribeTopicPartitionsRequestCursor{}), sub: []node{
			{kind: kindString},
			{kind: kindFixed, n: 4},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// ShareGroupHeartbeatRequest
	76: {flexible: 0, nodes: []node{
		{kind: kindString},
		{kind: kindString},
		{kind: kindFixed, n: 4},
		{kind: kindNullableString},
		{kind: kindArray, null: 0, size: unsafe.Sizeof(""), sub: []node{
			{kind: kindString},
		}},
		{kind: kindTags},
	}},
	// ShareGroupDescribeRequest
	77: {flexible: 0, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(""), null: neverNull, sub: []node{
			{kind: kindString},
		}},
		{kind: kindFixed, n: 1},
		{kind: kindTags},
	}},
	// ShareFetchRequest
	78: {flexible: 0, nodes: []node{
		{kind: kindNullableString},
		{kind: kindNullableString},
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 4, from: 1},
		{kind: kindFixed, n: 4, from: 1},
		{kind: kindFixed, n: 1, from: 2},
		{kind: kindFixed, n: 1, from: 2},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.ShareFetchRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindFixed, n: 16},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.ShareFetchRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 4, until: 1},
				{kind: kindArray, size: unsafe.Sizeof(kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch{}), null: neverNull, sub: []node{
					{kind: kindFixed, n: 8},
					{kind: kindFixed, n: 8},
					{kind: kindArray, size: unsafe.Sizeof(int8(0)), null: neverNull, sub: []node{
						{kind: kindFixed, n: 1},
					}},
					{kind: kindTags},
				}},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.ShareFetchRequestForgottenTopicsData{}), null: neverNull, sub: []node{
			{kind: kindFixed, n: 16},
			{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// ShareAcknowledgeRequest
	79: {flexible: 0, nodes: []node{
		{kind: kindNullableString},
		{kind: kindNullableString},
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 1, from: 2},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.ShareAcknowledgeRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindFixed, n: 16},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.ShareAcknowledgeRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindArray, size: unsafe.Sizeof(kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{}), null: neverNull, sub: []node{
					{kind: kindFixed, n: 8},
					{kind: kindFixed, n: 8},
					{kind: kindArray, size: unsafe.Sizeof(int8(0)), null: neverNull, sub: []node{
						{kind: kindFixed, n: 1},
					}},
					{kind: kindTags},
				}},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// AddRaftVoterRequest
	80: {flexible: 0, nodes: []node{
		{kind: kindNullableString},
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 16},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.AddRaftVoterRequestListener{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindString},
			{kind: kindFixed, n: 2},
			{kind: kindTags},
		}},
		{kind: kindFixed, n: 1, from: 1},
		{kind: kindTags},
	}},
	// RemoveRaftVoterRequest
	81: {flexible: 0, nodes: []node{
		{kind: kindNullableString},
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 16},
		{kind: kindTags},
	}},
	// UpdateRaftVoterRequest
	82: {flexible: 0, nodes: []node{
		{kind: kindNullableString},
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 16},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.UpdateRaftVoterRequestListener{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindString},
			{kind: kindFixed, n: 2},
			{kind: kindTags},
		}},
		{kind: kindFixed, n: 2},
		{kind: kindFixed, n: 2},
		{kind: kindTags},
		{kind: kindTags},
	}},
	// InitializeShareGroupStateRequest
	83: {flexible: 0, nodes: []node{
		{kind: kindString},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.InitializeShareGroupStateRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindFixed, n: 16},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.InitializeShareGroupStateRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 8},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// ReadShareGroupStateRequest
	84: {flexible: 0, nodes: []node{
		{kind: kindString},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.ReadShareGroupStateRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindFixed, n: 16},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.ReadShareGroupStateRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 4},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// WriteShareGroupStateRequest
	85: {flexible: 0, nodes: []node{
		{kind: kindString},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.WriteShareGroupStateRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindFixed, n: 16},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.WriteShareGroupStateRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 8},
				{kind: kindFixed, n: 4, from: 1},
				{kind: kindArray, size: unsafe.Sizeof(kmsg.WriteShareGroupStateRequestTopicPartitionStateBatch{}), null: neverNull, sub: []node{
					{kind: kindFixed, n: 8},
					{kind: kindFixed, n: 8},
					{kind: kindFixed, n: 1},
					{kind: kindFixed, n: 2},
					{kind: kindTags},
				}},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// DeleteShareGroupStateRequest
	86: {flexible: 0, nodes: []node{
		{kind: kindString},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.DeleteShareGroupStateRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindFixed, n: 16},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.DeleteShareGroupStateRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// ReadShareGroupStateSummaryRequest
	87: {flexible: 0, nodes: []node{
		{kind: kindString},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.ReadShareGroupStateSummaryRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindFixed, n: 16},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.ReadShareGroupStateSummaryRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 4},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// StreamsGroupHeartbeatRequest
	88: {flexible: 0, nodes: []node{
		{kind: kindString},
		{kind: kindString},
		{kind: kindFixed, n: 4},
		{kind: kindFixed, n: 4},
		{kind: kindNullableString},
		{kind: kindNullableString},
		{kind: kindFixed, n: 4},
		{kind: kindNullableStruct, size: unsafe.Sizeof(kmsg.StreamsGroupHeartbeatRequestTopology{}), sub: []node{
			{kind: kindFixed, n: 4},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{}), null: neverNull, sub: []node{
				{kind: kindString},
				{kind: kindArray, size: unsafe.Sizeof(""), null: neverNull, sub: []node{
					{kind: kindString},
				}},
				{kind: kindArray, size: unsafe.Sizeof(""), null: neverNull, sub: []node{
					{kind: kindString},
				}},
				{kind: kindArray, size: unsafe.Sizeof(kmsg.TopicInfo{}), null: neverNull, sub: []node{
					{kind: kindString},
					{kind: kindFixed, n: 4},
					{kind: kindFixed, n: 2},
					{kind: kindArray, size: unsafe.Sizeof(kmsg.TopicInfoConfig{}), null: neverNull, sub: []node{
						{kind: kindString},
						{kind: kindString},
						{kind: kindTags},
					}},
					{kind: kindTags},
				}},
				{kind: kindArray, size: unsafe.Sizeof(""), null: neverNull, sub: []node{
					{kind: kindString},
				}},
				{kind: kindArray, size: unsafe.Sizeof(kmsg.TopicInfo{}), null: neverNull, sub: []node{
					{kind: kindString},
					{kind: kindFixed, n: 4},
					{kind: kindFixed, n: 2},
					{kind: kindArray, size: unsafe.Sizeof(kmsg.TopicInfoConfig{}), null: neverNull, sub: []node{
						{kind: kindString},
						{kind: kindString},
						{kind: kindTags},
					}},
					{kind: kindTags},
				}},
				{kind: kindArray, size: unsafe.Sizeof(kmsg.StreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup{}), null: neverNull, sub: []node{
					{kind: kindArray, size: unsafe.Sizeof(int16(0)), null: neverNull, sub: []node{
						{kind: kindFixed, n: 2},
					}},
					{kind: kindArray, size: unsafe.Sizeof(int16(0)), null: neverNull, sub: []node{
						{kind: kindFixed, n: 2},
					}},
					{kind: kindArray, size: unsafe.Sizeof(int16(0)), null: neverNull, sub: []node{
						{kind: kindFixed, n: 2},
					}},
					{kind: kindTags},
				}},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindArray, null: 0, size: unsafe.Sizeof(kmsg.TaskIDs{}), sub: []node{
			{kind: kindString},
			{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
			}},
			{kind: kindTags},
		}},
		{kind: kindArray, null: 0, size: unsafe.Sizeof(kmsg.TaskIDs{}), sub: []node{
			{kind: kindString},
			{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
			}},
			{kind: kindTags},
		}},
		{kind: kindArray, null: 0, size: unsafe.Sizeof(kmsg.TaskIDs{}), sub: []node{
			{kind: kindString},
			{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
			}},
			{kind: kindTags},
		}},
		{kind: kindNullableString},
		{kind: kindNullableStruct, size: unsafe.Sizeof(kmsg.StreamsGroupHeartbeatRequestUserEndpoint{}), sub: []node{
			{kind: kindString},
			{kind: kindFixed, n: 2},
			{kind: kindTags},
		}},
		{kind: kindArray, null: 0, size: unsafe.Sizeof(kmsg.StreamsGroupHeartbeatRequestClientTag{}), sub: []node{
			{kind: kindString},
			{kind: kindString},
			{kind: kindTags},
		}},
		{kind: kindArray, null: 0, size: unsafe.Sizeof(kmsg.TaskOffset{}), sub: []node{
			{kind: kindString},
			{kind: kindFixed, n: 4},
			{kind: kindFixed, n: 8},
			{kind: kindTags},
		}},
		{kind: kindArray, null: 0, size: unsafe.Sizeof(kmsg.TaskOffset{}), sub: []node{
			{kind: kindString},
			{kind: kindFixed, n: 4},
			{kind: kindFixed, n: 8},
			{kind: kindTags},
		}},
		{kind: kindFixed, n: 1},
		{kind: kindTags},
	}},
	// StreamsGroupDescribeRequest
	89: {flexible: 0, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(""), null: neverNull, sub: []node{
			{kind: kindString},
		}},
		{kind: kindFixed, n: 1},
		{kind: kindFixed, n: 1, from: 1},
		{kind: kindTags},
	}},
	// DescribeShareGroupOffsetsRequest
	90: {flexible: 0, nodes: []node{
		{kind: kindArray, size: unsafe.Sizeof(kmsg.DescribeShareGroupOffsetsRequestGroup{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindArray, null: 0, size: unsafe.Sizeof(kmsg.DescribeShareGroupOffsetsRequestGroupTopic{}), sub: []node{
				{kind: kindString},
				{kind: kindArray, size: unsafe.Sizeof(int32(0)), null: neverNull, sub: []node{
					{kind: kindFixed, n: 4},
				}},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// AlterShareGroupOffsetsRequest
	91: {flexible: 0, nodes: []node{
		{kind: kindString},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.AlterShareGroupOffsetsRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.AlterShareGroupOffsetsRequestTopicPartition{}), null: neverNull, sub: []node{
				{kind: kindFixed, n: 4},
				{kind: kindFixed, n: 8},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// DeleteShareGroupOffsetsRequest
	92: {flexible: 0, nodes: []node{
		{kind: kindString},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.DeleteShareGroupOffsetsRequestTopic{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindTags},
		}},
		{kind: kindTags},
	}},
	// StreamsGroupTopologyDescriptionUpdateRequest
	93: {flexible: 0, nodes: []node{
		{kind: kindString},
		{kind: kindString},
		{kind: kindFixed, n: 4},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.TopologyDescriptionSubtopology{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindArray, size: unsafe.Sizeof(kmsg.TopologyDescriptionNode{}), null: neverNull, sub: []node{
				{kind: kindString},
				{kind: kindFixed, n: 1},
				{kind: kindArray, size: unsafe.Sizeof(""), null: neverNull, sub: []node{
					{kind: kindString},
				}},
				{kind: kindNullableString},
				{kind: kindArray, size: unsafe.Sizeof(""), null: neverNull, sub: []node{
					{kind: kindString},
				}},
				{kind: kindArray, size: unsafe.Sizeof(""), null: neverNull, sub: []node{
					{kind: kindString},
				}},
				{kind: kindTags},
			}},
			{kind: kindTags},
		}},
		{kind: kindArray, size: unsafe.Sizeof(kmsg.TopologyDescriptionGlobalStore{}), null: neverNull, sub: []node{
			{kind: kindString},
			{kind: kindFixed, n: 1},
			{kind: kindArray, size: unsafe.Sizeof(""), null: neverNull, sub: []node{
				{kind: kindString},
			}},
			{kind: kindNullableString},
			{kind: kindArray, size: unsafe.Sizeof(""), null: neverNull, sub: []node{
				{kind: kindString},
			}},
			{kind: kindArray, size: unsafe.Sizeof(""), null: neverNull, sub: []node{
				{kind: kindString},
			}},
			{kind: kindTags},
			{kind: kindString},
			{kind: kindFixed, n: 1},
			{kind: kindArray, size: unsafe.Sizeof(""), null: neverNull, sub: []node{
				{kind: kindString},
			}},
			{kind: kindNullableString},
			{kind: kindArray, size: unsafe.Sizeof(""), null: neverNull, sub: []node{
				{kind: kindString},
			}},
			{kind: kindArray, size: unsafe.Sizeof(""), null: neverNull, sub: []node{
				{kind: kindString},
			}},
			{kind: kindTags},
			{kind: kindTags},
		}},
		{kind: kindTags},
		{kind: kindTags},
	}},
	// UnregisterControllerRequest
	94: {flexible: 0, nodes: []node{
		{kind: kindFixed, n: 4},
		{kind: kindTags},
	}},
}
