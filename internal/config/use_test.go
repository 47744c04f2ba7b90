package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestKeysThatAreReadExist: a key that code asks for by a wrong name is zero in a release build and a panic under the
// assertions.
func TestKeysThatAreReadExist(t *testing.T) {
	asked := regexp.MustCompile(`\.(?:Bool|Float64|Int|Int64|IsSet|List|String|Value|Broker|GroupValue|TopicValue)\((?:[a-z]\w*, )?"((?:[a-z]+\.)+[a-z.]+)"\)`)
	found := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range asked.FindAllSubmatch(source, -1) {
			found++
			name, known := string(m[1]), false
			for _, scope := range []Scope{Topic, Broker, Group, ClientMetrics} {
				_, ok := Lookup(scope, name)
				known = known || ok
			}
			if !known {
				t.Errorf("%s asks for %s, which is no key", path, name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 50 {
		t.Fatalf("only %d places that ask for a key were found", found)
	}
}
