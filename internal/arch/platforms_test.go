package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// platforms are those that moldau is built for.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/arm64", "windows/amd64"}

// TestTypesOnEveryPlatform checks the types of the module, tests included, as every platform that it is built for sees
// it. A cross build finds the same mistakes but generates code for the standard library and every dependency, which takes
// minutes where the build cache is cold; this reads only declarations of those. `make cross` is the long way.
func TestTypesOnEveryPlatform(t *testing.T) {
	read := &sources{fset: token.NewFileSet(), files: map[string]*ast.File{}}
	for _, p := range platforms {
		goos, goarch, _ := strings.Cut(p, "/")
		if goos == runtime.GOOS && goarch == runtime.GOARCH {
			continue // what runs this was built for it
		}
		t.Run(p, func(t *testing.T) {
			own, errs := checkTypes(t, read, root(t), goos, goarch)
			for _, err := range errs {
				t.Error(err)
			}
			if own < 30 {
				t.Errorf("only %d packages of the module were checked", own)
			}
		})
	}
}

// TestTypesFindsMistakes of one platform's files alone, in the package and in its tests.
func TestTypesFindsMistakes(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":            "module moldau\n\ngo 1.26.0\n",
		"a.go":              "package a\n\nimport \"os\"\n\nfunc F(f *os.File) error { return f.Sync() }\n",
		"a_windows.go":      "package a\n\nimport \"syscall\"\n\nvar G = syscall.Mmap\n",
		"a_windows_test.go": "package a_test\n\nimport \"moldau\"\n\nvar _ int = a.F\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for goos, want := range map[string]string{"linux": "", "darwin": "", "windows": "a_windows.go a_windows_test.go"} {
		read := &sources{fset: token.NewFileSet(), files: map[string]*ast.File{}}
		_, errs := checkTypes(t, read, dir, goos, "arm64")
		var got []string
		for _, err := range errs {
			if typed, ok := errors.AsType[types.Error](err); ok {
				got = append(got, filepath.Base(typed.Fset.Position(typed.Pos).Filename))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: mistakes in %q, want %q", goos, got, want)
		}
	}
}

// listed is what `go list` says of a package.
type listed struct {
	Dir, ImportPath string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct {
		Main      bool
		GoVersion string
	}
	Error *struct{ Err string }
}

// listAll lists the packages of the module in dir, those of its tests, and all that they import, imports first.
func listAll(t *testing.T, dir, goos, goarch string) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-test", "-e", "-json=Dir,ImportPath,GoFiles,ImportMap,Module,Error", "./...")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if p.ImportPath != "unsafe" && !strings.HasSuffix(p.ImportPath, ".test") { // those are generated
			all = append(all, p)
		}
	}
}

// checkTypes says how many packages the module in dir has on a platform, with those of tests, and what is wrong in them.
func checkTypes(t *testing.T, read *sources, dir, goos, goarch string) (own int, errs []error) {
	t.Helper()
	checked := map[string]*types.Package{"unsafe": types.Unsafe}
	for _, p := range listAll(t, dir, goos, goarch) {
		c := &types.Config{Importer: importer{p.ImportMap, checked}, Sizes: types.SizesFor("gc", goarch)}
		if p.Module != nil && p.Module.Main {
			own++
			c.GoVersion = "go" + p.Module.GoVersion
			c.Error = func(err error) { errs = append(errs, err) }
		} else {
			c.IgnoreFuncBodies = true
			c.Error = func(error) {} // what matters of it is seen where it is used
		}
		if p.Error != nil {
			errs = append(errs, fmt.Errorf("%s: %s", p.ImportPath, p.Error.Err))
		}
		files := make([]*ast.File, 0, len(p.GoFiles))
		for _, name := range p.GoFiles {
			f, err := read.file(filepath.Join(p.Dir, name))
			if err != nil {
				errs = append(errs, err)
				continue
			}
			files = append(files, f)
		}
		path, _, _ := strings.Cut(p.ImportPath, " ") // "p [q.test]" is p as q's test sees it
		checked[p.ImportPath], _ = c.Check(path, read.fset, files, nil)
	}
	return own, errs
}

// sources reads each file once: most of them are the same on every platform.
type sources struct {
	fset  *token.FileSet
	files map[string]*ast.File
}

func (s *sources) file(path string) (*ast.File, error) {
	if f := s.files[path]; f != nil {
		return f, nil
	}
	f, err := parser.ParseFile(s.fset, path, nil, parser.SkipObjectResolution)
	if err == nil {
		s.files[path] = f
	}
	return f, err
}

// importer finds packages that were checked before. The same import can stand for another package in each importer: one
// that the standard library carries, or one that is built for a test.
type importer struct {
	stands  map[string]string
	checked map[string]*types.Package
}

func (i importer) Import(path string) (*types.Package, error) {
	if to, ok := i.stands[path]; ok {
		path = to
	}
	if p := i.checked[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s is not listed", path)
}
