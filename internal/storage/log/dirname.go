package log

import (
	"encoding/hex"
	"strconv"
	"strings"

	"moldau/internal/kafka"
)

// DirState says what a partition's directory is for, as the end of its name tells.
type DirState int8

// The states. Everything but Live carries a unique id in its name, so that several may exist for one partition.
const (
	Live    DirState = iota // topic-partition
	Future                  // a copy that will replace the one in another log directory
	Deleted                 // waits for its files to be removed
	Stray                   // of a partition this broker is not assigned; kept for a human
)

var dirStateSuffixes = map[DirState]string{Future: "-future", Deleted: "-delete", Stray: "-stray"}

// maxDirName is the longest file name that file systems take.
const maxDirName = 255

// PartitionDir is one partition's directory in a log directory.
type PartitionDir struct {
	Name      string
	Partition kafka.TopicPartition // of a Deleted or Stray one the topic may be cut
	State     DirState
}

// parseDirName reads a directory name; false when no partition's directory is called so.
func parseDirName(name string) (PartitionDir, bool) {
	d := PartitionDir{Name: name}
	rest := name
	for _, state := range []DirState{Future, Deleted, Stray} {
		if cut, ok := strings.CutSuffix(name, dirStateSuffixes[state]); ok {
			// The unique id stands between the last dot and the suffix. A topic may be called "a-delete".
			if at := strings.LastIndexByte(cut, '.'); at > 0 && len(cut) > at+1 {
				d.State, rest = state, cut[:at]
			}
			break
		}
	}
	at := strings.LastIndexByte(rest, '-')
	if at <= 0 {
		return PartitionDir{}, false
	}
	digits := rest[at+1:]
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != digits {
		return PartitionDir{}, false
	}
	d.Partition = kafka.TopicPartition{Topic: rest[:at], Partition: int32(n)}
	return d, true
}

// dirName gives the name of a partition's directory in a state other than Live. The topic is cut where the name would
// grow too long.
func dirName(tp kafka.TopicPartition, state DirState, unique kafka.UUID) string {
	end := "-" + strconv.Itoa(int(tp.Partition)) + "." + hex.EncodeToString(unique[:]) + dirStateSuffixes[state]
	return tp.Topic[:min(len(tp.Topic), maxDirName-len(end))] + end
}
