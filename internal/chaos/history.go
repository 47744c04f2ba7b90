//go:build unix

package chaos

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// promised is what writers of a kind were promised.
type promised int

const (
	once     promised = iota // acknowledged: there once, in order (idempotent, acks=all)
	perhaps                  // acknowledged by one disk: anything may become of it but disorder (acks=1)
	together                 // all records of a committed transaction, once; none of any other
)

// outcome is what a writer knows of a record, or of a transaction.
type outcome int

const (
	unknown   outcome = iota // it may be there
	confirmed                // acknowledged, or committed
	denied                   // refused for certain, or never asked to be committed
)

// place is where a record lies.
type place struct {
	topic     string
	partition int32
	offset    int64
}

// sent is a record that was handed to a client.
type sent struct {
	place   // offset -1: not told
	outcome outcome
	unit    int // the transaction, counted per writer
}

// writer is a source of records with a number each, whose values read "NAME/NUMBER".
type writer struct {
	name    string
	promise promised
	records []sent    // by number
	units   []outcome // of transactions
}

// History is what all clients were told. Safe for concurrent use.
type History struct {
	mu      sync.Mutex
	writers map[string]*writer
	seen    map[place]string // what readers got; nothing of it may ever be otherwise
	faults  []string         // what is wrong whatever comes later
	acked   int
}

// NewHistory gives an empty one.
func NewHistory() *History {
	return &History{writers: map[string]*writer{}, seen: map[place]string{}}
}

// maxFaults bounds what is told; one is enough to fail.
const maxFaults = 20

// Fault notes what must not happen.
func (h *History) Fault(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fault(format, args...)
}

func (h *History) fault(format string, args ...any) {
	if len(h.faults) < maxFaults {
		h.faults = append(h.faults, fmt.Sprintf(format, args...))
	}
}

func (h *History) add(name string, p promised) *writer {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := &writer{name: name, promise: p}
	h.writers[name] = w
	return w
}

// send notes a record before a client gets it and gives its value.
func (h *History) send(w *writer, topic string, partition int32) (number int, value []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.records = append(w.records, sent{place: place{topic, partition, -1}, unit: len(w.units) - 1})
	return len(w.records) - 1, fmt.Appendf(nil, "%s/%d/%s", w.name, len(w.records)-1, padding)
}

// padding makes segments full soon.
var padding = strings.Repeat(".", 200)

// told notes a client's last word about a record.
func (h *History) told(w *writer, number int, o outcome, offset int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.records[number].outcome, w.records[number].offset = o, offset
	if o == confirmed {
		h.acked++
	}
}

// begin opens the next transaction of a writer; decided ends it.
func (h *History) begin(w *writer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.units = append(w.units, denied)
}

func (h *History) decided(w *writer, o outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.units[len(w.units)-1] = o
}

// saw notes what a reader was given.
func (h *History) saw(reader string, at place, value string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if before, ok := h.seen[at]; ok && before != value {
		h.fault("%s read %s at %s-%d@%d, where another read %s before", reader, label(value), at.topic, at.partition, at.offset,
			label(before))
		return
	}
	h.seen[at] = value
}

// Acknowledged counts the records that clients were told to be safe.
func (h *History) Acknowledged() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.acked
}

// acknowledgedAt counts those of a partition.
func (h *History) acknowledgedAt(topic string, partition int32) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, w := range h.writers {
		for _, s := range w.records {
			if s.topic == topic && s.partition == partition && s.outcome == confirmed {
				n++
			}
		}
	}
	return n
}

// label shortens a value to writer and number.
func label(value string) string { return strings.TrimRight(value, "/.") }

// parse takes a value apart.
func (h *History) parse(value string) (*writer, int, bool) {
	name, rest, _ := strings.Cut(value, "/")
	text, _, ok := strings.Cut(rest, "/")
	number, err := strconv.Atoi(text)
	w := h.writers[name]
	if !ok || err != nil || w == nil || number < 0 || number >= len(w.records) {
		return nil, 0, false
	}
	return w, number, true
}
