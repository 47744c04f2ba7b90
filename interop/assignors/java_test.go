package assignors

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"moldau/interop/kafka"
)

//go:embed Assignors.java
var javaSource []byte

// jvm runs Apache Kafka's assignors (see Assignors.java). It ends with the test.
type jvm struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func startJVM(t *testing.T) *jvm {
	t.Helper()
	source := filepath.Join(t.TempDir(), "Assignors.java")
	if err := os.WriteFile(source, javaSource, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := kafka.Java(t, source)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the JVM ended: %v", err)
		}
	})
	return &jvm{in: in, out: bufio.NewReader(out)}
}

// ask puts one question and reads its answer.
func (j *jvm) ask(t *testing.T, question, answer any) {
	t.Helper()
	line, err := json.Marshal(question)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.in.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
	reply, err := j.out.ReadBytes('\n')
	if err != nil {
		t.Fatalf("no answer to %s: %v", line, err)
	}
	if err := json.Unmarshal(reply, answer); err != nil {
		t.Fatalf("%v in %s", err, reply)
	}
}

type javaTopic struct {
	Partitions int32    `json:"partitions"`
	Racks      []string `json:"racks"`
}

type javaMember struct {
	ID         string   `json:"id"`
	Instance   *string  `json:"instance"`
	Rack       *string  `json:"rack"`
	Topics     []string `json:"topics"`
	Owned      topicMap `json:"owned"`
	Generation int32    `json:"generation"`
}

// balance asks the consumer's assignor of a case.
func (j *jvm) balance(t *testing.T, g *group) (plan, topicMap) {
	t.Helper()
	question := struct {
		Client  string               `json:"client"`
		Topics  map[string]javaTopic `json:"topics"`
		Members []javaMember         `json:"members"`
	}{Client: g.assignor, Topics: map[string]javaTopic{}}
	for name, topic := range g.topics {
		question.Topics[name] = javaTopic{Partitions: topic.partitions, Racks: append([]string{}, topic.racks...)}
	}
	for _, m := range g.members {
		jm := javaMember{ID: m.id, Topics: m.topics, Owned: m.owned, Generation: m.generation}
		if m.instance != "" {
			jm.Instance = &m.instance
		}
		if m.rack != "" {
			jm.Rack = &m.rack
		}
		question.Members = append(question.Members, jm)
	}
	var answer struct {
		Parts     plan     `json:"parts"`
		Transfers topicMap `json:"transfers"`
	}
	j.ask(t, question, &answer)
	return answer.Parts, answer.Transfers
}
