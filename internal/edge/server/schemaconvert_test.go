package server

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"regexp"
	"strconv"
	"strings"
)

// This file and schemagen_test.go write schema_table.go from the source of the kmsg module at the version of
// go.mod: the readFrom function of every request is a regular sequence of reads, and each becomes one node of
// the schema. What is not understood is an error, so that a new release of kmsg cannot slip past.

// genNode is one node of the schema, printed as a composite literal of package server's node.
type genNode struct {
	kind        string
	fields      []string // further "name: value" pairs
	from, until int      // versions, until exclusive; 0: no bound
	sub         []genNode
}

func (n genNode) write(b *bytes.Buffer) {
	fmt.Fprintf(b, "{kind: %s", n.kind)
	for _, f := range n.fields {
		b.WriteString(", " + f)
	}
	if n.from > 0 {
		fmt.Fprintf(b, ", from: %d", n.from)
	}
	if n.until > 0 {
		fmt.Fprintf(b, ", until: %d", n.until)
	}
	if len(n.sub) > 0 {
		b.WriteString(", sub: []node{\n")
		for _, s := range n.sub {
			s.write(b)
		}
		b.WriteString("}")
	}
	b.WriteString("},\n")
}

// bookkeeping are statements of a readFrom function that read nothing.
var bookkeeping = regexp.MustCompile(`^(v\.Default\(\)|s := v|v = a|s\.\w+ = v|s\.\w+ = new\(\w+\)|a := v|` +
	`v := (&?s\.\w+|&a\[i\]|new\(string\))|s\.\w+ = v|var l int32|_ = (version|isFlexible)|version := v\.Version|` +
	`isFlexible := version >= \d+|b := kbin\.Reader\{Src: .*\}|return b\.Complete\(\)|a = a\[:0\]|` +
	`if err := b\.Complete\(\); err != nil \{\s*return err\s*\})$`)

// convert turns a list of statements into nodes.
func convert(list []ast.Stmt) ([]genNode, error) {
	if arr, ok, err := array(list); ok || err != nil {
		return arr, err
	}
	var out []genNode
	for _, s := range list {
		ns, err := statement(s)
		if err != nil {
			return nil, err
		}
		out = append(out, ns...)
	}
	return out, nil
}

var (
	sinceRange   = regexp.MustCompile(`^version >= (\d+)$`)
	betweenRange = regexp.MustCompile(`^version >= (\d+) && version <= (\d+)$`)
	belowRange   = regexp.MustCompile(`^version < (\d+)$`)
)

func statement(s ast.Stmt) ([]genNode, error) {
	text := src(s)
	if bookkeeping.MatchString(text) {
		return nil, nil
	}
	switch s := s.(type) {
	case *ast.BlockStmt:
		return convert(s.List)
	case *ast.IfStmt:
		return conditional(s)
	case *ast.ForStmt: // the known tags of a struct
		return tags(s)
	case *ast.AssignStmt, *ast.ExprStmt:
		n, err := read(text)
		return []genNode{n}, err
	}
	return nil, fmt.Errorf("%w: %s", errUnknown, text)
}

func conditional(s *ast.IfStmt) ([]genNode, error) {
	cond := src(s.Cond)
	inner, err := convert(s.Body.List)
	if err != nil {
		return nil, err
	}
	if cond == "isFlexible" {
		if s.Else != nil || len(inner) != 1 || inner[0].kind != "kindTags" {
			return nil, fmt.Errorf("%w: %s", errUnknown, src(s))
		}
		return inner, nil
	}
	if s.Init != nil { // if present := b.Int8(); present != -1 && b.Ok()
		typ := regexp.MustCompile(`s\.\w+ = new\((\w+)\)`).FindStringSubmatch(src(s.Body))
		if !strings.HasPrefix(cond, "present != -1") || typ == nil {
			return nil, fmt.Errorf("%w: %s", errUnknown, src(s))
		}
		return []genNode{{kind: "kindNullableStruct", fields: []string{sizeof("kmsg." + typ[1])}, sub: inner}}, nil
	}
	from, until, err := versions(cond)
	if err != nil {
		return nil, err
	}
	pointed := strings.Contains(src(s.Body), "new(string)")
	for i := range inner {
		if err := inner[i].limit(from, until); err != nil {
			return nil, err
		}
		if pointed && inner[i].kind == "kindString" {
			inner[i].fields = append(inner[i].fields, sizeof("string"))
		}
	}
	if s.Else == nil {
		return inner, nil
	}
	other, err := convert(s.Else.(*ast.BlockStmt).List)
	if err != nil || from != 0 {
		return nil, fmt.Errorf("%w: %s (%v)", errUnknown, src(s), err)
	}
	for i := range other {
		if err := other[i].limit(until, 0); err != nil {
			return nil, err
		}
	}
	return append(inner, other...), nil
}

func (n *genNode) limit(from, until int) error {
	if n.from != 0 || n.until != 0 {
		return fmt.Errorf("%w: nested version ranges", errUnknown)
	}
	n.from, n.until = from, until
	return nil
}

