package controller

import (
	"strings"

	"moldau/internal/cluster/metadata"
)

// names finds topics that differ only in '.' and '_'. Metrics of such topics would be the same, so Kafka
// forbids them.
type names struct {
	image *metadata.Image
	added map[string]string // folded name -> a topic that is about to exist
}

func newNames(image *metadata.Image) *names { return &names{image: image, added: map[string]string{}} }

// fold makes names that collide equal.
func fold(name string) string { return strings.ReplaceAll(name, ".", "_") }

func (n *names) add(name string) { n.added[fold(name)] = name }

// maxSeparators bounds how many spellings of a name are looked up one by one: beyond it every topic is looked at.
const maxSeparators = 10

// collision finds a topic that a new one would be confused with.
func (n *names) collision(name string) (string, bool) {
	folded := fold(name)
	if other, ok := n.added[folded]; ok {
		return other, true
	}
	places := separators(folded)
	if len(places) == 0 {
		return "", false // the name itself is known to be free
	}
	if len(places) <= maxSeparators {
		return n.spelled([]byte(folded), places)
	}
	for t := range n.image.Topics() {
		if fold(t.Name) == folded {
			return t.Name, true
		}
	}
	return "", false
}

func separators(folded string) []int {
	var places []int
	for i := range len(folded) {
		if folded[i] == '_' {
			places = append(places, i)
		}
	}
	return places
}

// spelled looks every spelling of a name up: each separator is '.' or '_'.
func (n *names) spelled(name []byte, places []int) (string, bool) {
	for spelling := range 1 << len(places) {
		for bit, at := range places {
			name[at] = "_."[spelling>>bit&1]
		}
		if t, ok := n.image.Topic(string(name)); ok {
			return t.Name, true
		}
	}
	return "", false
}
