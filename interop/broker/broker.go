// Package broker starts the broker under test. That is Moldau, built from this repository, or with
// INTEROP_TARGET=kafka a real Apache Kafka node: a suite that passes on the latter and fails on the former has found
// a defect of Moldau and not of itself.
//
// Environment: INTEROP_BIN names a binary that is built already.
package broker

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"moldau/interop/kafka"
	"moldau/interop/process"
)

// IsKafka tells whether the suites run against Apache Kafka.
func IsKafka() bool { return os.Getenv("INTEROP_TARGET") == "kafka" }

// Defaults are the settings every suite runs with, on either broker.
func Defaults() map[string]string {
	return map[string]string{"num.partitions": "4", "group.initial.rebalance.delay.ms": "0"}
}

// Start starts a fresh broker that ends with the test. config is a list of key=value added to Defaults.
func Start(t testing.TB, config ...string) *process.Node {
	t.Helper()
	props := Defaults()
	for _, kv := range config {
		k, v, _ := strings.Cut(kv, "=")
		props[k] = v
	}
	if IsKafka() {
		return kafka.Start(t, props)
	}
	n := Moldau(t, t.TempDir(), props)
	n.Start(t)
	return n
}

// Moldau describes a node of Moldau with its data below dir, as its own quick start would run it.
func Moldau(t testing.TB, dir string, props map[string]string) *process.Node {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", process.FreePort(t))
	data := filepath.Join(dir, "data")
	args := []string{"serve", "--data-dir", data, "--listen", addr, "--set", "moldau.admin.listener="}
	for k, v := range props {
		args = append(args, "--set", k+"="+v)
	}
	bin := Binary(t)
	return process.New("Moldau", addr, data, filepath.Join(dir, "moldau.out"), func() *exec.Cmd {
		return exec.Command(bin, args...)
	})
}

// MoldauConfig describes a node of Moldau that takes a Kafka server.properties.
func MoldauConfig(t testing.TB, file string, props map[string]string) *process.Node {
	t.Helper()
	bin := Binary(t)
	output := filepath.Join(filepath.Dir(file), "moldau.out")
	return process.New("Moldau", kafka.Address(props), props["log.dirs"], output, func() *exec.Cmd {
		return exec.Command(bin, "serve", "--config", file, "--set", "moldau.admin.listener=")
	})
}

// Binary returns the path of the program, built once per test process unless INTEROP_BIN names one.
func Binary(t testing.TB) string {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

var build = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv("INTEROP_BIN"); bin != "" {
		return bin, nil
	}
	root, err := process.Root()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(cache, "moldau-interop", "moldau")
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/moldau")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/moldau: %w\n%s", err, out)
	}
	return bin, nil
})
