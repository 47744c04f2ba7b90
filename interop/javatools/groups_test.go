package javatools

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"moldau/interop/broker"
	"moldau/interop/kafka"
	"moldau/interop/process"
)

// TestGroupTools runs the tools that work with groups, in order: later steps look at what earlier ones left.
func TestGroupTools(t *testing.T) {
	kafka.Libs(t)
	n := broker.Start(t)
	s := &suite{n: n}
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"console groups", s.consoleGroups}, {"list", s.listGroups}, {"live group", s.liveGroup},
		{"describe", s.describeGroup}, {"reset", s.resetGroup}, {"delete", s.deleteGroup},
	} {
		t.Run(step.name, step.run)
	}
	n.Stop(t)
	t.Run("dump", func(t *testing.T) { dumpGroups(t, n) })
}

const groupRecords = 100

// consoleProtocols are the protocols of the Java consumer by the group that uses them.
var consoleProtocols = map[string]string{"console-classic": "classic", "console-consumer": "consumer"}

// consoleGroups reads a topic once in every group, and nothing the second time.
func (s *suite) consoleGroups(t *testing.T) {
	s.tool(t, "topics", "--create", "--topic", "grouped", "--partitions", "3")
	var in strings.Builder
	for i := range groupRecords {
		fmt.Fprintf(&in, "k%d\tv%d\n", i, i)
	}
	r := kafka.Run(t, in.String(), "console-producer", "--bootstrap-server", s.n.Addr, "--topic", "grouped",
		"--reader-property", "parse.key=true")
	if r.Code != 0 {
		t.Fatalf("%s%s", r.Stdout, r.Stderr)
	}
	for group, protocol := range consoleProtocols {
		for _, want := range []int{groupRecords, 0} {
			r := kafka.Run(t, "", "console-consumer", "--bootstrap-server", s.n.Addr, "--topic", "grouped", "--group", group,
				"--from-beginning", "--timeout-ms", "4000", "--command-property", "group.protocol="+protocol)
			lines := strings.Fields(r.Stdout)
			slices.Sort(lines)
			if len(lines) != want || len(slices.Compact(lines)) != want {
				t.Fatalf("%s got %d records, want %d\n%s", group, len(lines), want, r.Stderr)
			}
		}
	}
}

func (s *suite) listGroups(t *testing.T) {
	contains(t, s.tool(t, "consumer-groups", "--list"), `(?m)^console-classic$`, `(?m)^console-consumer$`)
	contains(t, s.tool(t, "consumer-groups", "--list", "--state"), `console-classic\s+Empty`)
	contains(t, s.tool(t, "consumer-groups", "--list", "--type"), `console-classic\s+Classic`, `console-consumer\s+Consumer`)
	contains(t, s.tool(t, "groups", "--list"), `console-classic\s+Classic\s+consumer`, `console-consumer\s+Consumer\s+consumer`)
	if out := s.tool(t, "groups", "--list", "--group-type", "consumer"); strings.Contains(out, "console-classic") {
		t.Errorf("a classic group is listed as one of the consumer protocol:\n%s", out)
	}
	if out := s.tool(t, "consumer-groups", "--list", "--state", "stable"); strings.Contains(out, "console-") {
		t.Errorf("an empty group is listed as stable:\n%s", out)
	}
}

// liveGroup has members of both protocols in groups of their own while the tools look at them.
func (s *suite) liveGroup(t *testing.T) {
	for protocol, assignor := range map[string]string{"classic": "range", "consumer": "uniform"} {
		group := "live-" + protocol
		member := kafka.Java(t, "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", s.n.Addr, "--topic",
			"grouped", "--group", group, "--from-beginning", "--command-property", "group.protocol="+protocol,
			"--command-property", "group.instance.id=one")
		if err := member.Start(); err != nil {
			t.Fatal(err)
		}
		s.eventually(t, `Stable`, "consumer-groups", "--describe", "--group", group, "--state")
		s.eventually(t, `grouped\s+2\s+\d+\s+\d+\s+0\s+`, "consumer-groups", "--describe", "--group", group)
		contains(t, s.tool(t, "consumer-groups", "--describe", "--group", group, "--state"), assignor+`\s+Stable\s+1`)
		contains(t, s.tool(t, "consumer-groups", "--describe", "--group", group, "--members", "--verbose"),
			`\sone\s.*grouped.*0.*1.*2`)
		s.complains(t, "GroupNotEmptyException", "--delete", "--group", group)
		s.complains(t, "the current state is Stable", "--reset-offsets", "--group", group, "--topic", "grouped", "--to-earliest",
			"--execute")
		s.complains(t, "GroupSubscribedToTopicException", "--delete-offsets", "--group", group, "--topic", "grouped")
		_ = member.Process.Kill()
		_ = member.Wait()
	}
}

