package quorum

import (
	"slices"

	"moldau/internal/kafka"
)

// bootstrapOffset is the offset that the voter set of the 0-0 checkpoint counts as: below the log, so that
// the first leader knows that it has to write the set into the log.
const bootstrapOffset kafka.Offset = -1

// VoterHistory is every voter set and kraft.version that the local log or a snapshot holds, by offset. A set
// is in force as soon as it is appended, committed or not (KIP-853); truncating the log takes it back.
type VoterHistory struct {
	static   VoterSet // controller.quorum.voters, in force while no set was ever recorded
	voters   []votersAt
	versions []versionAt
}

type votersAt struct {
	offset kafka.Offset
	voters VoterSet
}

type versionAt struct {
	offset  kafka.Offset
	version int16
}

// NewVoterHistory starts with the configured voters; none for a dynamic quorum.
func NewVoterHistory(static VoterSet) *VoterHistory { return &VoterHistory{static: static} }

// Latest is the set in force.
func (h *VoterHistory) Latest() VoterSet {
	if len(h.voters) == 0 {
		return h.static
	}
	return h.voters[len(h.voters)-1].voters
}

// previous is the set before the one in force.
func (h *VoterHistory) previous() VoterSet {
	if len(h.voters) < 2 {
		return h.static
	}
	return h.voters[len(h.voters)-2].voters
}

// LatestOffset is the offset of the record of the set in force: NoOffset (-1) for one that is not in the log,
// be it configured or from the 0-0 checkpoint.
func (h *VoterHistory) LatestOffset() kafka.Offset {
	if len(h.voters) == 0 {
		return kafka.NoOffset
	}
	return h.voters[len(h.voters)-1].offset
}

// KRaftVersion is the kraft.version in force.
func (h *VoterHistory) KRaftVersion() int16 {
	if len(h.versions) == 0 {
		return 0
	}
	return h.versions[len(h.versions)-1].version
}

// At gives kraft.version and the voters as of the records below an offset: what a snapshot with that end
// offset states. Only what was recorded counts; the configured voters are no part of a snapshot.
func (h *VoterHistory) At(end kafka.Offset) (version int16, voters VoterSet) {
	for _, e := range h.versions {
		if e.offset < end {
			version = e.version
		}
	}
	for _, e := range h.voters {
		if e.offset < end {
			voters = e.voters
		}
	}
	return version, voters
}

// AddVoters records a set at an offset, which is above all earlier ones; the same offset replaces.
func (h *VoterHistory) AddVoters(offset kafka.Offset, set VoterSet) {
	h.voters = slices.DeleteFunc(h.voters, func(e votersAt) bool { return e.offset >= offset })
	h.voters = append(h.voters, votersAt{offset, set})
}

// AddVersion records a kraft.version at an offset.
func (h *VoterHistory) AddVersion(offset kafka.Offset, version int16) {
	h.versions = slices.DeleteFunc(h.versions, func(e versionAt) bool { return e.offset >= offset })
	h.versions = append(h.versions, versionAt{offset, version})
}

// TruncateTo forgets what was recorded at or above an offset.
func (h *VoterHistory) TruncateTo(end kafka.Offset) {
	h.voters = slices.DeleteFunc(h.voters, func(e votersAt) bool { return e.offset >= end })
	h.versions = slices.DeleteFunc(h.versions, func(e versionAt) bool { return e.offset >= end })
}

// AdvanceStart forgets what no snapshot at or above a log start can need: all but the newest entry below it.
func (h *VoterHistory) AdvanceStart(start kafka.Offset) {
	for len(h.voters) > 1 && h.voters[1].offset < start {
		h.voters = slices.Delete(h.voters, 0, 1)
	}
	for len(h.versions) > 1 && h.versions[1].offset < start {
		h.versions = slices.Delete(h.versions, 0, 1)
	}
}

// reset forgets everything recorded: a downloaded snapshot replaces the log.
func (h *VoterHistory) reset() { h.voters, h.versions = nil, nil }

// apply records the control records of one batch or snapshot header. offsets are those of the records, or one
// offset for all of them for a snapshot, whose content counts as written just below its end.
func (h *VoterHistory) apply(records []ControlRecord) {
	for _, r := range records {
		switch body := r.Body.(type) {
		case KRaftVersionRecord:
			h.AddVersion(r.Offset, body.Version)
		case VotersRecord:
			h.AddVoters(r.Offset, body.Voters)
		}
	}
}
