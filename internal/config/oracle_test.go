package config

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"moldau/internal/kafka"
)

// The files in testdata hold what a real Apache Kafka 4.4.0 node declared and answered. These tests hold our table
// and our answers against them; every difference that is meant is listed here with its reason.

func oracle(t *testing.T, name string) []string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []string
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		if line := scanner.Text(); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		t.Fatalf("%s is empty", name)
	}
	return lines
}

// ourDefaults are the defaults that differ on purpose; the value is ours.
var ourDefaults = map[string]string{
	"process.roles": "broker,controller", "node.id": "1", "controller.listener.names": "CONTROLLER",
	"listeners": "PLAINTEXT://127.0.0.1:9092", "log.dir": "./moldau-data",
}

// ourModes are the update modes that differ on purpose: listeners cannot be altered while the broker runs yet.
var ourModes = map[string]string{"listeners": "read-only", "listener.security.protocol.map": "read-only"}

func TestTableIsKafkas(t *testing.T) {
	scopes := map[string]Scope{"broker": Broker, "topic": Topic, "group": Group, "metrics": ClientMetrics}
	seen := map[Scope]int{}
	for _, line := range oracle(t, "declared.txt") {
		f := strings.Split(line, "\t")
		k, ok := Lookup(scopes[f[0]], f[1])
		if !ok {
			t.Errorf("%s %s is missing", f[0], f[1])
			continue
		}
		seen[k.Scope]++
		def := "<null>"
		if !k.NoDefault {
			def = strconv.Quote(k.Default)
		}
		if f[3] == "<none>" {
			f[3] = "<null>"
		}
		want := f[3]
		if d, ok := ourDefaults[k.Name]; ok && k.Scope == Broker {
			want = strconv.Quote(d)
		}
		mode := f[6]
		if m, ok := ourModes[k.Name]; ok && k.Scope == Broker {
			mode = m
		}
		got := []string{k.Type.String(), def, k.Importance.String(), k.Update.String(), fmt.Sprint(k.Internal)}
		if w := []string{f[2], want, f[5], mode, fmt.Sprint(f[7] == "internal")}; !slices.Equal(got, w) {
			t.Errorf("%s %s: got %q, want %q", f[0], f[1], got, w)
		}
		judgeRule(t, k, f[4])
	}
	for scope, n := range seen {
		for _, k := range Keys(scope) {
			if strings.HasPrefix(k.Name, "moldau.") {
				n++
			}
		}
		extra := map[Scope]int{Broker: 5}[scope] // three throttles and two authorizer keys that Kafka reads outside its table
		if len(Keys(scope)) != n+extra {
			t.Errorf("%s: %d keys, Kafka has %d of them", scope, len(Keys(scope)), n)
		}
	}
}

var numberRange = regexp.MustCompile(`^\[(-?\d+),\.\.\.(?:,(-?[\d.]+))?\](?: or (-?\d+))?$`)

// judgeRule holds our rule against Kafka's at its bounds or members.
func judgeRule(t *testing.T, k *Key, rule string) {
	t.Helper()
	try := func(raw string, want bool) {
		if _, err := k.Parse(raw); (err == nil) != want {
			t.Errorf("%s %s=%s: %v, Kafka's rule is %s", k.Scope, k.Name, raw, err, rule)
		}
	}
	if m := numberRange.FindStringSubmatch(rule); m != nil {
		low, _ := strconv.ParseInt(m[1], 10, 64)
		try(m[1], true)
		try(strconv.FormatInt(low-1, 10), m[3] == strconv.FormatInt(low-1, 10))
		if m[2] != "" {
			try(m[2], true)
			high, _ := strconv.ParseFloat(m[2], 64)
			try(strconv.FormatFloat(high+1, 'f', -1, 64), false)
		}
		if m[3] != "" {
			try(m[3], true)
		}
		return
	}
	if members, ok := strings.CutPrefix(rule, "["); ok && k.Type != List && !strings.Contains(rule, ":") {
		for s := range strings.SplitSeq(strings.TrimSuffix(members, "]"), ", ") {
			try(s, true)
			try(strings.ToUpper(s)+"x", false)
		}
		try("", false)
	}
	if fold, ok := strings.CutPrefix(rule, "(case insensitive) ["); ok {
		for s := range strings.SplitSeq(strings.TrimSuffix(fold, "]"), ", ") {
			try(strings.ToLower(s), true)
		}
		try("zzz", false)
	}
}

