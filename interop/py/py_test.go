// Package py runs kafka-python, a client in Python, against the broker.
package py

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"moldau/interop/broker"
	"moldau/interop/need"
	"moldau/interop/process"
)

func TestKafkaPython(t *testing.T) {
	python := venv(t)
	n := broker.Start(t)
	process.Checks(t, exec.Command(python, "kafka_python.py", n.Addr), 14)
	n.Stop(t)
}

// venv returns the interpreter of a virtual environment with the pinned requirements, made on first use.
func venv(t *testing.T) string {
	t.Helper()
	python := filepath.Join(".venv", "bin", "python")
	if exec.Command(python, "-c", "import kafka").Run() == nil {
		return python
	}
	for _, args := range [][]string{
		{need.Tool(t, "python3"), "-m", "venv", ".venv"},
		{python, "-m", "pip", "install", "-q", "-r", "requirements.txt"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			_ = os.RemoveAll(".venv")
			need.Missing(t, "%q: %v\n%s", args, err, out)
		}
	}
	return python
}
