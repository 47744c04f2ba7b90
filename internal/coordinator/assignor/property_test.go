package assignor

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"moldau/internal/kafka"
)

type failer interface {
	Helper()
	Fatalf(string, ...any)
}

// checkEachOnce checks what Assign promises for every Spec: each partition of each subscribed topic goes to one of the
// topic's subscribers, every member has an entry, and lists are sorted and not empty.
func checkEachOnce(t failer, spec Spec, got Assignment) {
	t.Helper()
	if len(got) != len(spec.Members) {
		t.Fatalf("%d entries for %d members", len(got), len(spec.Members))
	}
	owner := map[kafka.UUID]map[int32]string{}
	for _, m := range spec.Members {
		parts, ok := got[m.ID]
		if !ok || parts == nil {
			t.Fatalf("member %s has no entry", m.ID)
		}
		for _, id := range m.Topics {
			if owner[id] == nil {
				owner[id] = map[int32]string{}
			}
		}
		for id, list := range parts {
			if !slices.Contains(m.Topics, id) || len(list) == 0 || !slices.IsSorted(list) {
				t.Fatalf("member %s with topics %v has %v of %v", m.ID, m.Topics, list, id)
			}
			for _, p := range list {
				if other, taken := owner[id][p]; taken || p < 0 || p >= spec.Topics[id].Partitions {
					t.Fatalf("partition %d of %v went to %q and %q", p, id, other, m.ID)
				}
				owner[id][p] = m.ID
			}
		}
	}
	for id, owned := range owner {
		if int32(len(owned)) != spec.Topics[id].Partitions {
			t.Fatalf("%d of %d partitions of %v were assigned", len(owned), spec.Topics[id].Partitions, id)
		}
	}
}

func load(parts map[kafka.UUID][]int32) int {
	n := 0
	for _, list := range parts {
		n += len(list)
	}
	return n
}

// drawSpec draws a group; same says whether all members subscribe to the same topics. What members own is any nonsense.
func drawSpec(t *rapid.T, same bool) Spec {
	spec := Spec{Topics: map[kafka.UUID]Topic{}}
	var ids []kafka.UUID
	for i := range rapid.IntRange(1, 6).Draw(t, "topics") {
		id := kafka.UUID{0: byte(37 * i), 15: byte(i)}
		ids = append(ids, id)
		spec.Topics[id] = Topic{ID: id, Partitions: rapid.Int32Range(0, 12).Draw(t, "partitions")}
	}
	slices.SortFunc(ids, compareIDs)
	subset := rapid.Custom(func(t *rapid.T) []kafka.UUID {
		return slices.DeleteFunc(slices.Clone(ids), func(kafka.UUID) bool { return rapid.Bool().Draw(t, "without") })
	})
	all := subset.Draw(t, "subscription")
	for i := range rapid.IntRange(1, 9).Draw(t, "members") {
		m := Member{ID: fmt.Sprintf("m%d", i), Topics: all, Owned: map[kafka.UUID][]int32{}}
		if !same {
			m.Topics = subset.Draw(t, "own subscription")
		}
		for _, id := range subset.Draw(t, "owned topics") {
			m.Owned[id] = rapid.SliceOfN(rapid.Int32Range(-1, 13), 0, 8).Draw(t, "owned")
		}
		spec.Members = append(spec.Members, m)
	}
	return spec
}

// legal is what members own that they may keep: Owned without what Assign ignores.
func legal(spec Spec) Assignment {
	out := Assignment{}
	taken := map[kafka.UUID]map[int32]bool{}
	for _, m := range spec.Members {
		out[m.ID] = map[kafka.UUID][]int32{}
		for _, id := range m.Topics {
			if taken[id] == nil {
				taken[id] = map[int32]bool{}
			}
			for _, p := range m.Owned[id] {
				if p >= 0 && p < spec.Topics[id].Partitions && !taken[id][p] {
					taken[id][p] = true
					out[m.ID][id] = append(out[m.ID][id], p)
				}
			}
		}
	}
	return out
}