func TestParseIsKafkas(t *testing.T) {
	types := map[string]Type{"BOOLEAN": Boolean, "STRING": String, "INT": Int, "SHORT": Short, "LONG": Long,
		"DOUBLE": Double, "LIST": List, "CLASS": String, "PASSWORD": Password}
	unquote := func(s string) string {
		out, err := strconv.Unquote(s)
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		return out
	}
	for _, line := range oracle(t, "parse.txt") {
		f := strings.Split(line, "\t")
		raw := unquote(f[1])
		if f[0] == "CLASS" || strings.Contains(raw, "\u0661") && f[0] != "STRING" {
			continue // classes cannot be loaded here; digits of other scripts are refused on purpose
		}
		v, ok := parseType(types[f[0]], raw)
		if f[2] == "ERR" {
			if ok {
				t.Errorf("%s %q: accepted as %q, Kafka refuses it", f[0], raw, v.Text())
			}
			continue
		}
		text, entries, _ := strings.Cut(strings.TrimPrefix(f[2], "pw:"), " n=")
		want := unquote(text)
		if !ok || v.Text() != want || f[0] == "LIST" && strconv.Itoa(len(v.List())) != entries {
			t.Errorf("%s %q: %v %q %d, want %s", f[0], raw, ok, v.Text(), len(v.List()), f[2])
		}
	}
}

// ourAnswers are the codes of alterations that differ on purpose.
var ourAnswers = map[string]string{
	// A text that is no number gets the code that Kafka gives a number outside the bounds.
	"i\t16\ts1\t0\tinterval.ms\tx": "42",
}

func TestAlterAnswersAreKafkas(t *testing.T) {
	static := mustLoad(t, "log.dirs=./data")
	stored := map[Resource]Map{{BrokerResource, ""}: {"min.insync.replicas": "1"}}
	r := NewResolver(static, 1, func(rt ResourceType, name string) Stored { return stored[Resource{rt, name}] })
	for _, line := range oracle(t, "alter.txt") {
		request, code, _ := strings.Cut(line, "\t=> ")
		if own, ok := ourAnswers[request]; ok {
			code = own
		}
		err := replay(r, strings.Split(request, "\t"))
		if got := strconv.Itoa(int(kafka.CodeOf(err))); got != code {
			t.Errorf("%q: got %s (%v), want %s", request, got, err, code)
		}
		if err != nil && kafka.MessageOf(err) == "" && code != "-1" {
			t.Errorf("%q: no message", request)
		}
	}
}

func replay(r *Resolver, f []string) error {
	null := func(s string) *string {
		if s == "-" {
			return nil
		}
		return &s
	}
	assignments := func(rest []string) (out []Assignment) {
		for i := 0; i+1 < len(rest); i += 2 {
			out = append(out, Assignment{rest[i], null(rest[i+1])})
		}
		return out
	}
	if f[0] == "c" {
		_, err := r.NewTopic(assignments(f[2:]))
		return err
	}
	n, _ := strconv.Atoi(f[1])
	res := Resource{ResourceType(n), f[2]}
	if f[0] == "a" {
		_, err := r.Replace(res, assignments(f[3:]), AlterOptions{ELR: true})
		return err
	}
	var changes []Change
	for i := 3; i+2 < len(f); i += 3 {
		op, _ := strconv.Atoi(f[i])
		changes = append(changes, Change{Name: f[i+1], Op: Op(op), Value: null(f[i+2])})
	}
	_, err := r.Alter(res, changes, AlterOptions{ELR: true})
	return err
}

