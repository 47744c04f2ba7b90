package config

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReferenceIsFresh(t *testing.T) {
	const path = "../../docs/reference/configs.md"
	if os.Getenv("MOLDAU_WRITE_DOCS") != "" {
		if err := os.WriteFile(filepath.FromSlash(path), []byte(Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != Reference() {
		t.Error("docs/reference/configs.md is stale: run MOLDAU_WRITE_DOCS=1 go test ./internal/config")
	}
}

// TestEveryDefaultFits proves that every default passes its own rule, whatever the size of the cluster.
func TestEveryDefaultFits(t *testing.T) {
	for _, scope := range []Scope{Topic, Broker, Group, ClientMetrics} {
		for _, k := range Keys(scope) {
			if k.Doc == "" {
				t.Errorf("%s %s has no documentation", scope, k.Name)
			}
			defaults := []string{k.Default}
			if k.Adapt != nil {
				for nodes := range 6 {
					defaults = append(defaults, k.Adapt(nodes))
				}
			}
			for _, d := range defaults {
				if v, err := k.Parse(d); !k.NoDefault && (err != nil || v.Text() != d) {
					t.Errorf("%s %s: default %q: %v (canonical %q)", scope, k.Name, d, err, v.Text())
				}
			}
		}
	}
}