func kept(before, after map[kafka.UUID][]int32) int {
	n := 0
	for id, list := range before {
		for _, p := range list {
			if slices.Contains(after[id], p) {
				n++
			}
		}
	}
	return n
}

func assign(t failer, a Assignor, spec Spec) Assignment {
	t.Helper()
	got, err := a.Assign(spec)
	if err != nil {
		t.Fatalf("%v", err)
	}
	checkEachOnce(t, spec, got)
	return got
}

// checkSettled checks that who has the assignment already keeps it, so that recomputing a target moves nothing.
func checkSettled(t failer, a Assignor, spec Spec, got Assignment) {
	t.Helper()
	next := Spec{Topics: spec.Topics, Members: slices.Clone(spec.Members)}
	for i := range next.Members {
		next.Members[i].Owned = got[next.Members[i].ID]
	}
	if diff := cmp.Diff(got, assign(t, a, next)); diff != "" {
		t.Fatalf("%s moves partitions of its own assignment:\n%s", a.Name(), diff)
	}
}

// TestUniformSameTopics: loads differ by one at most, and as much is kept as any balanced assignment can keep.
func TestUniformSameTopics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t, true)
		got, before := assign(t, Uniform(), spec), legal(spec)
		least, most, total, keeps := 1<<30, 0, 0, 0
		for _, m := range spec.Members {
			n := load(got[m.ID])
			least, most, total = min(least, n), max(most, n), total+n
			keeps += kept(before[m.ID], got[m.ID])
		}
		if most-least > 1 {
			t.Fatalf("loads between %d and %d", least, most)
		}
		floor, larger := total/len(spec.Members), total%len(spec.Members)
		possible := 0
		for _, m := range spec.Members {
			n := load(before[m.ID])
			possible += min(n, floor)
			if n > floor && larger > 0 {
				possible++
				larger--
			}
		}
		if keeps != possible {
			t.Fatalf("%d partitions stay where they are, %d could", keeps, possible)
		}
		checkSettled(t, Uniform(), spec, got)
	})
}

// TestUniformMixedTopics: no partition has a subscriber with two partitions less than its owner, and where the present
// assignment is complete and balanced already nothing moves.
func TestUniformMixedTopics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t, false)
		got := assign(t, Uniform(), spec)
		for _, owner := range spec.Members {
			for id := range got[owner.ID] {
				for _, m := range spec.Members {
					if slices.Contains(m.Topics, id) && load(got[m.ID])+1 < load(got[owner.ID]) {
						t.Fatalf("%s has %d partitions, some of %v, and %s only %d", owner.ID, load(got[owner.ID]), id,
							m.ID, load(got[m.ID]))
					}
				}
			}
		}
		checkSettled(t, Uniform(), spec, got)
	})
}

// TestRange: shares of a topic are contiguous, ascend in the order of members and differ by one at most; nobody's
// present partitions play a part; topics with equal counts are cut alike when all subscribe to the same.
func TestRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		same := rapid.Bool().Draw(t, "same")
		spec := drawSpec(t, same)
		got := assign(t, Range(), spec)
		for _, id := range slices.SortedFunc(maps.Keys(spec.Topics), compareIDs) {
			next, last := int32(0), 1<<30
			for _, m := range spec.Members {
				if !slices.Contains(m.Topics, id) {
					continue
				}
				list := got[m.ID][id]
				for _, p := range list {
					if p != next {
						t.Fatalf("%s has %v of %v, partition %d should be next", m.ID, list, id, next)
					}
					next++
				}
				if len(list) > last || last != 1<<30 && last-len(list) > 1 {
					t.Fatalf("%s has %d of %v, the one before it %d", m.ID, len(list), id, last)
				}
				last = max(len(list), min(last, len(list)))
			}
		}
		for _, m := range spec.Members {
			for _, a := range m.Topics {
				for _, b := range m.Topics {
					if same && spec.Topics[a].Partitions == spec.Topics[b].Partitions &&
						!slices.Equal(got[m.ID][a], got[m.ID][b]) {
						t.Fatalf("%s has %v and %v of topics with equal counts", m.ID, got[m.ID][a], got[m.ID][b])
					}
				}
			}
		}
		checkSettled(t, Range(), spec, got)
	})
}

