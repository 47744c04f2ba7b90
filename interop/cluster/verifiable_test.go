package cluster

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"moldau/interop/kafka"
)

// verifiable is a running VerifiableProducer or VerifiableConsumer, which tells what it does in lines of JSON.
type verifiable struct {
	cmd   *exec.Cmd
	ended chan error

	mu    sync.Mutex
	lines []map[string]any
}

func startVerifiable(t *testing.T, class string, args ...string) *verifiable {
	t.Helper()
	v := &verifiable{cmd: kafka.Java(t, "org.apache.kafka.tools."+class, args...), ended: make(chan error, 1)}
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errors, err := os.Create(filepath.Join(t.TempDir(), class))
	if err != nil {
		t.Fatal(err)
	}
	defer errors.Close()
	v.cmd.Stderr = errors
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		in := bufio.NewScanner(out)
		in.Buffer(nil, 1<<24)
		for in.Scan() {
			v.read(in.Bytes())
		}
		v.ended <- v.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = v.cmd.Process.Kill()
		if t.Failed() {
			b, _ := os.ReadFile(errors.Name())
			t.Logf("%s: %s", class, b[max(0, len(b)-4000):])
		}
	})
	return v
}

func (v *verifiable) read(line []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var x map[string]any
	if json.Unmarshal(line, &x) == nil {
		v.lines = append(v.lines, x)
	}
}

// each goes through what was told so far.
func (v *verifiable) each(visit func(name string, x map[string]any)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, x := range v.lines {
		name, _ := x["name"].(string)
		visit(name, x)
	}
}

func (v *verifiable) count(name string) int {
	n := 0
	v.each(func(was string, _ map[string]any) {
		if was == name {
			n++
		}
	})
	return n
}

// end ends it in good order.
func (v *verifiable) end(t *testing.T) {
	t.Helper()
	_ = v.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-v.ended:
	case <-time.After(waitLimit):
		t.Fatal("it does not end")
	}
}

// at is where a record is.
type at struct {
	partition int32
	offset    int64
}

// acked gives the values that were acknowledged, and complains about those that were not.
func (v *verifiable) acked(t *testing.T) map[at]string {
	t.Helper()
	out := map[at]string{}
	v.each(func(name string, x map[string]any) {
		switch name {
		case "producer_send_success":
			partition, _ := x["partition"].(float64)
			offset, _ := x["offset"].(float64)
			value, _ := x["value"].(string)
			out[at{int32(partition), int64(offset)}] = value
		case "producer_send_error":
			t.Errorf("an error surfaces: %v", x)
		}
	})
	return out
}

// consumed gives the records that were read, and complains about any that came twice.
func (v *verifiable) consumed(t *testing.T) map[at]string {
	t.Helper()
	out := map[at]string{}
	v.each(func(name string, x map[string]any) {
		if name == "offsets_committed" && x["success"] != true {
			t.Errorf("an error surfaces: %v", x)
		}
		if name != "record_data" {
			return
		}
		partition, _ := x["partition"].(float64)
		offset, _ := x["offset"].(float64)
		value, _ := x["value"].(string)
		where := at{int32(partition), int64(offset)}
		if _, ok := out[where]; ok {
			t.Errorf("%v is read twice", where)
		}
		out[where] = value
	})
	return out
}

// TestRollingRestart restarts the nodes one after the other under a producer and consumers of either protocol. No error
// surfaces, and every acknowledged record is read once by each group.
func TestRollingRestart(t *testing.T) {
	kafka.Libs(t)
	c := start(t, false, nil)
	kafka.Tool(t, "topics", "--bootstrap-server", c.all(), "--create", "--topic", "roll", "--partitions", "6",
		"--replication-factor", "3", "--config", "min.insync.replicas=2")
	consumers := map[string]*verifiable{}
	for _, protocol := range []string{"classic", "consumer"} {
		consumers[protocol] = startVerifiable(t, "VerifiableConsumer", "--bootstrap-server", c.all(), "--topic", "roll",
			"--group-id", "roll-"+protocol, "--group-protocol", protocol, "--verbose")
	}
	// By itself it does not try again, so that every answer surfaces.
	patient := filepath.Join(t.TempDir(), "producer.properties")
	if err := os.WriteFile(patient, []byte("retries=2147483647\nenable.idempotence=true\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	producer := startVerifiable(t, "VerifiableProducer", "--bootstrap-server", c.all(), "--topic", "roll", "--throughput", "500",
		"--acks", "-1", "--command-config", patient)
	acked := func() int { return producer.count("producer_send_success") }
	more := func(what string) {
		t.Helper()
		n := acked()
		eventually(t, what, func() bool { return acked() > n+500 })
	}
	for _, consumer := range consumers {
		eventually(t, "the consumer reads", func() bool { return consumer.count("record_data") > 0 })
	}
	for _, id := range c.ids() {
		more("records before a node is restarted")
		c.nodes[id].Stop(t)
		more("records while a node is down")
		c.nodes[id].Start(t)
		c.waitInService(t, c.ids()...)
		eventually(t, "all replicas are in sync", func() bool {
			return !strings.Contains(kafka.Tool(t, "topics", "--bootstrap-server", c.all(), "--describe",
				"--under-replicated-partitions"), "Partition:")
		})
	}
	more("records after the last restart")
	producer.end(t)
	want := producer.acked(t)
	for protocol, consumer := range consumers {
		eventually(t, "all is read", func() bool { return consumer.count("record_data") >= len(want) })
		consumer.end(t)
		got := consumer.consumed(t)
		for where, value := range want {
			if got[where] != value {
				t.Errorf("%s: %v is %q, was acknowledged as %q", protocol, where, got[where], value)
			}
		}
	}
	t.Logf("%d records", len(want))
}
