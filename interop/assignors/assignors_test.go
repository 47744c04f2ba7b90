// Package assignors checks who gets which partition: the assignors of consumers (franz-go's and the Java client's)
// against one table of known results, and the broker's own against invariants in live groups. It also records the
// answers of Apache Kafka's server-side assignors that internal/coordinator/assignor is tested with.
//
// Environment: ASSIGNORS_RECORD=DIRECTORY writes those answers there (live ones with INTEROP_TARGET=kafka);
// ASSIGNORS_SEED repeats a run with live groups.
package assignors

import (
	"slices"
	"testing"
)

// TestTableFranz and TestTableJava run testdata/cases.
func TestTableFranz(t *testing.T) {
	runTable(t, "franz", func(t *testing.T, g *group) (plan, topicMap) { return franz(t, g), nil })
}

func TestTableJava(t *testing.T) {
	j := startJVM(t)
	runTable(t, "java", j.balance)
}

func runTable(t *testing.T, name string, balance func(*testing.T, *group) (plan, topicMap)) {
	for _, c := range readCases(t) {
		t.Run(c.name, func(t *testing.T) {
			g := &group{topics: map[string]topic{}}
			for _, s := range c.steps {
				if !s.balance {
					s.change(g)
					continue
				}
				got, moves := balance(t, g)
				if name == "franz" && s.loads != nil {
					checkLoads(t, g, got, s)
				} else if want := s.want[name]; got.String() != want.String() {
					t.Fatalf("line %d: %s gives\n%swant\n%s", s.line, g.assignor, got, want)
				}
				if moves != nil && s.moves != nil {
					if a, b := topicMapText(moves).String(), topicMapText(*s.moves).String(); a != b {
						t.Errorf("line %d: moving between members are %q, want %q", s.line, a, b)
					}
				}
				g.settle(got)
			}
		})
	}
}

// checkLoads checks a plan whose details are the balancer's choice: every partition goes to one subscriber, as many to
// each as the table says, and as many stay where they were.
func checkLoads(t *testing.T, g *group, got plan, s step) {
	t.Helper()
	given := map[string]string{}
	loads, keeps := []int{}, 0
	for _, m := range g.members {
		load := 0
		for name, parts := range got[m.id] {
			if !slices.Contains(m.topics, name) {
				t.Errorf("line %d: %s got %v of %s, to which it does not subscribe", s.line, m.id, parts, name)
			}
			for _, p := range parts {
				tp := topicMapText{name: {p}}.String()
				if other, twice := given[tp]; twice || p < 0 || p >= g.topics[name].partitions {
					t.Errorf("line %d: %s goes to %q and %q", s.line, tp, other, m.id)
				}
				given[tp] = m.id
				if slices.Contains(m.owned[name], p) {
					keeps++
				}
				load++
			}
		}
		loads = append(loads, load)
	}
	slices.Sort(loads)
	if !slices.Equal(loads, s.loads) || keeps != s.keeps {
		t.Errorf("line %d: loads %v, keeping %d, want %v, keeping %d:\n%s", s.line, loads, keeps, s.loads, s.keeps, got)
	}
}