// TestRangeStaticMembers: static members keep their ranges whatever new ids a restart gives them.
func TestRangeStaticMembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t, true)
		for i := range spec.Members {
			instance := fmt.Sprintf("i%d", i)
			spec.Members[i].InstanceID = &instance
		}
		before := assign(t, Range(), spec)
		after := Spec{Topics: spec.Topics, Members: slices.Clone(spec.Members)}
		was := map[string]string{}
		for i, n := range rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7, 8}).Draw(t, "new ids")[:len(after.Members)] {
			id := fmt.Sprintf("n%d", n)
			was[id], after.Members[i].ID = after.Members[i].ID, id
		}
		slices.SortFunc(after.Members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
		for id, parts := range assign(t, Range(), after) {
			if diff := cmp.Diff(before[was[id]], parts); diff != "" {
				t.Fatalf("%s, before %s:\n%s", id, was[id], diff)
			}
		}
	})
}

// TestSharesNothing: the caller may change an Assignment without changing the Spec it was made from, and Assign leaves
// the Spec as it was.
func TestSharesNothing(t *testing.T) {
	for _, a := range []Assignor{Uniform(), Range()} {
		spec := bigSpec(5, 3, 7, true)
		spec = owning(t, a, spec)
		before := fmt.Sprint(spec)
		got := assign(t, a, spec)
		for _, parts := range got {
			for id := range parts {
				for i := range parts[id] {
					parts[id][i] = -7
				}
				delete(parts, id)
			}
		}
		if after := fmt.Sprint(spec); after != before {
			t.Errorf("%s: the spec was\n%s\nand is\n%s", a.Name(), before, after)
		}
	}
}

// bigSpec is a group in which all members subscribe to all topics, or each to half of them.
func bigSpec(members, topics int, partitions int32, same bool) Spec {
	rnd := rand.New(rand.NewPCG(1, 2))
	spec := Spec{Topics: map[kafka.UUID]Topic{}}
	var ids []kafka.UUID
	for range topics {
		var id kafka.UUID
		for i := range id {
			id[i] = byte(rnd.Uint32())
		}
		ids = append(ids, id)
		spec.Topics[id] = Topic{ID: id, Partitions: partitions}
	}
	slices.SortFunc(ids, compareIDs)
	for i := range members {
		m := Member{ID: fmt.Sprintf("member-%06d", i), Topics: ids}
		if !same {
			m.Topics = slices.DeleteFunc(slices.Clone(ids), func(kafka.UUID) bool { return rnd.IntN(2) == 0 })
		}
		spec.Members = append(spec.Members, m)
	}
	return spec
}

// owning is spec after its assignment has taken effect.
func owning(t failer, a Assignor, spec Spec) Spec {
	got := assign(t, a, spec)
	for i := range spec.Members {
		spec.Members[i].Owned = got[spec.Members[i].ID]
	}
	return spec
}

// BenchmarkAssign: 1,000 members on 10,000 partitions, at first and after one in fifty has gone.
func BenchmarkAssign(b *testing.B) {
	for _, a := range []Assignor{Uniform(), Range()} {
		for _, same := range []bool{true, false} {
			name := a.Name() + map[bool]string{true: "/same", false: "/mixed"}[same]
			spec := bigSpec(1000, 100, 100, same)
			b.Run(name+"/first", func(b *testing.B) { benchmark(b, a, spec) })
			left := owning(b, a, bigSpec(1000, 100, 100, same))
			left.Members = left.Members[20:]
			b.Run(name+"/left", func(b *testing.B) { benchmark(b, a, left) })
		}
	}
}

func benchmark(b *testing.B, a Assignor, spec Spec) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Assign(spec); err != nil {
			b.Fatal(err)
		}
	}
}
