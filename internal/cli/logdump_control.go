package cli

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/storage/record"
)

// controlFields tells what a control record says.
func controlFields(r record.Record) []field {
	kind, err := record.ParseControlKey(r.Key)
	if err != nil {
		return []field{{"key", r.Key}, {"value", r.Value}}
	}
	switch kind {
	case record.ControlCommit, record.ControlAbort:
		marker, err := record.ParseEndTxnMarker(r.Key, r.Value)
		if err != nil {
			break
		}
		what := "ABORT"
		if marker.Commit {
			what = "COMMIT"
		}
		return []field{{"marker", what}, {"coordinatorEpoch", marker.CoordinatorEpoch}}
	case record.ControlLeaderChange:
		m := kmsg.NewLeaderChangeMessage()
		if m.ReadFrom(r.Value) != nil {
			break
		}
		return []field{{"marker", "LeaderChange"}, {"leader", m.LeaderID}, {"voters", voterIDs(m.Voters)},
			{"granting", voterIDs(m.GrantingVoters)}}
	case record.ControlSnapshotHeader:
		if len(r.Value) >= 10 {
			return []field{{"marker", "SnapshotHeader"},
				{"lastContainedTimestamp", int64(binary.BigEndian.Uint64(r.Value[2:]))}}
		}
	case record.ControlSnapshotFooter:
		return []field{{"marker", "SnapshotFooter"}}
	case record.ControlKRaftVersion:
		if len(r.Value) >= 4 {
			return []field{{"marker", "KRaftVersion"}, {"version", int16(binary.BigEndian.Uint16(r.Value[2:]))}}
		}
	case record.ControlKRaftVoters:
		return []field{{"marker", "KRaftVoters"}, {"value", r.Value}}
	}
	return []field{{"marker", int16(kind)}, {"value", r.Value}}
}

func voterIDs(vs []kmsg.LeaderChangeMessageVoter) string {
	var ids []int32
	for _, v := range vs {
		ids = append(ids, v.VoterID)
	}
	return joinInts(ids)
}
