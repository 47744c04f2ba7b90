package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Value is a parsed value of a key. The zero Value is null.
type Value struct {
	kind    Type
	present bool
	text    string // canonical
	raw     string // as written
	number  int64
	real    float64
	flag    bool
	list    []string
}

// IsNull says whether there is no value.
func (v Value) IsNull() bool { return !v.present }

// Bool gives a boolean.
func (v Value) Bool() bool { return v.flag }

// Int64 gives an int, short or long; 0 for null.
func (v Value) Int64() int64 { return v.number }

// Float64 gives a double.
func (v Value) Float64() float64 { return v.real }

// List gives a list; the caller must not change it.
func (v Value) List() []string { return v.list }

// Text gives the canonical form, as DescribeConfigs answers it: true, 9, 0.5, a,b.
func (v Value) Text() string { return v.text }

// Raw gives the text as it was written; a value that was converted from another unit has the converted one.
func (v Value) Raw() string { return v.raw }

// Problem says why a value does not fit its key and what would.
type Problem struct {
	Key     string
	Value   string // empty for a secret
	Why     string
	Allowed string
}

// Error gives one line.
func (p *Problem) Error() string {
	if p.Allowed == "" {
		return p.Key + ": " + p.Why
	}
	return fmt.Sprintf("%s: %s; allowed: %s", p.Key, p.Why, p.Allowed)
}

func (k *Key) problem(raw, format string, args ...any) *Problem {
	if k.Sensitive() {
		raw = ""
	}
	return &Problem{Key: k.Name, Value: raw, Why: fmt.Sprintf(format, args...), Allowed: k.Allowed()}
}

// Parse reads a value by Kafka's ConfigDef rules: surrounding blanks do not count, booleans are true or false in
// any case, whole numbers are decimal, an empty text is an empty list, and a list keeps the first of equal entries.
// The error is a *Problem.
func (k *Key) Parse(raw string) (Value, error) {
	v, ok := parseType(k.Type, raw)
	if !ok {
		return Value{}, k.problem(raw, "%q is not %s", trim(raw), k.noun())
	}
	if k.Rule == nil {
		return v, nil
	}
	if l, ok := k.Rule.(listRule); ok && !l.keepRepeats {
		v.list = unique(v.list)
		v.text = strings.Join(v.list, ",")
	}
	if why := k.Rule.check(v); why != "" {
		return Value{}, k.problem(raw, "%s", why)
	}
	return v, nil
}

func (k *Key) noun() string {
	switch k.Type {
	case Boolean:
		return "true or false"
	case Double:
		return "a number"
	default:
		return "a whole number of this size"
	}
}

// defaultValue gives the parsed default. The table test proves that every default passes.
func (k *Key) defaultValue() Value {
	if k.NoDefault {
		return Value{}
	}
	v, _ := k.Parse(k.Default)
	return v
}

// trim removes what Java's String.trim removes: every character up to the blank, at both ends.
func trim(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
}

// parseType reads raw as a type, without any rule of a key.
func parseType(t Type, raw string) (Value, bool) {
	s := trim(raw)
	v := Value{kind: t, present: true, text: s, raw: raw}
	switch t {
	case Boolean:
		v.flag = strings.EqualFold(s, "true")
		v.text = strconv.FormatBool(v.flag)
		return v, v.flag || strings.EqualFold(s, "false")
	case Int, Short, Long:
		n, err := strconv.ParseInt(s, 10, bits(t))
		v.number, v.text = n, strconv.FormatInt(n, 10)
		return v, err == nil
	case Double:
		f, ok := parseJavaDouble(s)
		v.real, v.text = f, formatJavaDouble(f)
		return v, ok
	case List:
		v.list = splitList(s)
		v.text = strings.Join(v.list, ",")
	}
	return v, true
}

func bits(t Type) int {
	switch t {
	case Short:
		return 16
	case Int:
		return 32
	default:
		return 64
	}
}

// splitList cuts at commas with blanks around them. An empty text has no entries; an empty entry stays one.
func splitList(s string) []string {
	s = trim(s)
	if s == "" {
		return nil
	}
	parts := strings.Split(s, ",")
	for i, p := range parts {
		parts[i] = strings.TrimFunc(p, isRegexpSpace)
	}
	return parts
}

func isRegexpSpace(r rune) bool { return strings.ContainsRune(" \t\n\v\f\r", r) }

func unique(in []string) []string {
	var out []string
	for _, s := range in {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

var javaDouble = regexp.MustCompile(`^[+-]?(NaN|Infinity|((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|` +
	`0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+)[fFdD]?)$`)

// parseJavaDouble accepts what Java's Double.parseDouble does, an overflow being infinite.
func parseJavaDouble(s string) (float64, bool) {
	if !javaDouble.MatchString(s) {
		return 0, false
	}
	if !strings.Contains(s, "Infinity") && !strings.HasSuffix(s, "NaN") {
		s = strings.TrimRight(s, "fFdD")
	}
	f, _ := strconv.ParseFloat(s, 64)
	return f, true
}

// formatJavaDouble writes what Java's Double.toString does: plain digits from 0.001 up to 10^7, else one digit, a
// point, digits and an exponent.
func formatJavaDouble(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	if size := math.Abs(f); f == 0 || size >= 1e-3 && size < 1e7 {
		s := strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	n, _ := strconv.Atoi(exponent)
	return mantissa + "E" + strconv.Itoa(n)
}