// versions reads a condition on the version.
func versions(cond string) (from, until int, err error) {
	if m := sinceRange.FindStringSubmatch(cond); m != nil {
		from, err = strconv.Atoi(m[1])
		return from, 0, err
	}
	if m := betweenRange.FindStringSubmatch(cond); m != nil {
		from, err = strconv.Atoi(m[1])
		until, err2 := strconv.Atoi(m[2])
		return from, until + 1, errors.Join(err, err2)
	}
	if m := belowRange.FindStringSubmatch(cond); m != nil {
		until, err = strconv.Atoi(m[1])
		return 0, until, err
	}
	return 0, 0, fmt.Errorf("%w: condition %s", errUnknown, cond)
}

// reads maps the read of a value to its node. The first match wins.
var reads = []struct {
	text   *regexp.Regexp
	kind   string
	fields []string
}{
	{regexp.MustCompile(`readNullableString\(.*, isFlexible, unsafe\)`), "kindNullableString", nil},
	{regexp.MustCompile(`readString\(.*, isFlexible, unsafe\)`), "kindString", nil},
	{regexp.MustCompile(`readString\(.*, false, unsafe\)`), "kindPlainString", nil},
	{regexp.MustCompile(`readNullableBytes\(.*, isFlexible\)`), "kindNullableBytes", nil},
	{regexp.MustCompile(`readBytes\(.*, isFlexible\)`), "kindBytes", nil},
	{regexp.MustCompile(`internalReadTags\(`), "kindTags", nil},
	{regexp.MustCompile(`read(Bool|Int8)\(&b\)`), "kindFixed", []string{"n: 1"}},
	{regexp.MustCompile(`read(Int16|Uint16)\(&b\)`), "kindFixed", []string{"n: 2"}},
	{regexp.MustCompile(`readInt32\(&b\)`), "kindFixed", []string{"n: 4"}},
	{regexp.MustCompile(`readInt64\(&b\)|b\.Float64\(\)`), "kindFixed", []string{"n: 8"}},
	{regexp.MustCompile(`readUuid\(&b\)`), "kindFixed", []string{"n: 16"}},
}

func read(text string) (genNode, error) {
	for _, r := range reads {
		if r.text.MatchString(text) {
			return genNode{kind: r.kind, fields: r.fields}, nil
		}
	}
	return genNode{}, fmt.Errorf("%w: %s", errUnknown, text)
}

var (
	elements = regexp.MustCompile(`a = append\(a, make\(\[\](\S+), l\)\.\.\.\)`)
	nullable = regexp.MustCompile(`^if version < (\d+) \|\| l == 0 \{`)
)

// array recognises the block of one array: its length, the bound, the allocation and the loop over its
// elements.
func array(list []ast.Stmt) ([]genNode, bool, error) {
	var length, alloc, null, plain bool
	n := genNode{kind: "kindArray"}
	for _, s := range list {
		text := src(s)
		switch {
		case text == "l = readArrayLen(&b, isFlexible)":
			length = true
		case text == "l = b.ArrayLen()":
			length, plain = true, true
		case nullable.MatchString(text):
			null = true
			n.fields = append(n.fields, "null: "+nullable.FindStringSubmatch(text)[1])
		case elements.MatchString(text) && strings.HasPrefix(text, "if l > 0"):
			alloc = true
			n.fields = append(n.fields, sizeof(goType(elements.FindStringSubmatch(text)[1])))
		}
		if loop, ok := s.(*ast.RangeStmt); ok && length && alloc {
			sub, err := convert(loop.Body.List)
			if err != nil {
				return nil, false, err
			}
			n.sub = sub
		}
	}
	if !length {
		return nil, false, nil
	}
	if !alloc || len(n.sub) == 0 {
		return nil, false, fmt.Errorf("%w: array without elements", errUnknown)
	}
	if !null {
		n.fields = append(n.fields, "null: neverNull")
	}
	if plain {
		n.kind = "kindPlainArray"
	}
	return []genNode{n}, true, nil
}

// goType names an element type as package server sees it.
func goType(t string) string {
	if t[0] >= 'A' && t[0] <= 'Z' {
		return "kmsg." + t
	}
	return t
}

func sizeof(t string) string {
	switch {
	case t == "string":
		return `size: unsafe.Sizeof("")`
	case strings.HasPrefix(t, "kmsg."), strings.HasPrefix(t, "["):
		return "size: unsafe.Sizeof(" + t + "{})"
	}
	return "size: unsafe.Sizeof(" + t + "(0))"
}

// tags converts the loop over a struct's tags where some are known: each case is one.
func tags(s *ast.ForStmt) ([]genNode, error) {
	n := genNode{kind: "kindTags"}
	sw, ok := s.Body.List[0].(*ast.SwitchStmt)
	if !ok || len(s.Body.List) != 1 {
		return nil, fmt.Errorf("%w: %s", errUnknown, src(s))
	}
	for _, c := range sw.Body.List {
		c := c.(*ast.CaseClause)
		if c.List == nil {
			continue
		}
		sub, err := convert(c.Body)
		if err != nil {
			return nil, err
		}
		n.sub = append(n.sub, genNode{kind: "kindTag", fields: []string{"n: " + src(c.List[0])}, sub: sub})
	}
	return []genNode{n}, nil
}
