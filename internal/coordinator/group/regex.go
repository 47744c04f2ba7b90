package group

import (
	"errors"
	"maps"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// resolvedRegex is what a regular expression matched when it was last evaluated.
type resolvedRegex struct {
	topics      []string // sorted
	version     int64    // offset of the metadata that it was evaluated on
	timestampMs int64    // when
}

func (r *resolvedRegex) matches(topic string) bool {
	_, ok := slices.BinarySearch(r.topics, topic)
	return ok
}

// regexPause is the least time between two evaluations of a group's patterns that new topics bring about: somebody who
// creates topics one by one causes few rebalances.
const regexPause = 10 * time.Second

// regexDue is the event that a group's patterns are to be evaluated. It follows the heartbeat that found it due, so that
// the answer does not wait and the batch of the heartbeat is the one Kafka writes.
type regexDue struct {
	group, member string
	may           func(topic string) bool // what the member may describe; nil: everything
}

// changePattern takes a member's change of its pattern over: it drops a pattern that nobody uses any more and has the
// patterns evaluated if it is time. It says whether what the member subscribes to has changed already: a pattern that is
// not evaluated yet changes the group's epoch when it is.
func (t *consumerTurn) changePattern(was, member *consumerMember, may func(string) bool) (changed bool, err error) {
	g := t.g
	if was.regex != member.regex {
		if was.regex != "" && g.pattern[was.regex] == 1 {
			t.write(tombstone(keyConsumerRegex, g.id, was.regex))
		}
		switch {
		case member.regex == "":
			changed = true
		case g.pattern[member.regex] == 0:
			if err := checkPattern(member.regex); err != nil {
				return false, kafka.Errorf(kafka.InvalidRegularExpression,
					"SubscribedTopicRegex %q is not a regular expression of RE2: %v.", shortened(member.regex), err)
			}
		default:
			changed = g.regexes[member.regex] != nil
		}
	}
	if t.regexIsDue(was, member) {
		t.next = append(t.next, regexDue{g.id, member.id, may})
	}
	return changed, nil
}

// regexIsDue says whether the patterns of the group, with the member as it will be, are to be evaluated: at once when one
// never was, and from time to time when topics have come or the last evaluation is old.
func (t *consumerTurn) regexIsDue(was, member *consumerMember) bool {
	patterns := t.g.pattern
	if was.regex != member.regex {
		_, patterns = changedCounts(t.g, []*consumerMember{was}, member)
	}
	if len(patterns) == 0 {
		return false
	}
	last := resolvedRegex{version: -1}
	for p := range patterns {
		r := t.g.regexes[p]
		if r == nil {
			return true
		}
		if r.timestampMs >= last.timestampMs {
			last = *r
		}
	}
	age := t.now.Sub(time.UnixMilli(last.timestampMs))
	return age > regexPause && (last.version < t.m.newTopics || age > t.m.o.Settings().RegexRefresh)
}

// consumerRegexDue has all patterns of a group evaluated, so that they change its epoch once. It takes as long as clients
// like: a pattern may be large, and topics many. So it is work for others than the shard, one at a time for each group.
func (m *Machine) consumerRegexDue(e regexDue) coordinator.Result {
	g, err := m.consumer(e.group)
	if err != nil || len(g.pattern) == 0 || g.evaluating {
		return coordinator.Result{}
	}
	g.evaluating = true
	return coordinator.Result{Scope: g.id, Outgoing: []coordinator.Work{
		newEvaluatePatterns(e, m.image, slices.Sorted(maps.Keys(g.pattern)))}}
}

// consumerRegexEvaluated takes over what the patterns of a group match. Those that came meanwhile are evaluated next.
func (m *Machine) consumerRegexEvaluated(now time.Time, e patternsEvaluated) coordinator.Result {
	g, err := m.consumer(e.due.group)
	if err != nil {
		return coordinator.Result{}
	}
	g.evaluating = false
	t := m.newConsumerTurn(now, g)
	patterns := slices.Sorted(maps.Keys(g.pattern))
	after := make(map[string]*resolvedRegex, len(patterns))
	topics := slices.Collect(maps.Keys(g.named))
	changed := false
	for _, p := range patterns {
		old := g.regexes[p]
		matched, ok := e.topics[p]
		if !ok {
			if old == nil {
				t.next = []coordinator.Event{e.due}
			}
			topics = append(topics, topicsOf(old)...)
			continue
		}
		after[p] = &resolvedRegex{topics: matched, version: e.version, timestampMs: now.UnixMilli()}
		t.write(regexRecord(g.id, p, after[p]))
		changed = changed || !slices.Equal(matched, topicsOf(old))
		topics = append(topics, matched...)
	}
	slices.Sort(topics)
	if t.rehashed(slices.Compact(topics)) || changed || g.hasStrays(m.image, after) {
		t.bump(e.due.member, "topics that match a regular expression changed")
	}
	return t.result(nil, coordinator.Answer{})
}

// hasStrays says whether the target of a member whose pattern is evaluated for the first time names topics that it does not
// subscribe to: it had another pattern before, and what it had is to be given to others.
func (g *consumerGroup) hasStrays(image *metadata.Image, after map[string]*resolvedRegex) bool {
	for m := range g.everybody() {
		r := after[m.regex]
		if r == nil || g.regexes[m.regex] != nil {
			continue
		}
		set := topicSet{}
		set.addNames(image, m.topics)
		set.addNames(image, r.topics)
		for topic := range g.targets[m.id] {
			if set[topic] == nil {
				return true
			}
		}
	}
	return false
}

func topicsOf(r *resolvedRegex) []string {
	if r == nil {
		return nil
	}
	return r.topics
}

// largestPattern bounds a compiled pattern, in instructions and ranges of characters: about 2 MiB. Repetitions make a short
// pattern as large as they please, and it would be compiled while the other groups of the shard wait.
const largestPattern = 50_000

// largestClasses bounds the classes of Unicode in a pattern: each has hundreds of ranges.
const largestClasses = 100

var errPatternSize = errors.New("it is too large")

// checkPattern says whether a pattern is a regular expression of a size that can be evaluated.
func checkPattern(pattern string) error {
	if strings.Count(pattern, `\p`)+strings.Count(pattern, `\P`) > largestClasses {
		return errPatternSize // parsing it would take long
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return err
	}
	if patternSize(re) > largestPattern {
		return errPatternSize
	}
	return nil
}

// patternSize is about how many instructions and ranges a pattern compiles to, or more than the largest one may have.
func patternSize(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		size = min(size+patternSize(sub), largestPattern+1)
	}
	if re.Op == syntax.OpRepeat {
		size = min(size*max(re.Min, re.Max, 1), largestPattern+1)
	}
	return size
}

// shortened is a pattern as a message shows it.
func shortened(pattern string) string {
	if len(pattern) > 100 {
		return strings.ToValidUTF8(pattern[:100], "") + "..."
	}
	return pattern
}
