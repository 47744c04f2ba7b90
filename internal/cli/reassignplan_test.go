package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// on gives partitions of topic t from the text 1,2/2,3.
func on(text string) []placedPartition {
	var out []placedPartition
	for i, part := range strings.Split(text, "/") {
		p := placedPartition{Topic: "t", Partition: int32(i), SizeBytes: 10}
		for _, x := range strings.Split(part, ",") {
			var id int32
			fmt.Sscan(x, &id)
			p.Replicas = append(p.Replicas, id)
		}
		out = append(out, p)
	}
	return out
}

func brokersOf(ids ...int32) []planBroker {
	var out []planBroker
	for _, id := range ids {
		out = append(out, planBroker{ID: id})
	}
	return out
}

func planText(moves []plannedMove) string {
	var out []string
	for _, m := range moves {
		out = append(out, fmt.Sprintf("%d:%s", m.Partition, joinInts(m.To)))
	}
	return strings.Join(out, " ")
}

func TestPlan(t *testing.T) {
	racks := []planBroker{{1, "a"}, {2, "a"}, {3, "b"}, {4, "b"}}
	for name, x := range map[string]struct {
		in   planInput
		want string
	}{
		"nothing to do":                  {planInput{partitions: on("1,2/2,1"), brokers: brokersOf(1, 2), level: true}, ""},
		"a broker is left":               {planInput{partitions: on("1,2/2,3/3,1"), brokers: brokersOf(1, 3, 4)}, "0:1,4 1:4,3"},
		"a leader is left":               {planInput{partitions: on("2,1/2,3"), brokers: brokersOf(1, 3)}, "0:1,3 1:3,1"},
		"more replicas":                  {planInput{partitions: on("1/2"), brokers: brokersOf(1, 2, 3), factor: 2}, "0:1,3 1:2,1"},
		"fewer replicas":                 {planInput{partitions: on("1,2,3/2,3,1"), brokers: brokersOf(1, 2, 3), factor: 1}, "0:1 1:2"},
		"another rack":                   {planInput{partitions: on("1"), brokers: racks, factor: 2}, "0:1,3"},
		"the rack that is left":          {planInput{partitions: on("1,3"), brokers: []planBroker{{1, "a"}, {2, "a"}, {4, "b"}}}, "0:1,4"},
		"other partitions weigh too":     {planInput{partitions: on("1"), brokers: brokersOf(2, 3), load: map[int32]int{2: 5}}, "0:3"},
		"a closed broker keeps":          {planInput{partitions: on("1,2/3,1"), brokers: brokersOf(1, 2, 4), closed: []int32{1, 2}}, "1:4,1"},
		"only what must move, not level": {planInput{partitions: on("1/1/1/1"), brokers: brokersOf(1, 2)}, ""},
	} {
		moves, err := plan(x.in)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := planText(moves); got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
	if _, err := plan(planInput{partitions: on("1,2"), brokers: brokersOf(1)}); err == nil {
		t.Error("two replicas on one broker")
	}
	if _, err := plan(planInput{partitions: on("1,2"), brokers: brokersOf(1, 3), closed: []int32{3}}); err == nil {
		t.Error("a closed broker got a replica")
	}
}

func TestPlanTellsBytes(t *testing.T) {
	moves, err := plan(planInput{partitions: on("1,2/1,2/2,1"), brokers: brokersOf(2, 3, 4)})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range moves {
		if m.Bytes != 10*int64(len(m.adds())) {
			t.Errorf("%v copies %d bytes", m, m.Bytes)
		}
	}
	unknown := on("1")
	unknown[0].SizeBytes = -1
	if moves, _ = plan(planInput{partitions: unknown, brokers: brokersOf(2)}); moves[0].Bytes != -1 {
		t.Errorf("a size that nobody knows became %d", moves[0].Bytes)
	}
}

// TestPlanHolds checks any plan: valid replicas, no worse spread over racks, even when asked to be, and no copy without need.
func TestPlanHolds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var brokers []planBroker
		for id := range rapid.Int32Range(3, 8).Draw(rt, "brokers") {
			brokers = append(brokers, planBroker{id, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "rack")})
		}
		in := planInput{brokers: brokers, level: rapid.Bool().Draw(rt, "level"), factor: rapid.IntRange(0, 3).Draw(rt, "factor")}
		oneRack := rapid.Bool().Draw(rt, "one rack")
		for i := range in.brokers {
			if oneRack {
				in.brokers[i].Rack = ""
			}
		}
		for i := range rapid.Int32Range(1, 40).Draw(rt, "partitions") {
			ids := rapid.SliceOfNDistinct(rapid.Int32Range(0, 9), 1, 3, rapid.ID[int32]).Draw(rt, "replicas")
			in.partitions = append(in.partitions, placedPartition{Topic: "t", Partition: i, Replicas: ids, SizeBytes: 1})
		}
		moves, err := plan(in)
		if err != nil {
			rt.Fatal(err)
		}
		after := map[int32][]int32{}
		for _, p := range in.partitions {
			after[p.Partition] = p.Replicas
		}
		for _, m := range moves {
			after[m.Partition] = m.To
		}
		loads := map[int32]int{}
		for _, p := range in.partitions {
			now := after[p.Partition]
			want := len(p.Replicas)
			if in.factor > 0 {
				want = in.factor
			}
			if len(now) != want {
				rt.Fatalf("%v became %v, wanted %d replicas", p, now, want)
			}
			for i, id := range now {
				loads[id]++
				if slices.Contains(now[:i], id) || !slices.ContainsFunc(in.brokers, func(b planBroker) bool { return b.ID == id }) {
					rt.Fatalf("%v became %v", p, now)
				}
				stays := slices.Contains(p.Replicas, id)
				if !in.level && !stays && len(keptOf(p.Replicas, now)) < len(keptOf(p.Replicas, idsOf(in.brokers))) && len(now) >= len(p.Replicas) {
					rt.Fatalf("%v became %v, though more of it could have stayed", p, now)
				}
			}
		}
		if in.level && oneRack {
			least, most := 1<<30, 0
			for _, b := range in.brokers {
				least, most = min(least, loads[b.ID]), max(most, loads[b.ID])
			}
			if most-least > 1 && most > 0 && len(in.partitions) > 3 {
				rt.Fatalf("the brokers have %v replicas", loads)
			}
		}
	})
}

func keptOf(replicas, among []int32) (out []int32) {
	for _, id := range replicas {
		if slices.Contains(among, id) {
			out = append(out, id)
		}
	}
	return out
}

func idsOf(brokers []planBroker) (out []int32) {
	for _, b := range brokers {
		out = append(out, b.ID)
	}
	return out
}

// TestThrottledReplicas: the lists are those that kafka-reassign-partitions sets: all present replicas send, the new ones
// receive, each once and in the order of their texts.
func TestThrottledReplicas(t *testing.T) {
	leaders, followers := throttledReplicas([]plannedMove{
		{Topic: "a", Partition: 2, From: []int32{1, 2}, To: []int32{2, 3}}, {Topic: "a", Partition: 10, From: []int32{1}, To: []int32{4, 5}},
		{Topic: "b", Partition: 0, From: []int32{3, 1}, To: []int32{1}},
	})
	if leaders["a"] != "10:1,2:1,2:2" || followers["a"] != "10:4,10:5,2:3" {
		t.Errorf("a: %q, %q", leaders["a"], followers["a"])
	}
	if leaders["b"] != "0:1,0:3" || followers["b"] != "" {
		t.Errorf("b: %q, %q", leaders["b"], followers["b"])
	}
}
