package log

import (
	"errors"
	"fmt"
	"math"
	"path"
	"strconv"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// MetaPropertiesFile is the name of a log directory's identity at its top.
const MetaPropertiesFile = "meta.properties"

// maxSmallFileBytes guards memory against a file that is none of ours.
const maxSmallFileBytes = 1 << 20

// MetaProperties says to which cluster and node a log directory belongs, and which directory it is (KIP-858).
// A node must refuse a directory of another cluster or node.
type MetaProperties struct {
	ClusterID   string       // "" when absent, which only version 0 allows
	NodeID      kafka.NodeID // NoNode when absent, which only version 0 allows
	DirectoryID kafka.UUID   // zero when absent: the directory is older than KIP-858
	// Version is what was read: 1, or 0 from ZooKeeper times, when the node id was called broker.id. Written
	// is always 1.
	Version int
}

// ReadMetaProperties reads the identity of dir. A missing file is fs.ErrNotExist: the directory is not
// formatted. Anything malformed is a *FormatError. Unknown keys are skipped.
func ReadMetaProperties(fsys vfs.FS, dir string) (MetaProperties, error) {
	name := path.Join(dir, MetaPropertiesFile)
	data, err := readWhole(fsys, name, maxSmallFileBytes)
	if err != nil {
		return MetaProperties{}, err
	}
	m, err := parseMetaProperties(data)
	if err != nil {
		return MetaProperties{}, &FormatError{Name: name, Reason: err.Error()}
	}
	return m, nil
}

// WriteMetaProperties gives dir its identity, durably, in version 1. Cluster and node id must be set.
func WriteMetaProperties(fsys vfs.FS, dir string, m MetaProperties) error {
	if m.ClusterID == "" || m.NodeID < 0 {
		return errors.New("meta.properties needs a cluster id and a node id")
	}
	return AtomicWrite(fsys, path.Join(dir, MetaPropertiesFile), formatMetaProperties(m))
}

func formatMetaProperties(m MetaProperties) []byte {
	out := appendProperty(nil, "cluster.id", m.ClusterID)
	if !m.DirectoryID.IsZero() {
		out = appendProperty(out, "directory.id", m.DirectoryID.String())
	}
	out = appendProperty(out, "node.id", strconv.Itoa(int(m.NodeID)))
	return appendProperty(out, "version", "1")
}

func parseMetaProperties(data []byte) (MetaProperties, error) {
	props, err := parseJavaProperties(data)
	if err != nil {
		return MetaProperties{}, err
	}
	m := MetaProperties{NodeID: kafka.NoNode}
	idKey := "node.id"
	switch v := props["version"]; v {
	case "", "0": // the first writers wrote none
		idKey = "broker.id"
	case "1":
		m.Version = 1
	default:
		return MetaProperties{}, fmt.Errorf("version %q is not known", v)
	}
	m.ClusterID = props["cluster.id"]
	if text, ok := props[idKey]; ok {
		id, err := parseNumber(text, math.MaxInt32)
		if err != nil {
			return MetaProperties{}, fmt.Errorf("%s: %w", idKey, err)
		}
		m.NodeID = kafka.NodeID(id)
	}
	if m.Version == 1 && (m.ClusterID == "" || m.NodeID == kafka.NoNode) {
		return MetaProperties{}, errors.New("cluster.id or node.id is missing")
	}
	if text, ok := props["directory.id"]; ok {
		if m.DirectoryID, err = kafka.ParseUUID(text); err != nil {
			return MetaProperties{}, fmt.Errorf("directory.id: %w", err)
		}
		if m.DirectoryID.IsReserved() {
			return MetaProperties{}, fmt.Errorf("directory.id: %s is reserved", text)
		}
	}
	return m, nil
}
