package config

import (
	"strings"
	"testing"
)

// TestCluster: which entry of the list a process is, and what follows from it.
func TestCluster(t *testing.T) {
	const here, list = "h1", "h2:9092,h1:9092,H1:9093,h3:9092"
	local := func(h string) bool { return h == here }
	for name, c := range map[string]struct {
		list, listen string
		advertised   string
		listeners    string
		fails        string
	}{
		"only one here":       {"h2:9092,h1:9092", "", "PLAINTEXT://h1:9092", "PLAINTEXT://h1:9092,CONTROLLER://h1:10092", ""},
		"two here":            {list, "", "", "", "both on this machine"},
		"none here":           {"h2:9092,h3:9092", "", "", "", "none of the nodes"},
		"said":                {list, "h1:9093", "PLAINTEXT://h1:9093", "PLAINTEXT://h1:9093,CONTROLLER://h1:10093", ""},
		"said by port":        {list, "0.0.0.0:9093", "PLAINTEXT://h1:9093", "PLAINTEXT://0.0.0.0:9093,CONTROLLER://0.0.0.0:10093", ""},
		"port of many, local": {list, "0.0.0.0:9092", "PLAINTEXT://h1:9092", "PLAINTEXT://0.0.0.0:9092,CONTROLLER://0.0.0.0:10092", ""},
		"twice":               {"h1:9092,H1:9092", "", "", "", "twice"},
		"no port":             {"h1", "", "", "", "not host:port"},
		"port too high":       {"h1:65000", "", "", "", "a port from 1 to 64535"},
		"empty":               {"", "", "", "", "names no node"},
	} {
		layer, nodes, err := Cluster(c.list, ClusterOptions{Listen: c.listen, IsLocal: local})
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		s, err := Load([]Layer{layer}, Options{Nodes: nodes})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := s.Text("advertised.listeners"); !strings.HasPrefix(got, c.advertised+",") {
			t.Errorf("%s: advertised %s", name, got)
		}
		if got := s.Text("listeners"); got != c.listeners {
			t.Errorf("%s: listens on %s", name, got)
		}
		if got, want := s.Int("default.replication.factor"), min(nodes, 3); got != want {
			t.Errorf("%s: replication factor %d", name, got)
		}
		named, err := s.WithNodeID(5)
		if err != nil || named.Node().ID != 5 || s.Node().ID == 5 {
			t.Errorf("%s: node %d, %v", name, named.Node().ID, err)
		}
	}
}
