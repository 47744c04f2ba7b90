package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/storage/vfs"
)

// LogDirName is the directory of the metadata log inside metadata.log.dir.
const LogDirName = "__cluster_metadata-0"

// legacyBootstrapName is the file at the top of the metadata directory in which releases of Kafka before 4.4
// kept the bootstrap records.
const legacyBootstrapName = "bootstrap.checkpoint"

// ErrFounded is the answer of Format to a directory that has a metadata log already.
var ErrFounded = errors.New("the metadata directory is formatted already")

// FormatOptions is what a new cluster is founded with.
type FormatOptions struct {
	// Voters are the first voters: one for --standalone, the listed ones for --initial-controllers (the same
	// on each of them), none for a controller that joins later (--no-initial-controllers).
	Voters VoterSet
	// MetadataVersion is the level of metadata.version.
	MetadataVersion int16
	// Features are the levels of the others. kraft.version is not among them (it is 1) and level 0 is left
	// out.
	Features []metadata.FeatureLevel
	// Static leaves the voters to controller.quorum.voters (kraft.version 0); Voters is empty then.
	Static bool
	// Records follow the features: SCRAM credentials.
	Records []metadata.Record
	Now     time.Time
}

// NewVoter makes the entry of a node of ours in the voter set.
func NewVoter(key ReplicaKey, endpoints []Endpoint) Voter {
	return Voter{Key: key, Endpoints: normalised(endpoints), KRaft: supportedKRaft}
}

// Standalone makes the voter set of `format --standalone`: this node alone.
func Standalone(self ReplicaKey, endpoints []Endpoint) VoterSet {
	return VoterSet{NewVoter(self, endpoints)}
}

// Format founds a cluster's metadata in dir (metadata.log.dir), which exists: it writes the 0-0 checkpoint
// that `kafka-storage format` writes, for a dynamic quorum unless told otherwise. The checkpoint is durable when Format returns; a
// crash before leaves a directory that can be formatted again. Write meta.properties after it, not before.
func Format(fsys vfs.FS, dir string, o FormatOptions) error {
	logDir := path.Join(dir, LogDirName)
	if err := checkUnfounded(fsys, dir); err != nil {
		return err
	}
	if err := fsys.MkdirAll(logDir); err != nil {
		return err
	}
	if err := fsys.SyncDir(dir); err != nil {
		return err
	}
	ms := o.Now.UnixMilli()
	first := snapshotStart{id: bootstrapID, timestampMs: ms, lastContainedMs: ms}
	if !o.Static {
		first.kraftVersion, first.voters = 1, o.Voters
	}
	w, err := newSnapshotWriter(fsys, logDir, first)
	if err != nil {
		return err
	}
	for _, r := range bootstrapRecords(o) {
		if err := w.Add(metadata.Encode(nil, r, metadata.VersionFor(r, o.MetadataVersion))); err != nil {
			w.Abort()
			return err
		}
	}
	return w.Finish()
}

// bootstrapRecords are the records that the first controller writes into the log: metadata.version first,
// then the other features by name.
func bootstrapRecords(o FormatOptions) []metadata.Record {
	first := &metadata.FeatureLevelRecord{Name: metadata.MetadataVersionFeature, Level: o.MetadataVersion}
	out := []metadata.Record{first}
	features := slices.SortedFunc(slices.Values(o.Features), func(a, b metadata.FeatureLevel) int {
		return cmp.Compare(a.Name, b.Name)
	})
	for _, f := range features {
		if f.Level > 0 && f.Name != metadata.MetadataVersionFeature {
			out = append(out, &metadata.FeatureLevelRecord{Name: f.Name, Level: f.Level})
		}
	}
	return append(out, o.Records...)
}

// checkUnfounded refuses a directory in which any cluster has left its metadata.
func checkUnfounded(fsys vfs.FS, dir string) error {
	top, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range top {
		if e.Name == legacyBootstrapName {
			return fmt.Errorf("%w: %s exists", ErrFounded, path.Join(dir, e.Name))
		}
	}
	if !slices.ContainsFunc(top, func(e vfs.DirEntry) bool { return e.Name == LogDirName }) {
		return nil
	}
	entries, err := fsys.ReadDir(path.Join(dir, LogDirName))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name, partSuffix) {
			return fmt.Errorf("%w: %s exists", ErrFounded, path.Join(dir, LogDirName, e.Name))
		}
	}
	return nil
}
