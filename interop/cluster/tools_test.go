package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/interop/kafka"
	"moldau/interop/process"
)

// tools drives Apache Kafka's administrative tools.
type tools struct {
	c   *trio
	dir string
}

// TestTools runs in order: later steps look at what earlier ones left.
func TestTools(t *testing.T) {
	kafka.Libs(t)
	// A controller that is removed must not come back by itself.
	s := &tools{c: start(t, false, map[string]string{"controller.quorum.auto.join.enable": "false"}), dir: t.TempDir()}
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"topics", s.topics}, {"reassign", s.reassign}, {"throttled", s.throttled}, {"election", s.election},
		{"replica verification", s.replicaVerification}, {"log dirs", s.logDirs}, {"configs", s.configs},
		{"api versions", s.apiVersions}, {"features", s.features}, {"cluster", s.cluster}, {"quorum", s.quorum},
		{"controllers", s.controllers}, {"unregister", s.unregister}, {"metadata log", s.metadataLog},
	} {
		t.Run(step.name, step.run)
	}
}

func (s *tools) tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	return kafka.Tool(t, name, append([]string{"--bootstrap-server", s.c.all()}, args...)...)
}

// fails runs a tool that must end with an error that says want.
func (s *tools) fails(t *testing.T, want, name string, args ...string) {
	t.Helper()
	r := kafka.Run(t, "", name, append([]string{"--bootstrap-server", s.c.all()}, args...)...)
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

// untilTool runs a tool until it prints what is wanted: tools are answered before all brokers have heard of a change.
func (s *tools) untilTool(t *testing.T, want, name string, args ...string) {
	t.Helper()
	re, last := regexp.MustCompile(want), ""
	eventually(t, fmt.Sprintf("kafka-%s %q says %q", name, args, want), func() bool {
		r := kafka.Run(t, "", name, append([]string{"--bootstrap-server", s.c.all()}, args...)...)
		if out := r.Stdout + r.Stderr; out != last {
			t.Log(out)
			last = out
		}
		return r.Code == 0 && re.MatchString(r.Stdout)
	})
}

func (s *tools) topics(t *testing.T) {
	s.tool(t, "topics", "--create", "--topic", "one", "--replica-assignment", "1:2:3,2:3:1,3:1:2")
	s.tool(t, "topics", "--create", "--topic", "two", "--partitions", "6", "--replication-factor", "2")
	s.fails(t, "InvalidReplicationFactorException", "topics", "--create", "--topic", "four", "--replication-factor", "4")
	s.untilTool(t, `Topic: one\s+Partition: 1\s+Leader: 2\s+Replicas: 2,3,1\s+Isr: [123],[123],[123]\s`, "topics", "--describe",
		"--topic", "one")
	s.untilTool(t, `PartitionCount: 6\s+ReplicationFactor: 2`, "topics", "--describe", "--topic", "two")
	for _, only := range []string{"--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions"} {
		if out := s.tool(t, "topics", "--describe", only); strings.Contains(out, "Partition:") {
			t.Errorf("%s lists\n%s", only, out)
		}
	}
	s.write(t, "one", 300)
	s.write(t, "two", 300)
}

// write writes records of 10 kB that are acknowledged by all in sync.
func (s *tools) write(t *testing.T, topic string, n int) {
	t.Helper()
	cl := s.c.client(t, kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0))
	for i := range n {
		cl.Produce(context.Background(), &kgo.Record{Topic: topic, Key: fmt.Append(nil, i), Value: make([]byte, 10000)},
			func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
	}
	if err := cl.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// plan writes a reassignment of partitions of a topic to a file.
func (s *tools) plan(t *testing.T, topic string, replicas ...[]int) string {
	t.Helper()
	type partition struct {
		Topic     string `json:"topic"`
		Partition int    `json:"partition"`
		Replicas  []int  `json:"replicas"`
	}
	var all []partition
	for i, r := range replicas {
		all = append(all, partition{topic, i, r})
	}
	b, err := json.Marshal(map[string]any{"version": 1, "partitions": all})
	if err != nil {
		t.Fatal(err)
	}
	return s.file(t, topic+".json", string(b))
}

func (s *tools) file(t *testing.T, name, body string) string {
	t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func (s *tools) reassign(t *testing.T) {
	topics := s.file(t, "topics.json", `{"version":1,"topics":[{"topic":"two"}]}`)
	contains(t, s.tool(t, "reassign-partitions", "--generate", "--topics-to-move-json-file", topics, "--broker-list", "1,2"),
		`Current partition replica assignment`, `Proposed partition reassignment configuration`,
		`"topic":"two","partition":5,"replicas":\[[12],[12]\]`)
	plan := s.plan(t, "two", []int{1, 2}, []int{2, 1}, []int{1, 2}, []int{2, 1}, []int{1, 2}, []int{2, 1})
	contains(t, s.tool(t, "reassign-partitions", "--execute", "--reassignment-json-file", plan, "--throttle", "50000000"),
		`The inter-broker throttle limit was set to 50000000 B/s`, `Successfully started partition reassignments? for two-0`)
	s.untilTool(t, `(?s)Reassignment of partition two-0 is completed.*Reassignment of partition two-5 is completed`,
		"reassign-partitions", "--verify", "--reassignment-json-file", plan, "--preserve-throttles")
	contains(t, s.tool(t, "configs", "--describe", "--broker", "1"), `leader.replication.throttled.rate=50000000`)
	contains(t, s.tool(t, "reassign-partitions", "--verify", "--reassignment-json-file", plan),
		`Clearing broker-level throttles on brokers 1,2,3`, `Clearing topic-level throttles on topic two`)
	if out := s.tool(t, "configs", "--describe", "--broker", "1"); strings.Contains(out, "throttled") {
		t.Errorf("throttles are left:\n%s", out)
	}
	s.fails(t, "", "reassign-partitions", "--execute", "--reassignment-json-file", s.plan(t, "nothing", []int{1}))
}

// throttled cancels a reassignment that a throttle keeps from ending.
func (s *tools) throttled(t *testing.T) {
	s.tool(t, "topics", "--create", "--topic", "slow", "--replica-assignment", "1:2")
	s.write(t, "slow", 500)
	plan := s.plan(t, "slow", []int{1, 3})
	s.tool(t, "reassign-partitions", "--execute", "--reassignment-json-file", plan, "--throttle", "1000")
	contains(t, s.tool(t, "reassign-partitions", "--list"), `slow-0: replicas: [123],[123],[123]. adding: 3. removing: 2.`)
	contains(t, s.tool(t, "reassign-partitions", "--verify", "--reassignment-json-file", plan),
		`Reassignment of partition slow-0 is still in progress`)
	s.fails(t, "", "reassign-partitions", "--execute", "--reassignment-json-file", plan)
	contains(t, s.tool(t, "reassign-partitions", "--execute", "--additional", "--reassignment-json-file", plan, "--throttle",
		"1000"), `slow-0`)
	contains(t, s.tool(t, "reassign-partitions", "--cancel", "--reassignment-json-file", plan), `Successfully cancelled partition `+
		`reassignment for: slow-0`)
	s.untilTool(t, `No partition reassignments found`, "reassign-partitions", "--list")
	s.untilTool(t, `Topic: slow\s+Partition: 0\s+Leader: 1\s+Replicas: 1,2\s+Isr: [12],[12]\s`, "topics", "--describe",
		"--topic", "slow")
}

func (s *tools) election(t *testing.T) {
	plan := s.plan(t, "one", []int{2, 1, 3}, []int{3, 1, 2}, []int{1, 2, 3})
	s.tool(t, "reassign-partitions", "--execute", "--reassignment-json-file", plan)
	s.untilTool(t, `(?s)one-0 is completed.*one-1 is completed.*one-2 is completed`, "reassign-partitions", "--verify",
		"--reassignment-json-file", plan)
	s.untilTool(t, `Topic: one\s+Partition: 0\s+Leader: 1\s+Replicas: 2,1,3\s`, "topics", "--describe", "--topic", "one")
	contains(t, s.tool(t, "leader-election", "--election-type", "preferred", "--topic", "one", "--partition", "0"),
		`Successfully completed leader election \(PREFERRED\) for partitions one-0`)
	contains(t, s.tool(t, "leader-election", "--election-type", "preferred", "--topic", "one", "--partition", "0"),
		`Valid replica already elected for partitions one-0`)
	contains(t, s.tool(t, "leader-election", "--election-type", "preferred", "--all-topic-partitions"),
		`Successfully completed leader election \(PREFERRED\) for partitions one-1, one-2|`+
			`Successfully completed leader election \(PREFERRED\) for partitions one-2, one-1`)
	contains(t, s.tool(t, "leader-election", "--election-type", "unclean", "--topic", "one", "--partition", "1"),
		`Valid replica already elected for partitions one-1`)
	s.untilTool(t, `Topic: one\s+Partition: 1\s+Leader: 3\s`, "topics", "--describe", "--topic", "one")
}

// replicaVerification compares replicas until it is ended.
func (s *tools) replicaVerification(t *testing.T) {
	p := process.NewProgram(t, t.TempDir(), func() *exec.Cmd {
		return kafka.Java(t, "org.apache.kafka.tools.ReplicaVerificationTool", "--broker-list", s.c.all(), "--topics-include",
			"one|two", "--report-interval-ms", "500")
	})
	p.Start()
	done := regexp.MustCompile(`max lag is 0 for partition (one|two)-\d+ at offset \d+ among 9 partitions`)
	eventually(t, "no replica lags", func() bool {
		p.MustRun()
		return done.MatchString(p.Tail())
	})
	if out := p.Tail(); strings.Contains(out, "doesn't match") || strings.Contains(out, "Exception") {
		t.Error(out)
	}
	p.End(syscall.SIGTERM)
}

func (s *tools) logDirs(t *testing.T) {
	out := s.tool(t, "log-dirs", "--describe", "--topic-list", "one", "--broker-list", "1,2,3")
	for _, id := range s.c.ids() {
		contains(t, out, fmt.Sprintf(`"broker":%d`, id), regexp.QuoteMeta(s.c.nodes[id].LogDir))
	}
	if n := strings.Count(out, `"partition":"one-`); n != 9 {
		t.Errorf("%d replicas of one in\n%s", n, out)
	}
}

func (s *tools) configs(t *testing.T) {
	const key = "log.retention.ms"
	s.tool(t, "configs", "--alter", "--broker", "2", "--add-config", key+"=2000000000")
	s.untilTool(t, key+`=2000000000 sensitive=false synonyms=\{DYNAMIC_BROKER_CONFIG:`+key+`=2000000000`, "configs",
		"--describe", "--broker", "2")
	if out := s.tool(t, "configs", "--describe", "--broker", "3"); strings.Contains(out, key) {
		t.Errorf("broker 3 has it too:\n%s", out)
	}
	s.tool(t, "configs", "--alter", "--broker-defaults", "--add-config", key+"=3000000000")
	s.untilTool(t, key+`=3000000000 .*DYNAMIC_DEFAULT_BROKER_CONFIG:`+key+`=3000000000`, "configs", "--describe",
		"--broker", "3", "--all")
	s.untilTool(t, key+`=2000000000 .*DYNAMIC_BROKER_CONFIG:`+key+`=2000000000`, "configs", "--describe", "--broker", "2",
		"--all")
	s.tool(t, "configs", "--alter", "--broker", "2", "--delete-config", key)
	s.tool(t, "configs", "--alter", "--broker-defaults", "--delete-config", key)
	s.fails(t, "", "configs", "--alter", "--broker", "2", "--add-config", "log.cleaner.threads=many")
}

func (s *tools) apiVersions(t *testing.T) {
	out := s.tool(t, "broker-api-versions")
	for _, id := range s.c.ids() {
		contains(t, out, fmt.Sprintf(`127.0.0.1:%d \(id: %d rack: null`, s.c.ports[id], id))
	}
	if n := strings.Count(out, "Fetch(1): 4 to 18"); n != size {
		t.Errorf("Fetch of %d brokers in\n%s", n, out)
	}
}

func (s *tools) features(t *testing.T) {
	contains(t, s.tool(t, "features", "describe"), `Feature: kraft.version.*FinalizedVersionLevel: 1`,
		`Feature: metadata.version.*FinalizedVersionLevel: 4.4-IV2`)
	contains(t, s.tool(t, "features", "downgrade", "--feature", "group.version=0", "--dry-run"), `can be downgraded to 0`)
	s.tool(t, "features", "downgrade", "--feature", "group.version=0")
	s.untilTool(t, `Feature: group.version.*FinalizedVersionLevel: 0`, "features", "describe")
	s.tool(t, "features", "upgrade", "--feature", "group.version=1")
	s.untilTool(t, `Feature: group.version.*FinalizedVersionLevel: 1`, "features", "describe")
	s.fails(t, "", "features", "upgrade", "--feature", "group.version=99")
	contains(t, kafka.Tool(t, "features", "--bootstrap-controller", s.c.controller(1), "describe"), `Feature: group.version`)
}

func (s *tools) cluster(t *testing.T) {
	contains(t, kafka.Tool(t, "cluster", "cluster-id", "--bootstrap-server", s.c.all()), `Cluster ID: \S{22}`)
	out := kafka.Tool(t, "cluster", "list-endpoints", "--bootstrap-server", s.c.all())
	for _, id := range s.c.ids() {
		contains(t, out, fmt.Sprintf(`(?m)^%d\s+127.0.0.1\s+%d`, id, s.c.ports[id]))
	}
	out = kafka.Tool(t, "cluster", "list-endpoints", "--bootstrap-controller", s.c.controller(2))
	for _, id := range s.c.ids() {
		contains(t, out, fmt.Sprintf(`(?m)^%d\s+127.0.0.1\s+%d`, id, s.c.ports[id]+controllerStep))
	}
}

func (s *tools) quorum(t *testing.T) {
	s.untilTool(t, `(?s)LeaderId:\s+1\s.*CurrentVoters:\s+\[\{"id": 1, .*"id": 2, .*"id": 3, .*CurrentObservers:\s+\[\]`,
		"metadata-quorum", "describe", "--status")
	contains(t, s.tool(t, "metadata-quorum", "describe", "--replication", "--human-readable"), `(?m)^1\s.*Leader`,
		`(?m)^2\s.*Follower`, `(?m)^3\s.*Follower`)
	contains(t, kafka.Tool(t, "metadata-quorum", "--bootstrap-controller", s.c.controller(1), "describe", "--status"),
		`LeaderId:\s+1\s`)
}

// controllers takes node 3 out of the quorum and in again.
func (s *tools) controllers(t *testing.T) {
	meta, err := os.ReadFile(filepath.Join(s.c.nodes[3].LogDir, "meta.properties"))
	if err != nil {
		t.Fatal(err)
	}
	directory := regexp.MustCompile(`(?m)^directory.id=(\S+)`).FindSubmatch(meta)
	if directory == nil {
		t.Fatalf("no directory id in\n%s", meta)
	}
	s.fails(t, "", "metadata-quorum", "remove-controller", "--controller-id", "7", "--controller-directory-id", string(directory[1]))
	contains(t, s.tool(t, "metadata-quorum", "remove-controller", "--controller-id", "3", "--controller-directory-id",
		string(directory[1])), `Removed KRaft controller 3 with directory id `)
	s.untilTool(t, `(?s)CurrentVoters:\s+\[\{"id": 1, [^}]*\}, \{"id": 2, [^}]*\}\].*CurrentObservers:\s+\[\{"id": 3`,
		"metadata-quorum", "describe", "--status")
	file := kafka.WriteProperties(t, t.TempDir(), map[string]string{
		"process.roles": "broker,controller", "node.id": "3", "log.dirs": s.c.nodes[3].LogDir,
		"listeners":                 fmt.Sprintf("PLAINTEXT://%s,CONTROLLER://%s", s.c.addr(3), s.c.controller(3)),
		"controller.listener.names": "CONTROLLER", "controller.quorum.bootstrap.servers": s.c.controller(1),
		"advertised.listeners": fmt.Sprintf("PLAINTEXT://%s,CONTROLLER://%s", s.c.addr(3), s.c.controller(3)),
	})
	contains(t, kafka.Tool(t, "metadata-quorum", "--bootstrap-server", s.c.all(), "--command-config", file, "add-controller"),
		`Added controller 3 with directory id `)
	s.untilTool(t, `(?s)CurrentVoters:\s+\[\{"id": 1, .*"id": 2, .*"id": 3, .*CurrentObservers:\s+\[\]`,
		"metadata-quorum", "describe", "--status")
}

// unregister has the cluster forget node 3 while it is down, and meet it again.
func (s *tools) unregister(t *testing.T) {
	r := kafka.Run(t, "", "cluster", "unregister", "--bootstrap-server", s.c.all(), "--id", "77")
	if r.Code == 0 {
		t.Errorf("an unknown broker is unregistered: %+v", r)
	}
	s.c.nodes[3].Kill()
	s.c.waitInService(t, 1, 2)
	live := s.c.addr(1) + "," + s.c.addr(2)
	contains(t, kafka.Tool(t, "cluster", "list-endpoints", "--bootstrap-server", live, "--include-fenced-brokers"),
		fmt.Sprintf(`(?m)^3\s+127.0.0.1\s+%d.*fenced`, s.c.ports[3]))
	contains(t, kafka.Tool(t, "cluster", "unregister", "--bootstrap-server", live, "--id", "3"),
		`Broker 3 is no longer registered`)
	s.c.nodes[3].Start(t)
	s.c.waitInService(t, 1, 2, 3)
	s.untilTool(t, `Topic: one\s+Partition: 0\s+Leader: \d\s+Replicas: [123],[123],[123]\s+Isr: [123],[123],[123]\s`, "topics", "--describe",
		"--topic", "one")
}

// metadataLog has Apache Kafka read what each node wrote of the metadata.
func (s *tools) metadataLog(t *testing.T) {
	for _, id := range s.c.ids() {
		s.c.nodes[id].Stop(t)
		files, err := filepath.Glob(filepath.Join(s.c.nodes[id].LogDir, "__cluster_metadata-0", "*.log"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		out := kafka.Tool(t, "dump-log", "--files", strings.Join(files, ","), "--cluster-metadata-decoder", "--deep-iteration")
		contains(t, out, `"type":"TOPIC_RECORD"`, `"type":"PARTITION_CHANGE_RECORD"`, `"type":"REGISTER_BROKER_RECORD"`,
			`"type":"UNREGISTER_BROKER_RECORD"`, `KRaftVoters`, `LeaderChange`)
		if m := regexp.MustCompile(`(?im)^.*(mismatch|isvalid: false|exception|corrupt|unknown record).*$`).FindString(out); m != "" {
			t.Errorf("node %d: %s", id, m)
		}
	}
}
