package assignors

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// topicMap is partitions by topic, plan what a balancer gives to whom.
type (
	topicMap = map[string][]int32
	plan     map[string]topicMap
)

// topicMapText is a topicMap that is written as in the table.
type topicMapText topicMap

type topic struct {
	partitions int32
	racks      []string // by partition, of its only replica; nil: no racks
}

type member struct {
	id, instance, rack string
	topics             []string
	owned              topicMap
	generation         int32
}

// group is what a balancer sees.
type group struct {
	assignor string
	topics   map[string]topic
	members  []member // ascending by id
}

// A scenario is one case of testdata/cases: a group's history.
type scenario struct {
	name  string
	steps []step
}

// A step changes the group, or balances it and says what must come out.
type step struct {
	line    int
	change  func(*group)
	balance bool
	want    map[string]plan // by implementation: java, franz
	moves   *topicMap       // partitions that Java says move between members; nil: not looked at
	loads   []int           // franz: how many partitions members get, ascending; nil: want is what they get
	keeps   int             // franz, with loads: how many partitions stay with one who had them
}

// implementations that a line of the table without a name in front speaks of.
var implementations = []string{"java", "franz"}

// readCases reads testdata/cases; its head explains the notation.
func readCases(t *testing.T) []scenario {
	t.Helper()
	raw, err := os.ReadFile("testdata/cases")
	if err != nil {
		t.Fatal(err)
	}
	var out []scenario
	n := 0
	for line := range strings.Lines(string(raw)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if name, ok := strings.CutPrefix(line, "case "); ok {
			out = append(out, scenario{name: name})
			continue
		}
		if err := out[len(out)-1].add(n, line); err != nil {
			t.Fatalf("testdata/cases:%d: %v", n, err)
		}
	}
	return out
}

func (c *scenario) add(n int, line string) error {
	s := step{line: n}
	word, rest, _ := strings.Cut(line, " ")
	fields := strings.Fields(rest)
	switch word {
	case "assignor":
		s.change = func(g *group) { g.assignor = rest }
	case "topic":
		if len(fields) == 0 {
			return fmt.Errorf("topic without a name")
		}
		count, err := strconv.Atoi(fields[1])
		if err != nil {
			return err
		}
		s.change = func(g *group) { g.topics[fields[0]] = topic{partitions: int32(count), racks: fields[2:]} }
	case "join":
		m, err := parseMember(fields)
		if err != nil {
			return err
		}
		s.change = func(g *group) { g.join(m) }
	case "leave":
		s.change = func(g *group) { g.leave(fields) }
	case "balance":
		s.balance = true
		s.want = map[string]plan{"java": {}, "franz": {}}
	default:
		return c.steps[len(c.steps)-1].expect(line)
	}
	c.steps = append(c.steps, s)
	return nil
}

// expect reads what a balance must give: "C0: t-0 t-1", with java or franz in front where they differ.
func (s *step) expect(line string) error {
	if !s.balance {
		return fmt.Errorf("%q does not follow a balance", line)
	}
	head, list, ok := strings.Cut(line, ":")
	if head == "franz loads" {
		return s.expectLoads(strings.Fields(list))
	}
	parts, err := parseParts(strings.Fields(list))
	if !ok || err != nil {
		return fmt.Errorf("%q: %v", line, err)
	}
	if head == "moves" {
		s.moves = &parts
		return nil
	}
	names := implementations
	if name, id, ok := strings.Cut(head, " "); ok {
		names, head = []string{name}, id
	}
	for _, name := range names {
		s.want[name][head] = parts
	}
	return nil
}

// expectLoads reads "2 3 3 keeping 5".
func (s *step) expectLoads(words []string) error {
	s.loads = []int{}
	for i, w := range words {
		last := i == len(words)-1
		if w == "keeping" && i == len(words)-2 {
			continue
		}
		n, err := strconv.Atoi(w)
		if err != nil {
			return err
		}
		if last {
			s.keeps = n
		} else {
			s.loads = append(s.loads, n)
		}
	}
	return nil
}

// parseMember reads "C0 instance=i rack=r generation=9 t1 t2 owns t1-0 t2-1".
func parseMember(fields []string) (member, error) {
	m := member{id: fields[0], owned: topicMap{}, generation: -1}
	for i, f := range fields[1:] {
		key, value, ok := strings.Cut(f, "=")
		switch {
		case f == "owns":
			var err error
			m.owned, err = parseParts(fields[i+2:])
			return m, err
		case !ok:
			m.topics = append(m.topics, f)
		case key == "instance":
			m.instance = value
		case key == "rack":
			m.rack = value
		case key == "generation":
			n, err := strconv.Atoi(value)
			if err != nil {
				return m, err
			}
			m.generation = int32(n)
		default:
			return m, fmt.Errorf("unknown word %q", f)
		}
	}
	return m, nil
}

func parseParts(words []string) (topicMap, error) {
	out := topicMap{}
	for _, w := range words {
		at := strings.LastIndex(w, "-")
		if at < 0 {
			return nil, fmt.Errorf("%q is no partition", w)
		}
		p, err := strconv.Atoi(w[at+1:])
		if err != nil {
			return nil, err
		}
		out[w[:at]] = append(out[w[:at]], int32(p))
	}
	return out, nil
}

func (g *group) join(m member) {
	g.leave([]string{m.id})
	g.members = append(g.members, m)
	slices.SortFunc(g.members, func(a, b member) int { return strings.Compare(a.id, b.id) })
}

func (g *group) leave(ids []string) {
	g.members = slices.DeleteFunc(g.members, func(m member) bool { return slices.Contains(ids, m.id) })
}

// settle makes a plan what the members own, as members of the next generation.
func (g *group) settle(p plan) {
	generation := int32(0)
	for _, m := range g.members {
		generation = max(generation, m.generation)
	}
	for i := range g.members {
		m := &g.members[i]
		m.owned, m.generation = p[m.id], generation+1
	}
}

func (m topicMapText) String() string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		for _, p := range slices.Sorted(slices.Values(m[name])) {
			words = append(words, fmt.Sprintf("%s-%d", name, p))
		}
	}
	return strings.Join(words, " ")
}

// String writes a plan as the table does.
func (p plan) String() string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&b, "%s: %s\n", id, topicMapText(p[id]))
	}
	return b.String()
}
