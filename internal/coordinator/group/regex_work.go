package group

import (
	"regexp"

	"moldau/internal/cluster/metadata"
	"moldau/internal/coordinator"
)

// EvaluatePatterns is work that a Machine asks for: the topics that a group's regular expressions match. Whoever does it calls
// Step until there is no more, and gives Evaluated back to the shard. It is not safe for concurrent use.
type EvaluatePatterns struct {
	event    patternsEvaluated
	topics   []string // of the image, sorted
	patterns []string // that are left; the first one is being evaluated
	re       *regexp.Regexp
	next     int // of topics
}

// patternsEvaluated is the event that comes of it.
type patternsEvaluated struct {
	due     regexDue
	version int64               // offset of the metadata that the patterns were evaluated on
	topics  map[string][]string // by pattern, sorted
}

func newEvaluatePatterns(due regexDue, image *metadata.Image, patterns []string) *EvaluatePatterns {
	w := &EvaluatePatterns{patterns: patterns, event: patternsEvaluated{due: due, version: int64(image.Offset()),
		topics: make(map[string][]string, len(patterns))}}
	for t := range image.Topics() {
		w.topics = append(w.topics, t.Name)
	}
	return w
}

// evaluateTopics is how many topics one step matches: with the largest patterns that takes a second, with ordinary ones
// nothing.
const evaluateTopics = 5

// Step does a bounded part of the work, and says whether there is more.
func (w *EvaluatePatterns) Step() (more bool) {
	if len(w.patterns) == 0 {
		return false
	}
	pattern := w.patterns[0]
	if w.re == nil {
		w.event.topics[pattern] = nil
		var re *regexp.Regexp
		err := checkPattern(pattern)
		if err == nil {
			re, err = regexp.Compile(`\A(?:` + pattern + `)\z`)
		}
		if err != nil { // written by a program with other rules: matches nothing
			w.patterns = w.patterns[1:]
			return len(w.patterns) > 0
		}
		w.re, w.next = re, 0
	}
	end := min(w.next+evaluateTopics, len(w.topics))
	for _, name := range w.topics[w.next:end] {
		if w.re.MatchString(name) && (w.event.due.may == nil || w.event.due.may(name)) {
			w.event.topics[pattern] = append(w.event.topics[pattern], name)
		}
	}
	if w.next = end; end == len(w.topics) {
		w.re, w.patterns = nil, w.patterns[1:]
	}
	return len(w.patterns) > 0
}

// Evaluated is what came of the work.
func (w *EvaluatePatterns) Evaluated() coordinator.Event { return w.event }
