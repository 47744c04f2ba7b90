package arch

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module      = "moldau"
	maxFunction = 70
	maxFile     = 800
)

// cores must be replayable: no goroutine, no clock, no global random source.
var cores = []string{"storage/record", "storage/log", "cluster/metadata", "cluster/quorum", "cluster/controller",
	"cluster/replica", "coordinator", "sim"}

// goroutineOwners are the only packages that start goroutines.
var goroutineOwners = []string{"edge/server", "edge/peer", "node", "console", "cli", "chaos"}

type source struct {
	path  string // relative to the module root
	pkg   string // as written in layers.txt
	lines int
	file  *ast.File
	fset  *token.FileSet
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// layerName turns a directory relative to the root into the name layers.txt uses: internal packages by their path,
// others with a leading slash.
func layerName(dir string) string {
	if rest, ok := strings.CutPrefix(dir, "internal/"); ok {
		return rest
	}
	if dir == "." {
		return "/"
	}
	return "/" + dir
}

func load(t *testing.T) []source {
	t.Helper()
	base := root(t)
	var out []source
	err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(base, path)
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || nestedModule(base, path)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, raw, parser.ParseComments)
		if err != nil {
			return err
		}
		out = append(out, source{path: rel, pkg: layerName(filepath.ToSlash(filepath.Dir(rel))),
			lines: strings.Count(string(raw), "\n"), file: f, fset: fset})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func nestedModule(base, dir string) bool {
	if dir == base {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

func isGenerated(f *ast.File) bool { return ast.IsGenerated(f) }

// isExample says whether a package is a runnable example, which follows a user's layout rather than ours.
func isExample(pkg string) bool { return strings.HasPrefix(pkg, "/examples/") }

func in(pkg string, list []string) bool {
	return slices.ContainsFunc(list, func(p string) bool { return pkg == p || strings.HasPrefix(pkg, p+"/") })
}

func readLayers(t *testing.T) map[string]int {
	t.Helper()
	f, err := os.Open("layers.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ranks := map[string]int{}
	scanner := bufio.NewScanner(f)
	for rank := 1; scanner.Scan(); {
		line := strings.TrimSpace(scanner.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		for _, name := range strings.Fields(line) {
			ranks[name] = rank
		}
		rank++
	}
	return ranks
}

func TestLayers(t *testing.T) {
	ranks := readLayers(t)
	for _, s := range load(t) {
		if s.pkg == "arch" || isExample(s.pkg) {
			continue
		}
		own, ok := ranks[s.pkg]
		if !ok {
			t.Errorf("%s: package %s stands on no storey: add it to internal/arch/layers.txt", s.path, s.pkg)
			continue
		}
		for _, spec := range s.file.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if path != module && !strings.HasPrefix(path, module+"/") {
				continue
			}
			dir := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
			if dir == "" {
				dir = "."
			}
			target := layerName(dir)
			if rank, ok := ranks[target]; !ok || rank >= own {
				t.Errorf("%s imports %s, which does not stand below %s", s.path, target, s.pkg)
			}
		}
	}
}

func TestSizes(t *testing.T) {
	allowed := readRatchet(t)
	seen := map[string]bool{}
	judge := func(key string, lines, limit int) {
		seen[key] = true
		max, listed := allowed[key]
		switch {
		case !listed && lines > limit:
			t.Errorf("%s has %d lines, the limit is %d", key, lines, limit)
		case listed && lines > max:
			t.Errorf("%s has grown to %d lines, ratchet.txt allows %d", key, lines, max)
		case listed && lines <= limit:
			t.Errorf("%s is down to %d lines: remove it from ratchet.txt", key, lines)
		case listed && lines < max:
			t.Errorf("%s is down to %d lines: lower its entry (%d) in ratchet.txt", key, lines, max)
		}
	}
	for _, s := range load(t) {
		if isGenerated(s.file) {
			continue
		}
		if !isTable(s.file) {
			judge(s.path, s.lines, maxFile)
		}
		for _, decl := range s.file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			lines := s.fset.Position(fn.End()).Line - s.fset.Position(fn.Pos()).Line + 1
			judge(s.path+":"+functionName(fn), lines, maxFunction)
		}
	}
	for key := range allowed {
		if !seen[key] {
			t.Errorf("ratchet.txt lists %s, which is gone: remove the line", key)
		}
	}
}

// isTable says whether a file holds nothing but declarations of data (no function with a body).
func isTable(f *ast.File) bool {
	for _, decl := range f.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
			return false
		}
	}
	return true
}

func functionName(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return fn.Name.Name
	}
	recv := fn.Recv.List[0].Type
	if star, ok := recv.(*ast.StarExpr); ok {
		recv = star.X
	}
	if index, ok := recv.(*ast.IndexExpr); ok {
		recv = index.X
	}
	return fmt.Sprintf("%s.%s", recv, fn.Name.Name)
}

func readRatchet(t *testing.T) map[string]int {
	t.Helper()
	raw, err := os.ReadFile("ratchet.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, count, _ := strings.Cut(line, " ")
		n, err := strconv.Atoi(strings.TrimSpace(count))
		if err != nil {
			t.Fatalf("ratchet.txt: %q", line)
		}
		out[key] = n
	}
	return out
}

func TestEveryPackageHasDoc(t *testing.T) {
	docs := map[string]bool{}
	var all []string
	for _, s := range load(t) {
		if s.file.Name.Name == "main" {
			continue
		}
		all = append(all, s.pkg)
		if (filepath.Base(s.path) == "doc.go" || s.pkg == "/") && s.file.Doc != nil {
			docs[s.pkg] = true
		}
	}
	slices.Sort(all)
	for _, pkg := range slices.Compact(all) {
		if !docs[pkg] {
			t.Errorf("package %s has no doc.go with a package comment", pkg)
		}
	}
}

func TestCoresArePure(t *testing.T) {
	for _, s := range load(t) {
		core := in(s.pkg, cores)
		owner := in(s.pkg, goroutineOwners) || s.file.Name.Name == "main" || isExample(s.pkg)
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				if !owner {
					t.Errorf("%s: %s starts a goroutine; only %v do", s.fset.Position(n.Pos()), s.pkg, goroutineOwners)
				}
			case *ast.SelectorExpr:
				if core && impure(n) {
					t.Errorf("%s: a core takes time and randomness as parameters", s.fset.Position(n.Pos()))
				}
			}
			return true
		})
	}
}

func impure(n *ast.SelectorExpr) bool {
	pkg, ok := n.X.(*ast.Ident)
	if !ok || pkg.Obj != nil {
		return false
	}
	switch pkg.Name + "." + n.Sel.Name {
	case "time.Now", "time.Since", "time.Until", "time.Sleep", "time.After", "time.NewTimer", "time.NewTicker",
		"rand.Int", "rand.IntN", "rand.Int63", "rand.Uint64", "rand.Float64", "rand.Shuffle", "rand.Read", "os.Open",
		"os.Create", "os.ReadFile", "os.WriteFile", "os.OpenFile", "net.Dial", "net.Listen":
		return true
	}
	return false
}
