package assignor

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"moldau/internal/kafka"
)

// TestScripts runs the assignments written down in testdata.
func TestScripts(t *testing.T) {
	for _, file := range []string{"testdata/uniform", "testdata/range"} {
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			spec, names := parseSpec(t, d)
			a, ok := ByName(d.CmdArgs[0].Key)
			if !ok {
				d.Fatalf(t, "no assignor %s", d.CmdArgs[0].Key)
			}
			got, err := a.Assign(spec)
			if err != nil {
				text := err.Error()
				for id, name := range names {
					text = strings.ReplaceAll(text, id.String(), name)
				}
				return kafka.CodeOf(err).Name() + " " + text
			}
			checkEachOnce(t, spec, got)
			return format(spec, got, names)
		})
	}
}

// parseSpec reads a script's arguments ("assign NAME TOPIC:PARTITIONS...") and input.
func parseSpec(t *testing.T, d *datadriven.TestData) (Spec, map[kafka.UUID]string) {
	spec := Spec{Topics: map[kafka.UUID]Topic{}}
	names := map[kafka.UUID]string{}
	ids := map[string]kafka.UUID{}
	id := func(name string) kafka.UUID {
		if _, ok := ids[name]; !ok {
			ids[name] = kafka.UUID{15: byte(len(ids) + 1)}
			names[ids[name]] = name
		}
		return ids[name]
	}
	for _, arg := range d.CmdArgs[1:] {
		name, count, _ := strings.Cut(arg.Key, ":")
		n, err := strconv.Atoi(count)
		if err != nil {
			d.Fatalf(t, "topic %q", arg.Key)
		}
		spec.Topics[id(name)] = Topic{ID: id(name), Name: name, Partitions: int32(n)}
	}
	for line := range strings.Lines(d.Input) {
		wants, owns, _ := strings.Cut(strings.TrimSpace(line), " owns")
		words := strings.Fields(wants)
		m := Member{ID: words[0], Owned: map[kafka.UUID][]int32{}}
		if name, instance, ok := strings.Cut(m.ID, "@"); ok {
			m.ID, m.InstanceID = name, &instance
		}
		for _, topic := range words[1:] {
			m.Topics = append(m.Topics, id(topic))
		}
		slices.SortFunc(m.Topics, compareIDs)
		for word := range strings.FieldsSeq(owns) {
			topic, list, _ := strings.Cut(word, "-")
			for p := range strings.SplitSeq(list, ",") {
				n, err := strconv.Atoi(p)
				if err != nil {
					d.Fatalf(t, "partition %q", word)
				}
				m.Owned[id(topic)] = append(m.Owned[id(topic)], int32(n))
			}
		}
		spec.Members = append(spec.Members, m)
	}
	return spec, names
}

func format(spec Spec, got Assignment, names map[kafka.UUID]string) string {
	var b strings.Builder
	for _, m := range spec.Members {
		b.WriteString(m.ID)
		for _, id := range slices.SortedFunc(maps.Keys(got[m.ID]), compareIDs) {
			parts := strings.ReplaceAll(strings.Trim(fmt.Sprint(got[m.ID][id]), "[]"), " ", ",")
			fmt.Fprintf(&b, " %s-%s", names[id], parts)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// A recorded is one answer of Apache Kafka. Topics go by their place in the list; Want and Owned are partitions by
// member or topic.
type recorded struct {
	Assignor string           `json:"assignor"`
	Topics   []recordedTopic  `json:"topics"`
	Members  []recordedMember `json:"members"`
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

// TestKafka compares with the recorded answers of Apache Kafka 4.4.0: kafka-groups.jsonl are the targets of live groups,
// where members came and went and changed their subscriptions; kafka-assignors.jsonl comes from its assignors run alone
// on larger random groups. Both were taken where the order of Kafka's hash tables is that of the ids.
func TestKafka(t *testing.T) {
	for _, name := range []string{"kafka-groups.jsonl", "kafka-assignors.jsonl"} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Open("testdata/" + name)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			lines := bufio.NewScanner(f)
			lines.Buffer(nil, 1<<20)
			n := 0
			for lines.Scan() {
				n++
				var r recorded
				if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
					t.Fatal(err)
				}
				checkRecorded(t, n, r)
			}
			if err := lines.Err(); err != nil || n < 100 {
				t.Errorf("%d answers read: %v", n, err)
			}
		})
	}
}

func checkRecorded(t *testing.T, line int, r recorded) {
	spec := Spec{Topics: map[kafka.UUID]Topic{}}
	var ids []kafka.UUID
	for _, topic := range r.Topics {
		id, err := kafka.ParseUUID(topic.ID)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
		spec.Topics[id] = Topic{ID: id, Partitions: topic.Partitions}
	}
	byID := func(parts map[int][]int32) map[kafka.UUID][]int32 {
		out := map[kafka.UUID][]int32{}
		for i, p := range parts {
			out[ids[i]] = p
		}
		return out
	}
	want := Assignment{}
	for _, m := range r.Members {
		member := Member{ID: m.ID, InstanceID: m.Instance, Owned: byID(m.Owned)}
		for _, i := range m.Topics {
			member.Topics = append(member.Topics, ids[i])
		}
		slices.SortFunc(member.Topics, compareIDs)
		spec.Members = append(spec.Members, member)
		want[m.ID] = byID(m.Want)
	}
	a, ok := ByName(r.Assignor)
	if !ok {
		t.Fatalf("line %d: no assignor %s", line, r.Assignor)
	}
	got, err := a.Assign(spec)
	if err != nil {
		t.Fatalf("line %d: %v", line, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("line %d, %s (- Apache Kafka, + this):\n%s", line, r.Assignor, diff)
	}
}

func TestByName(t *testing.T) {
	for _, name := range []string{"uniform", "range"} {
		if a, ok := ByName(name); !ok || a.Name() != name {
			t.Errorf("ByName(%s) = %v, %v", name, a, ok)
		}
	}
	if _, ok := ByName("roundrobin"); ok {
		t.Error("a client-side assignor was found")
	}
}
