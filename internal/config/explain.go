package config

import (
	"fmt"
	"strconv"
	"strings"

	"moldau/internal/kafka"
)

// Find looks a key up for a person: as a broker key (also behind a listener prefix), then as a topic, group and
// client-metrics key. An unknown key gives INVALID_CONFIG with the nearest name.
func Find(name string) ([]*Key, error) {
	var out []*Key
	for _, scope := range []Scope{Broker, Topic, Group, ClientMetrics} {
		if k, ok := Lookup(scope, name); ok {
			out = append(out, k)
		}
	}
	if k, ok := lookupBroker(name); ok && len(out) == 0 {
		out = append(out, k)
	}
	if len(out) > 0 {
		return out, nil
	}
	msg := "no such key: " + name
	for _, scope := range []Scope{Broker, Topic, Group, ClientMetrics} {
		if near := Nearest(scope, name); near != "" {
			return nil, kafka.Errorf(kafka.InvalidConfig, "%s; did you mean %s (%s)?", msg, near, scope)
		}
	}
	if hint := removedKeys[name]; hint != "" {
		msg += "; " + hint
	}
	return nil, kafka.Errorf(kafka.InvalidConfig, "%s; docs/reference/configs.md lists all", msg)
}

// Fact is one line of an explanation.
type Fact struct{ Label, Text string }

// Facts explains a key: what it does, type, default, allowed values, how it changes and what stands in for it.
func (k *Key) Facts() []Fact {
	facts := []Fact{
		{"key", fmt.Sprintf("%s (%s)", k.Name, k.Scope)},
		{"does", k.Doc},
		{"type", k.Type.String()},
		{"default", k.defaultText()},
		{"allowed", k.Allowed()},
		{"changes", k.changes()},
	}
	if len(k.Synonyms) > 0 {
		facts = append(facts, Fact{"unset", "the value comes from " + k.synonymText() + ", then from the default"})
	}
	if k.Scope == Broker {
		facts = append(facts, Fact{"environment", EnvName(k.Name)})
	}
	if k.Standing != Honoured {
		facts = append(facts, Fact{"standing", k.Standing.String() + ": " + k.Reason})
	}
	return facts
}

// Facts explains a key and says what its value on this node is and where it was set.
func (s *Static) Facts(k *Key) []Fact {
	facts := k.Facts()
	if k.Scope != Broker {
		return facts
	}
	at, ok := s.set[k.Name]
	switch {
	case ok && k.Sensitive():
		facts = append(facts, Fact{"set", "(secret) at " + at.Where})
	case ok:
		facts = append(facts, Fact{"set", at.Value + " at " + at.Where})
	case !k.Sensitive() && !s.Value(k.Name).IsNull():
		facts = append(facts, Fact{"value", s.Value(k.Name).Text() + " (not set)"})
	}
	return facts
}

func (k *Key) changes() string {
	switch {
	case k.Scope != Broker:
		return "at any time"
	case k.Update == ReadOnly:
		return "with a restart (read-only)"
	case k.Update == PerBroker:
		return "at any time, for one broker (per-broker)"
	default:
		return "at any time, for one broker or all (cluster-wide)"
	}
}

// defaultText gives the default for a person.
func (k *Key) defaultText() string {
	switch {
	case k.Adapt != nil && k.Adapt(1) != k.Adapt(3):
		return fmt.Sprintf("%s on a lone node, %s in a cluster of three", k.Adapt(1), k.Adapt(3))
	case k.NoDefault:
		return "none"
	case k.Default == "":
		return "empty"
	}
	return k.Default + sizeHint(k)
}

// sizeHint says in words what a large number is.
func sizeHint(k *Key) string {
	n, err := strconv.ParseInt(k.Default, 10, 64)
	if err != nil || n < 1000 {
		return ""
	}
	switch {
	case n == 1<<63-1 || n == 1<<31-1:
		return " (no limit)"
	case strings.HasSuffix(k.Name, ".ms") || strings.HasSuffix(k.Name, "millis"):
		return timeHint(n)
	case strings.Contains(k.Name, "bytes") || strings.Contains(k.Name, "size"):
		return byteHint(n)
	}
	return ""
}

func timeHint(ms int64) string {
	for _, u := range []struct {
		ms   int64
		name string
	}{{24 * 3600 * 1000, "d"}, {3600 * 1000, "h"}, {60 * 1000, "min"}, {1000, "s"}} {
		if ms%u.ms == 0 {
			return fmt.Sprintf(" (%d %s)", ms/u.ms, u.name)
		}
	}
	return ""
}

func byteHint(n int64) string {
	for _, u := range []struct {
		bytes int64
		name  string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n%u.bytes == 0 {
			return fmt.Sprintf(" (%d %s)", n/u.bytes, u.name)
		}
	}
	return ""
}

func (k *Key) synonymText() string {
	var parts []string
	for _, s := range k.Synonyms {
		text := s.Name
		switch {
		case s.Unit == FirstOfAList:
			text = "the first of " + text
		case s.Unit == HoursToMs && strings.HasSuffix(s.Name, "hours"):
			text += " (hours)"
		case strings.HasSuffix(s.Name, "minutes"):
			text += " (minutes)"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}