// complains runs kafka-consumer-groups, which ends with 0 whatever goes wrong.
func (s *suite) complains(t *testing.T, want string, args ...string) {
	t.Helper()
	r := kafka.Run(t, "", "consumer-groups", append([]string{"--bootstrap-server", s.n.Addr}, args...)...)
	if out := r.Stdout + r.Stderr; !strings.Contains(out, "Error: ") || !strings.Contains(out, want) {
		t.Errorf("kafka-consumer-groups %q: want an error with %q\n%s", args, want, out)
	}
}

// eventually runs a tool until its output matches.
func (s *suite) eventually(t *testing.T, want, name string, args ...string) {
	t.Helper()
	var r kafka.Result
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
		r = kafka.Run(t, "", name, append([]string{"--bootstrap-server", s.n.Addr}, args...)...)
		if regexp.MustCompile(want).MatchString(r.Stdout) {
			return
		}
	}
	t.Fatalf("kafka-%s %q never says %q:\n%s%s", name, args, want, r.Stdout, r.Stderr)
}

func (s *suite) describeGroup(t *testing.T) {
	for group := range consoleProtocols {
		contains(t, s.tool(t, "consumer-groups", "--describe", "--group", group),
			`GROUP\s+TOPIC\s+PARTITION\s+CURRENT-OFFSET\s+LOG-END-OFFSET\s+LAG\s+CONSUMER-ID\s+HOST\s+CLIENT-ID`,
			group+`\s+grouped\s+[012]\s+\d+\s+\d+\s+0\s+-\s+-\s+-`)
	}
	s.complains(t, "GroupIdNotFoundException", "--describe", "--group", "nobody")
}

func (s *suite) resetGroup(t *testing.T) {
	for group := range consoleProtocols {
		file := filepath.Join(t.TempDir(), "offsets.csv")
		s.tool(t, "consumer-groups", "--reset-offsets", "--group", group, "--topic", "grouped", "--to-earliest", "--execute")
		contains(t, s.tool(t, "consumer-groups", "--describe", "--group", group), `grouped\s+1\s+0\s+(\d+)\s+`)
		s.tool(t, "consumer-groups", "--reset-offsets", "--group", group, "--topic", "grouped:1", "--shift-by", "2", "--execute")
		contains(t, s.tool(t, "consumer-groups", "--describe", "--group", group), `grouped\s+1\s+2\s+`)
		out := s.tool(t, "consumer-groups", "--reset-offsets", "--group", group, "--all-topics", "--to-current", "--export", "--dry-run")
		if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
		s.tool(t, "consumer-groups", "--reset-offsets", "--group", group, "--all-topics", "--to-latest", "--execute")
		s.tool(t, "consumer-groups", "--reset-offsets", "--group", group, "--from-file", file, "--execute")
		contains(t, s.tool(t, "consumer-groups", "--describe", "--group", group), `grouped\s+1\s+2\s+`)
	}
}

func (s *suite) deleteGroup(t *testing.T) {
	s.tool(t, "consumer-groups", "--delete-offsets", "--group", "console-classic", "--topic", "grouped:1")
	if out := s.tool(t, "consumer-groups", "--describe", "--group", "console-classic"); regexp.MustCompile(`grouped\s+1`).MatchString(out) {
		t.Errorf("a deleted offset is still there:\n%s", out)
	}
	s.tool(t, "consumer-groups", "--delete", "--group", "console-classic")
	if out := s.tool(t, "consumer-groups", "--list"); strings.Contains(out, "console-classic") {
		t.Errorf("a deleted group is listed:\n%s", out)
	}
}

// dumpGroups has Apache Kafka's own tool decode what a stopped node wrote about its groups.
func dumpGroups(t *testing.T, n *process.Node) {
	files, err := filepath.Glob(filepath.Join(n.LogDir, "__consumer_offsets-*", "*.log"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	out := dump(t, files, "--offsets-decoder", "--deep-iteration")
	contains(t, out, `"group":"console-classic","topic":"grouped","partition":2`, `"offset":\d+`, `"commitTimestamp":\d+`,
		`GROUP_METADATA|"protocolType":"consumer"`, `"assignmentEpoch":\d+`, `"subscribedTopicNames":\["grouped"\]`,
		`"groupInstanceId":"one"|"instanceId":"one"`)
	for line := range strings.Lines(out) {
		if strings.Contains(line, "key: ") && !strings.Contains(line, "key: {") && strings.Contains(line, "| offset") {
			t.Errorf("a record is not decoded: %s", line)
			break
		}
	}
}
