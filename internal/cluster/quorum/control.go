package quorum

import (
	"fmt"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// ControlRecord is one record of a control batch: Body is a LeaderChangeRecord, SnapshotHeaderRecord,
// SnapshotFooterRecord, KRaftVersionRecord or VotersRecord.
type ControlRecord struct {
	Offset kafka.Offset
	Body   ControlBody
}

// ControlBody is the content of a control record.
type ControlBody interface {
	controlType() record.ControlType
	encode(b []byte) []byte
}

// LeaderChangeRecord opens every epoch: who leads, who the voters were and who granted. It is version 0 for
// ever: later versions exist, but Apache Kafka always reads it as version 0.
type LeaderChangeRecord struct {
	Leader   kafka.NodeID
	Voters   []kafka.NodeID
	Granting []kafka.NodeID
}

// SnapshotHeaderRecord opens every snapshot: the time of the last batch that it contains, in milliseconds.
type SnapshotHeaderRecord struct{ LastContainedMs int64 }

// SnapshotFooterRecord ends every snapshot.
type SnapshotFooterRecord struct{}

// KRaftVersionRecord states the finalized kraft.version, which is never a feature level record.
type KRaftVersionRecord struct{ Version int16 }

// VotersRecord states the whole voter set.
type VotersRecord struct{ Voters VoterSet }

func (LeaderChangeRecord) controlType() record.ControlType   { return record.ControlLeaderChange }
func (SnapshotHeaderRecord) controlType() record.ControlType { return record.ControlSnapshotHeader }
func (SnapshotFooterRecord) controlType() record.ControlType { return record.ControlSnapshotFooter }
func (KRaftVersionRecord) controlType() record.ControlType   { return record.ControlKRaftVersion }
func (VotersRecord) controlType() record.ControlType         { return record.ControlKRaftVoters }

func (r LeaderChangeRecord) encode(b []byte) []byte {
	b = putInt16(b, 0)
	b = putInt32(b, int32(r.Leader))
	for _, list := range [][]kafka.NodeID{r.Voters, r.Granting} {
		b = putLength(b, len(list))
		for _, id := range list {
			b = putNoTags(putInt32(b, int32(id)))
		}
	}
	return putNoTags(b)
}

func (r SnapshotHeaderRecord) encode(b []byte) []byte {
	return putNoTags(putInt64(putInt16(b, 0), r.LastContainedMs))
}

func (SnapshotFooterRecord) encode(b []byte) []byte { return putNoTags(putInt16(b, 0)) }

func (r KRaftVersionRecord) encode(b []byte) []byte {
	return putNoTags(putInt16(putInt16(b, 0), r.Version))
}

func (r VotersRecord) encode(b []byte) []byte {
	b = putInt16(b, 0)
	b = putLength(b, len(r.Voters))
	for _, v := range r.Voters {
		b = putInt32(b, int32(v.Key.ID))
		b = append(b, v.Key.Directory[:]...)
		b = putLength(b, len(v.Endpoints))
		for _, e := range v.Endpoints {
			b = putString(b, e.Name)
			b = putString(b, e.Host)
			b = putNoTags(putInt16(b, int16(e.Port)))
		}
		b = putNoTags(putInt16(putInt16(b, v.KRaft.Min), v.KRaft.Max))
		b = putNoTags(b)
	}
	return putNoTags(b)
}

// DecodeControl reads one control record. An unknown type is an error, as it is in Kafka: who does not know a
// control record cannot follow the quorum.
func DecodeControl(key, value []byte) (ControlBody, error) {
	kind, err := record.ParseControlKey(key)
	if err != nil {
		return nil, err
	}
	r := &reader{rest: value}
	r.int16() // the version is data; the layout is fixed
	var body ControlBody
	switch kind {
	case record.ControlLeaderChange:
		body = LeaderChangeRecord{Leader: kafka.NodeID(r.int32()), Voters: r.nodeIDs(), Granting: r.nodeIDs()}
	case record.ControlSnapshotHeader:
		body = SnapshotHeaderRecord{LastContainedMs: r.int64()}
	case record.ControlSnapshotFooter:
		body = SnapshotFooterRecord{}
	case record.ControlKRaftVersion:
		body = KRaftVersionRecord{Version: r.int16()}
	case record.ControlKRaftVoters:
		body = r.voters()
	default:
		return nil, fmt.Errorf("control record with key %x is not known", key)
	}
	r.skipTags()
	if r.bad || len(r.rest) > 0 {
		return nil, fmt.Errorf("control record of type %d is malformed", body.controlType())
	}
	return body, nil
}

func (r *reader) nodeIDs() []kafka.NodeID {
	var out []kafka.NodeID
	for n := r.length(); n > 0 && !r.bad; n-- {
		out = append(out, kafka.NodeID(r.int32()))
		r.skipTags()
	}
	return out
}

func (r *reader) voters() VotersRecord {
	var list []Voter
	for n := r.length(); n > 0 && !r.bad; n-- {
		v := Voter{Key: ReplicaKey{ID: kafka.NodeID(r.int32()), Directory: r.uuid()}}
		for m := r.length(); m > 0 && !r.bad; m-- {
			v.Endpoints = append(v.Endpoints, Endpoint{Name: r.string(), Host: r.string(), Port: uint16(r.int16())})
			r.skipTags()
		}
		v.KRaft = VersionRange{Min: r.int16(), Max: r.int16()}
		r.skipTags()
		r.skipTags()
		list = append(list, v)
	}
	set, err := NewVoterSet(list...)
	if err != nil {
		r.bad = true
	}
	return VotersRecord{Voters: set}
}
