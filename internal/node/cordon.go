package node

import (
	"slices"

	"moldau/internal/kafka"
	"moldau/internal/storage/log"
)

// cordoned lists the directories that take no new replicas (cordoned.log.dirs, KIP-1066), for the heartbeat. nil says
// nothing: none is closed and the controller knows.
func (n *Node) cordoned() []kafka.UUID {
	image := n.publisher.Image()
	var out []kafka.UUID
	for _, d := range n.dirs.online {
		if n.isCordoned(d) {
			out = append(out, d.Meta().DirectoryID)
		}
	}
	if b, ok := image.Broker(n.self.ID); ok && len(b.Cordoned) > 0 && out == nil {
		out = []kafka.UUID{}
	}
	return out
}

// isCordoned says whether a directory takes no new replicas.
func (n *Node) isCordoned(d *log.Dir) bool {
	closed := resolver(n.config, n.self, n.publisher.Image()).Broker("cordoned.log.dirs").List()
	return slices.Contains(closed, "*") || slices.Contains(closed, d.Path())
}
