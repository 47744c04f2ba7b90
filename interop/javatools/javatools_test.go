// Package javatools runs Apache Kafka's own command line tools, and so its Java client, against the broker, and its
// log dump tool on the files the broker wrote.
package javatools

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"moldau/interop/broker"
	"moldau/interop/kafka"
	"moldau/interop/process"
)

// TestTools runs in order: later steps look at what earlier ones left.
func TestTools(t *testing.T) {
	kafka.Libs(t)
	n := broker.Start(t)
	s := &suite{n: n}
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"topics", s.topics}, {"configs", s.configs}, {"broker configs", s.brokerConfigs}, {"console", s.console},
		{"offsets", s.offsets}, {"delete records", s.deleteRecords}, {"producer perf", s.perf},
		{"features", s.features}, {"quorum", s.quorum}, {"log dirs", s.logDirs}, {"election", s.election},
		{"cluster", s.cluster}, {"api versions", s.apiVersions},
		{"delete topics", s.deleteTopics},
	} {
		t.Run(step.name, step.run)
	}
	n.Stop(t)
	t.Run("dump", func(t *testing.T) { Dump(t, n) })
}

type suite struct{ n *process.Node }

// tool runs a tool on the broker and returns what it printed.
func (s *suite) tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	return kafka.Tool(t, name, append([]string{"--bootstrap-server", s.n.Addr}, args...)...)
}

// fails runs a tool that must end with an error that says want.
func (s *suite) fails(t *testing.T, want, name string, args ...string) {
	t.Helper()
	r := kafka.Run(t, "", name, append([]string{"--bootstrap-server", s.n.Addr}, args...)...)
	if r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, want) {
		t.Errorf("kafka-%s %q: code %d, want an error with %q\n%s%s", name, args, r.Code, want, r.Stdout, r.Stderr)
	}
}

func contains(t *testing.T, out string, wants ...string) {
	t.Helper()
	for _, w := range wants {
		if !regexp.MustCompile(w).MatchString(out) {
			t.Errorf("output lacks %q:\n%s", w, out)
		}
	}
}

func (s *suite) topics(t *testing.T) {
	s.tool(t, "topics", "--create", "--topic", "one", "--partitions", "3", "--replication-factor", "1",
		"--config", "segment.bytes=1048576")
	s.tool(t, "topics", "--create", "--topic", "two")
	s.tool(t, "topics", "--create", "--topic", "one", "--if-not-exists")
	s.fails(t, "TopicExistsException", "topics", "--create", "--topic", "one")
	s.tool(t, "topics", "--alter", "--topic", "one", "--partitions", "4")
	contains(t, s.tool(t, "topics", "--list"), `(?m)^one$`, `(?m)^two$`)
	contains(t, s.tool(t, "topics", "--describe", "--topic", "one"), `PartitionCount: 4`, `segment.bytes=1048576`,
		`Topic: one\s+Partition: 3\s+Leader: 1\s+Replicas: 1\s+Isr: 1\s+Elr: \s*LastKnownElr:`)
	s.fails(t, "does not exist", "topics", "--describe", "--topic", "three")
}

func (s *suite) configs(t *testing.T) {
	s.tool(t, "configs", "--alter", "--topic", "one", "--add-config", "retention.ms=12345678,cleanup.policy=[compact,delete]")
	contains(t, s.tool(t, "configs", "--describe", "--topic", "one"),
		`retention.ms=12345678 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:retention.ms=12345678`,
		`cleanup.policy=compact,delete`)
	s.tool(t, "configs", "--alter", "--topic", "one", "--delete-config", "retention.ms,cleanup.policy")
	contains(t, s.tool(t, "configs", "--describe", "--topic", "one", "--all"), `retention.ms=604800000`,
		`cleanup.policy=delete`, `min.insync.replicas=1`)
	s.fails(t, "InvalidConfigurationException", "configs", "--alter", "--topic", "one", "--add-config", "no.such=1")
}

