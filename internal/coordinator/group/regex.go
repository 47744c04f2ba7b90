package group

import (
	"errors"
	"maps"
	"regexp"
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

// consumerRegexDue evaluates all patterns of a group, so that they change its epoch once.
func (m *Machine) consumerRegexDue(now time.Time, e regexDue) coordinator.Result {
	g, err := m.consumer(e.group)
	if err != nil || len(g.pattern) == 0 {
		return coordinator.Result{}
	}
	t := m.newConsumerTurn(now, g)
	patterns := slices.Sorted(maps.Keys(g.pattern))
	after := make(map[string]*resolvedRegex, len(patterns))
	changed := false
	for _, p := range patterns {
		r := &resolvedRegex{topics: matchingTopics(m.image, p, e.may), version: int64(m.image.Offset()),
			timestampMs: now.UnixMilli()}
		after[p] = r
		t.write(regexRecord(g.id, p, r))
		old := g.regexes[p]
		changed = changed || !slices.Equal(r.topics, topicsOf(old))
	}
	topics := slices.Collect(maps.Keys(g.named))
	for _, p := range patterns {
		topics = append(topics, after[p].topics...)
	}
	slices.Sort(topics)
	if t.rehashed(slices.Compact(topics)) || changed || g.hasStrays(m.image, after) {
		t.bump(e.member, "topics that match a regular expression changed")
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

var errPatternSize = errors.New("it is too large")

// checkPattern says whether a pattern is a regular expression of a size that can be evaluated.
func checkPattern(pattern string) error {
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

// matchingTopics lists the topics whose whole name matches a pattern and that may be described.
func matchingTopics(image *metadata.Image, pattern string, may func(string) bool) []string {
	if checkPattern(pattern) != nil {
		return nil // written by a program with other rules: matches nothing
	}
	re, err := regexp.Compile(`\A(?:` + pattern + `)\z`)
	if err != nil {
		return nil
	}
	var out []string
	for t := range image.Topics() {
		if re.MatchString(t.Name) && (may == nil || may(t.Name)) {
			out = append(out, t.Name)
		}
	}
	return out
}
