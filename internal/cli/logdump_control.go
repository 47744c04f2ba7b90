package cli

import (
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/quorum"
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
		if voters, ok := voterTexts(r); ok {
			return []field{{"marker", "KRaftVoters"}, {"voters", voters}}
		}
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

// voterTexts tells of each voter its id, directory, endpoints and the versions of the quorum's protocol it speaks.
func voterTexts(r record.Record) (string, bool) {
	body, err := quorum.DecodeControl(r.Key, r.Value)
	set, ok := body.(quorum.VotersRecord)
	if err != nil || !ok {
		return "", false
	}
	var out []string
	for _, v := range set.Voters {
		var at []string
		for _, e := range v.Endpoints {
			at = append(at, e.Name+"://"+net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))))
		}
		out = append(out, fmt.Sprintf("%d-%s@%s[kraft.version=%d-%d]", v.Key.ID, v.Key.Directory, strings.Join(at, "|"),
			v.KRaft.Min, v.KRaft.Max))
	}
	return strings.Join(out, ","), true
}
