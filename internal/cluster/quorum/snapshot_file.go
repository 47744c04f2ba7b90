package quorum

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// Suffixes of snapshot files: whole, being written, and taken out of service (by Apache Kafka, which removes
// them later; here they are removed at once).
const (
	snapshotSuffix = ".checkpoint"
	partSuffix     = ".checkpoint.part"
	deletedSuffix  = ".checkpoint.deleted"
)

// snapshotName is the file name of a snapshot: <end offset, 20 digits>-<epoch, 10 digits>.checkpoint.
func snapshotName(id OffsetAndEpoch) string {
	return fmt.Sprintf("%020d-%010d%s", id.Offset, id.Epoch, snapshotSuffix)
}

// partName is a name under which a snapshot is written: 0 for the replica's own, others for what it
// downloads.
func partName(id OffsetAndEpoch, part int) string {
	return fmt.Sprintf("%020d-%010d-%d%s", id.Offset, id.Epoch, part, partSuffix)
}

// parseSnapshotName reads the name of a whole snapshot.
func parseSnapshotName(name string) (OffsetAndEpoch, bool) {
	stem, ok := strings.CutSuffix(name, snapshotSuffix)
	offset, epoch, cut := strings.Cut(stem, "-")
	if !ok || !cut || len(offset) != 20 || len(epoch) != 10 {
		return OffsetAndEpoch{}, false
	}
	o, err := strconv.ParseUint(offset, 10, 63)
	if err != nil {
		return OffsetAndEpoch{}, false
	}
	e, err := strconv.ParseUint(epoch, 10, 31)
	if err != nil {
		return OffsetAndEpoch{}, false
	}
	return OffsetAndEpoch{Offset: kafka.Offset(o), Epoch: kafka.LeaderEpoch(e)}, true
}

// snapshotFile is one snapshot on disk.
type snapshotFile struct {
	id   OffsetAndEpoch
	size int64
	// lastContainedMs is the time in its header: how old what it contains is.
	lastContainedMs int64
}

// listSnapshots removes what an interrupted run left behind and lists the snapshots of a metadata log
// directory in ascending order, the 0-0 checkpoint included.
func listSnapshots(fsys vfs.FS, dir string) ([]snapshotFile, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []snapshotFile
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		if strings.HasSuffix(e.Name, partSuffix) || strings.HasSuffix(e.Name, deletedSuffix) {
			if err := fsys.Remove(name); err != nil {
				return nil, err
			}
			continue
		}
		id, ok := parseSnapshotName(e.Name)
		if !ok || e.IsDir {
			continue
		}
		info, err := fsys.Stat(name)
		if err != nil {
			return nil, err
		}
		out = append(out, snapshotFile{id: id, size: info.Size})
	}
	slices.SortFunc(out, func(a, b snapshotFile) int { return a.id.Compare(b.id) })
	return out, nil
}
