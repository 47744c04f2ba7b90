package api

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// groupFixture is a fixture with a coordinator whose machines do what a test says.
type groupFixture struct {
	*fixture
	*fakeController

	mu     sync.Mutex
	answer func(p *coordinator.Pending) *coordinator.Answer // nil: leave it parked
	asked  []*coordinator.Pending
}

// scripted is a machine that answers what the test says.
type scripted struct{ g *groupFixture }

func (scripted) Apply(coordinator.Record, coordinator.Origin) error { return nil }
func (scripted) Ended(coordinator.Stamp, bool, coordinator.Origin)  {}
func (s scripted) Handle(_ time.Time, e coordinator.Event, _ *rand.Rand) coordinator.Result {
	p, ok := e.(*coordinator.Pending)
	if !ok {
		return coordinator.Result{}
	}
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	s.g.asked = append(s.g.asked, p)
	a := s.g.answer(p)
	if a == nil {
		return coordinator.Result{}
	}
	return coordinator.Result{Replies: []coordinator.Reply{{To: p, Answer: *a}}}
}

// newGroups makes a node that coordinates every group, once topic has been called.
func newGroups(t testing.TB) *groupFixture {
	t.Helper()
	f, x := newAdmin(t)
	f.poison = true
	g := &groupFixture{fixture: f, fakeController: x}
	f.Groups, f.Transactions = g.runtime(kafka.OffsetsTopic), g.runtime(kafka.TransactionsTopic)
	return g
}

// runtime makes the coordinators of a topic.
func (g *groupFixture) runtime(topic string) *coordinator.Runtime {
	f := g.fixture
	r := coordinator.New(coordinator.Options{
		Topic: topic, Self: 1, Partitions: f.Partitions, Host: f, Now: f.clock, After: f.after, Log: f.Log,
		NewMachine: func(int32, *metadata.Image) coordinator.Machine { return scripted{g} },
		Go: func(step func() bool) {
			for step() {
			}
		},
		Rand:          func() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) },
		CommitTimeout: func() time.Duration { return 5 * time.Second },
		Codec:         0, LoadBytes: 1 << 20, KeepBytes: func() int { return 1 << 20 },
	})
	g.t.Cleanup(r.Close)
	return r
}

// topic makes the coordinators' topic, of which this node leads all partitions.
func (g *groupFixture) topic(partitions int32) {
	g.t.Helper()
	g.create(kafka.OffsetsTopic, partitions)
	g.Groups.Changed(g.Image(), nil)
}

// transactions makes the topic of the transaction coordinators, of which this node leads all partitions.
func (g *groupFixture) transactions(partitions int32) {
	g.t.Helper()
	g.create(kafka.TransactionsTopic, partitions)
	g.Transactions.Changed(g.Image(), nil)
}

// answers makes the machines answer every request with what f makes of it.
func (g *groupFixture) answers(f func(req kmsg.Request) (kmsg.Response, error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answer = func(p *coordinator.Pending) *coordinator.Answer {
		body, err := f(p.Body)
		return &coordinator.Answer{Body: body, Err: err}
	}
}

// refuses makes the machines refuse everything.
func (g *groupFixture) refuses(code kafka.Code) {
	g.answers(func(kmsg.Request) (kmsg.Response, error) { return nil, code })
}
