package metadata

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Names of the features of Kafka 4.4. kraft.version lives in the control records of the metadata log, never in a
// FeatureLevelRecord, so an Image does not know it.
const (
	MetadataVersionFeature    = "metadata.version"
	KRaftVersionFeature       = "kraft.version"
	TransactionVersionFeature = "transaction.version"
	GroupVersionFeature       = "group.version"
	ElrVersionFeature         = "eligible.leader.replicas.version"
	ShareVersionFeature       = "share.version"
	StreamsVersionFeature     = "streams.version"
)

// The range of metadata.version that this package knows.
const (
	MinMetadataVersion    int16 = 7
	LatestMetadataVersion int16 = 33
)

// The levels of metadata.version at which records, fields or values become possible.
const (
	mvZkMigration          int16 = 8  // RegisterBroker version 2
	MVScram                int16 = 11 // SCRAM credentials
	MVTransactions         int16 = 13 // metadata transactions (KIP-866)
	MVDelegationTokens     int16 = 14
	MVControllers          int16 = 15 // registration of controllers (KIP-919)
	MVDirectories          int16 = 17 // log directories of replicas and brokers (KIP-858)
	MVElr                  int16 = 23 // eligible leader replicas (KIP-966)
	MVCordonedLogDirs      int16 = 30 // KIP-1066
	MVCidrACLHosts         int16 = 32 // address ranges as hosts of ACLs
	MVUnregisterController int16 = 33
)

// metadataVersion is one level of metadata.version.
type metadataVersion struct {
	level  int16
	name   string // release and its IV, the number of the interbroker change within it
	format bool   // the metadata format changed: a downgrade across the level is never possible
}

// metadataVersions lists the levels in ascending order, without gaps.
var metadataVersions = []metadataVersion{
	{7, "3.3-IV3", true}, {8, "3.4-IV0", true}, {9, "3.5-IV0", false}, {10, "3.5-IV1", false},
	{11, "3.5-IV2", true}, {12, "3.6-IV0", false}, {13, "3.6-IV1", true}, {14, "3.6-IV2", true},
	{15, "3.7-IV0", true}, {16, "3.7-IV1", false}, {17, "3.7-IV2", true}, {18, "3.7-IV3", false},
	{19, "3.7-IV4", false}, {20, "3.8-IV0", false}, {21, "3.9-IV0", false}, {22, "4.0-IV0", false},
	{23, "4.0-IV1", true}, {24, "4.0-IV2", false}, {25, "4.0-IV3", false}, {26, "4.1-IV0", false},
	{27, "4.1-IV1", false}, {28, "4.2-IV0", false}, {29, "4.2-IV1", false}, {30, "4.3-IV0", true},
	{31, "4.4-IV0", false}, {32, "4.4-IV1", true}, {33, "4.4-IV2", true},
}

// MetadataVersionName gives the name of a level, such as 4.4-IV2 for 33.
func MetadataVersionName(level int16) (string, bool) {
	if level < MinMetadataVersion || level > LatestMetadataVersion {
		return "", false
	}
	return metadataVersions[level-MinMetadataVersion].name, true
}

// ParseMetadataVersion reads a level (33), its name (4.4-IV2) or a release (4.4: the release's last level).
func ParseMetadataVersion(s string) (int16, bool) {
	for _, v := range slices.Backward(metadataVersions) {
		if s == v.name || s == strconv.Itoa(int(v.level)) || strings.HasPrefix(v.name, s+"-IV") {
			return v.level, true
		}
	}
	return 0, false
}

// MetadataFormatChanged says whether the format of the metadata records differs between two levels, which makes a
// downgrade from one to the other impossible, even an unsafe one.
func MetadataFormatChanged(a, b int16) bool {
	return slices.ContainsFunc(metadataVersions, func(v metadataVersion) bool {
		return v.format && v.level > min(a, b) && v.level <= max(a, b)
	})
}

// FeatureLevel is a feature at a level.
type FeatureLevel struct {
	Name  string
	Level int16
}

// Feature is what Kafka 4.4 knows of one feature.
type Feature struct {
	Name     string
	Min, Max int16
	// Needs lists levels of other features that any level from 1 on depends on.
	Needs []FeatureLevel
	// defaults are the levels a new cluster starts with, by the metadata.version it starts at: the last row whose mv
	// is not above it counts.
	defaults []featureDefault
}

type featureDefault struct{ mv, level int16 }

// features is the table, sorted by name.
var features = []Feature{
	{ElrVersionFeature, 0, 1, []FeatureLevel{{MetadataVersionFeature, MVElr}}, []featureDefault{{26, 1}}},
	{GroupVersionFeature, 0, 1, needsAnyMV, []featureDefault{{22, 1}}},
	{KRaftVersionFeature, 0, 1, nil, nil},
	{MetadataVersionFeature, MinMetadataVersion, LatestMetadataVersion, nil, nil},
	{ShareVersionFeature, 0, 2, needsAnyMV, []featureDefault{{28, 1}, {31, 2}}},
	{StreamsVersionFeature, 0, 1, needsAnyMV, []featureDefault{{29, 1}}},
	{TransactionVersionFeature, 0, 2, needsAnyMV, []featureDefault{{24, 2}}},
}

// needsAnyMV: features exist on KRaft clusters only.
var needsAnyMV = []FeatureLevel{{MetadataVersionFeature, MinMetadataVersion}}

// Features lists every known feature, sorted by name. The caller must not change it.
func Features() []Feature { return features }

// LookupFeature finds a feature by name.
func LookupFeature(name string) (Feature, bool) {
	i, ok := slices.BinarySearchFunc(features, name, func(f Feature, n string) int { return cmp.Compare(f.Name, n) })
	if !ok {
		return Feature{}, false
	}
	return features[i], true
}

// DefaultLevel is the level Kafka gives the feature in a cluster founded at metadata.version mv: 0 for a feature that
// stays off, mv itself for metadata.version. kraft.version has no such default: it depends on how voters are listed.
func (f Feature) DefaultLevel(mv int16) int16 {
	if f.Name == MetadataVersionFeature {
		return mv
	}
	var level int16
	for _, d := range f.defaults {
		if mv >= d.mv {
			level = d.level
		}
	}
	return level
}

// ReplicaFetchVersion is the version of Fetch that a replica must send to its leader at a metadata.version: replica
// fetchers do not negotiate.
func ReplicaFetchVersion(mv int16) int16 {
	switch {
	case mv >= 27:
		return 18
	case mv >= 21:
		return 17
	case mv >= 19:
		return 16
	case mv >= 10:
		return 15
	case mv >= 9:
		return 14
	}
	return 13
}

// ReplicaListOffsetsVersion is the newest version of ListOffsets that a replica sends at a metadata.version.
func ReplicaListOffsetsVersion(mv int16) int16 {
	switch {
	case mv >= 29:
		return 11
	case mv >= 25:
		return 10
	case mv >= 21:
		return 9
	case mv >= 9:
		return 8
	}
	return 7
}