func (s *suite) brokerConfigs(t *testing.T) {
	s.tool(t, "configs", "--alter", "--broker", "1", "--add-config", "log.cleaner.threads=2")
	contains(t, s.tool(t, "configs", "--describe", "--broker", "1"), `log.cleaner.threads=2`,
		`DYNAMIC_BROKER_CONFIG`)
	s.tool(t, "configs", "--alter", "--broker", "1", "--delete-config", "log.cleaner.threads")
	s.tool(t, "configs", "--alter", "--broker-defaults", "--add-config", "log.retention.ms=99999999")
	contains(t, s.tool(t, "configs", "--describe", "--broker-defaults"), `log.retention.ms=99999999`)
	s.tool(t, "configs", "--alter", "--broker-defaults", "--delete-config", "log.retention.ms")
	s.fails(t, "InvalidRequestException", "configs", "--alter", "--broker", "1",
		"--add-config", "node.id=7")
}

func (s *suite) console(t *testing.T) {
	for i, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		var in strings.Builder
		for j := range 200 {
			fmt.Fprintf(&in, "h1:%d,h2:x\tk%d\tvalue %d\n", j, j%7, 200*i+j)
		}
		r := kafka.Run(t, in.String(), "console-producer", "--bootstrap-server", s.n.Addr, "--topic", "two",
			"--compression-codec", codec, "--reader-property", "parse.key=true", "--reader-property",
			"parse.headers=true")
		if r.Code != 0 || strings.Contains(r.Stderr, "ERROR") {
			t.Fatalf("console producer with %s: %d\n%s%s", codec, r.Code, r.Stdout, r.Stderr)
		}
	}
	var values []string
	for p := range 4 {
		out := kafka.Tool(t, "console-consumer", "--bootstrap-server", s.n.Addr, "--topic", "two", "--partition",
			fmt.Sprint(p), "--offset", "earliest", "--timeout-ms", "3000", "--formatter-property", "print.key=true",
			"--formatter-property", "print.headers=true", "--formatter-property", "print.offset=true",
			"--formatter-property", "print.timestamp=true")
		for line := range strings.Lines(out) {
			f := strings.Split(strings.TrimSpace(line), "\t")
			if len(f) != 5 || !strings.HasPrefix(f[0], "CreateTime:") || !strings.HasPrefix(f[2], "h1:") {
				t.Fatalf("consumed line %q", line)
			}
			values = append(values, f[4])
		}
	}
	slices.Sort(values)
	if len(values) != 1000 || len(slices.Compact(values)) != 1000 {
		t.Errorf("%d values came back, want 1000 different ones", len(values))
	}
}

func (s *suite) offsets(t *testing.T) {
	sum := 0
	for line := range strings.Lines(s.tool(t, "get-offsets", "--topic", "two")) {
		var n int
		if _, err := fmt.Sscanf(line[strings.LastIndex(line, ":")+1:], "%d", &n); err != nil {
			t.Fatalf("line %q", line)
		}
		sum += n
	}
	if sum != 1000 {
		t.Errorf("end offsets sum to %d, want 1000", sum)
	}
	contains(t, s.tool(t, "get-offsets", "--topic", "two", "--time", "-2"), `two:0:0`, `two:3:0`)
	contains(t, s.tool(t, "get-offsets", "--topic", "two", "--time", "max-timestamp"), `two:0:\d+`)
	contains(t, s.tool(t, "get-offsets", "--topic-partitions", "two:1", "--time", "1"), `(?m)^two:1:0$`)
}

