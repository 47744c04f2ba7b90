package group

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// classicBench drives a machine as the runtime does, with a clock of its own and a log in memory.
type classicBench struct {
	t        testing.TB
	m        *Machine
	settings Settings
	now      time.Time
	rnd      *rand.Rand
	timers   map[coordinator.TimerKey]time.Time
	log      []coordinator.Record
	fail     error // of the next append
	// answered is called with every answer; parked holds what has none.
	answered func(p *coordinator.Pending, a coordinator.Answer)
	parked   map[*coordinator.Pending]int // by arrival
	arrived  int
	// wrote is called after each append.
	wrote func()
}

func newClassicBench(t testing.TB, seed uint64) *classicBench {
	b := &classicBench{
		t: t, now: time.UnixMilli(1_000_000).UTC(), rnd: rand.New(rand.NewPCG(seed, 0)),
		timers: map[coordinator.TimerKey]time.Time{}, parked: map[*coordinator.Pending]int{},
		answered: func(*coordinator.Pending, coordinator.Answer) {}, wrote: func() {},
		settings: Settings{
			MinSession: 6 * time.Second, MaxSession: 30 * time.Minute, InitialRebalanceDelay: 3 * time.Second, MaxSize: 1000,
			OffsetsRetention: 7 * 24 * time.Hour, OffsetsCheckInterval: 10 * time.Minute,
		},
	}
	b.m = b.machine()
	return b
}

func (b *classicBench) machine() *Machine {
	return New(Options{Settings: func() Settings { return b.settings }}, metadata.New())
}

// request hands one request to the machine.
func (b *classicBench) request(client string, body kmsg.Request) *coordinator.Pending {
	p := coordinator.NewPending(coordinator.Call{ClientID: client, ClientHost: "/127.0.0.1"}, body)
	b.submit(p)
	return p
}

func (b *classicBench) submit(p *coordinator.Pending) {
	b.arrived++
	b.parked[p] = b.arrived
	b.handle(p)
}

func (b *classicBench) isParked(p *coordinator.Pending) bool { return b.parked[p] > 0 }

func (b *classicBench) handle(e coordinator.Event) {
	b.carryOut(b.m.Handle(b.now, e, b.rnd))
}

func (b *classicBench) carryOut(r coordinator.Result) {
	var next []coordinator.Event
	for {
		err := b.append(r.Records)
		for _, a := range r.Replies {
			if err != nil {
				a.Answer = coordinator.Answer{Err: err}
			}
			b.answer(a)
		}
		for _, t := range r.Timers {
			if t.At.IsZero() {
				delete(b.timers, t.Key)
			} else {
				b.timers[t.Key] = t.At
			}
		}
		next = append(next, r.Next...)
		if r.Then == nil {
			break
		}
		r = r.Then(b.now, err)
	}
	for _, e := range next {
		b.handle(e)
	}
}

func (b *classicBench) answer(r coordinator.Reply) {
	if !b.isParked(r.To) {
		b.t.Fatalf("answered twice: %T", r.To.Body)
	}
	delete(b.parked, r.To)
	b.answered(r.To, r.Answer)
}

func (b *classicBench) append(records []coordinator.Record) error {
	if len(records) == 0 {
		return nil
	}
	if err := b.fail; err != nil {
		b.fail = nil
		return err
	}
	for _, r := range records {
		b.log = append(b.log, r)
		b.apply(b.m, r, len(b.log)-1)
	}
	b.wrote()
	return nil
}

func (b *classicBench) apply(m *Machine, r coordinator.Record, offset int) {
	at := coordinator.Origin{Offset: kafka.Offset(offset), TimestampMs: b.now.UnixMilli(), Producer: coordinator.NoStamp}
	if err := m.Apply(r, at); err != nil {
		b.t.Fatalf("apply: %v", err)
	}
}

// replay builds a machine of the log, as a load does.
func (b *classicBench) replay() *Machine {
	m := b.machine()
	for i, r := range b.log {
		b.apply(m, coordinator.Record{Key: slices.Clone(r.Key), Value: slices.Clone(r.Value)}, i)
	}
	return m
}

// reload puts another node in charge: parked requests are refused, timers are gone, and the log is replayed.
func (b *classicBench) reload() {
	for _, p := range b.waiting() {
		b.answer(coordinator.Reply{To: p, Answer: coordinator.Answer{Err: kafka.NotCoordinator}})
	}
	clear(b.timers)
	b.m = b.replay()
	b.handle(coordinator.Loaded{Image: metadata.New()})
}

// waiting lists the parked requests as they came.
func (b *classicBench) waiting() []*coordinator.Pending {
	return slices.SortedFunc(maps.Keys(b.parked), func(x, y *coordinator.Pending) int { return b.parked[x] - b.parked[y] })
}

// nextTimer is the earliest timer of classic groups, by time and then by key.
func (b *classicBench) nextTimer() (coordinator.TimerKey, time.Time, bool) {
	var first coordinator.TimerKey
	var when time.Time
	for k, at := range b.timers {
		if k.Kind > timerPendingMember {
			continue
		}
		if when.IsZero() || cmp.Or(at.Compare(when), cmp.Compare(k.Kind, first.Kind), strings.Compare(k.Scope, first.Scope),
			strings.Compare(k.Member, first.Member)) < 0 {
			first, when = k, at
		}
	}
	return first, when, !when.IsZero()
}

// advance lets time pass, and fires what is due meanwhile.
func (b *classicBench) advance(d time.Duration) {
	end := b.now.Add(d)
	for {
		k, at, ok := b.nextTimer()
		if !ok || at.After(end) {
			break
		}
		b.now = maxTime(b.now, at)
		delete(b.timers, k)
		b.handle(coordinator.TimerFired{Key: k})
	}
	b.now = end
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// stored words what the log holds of a machine's classic groups.
func stored(m *Machine) string {
	var out strings.Builder
	for _, id := range sortedGroups(m) {
		c := m.groups[id].classic()
		if c == nil || c.stored == nil {
			continue
		}
		s := c.stored
		fmt.Fprintf(&out, "%s gen=%d type=%q protocol=%s leader=%s since=%d", id, s.generation, s.protocolType, opt(s.protocol),
			opt(s.leader), s.sinceMs)
		for _, x := range s.members {
			fmt.Fprintf(&out, "\n  %s instance=%s client=%s%s rebalance=%d session=%d subscription=%q assignment=%q", x.id,
				opt(x.instance), x.clientID, x.clientHost, x.rebalanceMs, x.sessionMs, x.subscription, x.assignment)
		}
		out.WriteString("\n")
	}
	return out.String()
}

func sortedGroups(m *Machine) []string {
	return slices.Sorted(maps.Keys(m.groups))
}

func opt(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
