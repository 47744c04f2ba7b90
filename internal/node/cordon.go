package node

import (
	"slices"

	"moldau/internal/kafka"
)

// cordoned lists the directories that take no new replicas (cordoned.log.dirs, KIP-1066), for the heartbeat. nil says
// nothing: none is closed and the controller knows.
func (n *Node) cordoned() []kafka.UUID {
	image := n.publisher.Image()
	closed := resolver(n.config, n.self, image).Broker("cordoned.log.dirs").List()
	var out []kafka.UUID
	for _, d := range n.dirs.online {
		if slices.Contains(closed, "*") || slices.Contains(closed, d.Path()) {
			out = append(out, d.Meta().DirectoryID)
		}
	}
	if b, ok := image.Broker(n.self.ID); ok && len(b.Cordoned) > 0 && out == nil {
		out = []kafka.UUID{}
	}
	return out
}
