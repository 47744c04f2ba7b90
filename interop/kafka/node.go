package kafka

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"moldau/interop/process"
)

// ClusterID of every directory the suites format.
const ClusterID = "MoldauInteropClusterId"

// NodeID of every single node the suites start.
const NodeID = 1

// Start formats a directory and starts a single combined node (broker and controller) on free ports; config adds
// keys to its server.properties.
func Start(t testing.TB, config map[string]string) *process.Node {
	t.Helper()
	dir := t.TempDir()
	props := Properties(t, filepath.Join(dir, "data"), config)
	file := WriteProperties(t, dir, props)
	Tool(t, "storage", "format", "--standalone", "-t", ClusterID, "-c", file)
	n := Open(t, file, props)
	n.Start(t)
	return n
}

// Properties returns the configuration of a single combined node with its data in logDir, on free ports. Moldau
// accepts the same file.
func Properties(t testing.TB, logDir string, config map[string]string) map[string]string {
	t.Helper()
	port, controller := process.FreePort(t), process.FreePort(t)
	props := map[string]string{
		"process.roles":                       "broker,controller",
		"node.id":                             fmt.Sprint(NodeID),
		"controller.quorum.bootstrap.servers": fmt.Sprintf("127.0.0.1:%d", controller),
		"listeners":                           fmt.Sprintf("PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", port, controller),
		"advertised.listeners": fmt.Sprintf("PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d",
			port, controller),
		"controller.listener.names":                "CONTROLLER",
		"inter.broker.listener.name":               "PLAINTEXT",
		"log.dirs":                                 logDir,
		"offsets.topic.replication.factor":         "1",
		"transaction.state.log.replication.factor": "1",
		"transaction.state.log.min.isr":            "1",
	}
	maps.Copy(props, config)
	return props
}

// WriteProperties writes a server.properties into dir and returns its path.
func WriteProperties(t testing.TB, dir string, props map[string]string) string {
	t.Helper()
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(props)) {
		fmt.Fprintf(&b, "%s=%s\n", k, props[k])
	}
	path := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Open describes a real node on a directory that is formatted already (by Apache Kafka or by Moldau).
func Open(t testing.TB, file string, props map[string]string) *process.Node {
	t.Helper()
	output := filepath.Join(filepath.Dir(file), "kafka.out")
	return process.New("Apache Kafka", Address(props), props["log.dirs"], output, func() *exec.Cmd {
		jvm := append(smallJVM("-Xmx384m"), "-Dkafka.log=WARN")
		return java(context.Background(), t, Libs(t), jvm, "kafka.Kafka", file)
	})
}

// Address of the first listener of props.
func Address(props map[string]string) string {
	first, _, _ := strings.Cut(props["listeners"], ",")
	_, addr, _ := strings.Cut(first, "://")
	return addr
}
