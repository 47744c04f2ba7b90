package server

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const kmsgModule = "github.com/twmb/franz-go/pkg/kmsg"

var update = flag.Bool("update", false, "write schema_table.go anew")

// TestSchemaTableIsCurrent generates the table and compares it with the file.
func TestSchemaTableIsCurrent(t *testing.T) {
	path, err := kmsgSource()
	if err != nil {
		t.Skip(err)
	}
	want, err := generate(path)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("schema_table.go", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("schema_table.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatal("schema_table.go is stale: run go generate")
	}
}

// kmsgSource gives the path of kmsg's generated source.
func kmsgSource() (string, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", kmsgModule).Output()
	if err != nil {
		return "", fmt.Errorf("finding %s: %w", kmsgModule, err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), "generated.go"), nil
}

// request is what the file says about one request type.
type request struct {
	name     string
	key      int
	flexible string // first flexible version, as in the source
	body     *ast.BlockStmt
}

// generate gives the text of the table for the kmsg source at path.
func generate(path string) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, nil, 0)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString("// Code generated from kmsg by go generate; DO NOT EDIT.\n\npackage server\n\n" +
		"import (\n\t\"unsafe\"\n\n\t\"" + kmsgModule + "\"\n)\n\n" +
		"// schemas holds the layout of every request by API key.\nvar schemas = map[int16]schema{\n")
	for _, r := range requests(file) {
		nodes, err := convert(r.body.List)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
		fmt.Fprintf(&out, "// %s\n%d: {flexible: %s, nodes: []node{\n", r.name, r.key, r.flexible)
		for _, n := range nodes {
			n.write(&out)
		}
		out.WriteString("}},\n")
	}
	out.WriteString("}\n")
	return format.Source(out.Bytes())
}

// requests collects the request types in key order.
func requests(file *ast.File) []*request {
	byName := make(map[string]*request)
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv == nil {
			continue
		}
		name := strings.TrimPrefix(src(f.Recv.List[0].Type), "*")
		if !strings.HasSuffix(name, "Request") {
			continue
		}
		r := byName[name]
		if r == nil {
			r = &request{name: name, key: -1}
			byName[name] = r
		}
		switch f.Name.Name {
		case "Key":
			r.key, _ = strconv.Atoi(src(f.Body.List[0].(*ast.ReturnStmt).Results[0]))
		case "readFrom":
			r.body = f.Body
			r.flexible = flexibleFrom(f.Body)
		}
	}
	var out []*request
	for _, r := range byName {
		if r.key >= 0 && r.body != nil {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *request) int { return a.key - b.key })
	return out
}

// flexibleFrom finds "isFlexible := version >= N"; a request without it is never flexible.
func flexibleFrom(b *ast.BlockStmt) string {
	for _, s := range b.List {
		if text := src(s); strings.HasPrefix(text, "isFlexible := version >= ") {
			return strings.TrimPrefix(text, "isFlexible := version >= ")
		}
	}
	return "neverFlexible"
}

// src prints a node as Go source on one line.
func src(n any) string {
	var b bytes.Buffer
	if err := format.Node(&b, token.NewFileSet(), n); err != nil {
		return err.Error()
	}
	return b.String()
}

var errUnknown = errors.New("not understood")
