// Package kcat runs kcat, librdkafka's command line client, against the broker.
package kcat

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"moldau/interop/broker"
	"moldau/interop/need"
)

type suite struct{ bin, addr string }

func TestKcat(t *testing.T) {
	s := suite{bin: need.Tool(t, "kcat", "kafkacat")}
	n := broker.Start(t)
	s.addr = n.Addr
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"metadata", s.metadata}, {"codecs", s.codecs}, {"offsets", s.offsets}, {"headers and nulls", s.shapes},
		{"idempotent", s.idempotent}, {"old protocol versions", s.old}, {"acks", s.acks}, {"group", s.group},
	} {
		t.Run(c.name, c.run)
	}
	n.Stop(t)
}

// kcat runs it with input and returns its output.
func (s suite) kcat(t *testing.T, input string, args ...string) string {
	t.Helper()
	cmd := exec.Command(s.bin, append([]string{"-b", s.addr, "-m", "20"}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	overdue := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer overdue.Stop()
	out, err := cmd.Output()
	if err != nil {
		ee, _ := err.(*exec.ExitError)
		t.Fatalf("kcat %q: %v\n%s", args, err, ee.Stderr)
	}
	return string(out)
}

func lines(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %.300q, want %.300q", what, got, want)
	}
}

func (s suite) metadata(t *testing.T) {
	if out := s.kcat(t, "", "-L"); !strings.Contains(out, "1 brokers:") || !strings.Contains(out, s.addr+" (controller)") {
		t.Errorf("metadata:\n%s", out)
	}
}

const topic = "kcat"

// codecs fills the topic that the later cases read: 5,000 records in partition 0.
func (s suite) codecs(t *testing.T) {
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		s.kcat(t, lines(1, 1000), "-P", "-t", topic, "-p", "0", "-z", codec, "-X", "acks=all")
	}
	out := s.kcat(t, "", "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q")
	equal(t, "all records", out, strings.Repeat(lines(1, 1000), 5))
}

func (s suite) offsets(t *testing.T) {
	equal(t, "the last", s.kcat(t, "", "-C", "-t", topic, "-p", "0", "-o", "-1", "-e", "-q"), "1000\n")
	equal(t, "from an offset", s.kcat(t, "", "-C", "-t", topic, "-p", "0", "-o", "4997", "-e", "-q", "-f", "%o "), "4997 4998 4999 ")
	equal(t, "a count", s.kcat(t, "", "-C", "-t", topic, "-p", "0", "-o", "10", "-c", "2", "-q"), "11\n12\n")
	equal(t, "latest", strings.TrimSpace(s.kcat(t, "", "-Q", "-t", topic+":0:-1")), topic+" [0] offset 5000")
	equal(t, "earliest", strings.TrimSpace(s.kcat(t, "", "-Q", "-t", topic+":0:-2")), topic+" [0] offset 0")
	hourAgo := fmt.Sprint(time.Now().Add(-time.Hour).UnixMilli())
	equal(t, "by time", strings.TrimSpace(s.kcat(t, "", "-Q", "-t", topic+":0:"+hourAgo)), topic+" [0] offset 0")
	equal(t, "from a time", s.kcat(t, "", "-C", "-t", topic, "-p", "0", "-o", "s@"+hourAgo, "-c", "1", "-q", "-f", "%o"), "0")
}

func (s suite) shapes(t *testing.T) {
	s.kcat(t, "k1:v1\nk2:\nk3:v3\n", "-P", "-t", topic+"-h", "-p", "0", "-K:", "-Z", "-H", "a=1", "-H", "b=2")
	out := s.kcat(t, "", "-C", "-t", topic+"-h", "-p", "0", "-o", "beginning", "-e", "-q", "-f", "%k|%s|%S|%h\n")
	equal(t, "records", out, "k1|v1|2|a=1,b=2\nk2||-1|a=1,b=2\nk3|v3|2|a=1,b=2\n")
}

func (s suite) idempotent(t *testing.T) {
	s.kcat(t, lines(1, 300), "-P", "-t", topic+"-i", "-p", "1", "-X", "enable.idempotence=true", "-X", "batch.num.messages=10")
	equal(t, "records", s.kcat(t, "", "-C", "-t", topic+"-i", "-p", "1", "-o", "beginning", "-e", "-q"), lines(1, 300))
}

// old pretends to know the broker's release instead of asking, as clients did before ApiVersions.
func (s suite) old(t *testing.T) {
	if broker.IsKafka() {
		t.Skip("Apache Kafka 4 has removed what these clients need")
	}
	for _, v := range []string{"2.3.0", "1.0.0"} {
		s.kcat(t, lines(1, 3), "-P", "-t", topic+"-old", "-p", "0", "-X", "api.version.request=false", "-X",
			"broker.version.fallback="+v)
	}
	got := strings.Fields(s.kcat(t, "", "-C", "-t", topic+"-old", "-p", "0", "-o", "beginning", "-e", "-q"))
	slices.Sort(got)
	equal(t, "records", strings.Join(got, " "), "1 1 2 2 3 3")
}

func (s suite) acks(t *testing.T) {
	for _, a := range []string{"0", "1", "all"} {
		s.kcat(t, lines(1, 10), "-P", "-t", topic+"-a", "-p", "0", "-X", "acks="+a)
	}
	equal(t, "records", s.kcat(t, "", "-C", "-t", topic+"-a", "-p", "0", "-o", "beginning", "-e", "-q"), strings.Repeat(lines(1, 10), 3))
}

// group reads the topic once as a group, and nothing the second time.
func (s suite) group(t *testing.T) {
	for _, strategy := range []string{"range", "roundrobin", "cooperative-sticky"} {
		for _, want := range []int{5000, 0} {
			out := s.kcat(t, "", "-G", "kcat-"+strategy, "-X", "auto.offset.reset=earliest", "-X",
				"partition.assignment.strategy="+strategy, "-e", "-q", topic)
			if got := strings.Count(out, "\n"); got != want {
				t.Errorf("%s: %d records, want %d", strategy, got, want)
			}
		}
	}
}
