package node

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/quorum"
	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
)

// found makes the metadata directory of a lone node, which founds a cluster of its own (as `kafka-storage format
// --standalone` does). The metadata comes first and meta.properties last: a crash in between leaves a directory that is
// founded again. All other nodes are founded by founders.
func (n *Node) found() (log.MetaProperties, error) {
	id, err := kafka.NewUUID(rand.Reader)
	if err != nil {
		return log.MetaProperties{}, err
	}
	cluster, err := newClusterID(n.self.Voters)
	if err != nil {
		return log.MetaProperties{}, err
	}
	meta := log.MetaProperties{ClusterID: cluster, NodeID: n.self.ID, DirectoryID: id}
	if err := n.o.FS.MkdirAll(n.self.MetadataDir); err != nil {
		return meta, err
	}
	if err := discardUnfounded(n.o.FS, n.self.MetadataDir); err != nil {
		return meta, err
	}
	o := n.foundingFormat()
	if o.Static = len(n.self.Voters) > 0; !o.Static {
		o.Voters = quorum.Standalone(quorum.ReplicaKey{ID: n.self.ID, Directory: id}, n.controllerEndpoints())
	}
	if err := quorum.Format(n.o.FS, n.self.MetadataDir, o); err != nil {
		return meta, err
	}
	return meta, log.FormatDir(n.o.FS, n.self.MetadataDir, meta)
}

// foundingFormat is what a cluster of ours begins with, but for the voters.
func (n *Node) foundingFormat() quorum.FormatOptions {
	o := quorum.FormatOptions{Now: n.o.Now()}
	for _, f := range foundingFeatures() {
		if f.Name == metadata.MetadataVersionFeature {
			o.MetadataVersion = f.Level
			continue
		}
		o.Features = append(o.Features, f)
	}
	return o
}

// newClusterID names a new cluster. Several fixed voters found theirs without asking each other, so the name comes from
// their list.
func newClusterID(voters []config.Voter) (string, error) {
	if len(voters) < 2 {
		id, err := kafka.NewUUID(rand.Reader)
		return id.String(), err
	}
	var lines []string
	for _, v := range voters {
		lines = append(lines, fmt.Sprintf("%d@%s:%d", v.ID, v.Host, v.Port))
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte("moldau cluster of " + strings.Join(lines, ",")))
	id := kafka.UUID(sum[:16])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // as a random one looks
	return id.String(), nil
}
