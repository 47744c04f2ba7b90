package controller

import (
	"strings"

	"moldau/internal/cluster/metadata"
)

// names finds topics that differ only in '.' and '_'. Metrics of such topics would be the same, so Kafka
// forbids them.
type names struct {
	image  *metadata.Image
	folded map[string]string // name with '_' for '.' -> the topic; filled when first needed
}

func newNames(image *metadata.Image) *names { return &names{image: image} }

func fold(name string) string { return strings.ReplaceAll(name, ".", "_") }

func (n *names) fill() {
	if n.folded != nil {
		return
	}
	n.folded = map[string]string{}
	for t := range n.image.Topics() {
		n.add(t.Name)
	}
}

// add takes note of a topic that is about to exist.
func (n *names) add(name string) {
	if !strings.ContainsAny(name, "._") {
		return
	}
	n.fill()
	n.folded[fold(name)] = name
}

// collision finds a topic that a new one would be confused with.
func (n *names) collision(name string) (string, bool) {
	if !strings.ContainsAny(name, "._") {
		return "", false
	}
	n.fill()
	other, ok := n.folded[fold(name)]
	return other, ok
}
