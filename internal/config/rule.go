package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Rule narrows the values a key's type allows.
type Rule interface {
	// Allowed describes the allowed values; kind describes those of the type.
	Allowed(kind string) string
	// check gives the reason against a value, or "".
	check(Value) string
}

// rangeRule bounds a number. The limits of int64 mean no bound.
type rangeRule struct {
	low, high int64
	also      *int64 // one value outside the bounds that is allowed too
}

func atLeast(low int64) Rule            { return rangeRule{low: low, high: math.MaxInt64} }
func between(low, high int64) Rule      { return rangeRule{low: low, high: high} }
func betweenOr(low, high, x int64) Rule { return rangeRule{low: low, high: high, also: &x} }

func (r rangeRule) Allowed(kind string) string {
	switch {
	case r.high == math.MaxInt64:
		return fmt.Sprintf("%s, at least %d", kind, r.low)
	case r.also != nil:
		return fmt.Sprintf("%s from %d to %d, or %d", kind, r.low, r.high, *r.also)
	default:
		return fmt.Sprintf("%s from %d to %d", kind, r.low, r.high)
	}
}

func (r rangeRule) check(v Value) string {
	if v.kind == Double {
		return r.checkReal(v)
	}
	switch {
	case r.also != nil && v.number == *r.also:
		return ""
	case v.number < r.low:
		return v.text + " is too small"
	case v.number > r.high:
		return v.text + " is too large"
	}
	return ""
}

// checkReal refuses NaN, which Kafka lets pass because every comparison with it is false.
func (r rangeRule) checkReal(v Value) string {
	switch {
	case math.IsNaN(v.real):
		return "NaN is not a size"
	case v.real < float64(r.low):
		return v.text + " is too small"
	case r.high != math.MaxInt64 && v.real > float64(r.high):
		return v.text + " is too large"
	}
	return ""
}

// halfRule bounds a double by 0 and 0.5.
type halfRule struct{}

func (halfRule) Allowed(kind string) string { return kind + " from 0 to 0.5" }

func (halfRule) check(v Value) string {
	if !(v.real >= 0 && v.real <= 0.5) {
		return v.text + " is out of range"
	}
	return ""
}

// enumRule is an enumeration.
type enumRule struct {
	values []string
	fold   bool // case does not count
}

func oneOf(values ...string) Rule     { return enumRule{values: values} }
func oneOfFold(values ...string) Rule { return enumRule{values: values, fold: true} }

func (r enumRule) Allowed(string) string { return "one of " + strings.Join(r.values, ", ") }

func (r enumRule) check(v Value) string {
	for _, s := range r.values {
		if s == v.text || r.fold && strings.EqualFold(s, v.text) {
			return ""
		}
	}
	return fmt.Sprintf("%q is not one of the values", v.text)
}

// codecs are the values of compression.type.
var codecs = oneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

// listRule is Kafka's ValidList: entries are not empty, and repeated ones count once.
type listRule struct {
	members     []string // nil: any entry
	needOne     bool
	keepRepeats bool
	entry       *regexp.Regexp // form of an entry; nil: any
	form        string         // the form in words
}

func anyList() Rule                 { return listRule{} }
func fullList() Rule                { return listRule{needOne: true} }
func listOf(members ...string) Rule { return listRule{members: members} }
func fullListOf(members ...string) Rule {
	return listRule{members: members, needOne: true}
}

func (r listRule) Allowed(kind string) string {
	out := kind
	switch {
	case r.members != nil:
		out += " of " + strings.Join(r.members, ", ")
	case r.form != "":
		out += " of " + r.form
	}
	if r.needOne {
		out += ", not empty"
	}
	return out
}

func (r listRule) check(v Value) string {
	if len(v.list) == 0 && r.needOne {
		return "the list is empty"
	}
	for _, s := range v.list {
		switch {
		case s == "":
			return "an entry of the list is empty"
		case r.members != nil && !slices.Contains(r.members, s):
			return fmt.Sprintf("%q is not one of the entries", s)
		case r.entry != nil && !r.entry.MatchString(s):
			return fmt.Sprintf("%q does not have the form of an entry", s)
		}
	}
	return ""
}

// throttleRule is the form of the throttled replica lists: * or partition:broker pairs.
type throttleRule struct{}

var throttlePair = regexp.MustCompile(`^[0-9]+:[0-9]+$`)

func (throttleRule) Allowed(string) string { return "* or a comma separated list of partition:broker" }

func (throttleRule) check(v Value) string {
	if len(v.list) == 1 && v.list[0] == "*" {
		return ""
	}
	for _, s := range v.list {
		if !throttlePair.MatchString(s) {
			return fmt.Sprintf("%q is not partition:broker", s)
		}
	}
	return ""
}

// textRule refuses an empty text.
type textRule struct{}

func (textRule) Allowed(kind string) string { return kind + ", not empty" }

func (textRule) check(v Value) string {
	if v.text == "" {
		return "the text is empty"
	}
	return ""
}

// formRule judges a text by a function that gives the reason against it.
type formRule struct {
	words string
	judge func(string) string
}

func (r formRule) Allowed(string) string { return r.words }

func (r formRule) check(v Value) string { return r.judge(v.text) }

// isoDuration is the form of Java's Duration.parse, blanks and all-empty parts aside.
var isoDuration = regexp.MustCompile(`^(?i)[+-]?P(?:[+-]?\d+D)?` +
	`(?:T(?:[+-]?\d+H)?(?:[+-]?\d+M)?(?:[+-]?\d+(?:[.,]\d{0,9})?S)?)?$`)

// judgeOffsetReset is the rule of share.auto.offset.reset: earliest, latest or by_duration: and an ISO-8601 duration
// that is not negative.
func judgeOffsetReset(s string) string {
	if s == "earliest" || s == "latest" {
		return ""
	}
	d, ok := strings.CutPrefix(s, "by_duration:")
	last := strings.ToUpper(d)
	if ok && isoDuration.MatchString(d) && !strings.HasSuffix(last, "P") && !strings.HasSuffix(last, "T") &&
		!strings.Contains(d, "-") {
		return ""
	}
	return fmt.Sprintf("%q is no such reset", s)
}

// judgeOverrides is the form of max.connections.per.ip.overrides: host:count pairs.
func judgeOverrides(s string) string {
	for _, part := range splitList(s) {
		i := strings.LastIndexByte(part, ':')
		if i <= 0 {
			return fmt.Sprintf("%q is not host:count", part)
		}
		if n, err := strconv.ParseInt(part[i+1:], 10, 32); err != nil || n < 0 {
			return fmt.Sprintf("%q does not end in a count", part)
		}
	}
	return ""
}
