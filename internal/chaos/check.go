//go:build unix

package chaos

import (
	"maps"
	"slices"
)

// Record is one record as a reader found it.
type Record struct {
	Offset int64
	Value  string
}

// Contents are records by topic and partition, in the order of the log.
type Contents map[string]map[int32][]Record

// Check judges the history by what lies in the topics at the end: all that readers of uncommitted and of committed records
// are given. It gives what is wrong.
func (h *History) Check(all, committed Contents) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	counts := map[string]map[int]int{} // of committed records, by writer and number
	for _, w := range h.writers {
		counts[w.name] = map[int]int{}
	}
	visible := map[place]string{}
	each(all, func(at place, value string) { visible[at] = value })
	for at, value := range h.seen {
		if now, ok := visible[at]; !ok {
			h.fault("a reader was given %s at %s-%d@%d, which is lost", label(value), at.topic, at.partition, at.offset)
		} else if now != value {
			h.fault("a reader was given %s at %s-%d@%d, where %s is now", label(value), at.topic, at.partition, at.offset, label(now))
		}
	}
	type lane struct {
		writer    string
		topic     string
		partition int32
	}
	last := map[lane]int{}
	each(committed, func(at place, value string) {
		w, n, ok := h.parse(value)
		if !ok {
			h.fault("%s-%d@%d holds what nobody wrote: %.60q", at.topic, at.partition, at.offset, value)
			return
		}
		counts[w.name][n]++
		l := lane{w.name, at.topic, at.partition}
		before, ok := last[l]
		if ok && n <= before && w.promise != perhaps { // who is acknowledged by one disk may write again what it wrote
			h.fault("%s/%d comes after %s/%d in %s-%d", w.name, n, w.name, before, at.topic, at.partition)
		}
		last[l] = n
		if visible[at] != value {
			h.fault("%s-%d@%d is %s to one reader and %s to another", at.topic, at.partition, at.offset, label(value), label(visible[at]))
		}
		if s := w.records[n]; s.outcome == confirmed && w.promise != perhaps && s.place != at {
			h.fault("%s/%d was acknowledged at %s-%d@%d and lies at %s-%d@%d", w.name, n, s.topic, s.partition, s.offset, at.topic,
				at.partition, at.offset)
		}
	})
	for _, name := range slices.Sorted(maps.Keys(h.writers)) {
		h.judge(h.writers[name], counts[name])
	}
	return slices.Clone(h.faults)
}

func each(c Contents, f func(place, string)) {
	for _, topic := range slices.Sorted(maps.Keys(c)) {
		for _, p := range slices.Sorted(maps.Keys(c[topic])) {
			for _, r := range c[topic][p] {
				f(place{topic, p, r.Offset}, r.Value)
			}
		}
	}
}

// judge compares what a writer was told with how often each of its records is there. Needs mu.
func (h *History) judge(w *writer, found map[int]int) {
	whole := map[int]int{} // records found, by transaction
	size := map[int]int{}
	for n, s := range w.records {
		got := found[n]
		if w.promise != perhaps && got > 1 {
			h.fault("%s/%d is there %d times", w.name, n, got)
		}
		switch {
		case w.promise == together:
			size[s.unit]++
			whole[s.unit] += min(got, 1)
		case w.promise == once && s.outcome == confirmed && got == 0:
			h.fault("%s/%d was acknowledged at %s-%d@%d and is lost", w.name, n, s.topic, s.partition, s.offset)
		case s.outcome == denied && got > 0:
			h.fault("%s/%d was refused and is there", w.name, n)
		}
	}
	for unit, o := range w.units {
		switch {
		case o == confirmed && whole[unit] != size[unit]:
			h.fault("transaction %d of %s was committed, and %d of its %d records are there", unit, w.name, whole[unit], size[unit])
		case o == denied && whole[unit] > 0:
			h.fault("transaction %d of %s was not committed, and %d of its %d records are there", unit, w.name, whole[unit], size[unit])
		case whole[unit] != 0 && whole[unit] != size[unit]:
			h.fault("transaction %d of %s is torn: %d of its %d records are there", unit, w.name, whole[unit], size[unit])
		}
	}
}

// LostAcknowledged counts the records of acks=1 that were acknowledged and are not there: what the control wants to see.
func (h *History) LostAcknowledged(all Contents) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := map[string]map[int]bool{}
	each(all, func(_ place, value string) {
		if w, n, ok := h.parse(value); ok {
			if found[w.name] == nil {
				found[w.name] = map[int]bool{}
			}
			found[w.name][n] = true
		}
	})
	lost := 0
	for _, w := range h.writers {
		for n, s := range w.records {
			if s.outcome == confirmed && !found[w.name][n] {
				lost++
			}
		}
	}
	return lost
}

// summary counts what the history holds, for the log of the test.
func (h *History) summary() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]int{"read": len(h.seen)}
	for _, w := range h.writers {
		for _, s := range w.records {
			out["sent"]++
			if s.outcome == confirmed {
				out["acknowledged"]++
			}
		}
		for _, o := range w.units {
			out[[]string{"transactions unknown", "transactions committed", "transactions not committed"}[o]]++
		}
	}
	return out
}