func mustLoad(t *testing.T, settings ...string) *Static {
	t.Helper()
	l, err := SetLayer(settings)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Load([]Layer{l}, Options{Nodes: 3})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// brokerDifferences are the broker keys whose description differs on purpose.
var brokerDifferences = map[string]string{
	"broker.id":                      "Kafka fills it in from node.id",
	"listeners":                      "our default, and not alterable while running",
	"listener.security.protocol.map": "not alterable while running",
	"log.dir":                        "our default",
	"log.retention.hours":            "Kafka forgets the static value while log.retention.ms is set dynamically",
	"log.retention.minutes":          "Kafka forgets the static value while log.retention.ms is set dynamically",
	"log.roll.hours":                 "Kafka forgets the static value while log.roll.ms is set dynamically",
	"default.replication.factor":     "three in a cluster",
	"node.id":                        "we have a default",
	"process.roles":                  "we have a default",
	"controller.listener.names":      "we have a default",
}

func TestDescriptionsAreKafkas(t *testing.T) {
	for _, name := range []string{"nothing", "hours", "all_levels", "cluster_only"} {
		t.Run(name, func(t *testing.T) {
			lines := oracle(t, "describe_"+name+".txt")
			var static []string
			stored := map[Resource]Map{}
			add := func(t ResourceType, name, setting string) {
				res := Resource{t, name}
				if stored[res] == nil {
					stored[res] = Map{}
				}
				k, v, _ := strings.Cut(setting, "=")
				stored[res][k] = v
			}
			add(BrokerResource, "", "min.insync.replicas=1") // written when the cluster was founded
			sections, section := map[string][]string{}, ""
			for _, line := range lines {
				if s, ok := strings.CutPrefix(line, "-- "); ok {
					section = s
					continue
				}
				if section != "" {
					sections[section] = append(sections[section], line)
					continue
				}
				kind, setting, _ := strings.Cut(line, " ")
				switch kind {
				case "static":
					key, value, _ := strings.Cut(setting, "=")
					static = append(static, key+"="+strings.TrimLeft(value, " ")) // as the file's reader does
				case "cluster":
					add(BrokerResource, "", setting)
				case "broker":
					add(BrokerResource, "1", setting)
				case "topic":
					add(TopicResource, "t1", setting)
				case "group":
					add(GroupResource, "g1", setting)
				}
			}
			r := NewResolver(mustLoad(t, static...), 1, func(rt ResourceType, name string) Stored {
				if m, ok := stored[Resource{rt, name}]; ok {
					return m
				}
				return nil
			})
			compare(t, "topic", sections["topic"], describedLines(r.DescribeTopic("t1", nil)), nil)
			compare(t, "group", sections["group"], describedLines(r.DescribeGroup("g1", nil)), nil)
			compare(t, "broker", sections["broker"], describedLines(r.DescribeBroker(nil)), brokerDifferences)
			compare(t, "default", sections["default"], describedLines(r.DescribeBrokerDefault(nil)), nil)
			var created []string
			for _, d := range r.DescribeNewTopic(r.stored(TopicResource, "t1")) {
				created = append(created, fmt.Sprintf("%s %s %v %d %v", d.Name, shown(d.Value), d.ReadOnly, d.Source,
					d.Sensitive))
			}
			compare(t, "created", sections["created"][1:], created, nil)
		})
	}
}

func shown(s *string) string {
	if s == nil {
		return "<null>"
	}
	return strconv.Quote(*s)
}

func describedLines(list []Described) []string {
	var out []string
	for _, d := range list {
		line := fmt.Sprintf("%s\ttype=%d ro=%v sens=%v src=%d val=%s", d.Name, d.Type, d.ReadOnly, d.Sensitive,
			d.Source, shown(d.Value))
		for _, s := range d.Synonyms {
			line += fmt.Sprintf(" | %s@%d=%s", s.Name, s.Source, shown(s.Value))
		}
		out = append(out, line)
	}
	return out
}

// compare holds lines against the oracle's by the key they begin with. Our own keys are left out.
func compare(t *testing.T, what string, want, got []string, differ map[string]string) {
	t.Helper()
	byKey := func(lines []string) map[string]string {
		out := map[string]string{}
		for _, l := range lines {
			key := l[:strings.IndexAny(l, "\t ")]
			if _, ok := differ[key]; !ok && !strings.HasPrefix(key, "moldau.") {
				out[key] = l
			}
		}
		return out
	}
	w, g := byKey(want), byKey(got)
	for _, key := range sortedUnion(slices.Collect(keysOfMap(w)), slices.Collect(keysOfMap(g))) {
		if w[key] != g[key] {
			t.Errorf("%s\n got %s\nwant %s", what, g[key], w[key])
		}
	}
}

func keysOfMap(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
