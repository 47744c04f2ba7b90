package coordinator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// worker is a machine that writes what a request says and asks for work about it: "write VALUE", "read", "large".
type worker struct {
	log *[]string
}

func (worker) Apply(Record, Origin) error { return nil }
func (worker) Ended(Stamp, bool, Origin)  {}
func (m worker) Handle(now time.Time, e Event, _ *rand.Rand) Result {
	switch e := e.(type) {
	case *Pending:
		what, value, _ := strings.Cut(e.Body.(*kmsg.HeartbeatRequest).Group, " ")
		res := Result{Scope: "s", Outgoing: []Work{what + " " + value}, Next: []Event{"next " + what},
			Timers:  []Timer{{Key: TimerKey{Scope: what}, At: now.Add(time.Second)}},
			Replies: []Reply{{e, toyAnswer(what)}}}
		switch what {
		case "write":
			res.Records = []Record{{[]byte("k"), []byte(value)}}
		case "large":
			res.Records = []Record{{[]byte("k"), make([]byte, 2<<20)}}
		}
		res.Then = func(_ time.Time, err error) Result {
			*m.log = append(*m.log, fmt.Sprint("then ", err))
			return Result{}
		}
		return res
	case TimerFired:
		*m.log = append(*m.log, "timer "+e.Key.Scope)
	case string:
		*m.log = append(*m.log, e)
	case Loaded:
		*m.log = append(*m.log, fmt.Sprint("loaded in epoch ", e.LeaderEpoch))
	}
	return Result{}
}

type handedOut struct {
	work  Work
	at    ShardID
	alive func() bool
	done  func(Event)
}

func newWorkers(t *testing.T) (w *world, log *[]string, out *[]handedOut) {
	log, out = &[]string{}, &[]handedOut{}
	w = newWorld(t, worldOptions{options: func(o *Options) {
		o.NewMachine = func(int32, *metadata.Image) Machine { return worker{log: log} }
		o.Work = func(x Work, at ShardID, alive func() bool, done func(Event)) {
			*out = append(*out, handedOut{x, at, alive, done})
		}
	}})
	*log = nil
	return w, log, out
}

// TestWorkIsHandedOutWhenCommitted, also what a read asks for, which may tell of something that could still vanish.
func TestWorkIsHandedOutWhenCommitted(t *testing.T) {
	w, log, out := newWorkers(t)
	w.held = true
	w.Do("s", toyRequest("write 1"))
	w.Do("s", toyRequest("read"))
	if len(*out) != 0 {
		t.Fatalf("%+v before anything is committed", *out)
	}
	w.flush()
	if len(*out) != 2 || (*out)[0].work != "write 1" || (*out)[1].work != "read " {
		t.Fatalf("%+v", *out)
	}
	w.Do("s", toyRequest("read"))
	if len(*out) != 3 {
		t.Fatal("everything is committed")
	}
	*log = nil
	(*out)[0].done("came back")
	if !slices.Equal(*log, []string{"came back"}) || !(*out)[0].alive() {
		t.Fatal(*log)
	}
}

// TestFailedAppendLeavesNothing but replies and Then.
func TestFailedAppendLeavesNothing(t *testing.T) {
	w, log, out := newWorkers(t)
	p := toyRequest("large")
	w.Do("s", p)
	a, ok := p.Answer().Get()
	if !ok || kafka.CodeOf(a.Err) != kafka.UnknownServerError {
		t.Fatalf("%v %+v", ok, a)
	}
	w.advance(2 * time.Second)
	if want := []string{"then " + kafka.UnknownServerError.Name()}; !slices.Equal(*log, want) || len(*out) != 0 {
		t.Fatalf("%q, want %q; work %+v", *log, want, *out)
	}
	w.Do("s", toyRequest("write 1"))
	w.advance(2 * time.Second)
	if want := []string{"then <nil>", "next write", "timer write"}; !slices.Equal((*log)[1:], want) || len(*out) != 1 {
		t.Fatalf("%q, want %q; work %+v", (*log)[1:], want, *out)
	}
}

// TestWorkOfAShardThatIsGone is not heard of any more.
func TestWorkOfAShardThatIsGone(t *testing.T) {
	w, log, out := newWorkers(t)
	w.Do("s", toyRequest("read"))
	w.lead(2)
	w.lead(1)
	*log = nil
	old := (*out)[0]
	if old.alive() {
		t.Fatal("alive")
	}
	old.done("late")
	if len(*log) != 0 {
		t.Fatal(*log)
	}
	w.Do("s", toyRequest("read"))
	if fresh := (*out)[1]; !fresh.alive() || fresh.at.LeaderEpoch <= old.at.LeaderEpoch {
		t.Fatalf("%+v after %+v", fresh.at, old.at)
	}
}
