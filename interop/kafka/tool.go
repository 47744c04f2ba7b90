package kafka

import (
	"context"
	"os/exec"
	"testing"
)

// tools maps a script's name (kafka-NAME.sh) to its class.
var tools = map[string]string{
	"streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
	"topics":                    "org.apache.kafka.tools.TopicCommand",
	"configs":                   "org.apache.kafka.tools.ConfigCommand",
	"console-producer":          "org.apache.kafka.tools.ConsoleProducer",
	"console-consumer":          "org.apache.kafka.tools.consumer.ConsoleConsumer",
	"consumer-groups":           "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
	"groups":                    "org.apache.kafka.tools.GroupsCommand",
	"get-offsets":               "org.apache.kafka.tools.GetOffsetShell",
	"delete-records":            "org.apache.kafka.tools.DeleteRecordsCommand",
	"dump-log":                  "org.apache.kafka.tools.DumpLogSegments",
	"producer-perf-test":        "org.apache.kafka.tools.ProducerPerformance",
	"features":                  "org.apache.kafka.tools.FeatureCommand",
	"metadata-quorum":           "org.apache.kafka.tools.MetadataQuorumCommand",
	"broker-api-versions":       "org.apache.kafka.tools.BrokerApiVersionsCommand",
	"leader-election":           "org.apache.kafka.tools.LeaderElectionCommand",
	"log-dirs":                  "org.apache.kafka.tools.LogDirsCommand",
	"cluster":                   "org.apache.kafka.tools.ClusterTool",
	"storage":                   "kafka.tools.StorageTool",
	"transactions":              "org.apache.kafka.tools.TransactionsCommand",
	"reassign-partitions":       "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
}

// Result is what a tool printed and how it ended.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Run runs a tool by its script's name (topics for kafka-topics.sh) or class, with stdin as its input. The caller
// judges the exit code.
func Run(t testing.TB, stdin, name string, args ...string) Result {
	t.Helper()
	return run(t, append([]string{class(name), stdin}, args...))
}

// Tool runs a tool that must succeed and returns its standard output.
func Tool(t testing.TB, name string, args ...string) string {
	t.Helper()
	r := Run(t, "", name, args...)
	if r.Code != 0 {
		t.Fatalf("kafka-%s %q ended with %d\n%s%s", name, args, r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

func class(name string) string {
	if c, ok := tools[name]; ok {
		return c
	}
	return name
}

func java(ctx context.Context, t testing.TB, libs string, jvm []string, class string, args ...string) *exec.Cmd {
	t.Helper()
	conf, err := log4jFile()
	if err != nil {
		t.Fatal(err)
	}
	all := append(jvm, "-Dlog4j2.configurationFile="+conf, "-Dlog4j2.disable.jmx=true", "-cp", libs+"/*", class)
	return exec.CommandContext(ctx, "java", append(all, args...)...)
}

// Java is a command that runs a class, or a program in one source file, against the jars of Apache Kafka. The caller
// starts it and waits for its end.
func Java(t testing.TB, program string, args ...string) *exec.Cmd {
	t.Helper()
	return java(context.Background(), t, Libs(t), smallJVM("-Xmx256m"), program, args...)
}

// Connect is Java with the jars of Kafka Connect.
func Connect(t testing.TB, class string, args ...string) *exec.Cmd {
	t.Helper()
	return java(context.Background(), t, ConnectLibs(t), smallJVM("-Xmx512m"), class, args...)
}

// smallJVM are the options of a JVM that starts fast and shares its cores.
func smallJVM(heap string) []string {
	return []string{heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
}