func (s *suite) deleteRecords(t *testing.T) {
	file := filepath.Join(t.TempDir(), "offsets.json")
	body := `{"partitions":[{"topic":"two","partition":0,"offset":-1},{"topic":"two","partition":1,"offset":1}],"version":1}`
	if err := os.WriteFile(file, []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
	contains(t, s.tool(t, "delete-records", "--offset-json-file", file), `partition: two-1\s+low_watermark: 1`,
		`partition: two-0\s+low_watermark: \d+`)
	contains(t, s.tool(t, "get-offsets", "--topic", "two", "--time", "earliest"), `two:1:1`)
}

func (s *suite) perf(t *testing.T) {
	contains(t, kafka.Tool(t, "producer-perf-test", "--bootstrap-server", s.n.Addr, "--topic", "one", "--num-records",
		"5000", "--record-size", "1000", "--throughput", "-1"), `5000 records sent`)
}

func (s *suite) features(t *testing.T) {
	contains(t, s.tool(t, "features", "describe"),
		`Feature: metadata.version\s+SupportedMinVersion: \S+\s+SupportedMaxVersion: 4.4-IV2\s+FinalizedVersionLevel: 4.4-IV2`,
		`Feature: kraft.version.*FinalizedVersionLevel: 1`, `Feature: transaction.version.*FinalizedVersionLevel: 2`,
		`Feature: group.version.*FinalizedVersionLevel: 1`)
	s.fails(t, "", "features", "upgrade", "--feature", "no.such=2")
}

func (s *suite) quorum(t *testing.T) {
	contains(t, s.tool(t, "metadata-quorum", "describe", "--status"), `LeaderId:\s+1`, `LeaderEpoch:\s+\d+`,
		`HighWatermark:\s+\d+`, `CurrentVoters:\s+\[\{"id": 1, "directoryId": ".*"`)
	contains(t, s.tool(t, "metadata-quorum", "describe", "--replication", "--human-readable"), `(?m)^1\s.*Leader`)
}

func (s *suite) logDirs(t *testing.T) {
	out := s.tool(t, "log-dirs", "--describe", "--topic-list", "one,two")
	at := strings.Index(out, "{")
	var d struct {
		Brokers []struct {
			Broker  int
			LogDirs []struct {
				LogDir     string
				Error      any
				Partitions []struct {
					Partition string
					Size      int64
				}
			}
		}
	}
	if at < 0 || json.Unmarshal([]byte(out[at:]), &d) != nil {
		t.Fatalf("no JSON in\n%s", out)
	}
	if len(d.Brokers) != 1 || len(d.Brokers[0].LogDirs) != 1 || len(d.Brokers[0].LogDirs[0].Partitions) != 8 ||
		d.Brokers[0].LogDirs[0].LogDir != s.n.LogDir {
		t.Errorf("log dirs %+v", d)
	}
}

func (s *suite) election(t *testing.T) {
	// Nothing to elect is a success without words.
	s.tool(t, "leader-election", "--election-type", "preferred", "--all-topic-partitions")
	s.fails(t, "", "leader-election", "--election-type", "preferred", "--topic", "nope", "--partition", "0")
}

func (s *suite) cluster(t *testing.T) {
	contains(t, kafka.Tool(t, "cluster", "cluster-id", "--bootstrap-server", s.n.Addr), `Cluster ID: \S{22}`)
	contains(t, kafka.Tool(t, "cluster", "list-endpoints", "--bootstrap-server", s.n.Addr), `(?m)^1\s+127.0.0.1\s+\d+`)
}

func (s *suite) apiVersions(t *testing.T) {
	out := s.tool(t, "broker-api-versions")
	contains(t, out, `\(id: 1 rack: null`, `Produce\(0\): 0 to 13`, `Fetch\(1\): 4 to 18`, `ApiVersions\(18\): 0 to `)
}

func (s *suite) deleteTopics(t *testing.T) {
	s.tool(t, "topics", "--create", "--topic", "gone")
	s.tool(t, "topics", "--delete", "--topic", "gone")
	// Apache Kafka answers before the broker has heard of the deletion.
	for i := 0; strings.Contains(s.tool(t, "topics", "--list"), "gone"); i++ {
		if i == 50 {
			t.Fatal("the deleted topic is still listed")
		}
	}
}
