package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"moldau/internal/invariant"
	"moldau/internal/kafka"
)

// Options say how settings are read.
type Options struct {
	// Nodes is the size of the cluster that is being started, for the defaults that depend on it; 0 counts as 1.
	Nodes int
}

// Static holds the settings a node was started with. It is immutable.
type Static struct {
	set      map[string]Setting
	values   map[string]Value // effective, of every broker key
	nodes    int
	node     Node
	warnings []string
	inert    []string
}

// Load lays the layers over one another, later ones first, and judges the result. The error holds one line for each
// thing that is wrong, with where it was set and what is allowed.
func Load(layers []Layer, opts Options) (*Static, error) {
	s := &Static{set: map[string]Setting{}, values: map[string]Value{}, nodes: max(1, opts.Nodes)}
	for _, l := range layers {
		s.warnings = append(s.warnings, l.warnings...)
		for _, e := range l.entries {
			s.set[e.key] = e.Setting
		}
	}
	problems := s.parse()
	if len(problems) == 0 {
		problems = s.judge()
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return s, nil
}

// Defaults gives the settings of a lone node that was told nothing.
func Defaults() *Static {
	s, err := Load(nil, Options{})
	invariant.Check(err == nil, "the defaults are refused: %v", err)
	return s
}

// WithNodeID gives the settings of a node that has found out its number.
func (s *Static) WithNodeID(id kafka.NodeID) (*Static, error) {
	out := &Static{set: maps.Clone(s.set), values: map[string]Value{}, nodes: s.nodes, warnings: s.warnings}
	out.set["node.id"] = Setting{Value: strconv.Itoa(int(id)), Where: "the cluster"}
	problems := out.parse()
	if len(problems) == 0 {
		problems = out.judge()
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return out, nil
}

// parse reads every setting by the type and rule of its key, and refuses what is not built.
func (s *Static) parse() []error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(s.set)) {
		at := s.set[name]
		k, ok := lookupBroker(name)
		if !ok {
			s.warnUnknown(name, at)
			continue
		}
		v, err := k.Parse(at.Value)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", at.Where, err))
			continue
		}
		if v.Text() == s.defaultOf(k).Text() {
			continue
		}
		switch {
		case k.Standing == Refused:
			problems = append(problems, s.notBuilt(name, k))
		case k.Standing == Inert:
			s.inert = append(s.inert, name)
		}
	}
	for _, k := range Keys(Broker) {
		s.values[k.Name] = s.compute(k)
	}
	return problems
}

func (s *Static) notBuilt(name string, k *Key) error {
	return fmt.Errorf("%s: %s: %s yet; remove the key", s.set[name].Where, name, k.Reason)
}

func (s *Static) warnUnknown(name string, at Setting) {
	msg := fmt.Sprintf("%s: no such key: %s", at.Where, name)
	if hint := Hint(name); hint != "" {
		msg += "; " + hint
	}
	s.warnings = append(s.warnings, msg)
}

// compute gives the effective value of a key: its own setting, else that of the first of its synonyms, else the
// default.
func (s *Static) compute(k *Key) Value {
	if at, ok := s.set[k.Name]; ok {
		if v, err := k.Parse(at.Value); err == nil {
			return v
		}
	}
	for _, syn := range k.Synonyms {
		at, ok := s.set[syn.Name]
		if !ok {
			continue
		}
		if v, ok := convert(k, syn, at.Value); ok {
			return v
		}
	}
	if k.NoDefault && len(k.Synonyms) > 0 {
		return s.defaultOfSynonym(k)
	}
	return s.defaultOf(k)
}

// defaultOfSynonym gives the converted default of the last synonym, which is the one that has a default.
func (s *Static) defaultOfSynonym(k *Key) Value {
	for _, syn := range k.Synonyms {
		other, ok := Lookup(Broker, syn.Name)
		if !ok || other.NoDefault {
			continue
		}
		if v, ok := convert(k, syn, other.Default); ok {
			return v
		}
	}
	return Value{}
}

func (s *Static) defaultOf(k *Key) Value {
	if k.Adapt == nil {
		return k.defaultValue()
	}
	v, _ := k.Parse(k.Adapt(s.nodes))
	return v
}

// convert reads the value of a synonym in the unit of the key. A negative time is unlimited: -1.
func convert(k *Key, syn Synonym, raw string) (Value, bool) {
	other, ok := Lookup(Broker, syn.Name)
	if !ok {
		return Value{}, false
	}
	v, err := other.Parse(raw)
	if err != nil {
		return Value{}, false
	}
	written := raw
	switch {
	case syn.Unit == FirstOfAList && len(v.list) > 0:
		raw = v.list[0]
	case syn.Unit > Same:
		raw = fmt.Sprint(max(v.number*int64(syn.Unit), -1))
	case strings.HasSuffix(k.Name, "retention.ms") && !strings.Contains(k.Name, "local") && v.number < 0:
		raw = "-1"
	}
	out, err := k.Parse(raw)
	if syn.Unit == Same {
		out.raw = written
	}
	return out, err == nil
}

// Setting gives what was set for a key, before any synonym or default.
func (s *Static) Setting(name string) (Setting, bool) {
	at, ok := s.set[name]
	return at, ok
}

// IsSet says whether a key was set.
func (s *Static) IsSet(name string) bool {
	_, ok := s.set[name]
	return ok
}

// Warnings lists what was found odd, one line each.
func (s *Static) Warnings() []string { return s.warnings }

// WithoutEffect lists the keys that were set and have nothing to act on here.
func (s *Static) WithoutEffect() []string { return s.inert }

// Node gives the typed identity of the node: roles, listeners, directories.
func (s *Static) Node() Node { return s.node }

// Value gives the effective static value of a broker key.
func (s *Static) Value(name string) Value {
	v, ok := s.values[name]
	invariant.Check(ok, "no such broker key: %s", name)
	return v
}

// Int64 gives an int, short or long; 0 when there is no value.
func (s *Static) Int64(name string) int64 { return s.Value(name).Int64() }

// Int gives an int or short, or a long that fits.
func (s *Static) Int(name string) int { return int(s.Value(name).Int64()) }

// Float64 gives a double.
func (s *Static) Float64(name string) float64 { return s.Value(name).Float64() }

// Bool gives a boolean.
func (s *Static) Bool(name string) bool { return s.Value(name).Bool() }

// Text gives a string; "" when there is no value.
func (s *Static) Text(name string) string { return s.Value(name).Text() }

// List gives a list. The caller must not change it.
func (s *Static) List(name string) []string { return s.Value(name).List() }
