package assignors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// recorded is one answer of a server-side assignor, as internal/coordinator/assignor reads it. Topics go by their place
// in the list.
type recorded struct {
	Assignor string           `json:"assignor"`
	Topics   []recordedTopic  `json:"topics"`
	Members  []recordedMember `json:"members"` // ascending by id
}

type recordedTopic struct {
	ID         string `json:"id"`
	Partitions int32  `json:"partitions"`
}

type recordedMember struct {
	ID       string          `json:"id"`
	Instance *string         `json:"instance,omitempty"`
	Topics   []int           `json:"topics"`
	Owned    map[int][]int32 `json:"owned,omitempty"`
	Want     map[int][]int32 `json:"want,omitempty"`
}

// seed of what is random: ASSIGNORS_SEED or 1.
func seed(t *testing.T) uint64 {
	t.Helper()
	s := os.Getenv("ASSIGNORS_SEED")
	if s == "" {
		return 1
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// record writes answers to a file of the directory ASSIGNORS_RECORD; without that it does nothing.
func record(t *testing.T, file string, answers []recorded) {
	t.Helper()
	dir := os.Getenv("ASSIGNORS_RECORD")
	if dir == "" {
		return
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	for _, a := range answers {
		if err := encoder.Encode(a); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, file), out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestJavaServerAssignors runs Apache Kafka's server-side assignors on random groups: the first assignment out of some
// disorder, then another after the group has changed. What comes out must be legal, and is recorded if that is wanted.
func TestJavaServerAssignors(t *testing.T) {
	j := startJVM(t)
	rnd := rand.New(rand.NewPCG(seed(t), 0))
	var answers []recorded
	for range 60 {
		r := randomGroup(rnd)
		for range 3 {
			askServer(t, j, &r)
			checkRecorded(t, r)
			answers = append(answers, r)
			r = changed(rnd, r)
		}
	}
	record(t, "kafka-assignors.jsonl", answers)
}

func askServer(t *testing.T, j *jvm, r *recorded) {
	t.Helper()
	question := struct {
		Server  string           `json:"server"`
		Topics  []recordedTopic  `json:"topics"`
		Members []recordedMember `json:"members"`
	}{r.Assignor, r.Topics, r.Members}
	var answer struct {
		Parts map[string]map[int][]int32 `json:"parts"`
	}
	j.ask(t, question, &answer)
	for i := range r.Members {
		r.Members[i].Want = answer.Parts[r.Members[i].ID]
	}
}

// randomGroup draws a group. Its topic ids are small numbers, which Java's hash tables keep in their order.
func randomGroup(rnd *rand.Rand) recorded {
	r := recorded{Assignor: []string{"uniform", "uniform", "range"}[rnd.IntN(3)]}
	for i := range 1 + rnd.IntN(8) {
		id := topicID{15: byte(i + 1)}
		r.Topics = append(r.Topics, recordedTopic{ID: id.String(), Partitions: 1 + rnd.Int32N(20)})
	}
	same := rnd.IntN(2) == 0
	all := subset(rnd, len(r.Topics))
	for i := range 1 + rnd.IntN(16) {
		m := recordedMember{ID: fmt.Sprintf("m%02d", i), Topics: all, Owned: map[int][]int32{}}
		if !same {
			m.Topics = subset(rnd, len(r.Topics))
		}
		if rnd.IntN(4) == 0 {
			instance := fmt.Sprintf("i%02d", rnd.IntN(50)*20+i)
			m.Instance = &instance
		}
		r.Members = append(r.Members, m)
	}
	for topic := range r.Topics {
		for p := range r.Topics[topic].Partitions {
			if m := rnd.IntN(2 * len(r.Members)); m < len(r.Members) {
				r.Members[m].Owned[topic] = append(r.Members[m].Owned[topic], p)
			}
		}
	}
	return r
}

// changed is a group after its assignment has taken effect and something has happened to it.
func changed(rnd *rand.Rand, r recorded) recorded {
	next := recorded{Assignor: r.Assignor, Topics: slices.Clone(r.Topics)}
	for _, m := range r.Members {
		if len(r.Members) == 1 || rnd.IntN(6) > 0 {
			next.Members = append(next.Members, recordedMember{ID: m.ID, Instance: m.Instance, Topics: m.Topics, Owned: m.Want})
		}
	}
	if len(next.Members) == 0 {
		next.Members = append(next.Members, recordedMember{ID: "m", Topics: r.Members[0].Topics})
	}
	switch rnd.IntN(3) {
	case 0: // somebody comes
		next.Members = append(next.Members, recordedMember{ID: "n" + next.Members[len(next.Members)-1].ID,
			Topics: next.Members[0].Topics})
	case 1: // topics grow
		for i := range next.Topics {
			next.Topics[i].Partitions += rnd.Int32N(4)
		}
	case 2: // one member subscribes to other topics
		next.Members[rnd.IntN(len(next.Members))].Topics = subset(rnd, len(r.Topics))
	}
	return next
}

// subset draws some of n things, at least one.
func subset(rnd *rand.Rand, n int) []int {
	out := []int{}
	for len(out) == 0 {
		for i := range n {
			if rnd.IntN(2) == 0 {
				out = append(out, i)
			}
		}
	}
	return out
}

// checkRecorded checks that every partition with a subscriber went to exactly one, and that members with the same
// subscriptions have uniform shares.
func checkRecorded(t *testing.T, r recorded) {
	t.Helper()
	wanted, given := map[int]bool{}, map[int]map[int32]bool{}
	same, least, most := true, 1<<30, 0
	for _, m := range r.Members {
		for _, topic := range m.Topics {
			wanted[topic] = true
		}
		same = same && slices.Equal(m.Topics, r.Members[0].Topics)
		load := 0
		for topic, parts := range m.Want {
			if !slices.Contains(m.Topics, topic) {
				t.Errorf("%s got %v of topic %d, to which it does not subscribe", m.ID, parts, topic)
			}
			for _, p := range parts {
				if given[topic] == nil {
					given[topic] = map[int32]bool{}
				}
				if given[topic][p] {
					t.Errorf("partition %d of topic %d was given out twice", p, topic)
				}
				given[topic][p] = true
			}
			load += len(parts)
		}
		least, most = min(least, load), max(most, load)
	}
	for topic := range wanted {
		if n := r.Topics[topic].Partitions; int32(len(given[topic])) != n {
			t.Errorf("%d of %d partitions of topic %d were given out", len(given[topic]), n, topic)
		}
	}
	if r.Assignor == "uniform" && same && most-least > 1 {
		t.Errorf("loads between %d and %d", least, most)
	}
	if t.Failed() {
		t.Fatalf("%+v", r)
	}
}
