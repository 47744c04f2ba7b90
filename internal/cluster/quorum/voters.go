package quorum

import (
	"cmp"
	"slices"

	"moldau/internal/kafka"
)

// Endpoint is one controller listener of a voter. Listener names are compared in upper case.
type Endpoint struct {
	Name string
	Host string
	Port uint16
}

// VersionRange is the range of kraft.version that a node supports.
type VersionRange struct{ Min, Max int16 }

// supportedKRaft is what this implementation supports: static voters (0) and dynamic ones (1, KIP-853).
var supportedKRaft = VersionRange{Min: 0, Max: 1}

// Voter is one entry of the voter set.
type Voter struct {
	Key       ReplicaKey
	Endpoints []Endpoint
	KRaft     VersionRange
}

func (v Voter) equal(w Voter) bool {
	return v.Key == w.Key && v.KRaft == w.KRaft && slices.Equal(v.Endpoints, w.Endpoints)
}

func (v Voter) compare(id kafka.NodeID) int { return cmp.Compare(v.Key.ID, id) }

// VoterSet is an immutable set of voters in id order. Ids are unique.
type VoterSet []Voter

// NewVoterSet sorts the voters; a second voter of one id, or a negative id, is an error.
func NewVoterSet(voters ...Voter) (VoterSet, error) {
	byID := func(a, b Voter) int { return a.compare(b.Key.ID) }
	set := VoterSet(slices.SortedFunc(slices.Values(voters), byID))
	for i, v := range set {
		if v.Key.ID < 0 {
			return nil, kafka.Errorf(kafka.InvalidRequest, "voter id %d is negative", v.Key.ID)
		}
		if i > 0 && set[i-1].Key.ID == v.Key.ID {
			return nil, kafka.Errorf(kafka.InvalidRequest, "voter id %d is listed twice", v.Key.ID)
		}
	}
	return set, nil
}

// Find gives the voter with an id.
func (s VoterSet) Find(id kafka.NodeID) (Voter, bool) {
	i, ok := slices.BinarySearchFunc(s, id, Voter.compare)
	if !ok {
		return Voter{}, false
	}
	return s[i], true
}

// Contains says whether a replica is a voter: the id is listed, with this directory or without any
// (kraft.version 0).
func (s VoterSet) Contains(k ReplicaKey) bool {
	v, ok := s.Find(k.ID)
	return ok && v.Key.matches(k)
}

// IsOnly says whether a replica is the only voter.
func (s VoterSet) IsOnly(k ReplicaKey) bool { return len(s) == 1 && s.Contains(k) }

// With adds a voter, or replaces the one with its id.
func (s VoterSet) With(v Voter) VoterSet {
	out := s.Without(v.Key.ID)
	i, _ := slices.BinarySearchFunc(out, v.Key.ID, Voter.compare)
	return slices.Insert(out, i, v)
}

// Without leaves out the voter with an id.
func (s VoterSet) Without(id kafka.NodeID) VoterSet {
	return slices.DeleteFunc(slices.Clone(s), func(v Voter) bool { return v.Key.ID == id })
}

// Equal says whether two sets have the same entries.
func (s VoterSet) Equal(t VoterSet) bool { return slices.EqualFunc(s, t, Voter.equal) }

func (s VoterSet) ids() []kafka.NodeID {
	ids := make([]kafka.NodeID, len(s))
	for i, v := range s {
		ids[i] = v.Key.ID
	}
	return ids
}

// majority is the number of voters that decide.
func (s VoterSet) majority() int { return len(s)/2 + 1 }
