package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
)

func fresh(t *testing.T, path, want string) {
	t.Helper()
	if os.Getenv("MOLDAU_WRITE_DOCS") != "" {
		if err := os.WriteFile(filepath.FromSlash(path), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is stale: run MOLDAU_WRITE_DOCS=1 go test ./internal/edge/api", path)
	}
}

func TestReferenceIsFresh(t *testing.T) {
	page, err := Reference()
	if err != nil {
		t.Fatal(err)
	}
	fresh(t, "../../../docs/reference/apis.md", page)
	fresh(t, "../../../docs/reference/errors.md", ErrorReference())
}

// TestEveryAnsweredErrorIsExplained holds the error reference against the code: what a node's packages name is explained.
func TestEveryAnsweredErrorIsExplained(t *testing.T) {
	codes := codeNames(t)
	for name := range namedCodes(t) {
		if c, ok := codes[name]; ok && whenAnswered[c] == "" {
			t.Errorf("kafka.%s (%s) is answered somewhere and not explained in whenAnswered", name, c.Name())
		}
	}
}

// codeNames maps the names of the constants to codes.
func codeNames(t *testing.T) map[string]kafka.Code {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../../kafka/codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := kafka.Codes()
	var names []string
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(names) < len(all) {
			names = append(names, v.Names[0].Name)
		}
		return true
	})
	if len(names) != len(all) {
		t.Fatalf("%d names, %d codes", len(names), len(all))
	}
	out := map[string]kafka.Code{}
	for i, name := range names { // the constants stand in ascending order, as Codes lists them
		out[name] = all[i]
	}
	if out["ControllerIDNotRegistered"] != kafka.ControllerIDNotRegistered || out["InvalidConfig"] != kafka.InvalidConfig {
		t.Fatal("names and codes do not go together")
	}
	return out
}

// isClient matches the packages that hear errors and answer nobody.
var isClient = regexp.MustCompile("/(cli|sim|chaos)/")

// namedCodes lists what product code takes from package kafka.
func namedCodes(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasSuffix(path, "reference_errors.go") || isClient.MatchString(path) {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil // being edited
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "kafka" {
					out[s.Sel.Name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTable proves that the server takes the rows and that each has its authorization.
func TestTable(t *testing.T) {
	f := newFixture(t)
	if _, err := server.NewTable(server.VersionInfo{}, f.Rows()...); err != nil {
		t.Fatal(err)
	}
	for _, e := range f.entries() {
		if e.access.needs == "" || e.access.checks == nil {
			t.Errorf("%s has no access entry", apiName(e.api.Key))
		}
	}
}
