package quorum

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

// ElectionState is what a replica must never forget: the newest epoch it knows, and in it the leader or its
// own vote.
type ElectionState struct {
	Epoch  kafka.LeaderEpoch
	Leader kafka.NodeID // NoNode: not known
	Voted  ReplicaKey   // NoReplica: nobody
	// Voters are kept by Kafka in version 0 of the file (kraft.version 0), for information only.
	Voters []kafka.NodeID
	// KRaftVersion chooses the version of the file.
	KRaftVersion int16
}

// noElection is the state of a replica that never took part.
var noElection = ElectionState{Leader: kafka.NoNode, Voted: NoReplica}

// election is the outcome alone, comparable.
type election struct {
	epoch  kafka.LeaderEpoch
	leader kafka.NodeID
	voted  ReplicaKey
}

func (s ElectionState) election() election { return election{s.Epoch, s.Leader, s.Voted} }

const electionStateName = "quorum-state"

// The two layouts of the file, fields in the order in which Kafka writes them.
type electionStateV0 struct {
	ClusterID     string           `json:"clusterId"`
	LeaderID      int32            `json:"leaderId"`
	LeaderEpoch   int32            `json:"leaderEpoch"`
	VotedID       int32            `json:"votedId"`
	AppliedOffset int64            `json:"appliedOffset"`
	CurrentVoters []electionVoter0 `json:"currentVoters"`
	DataVersion   int16            `json:"data_version"`
}

type electionVoter0 struct {
	VoterID int32 `json:"voterId"`
}

type electionStateV1 struct {
	LeaderID         int32  `json:"leaderId"`
	LeaderEpoch      int32  `json:"leaderEpoch"`
	VotedID          int32  `json:"votedId"`
	VotedDirectoryID string `json:"votedDirectoryId"`
	DataVersion      int16  `json:"data_version"`
}

// encode gives the file's one line, without a line end, as Kafka writes it.
func (s ElectionState) encode() ([]byte, error) {
	if s.KRaftVersion > 0 {
		return json.Marshal(electionStateV1{LeaderID: int32(s.Leader), LeaderEpoch: int32(s.Epoch),
			VotedID: int32(s.Voted.ID), VotedDirectoryID: s.Voted.Directory.String(), DataVersion: 1})
	}
	out := electionStateV0{LeaderID: int32(s.Leader), LeaderEpoch: int32(s.Epoch), VotedID: int32(s.Voted.ID),
		CurrentVoters: []electionVoter0{}}
	for _, id := range s.Voters {
		out.CurrentVoters = append(out.CurrentVoters, electionVoter0{int32(id)})
	}
	return json.Marshal(out)
}

func decodeElectionState(b []byte) (ElectionState, error) {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	version := struct {
		DataVersion *int16 `json:"data_version"`
	}{}
	if err := json.Unmarshal(line, &version); err != nil {
		return ElectionState{}, err
	}
	if version.DataVersion == nil {
		return ElectionState{}, errors.New("data_version is missing")
	}
	// The fields of the one layout that the other lacks keep their absent values.
	raw := struct {
		electionStateV1
		CurrentVoters []electionVoter0 `json:"currentVoters"`
	}{electionStateV1: electionStateV1{LeaderID: -1, LeaderEpoch: -1, VotedID: -1}}
	if *version.DataVersion != 0 && *version.DataVersion != 1 {
		return ElectionState{}, fmt.Errorf("data_version %d is not known", *version.DataVersion)
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return ElectionState{}, err
	}
	out := ElectionState{Epoch: kafka.LeaderEpoch(raw.LeaderEpoch), Leader: kafka.NodeID(raw.LeaderID),
		Voted: ReplicaKey{ID: kafka.NodeID(raw.VotedID)}, KRaftVersion: *version.DataVersion}
	if raw.VotedDirectoryID != "" {
		dir, err := kafka.ParseUUID(raw.VotedDirectoryID)
		if err != nil {
			return ElectionState{}, err
		}
		out.Voted.Directory = dir
	}
	for _, v := range raw.CurrentVoters {
		out.Voters = append(out.Voters, kafka.NodeID(v.VoterID))
	}
	if out.Epoch < 0 || out.Leader < kafka.NoNode || out.Voted.ID < kafka.NoNode {
		return ElectionState{}, errors.New("a negative epoch or id")
	}
	return out, nil
}

// readElectionState reads dir/quorum-state. A missing file is a replica that never took part.
func readElectionState(fsys vfs.FS, dir string) (ElectionState, error) {
	name := path.Join(dir, electionStateName)
	b, err := readFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return noElection, nil
	}
	if err != nil {
		return ElectionState{}, err
	}
	s, err := decodeElectionState(b)
	if err != nil {
		return ElectionState{}, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// writeElectionState replaces dir/quorum-state durably: when it returns without error, no crash brings the
// old one back.
func writeElectionState(fsys vfs.FS, dir string, s ElectionState) error {
	b, err := s.encode()
	if err != nil {
		return err
	}
	return log.AtomicWrite(fsys, path.Join(dir, electionStateName), b)
}

// maxSmallFileBytes bounds what readFile takes into memory.
const maxSmallFileBytes = 1 << 20

// readFile reads a small file whole.
func readFile(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > maxSmallFileBytes {
		return nil, fmt.Errorf("%s has %d bytes: not a file of ours", name, size)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		return nil, err
	}
	return b, nil
}
