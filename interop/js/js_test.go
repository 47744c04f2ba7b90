// Package js runs kafkajs, a client in JavaScript, against the broker.
package js

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"moldau/interop/broker"
	"moldau/interop/need"
	"moldau/interop/process"
)

func TestKafkaJS(t *testing.T) {
	node, npm := need.Tool(t, "node"), need.Tool(t, "npm")
	if _, err := os.Stat(filepath.Join("node_modules", "kafkajs")); err != nil {
		cmd := exec.Command(npm, "install", "--no-package-lock", "--no-audit", "--no-fund")
		if out, err := cmd.CombinedOutput(); err != nil {
			need.Missing(t, "npm install: %v\n%s", err, out)
		}
	}
	n := broker.Start(t)
	process.Checks(t, exec.Command(node, "kafkajs.mjs", n.Addr), 14)
	n.Stop(t)
}
