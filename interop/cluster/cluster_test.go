package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"moldau/interop/kafka"
)

// golden are the answers of Apache Kafka.
var golden = filepath.Join("testdata", "kafka-"+kafka.DefaultVersion+".txt")

// run goes through all sections.
func (s *script) run() string {
	s.t.Helper()
	s.meet()
	s.leaders()
	s.replicaFetches()
	s.epochs()
	s.reassignments()
	s.elections()
	s.describing()
	s.creating()
	s.configuring()
	s.features()
	s.coordinators()
	s.voting()
	s.leading()
	s.metadataFetches()
	s.voters()
	s.brokers()
	s.losses()
	s.unclean()
	s.laterEpochs()
	return s.out.String()
}

// TestTranscript compares three nodes of Moldau with the answers that three nodes of Apache Kafka gave.
func TestTranscript(t *testing.T) {
	s := newScript(t, start(t, false, nil))
	defer s.keep("CLUSTER_KEEP")
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, string(want), s.run())
}

// TestRecord records them anew.
func TestRecord(t *testing.T) {
	if os.Getenv("CLUSTER_RECORD") == "" {
		t.Skip("CLUSTER_RECORD is not set")
	}
	s := newScript(t, start(t, true, nil))
	defer s.keep("CLUSTER_RECORD")
	s.run()
}

// keep writes what there is of the transcript to the file that a variable names, if it does.
func (s *script) keep(variable string) {
	if name := os.Getenv(variable); name != "" {
		if err := os.WriteFile(name, []byte(s.out.String()), 0o644); err != nil {
			s.t.Error(err)
		}
	}
}

// compare goes through two transcripts of the same requests.
func compare(t *testing.T, want, got string) {
	t.Helper()
	theirs, ours := strings.Split(want, "\n"), strings.Split(got, "\n")
	section := ""
	for i := range min(len(theirs), len(ours)) {
		if strings.HasPrefix(theirs[i], "== ") {
			section = theirs[i][3:]
		}
		asked, a := cut(theirs[i])
		same, b := cut(ours[i])
		if asked != same {
			t.Fatalf("%s: the requests differ; record anew?\nKafka:  %s\nMoldau: %s", section, theirs[i], ours[i])
		}
		if a != b && !deliberate(section+": "+asked, a, b) {
			t.Errorf("%s: %s\nKafka:  %s\nMoldau: %s", section, asked, a, b)
		}
	}
	if len(theirs) != len(ours) {
		t.Errorf("%d lines, want %d", len(ours), len(theirs))
	}
}

// cut parts a line into request and answer.
func cut(line string) (asked, answer string) {
	asked, answer, _ = strings.Cut(line, ": ")
	for {
		more, rest, ok := strings.Cut(answer, ": {")
		if !ok {
			return asked, answer
		}
		asked, answer = asked+": "+more, "{"+rest
	}
}
