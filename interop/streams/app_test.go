package streams

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"moldau/interop/broker"
	"moldau/interop/committed"
	"moldau/interop/kafka"
	"moldau/interop/process"
)

// app is a Streams program that is started again and again on one state directory.
type app struct {
	*process.Program
	t     *testing.T
	n     *process.Node
	state string
}

// newApp writes the program into a directory of its own. args follow the broker's address and the state directory.
func newApp(t *testing.T, n *process.Node, name string, program []byte, args ...string) *app {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, name)
	if err := os.WriteFile(source, program, 0o644); err != nil {
		t.Fatal(err)
	}
	a := &app{t: t, n: n, state: filepath.Join(dir, "state")}
	a.Program = process.NewProgram(t, dir, func() *exec.Cmd {
		return kafka.Java(t, source, append([]string{n.Addr, a.state}, args...)...)
	})
	return a
}

// keepRunning keeps the program running until there are total records of output. It is killed after a share of them
// that differs, or after some seconds wherever it is, and every third time the broker is killed under it instead.
func (a *app) keepRunning(ctx context.Context, rnd *rand.Rand, o *committed.Reader, total int) {
	a.t.Helper()
	share := total / 10
	if testing.Short() {
		share = total / 4
	}
	a.Start()
	for kills, brokers := 0, 0; ; {
		enough := o.Count() + share + rnd.IntN(share)
		soon := time.Now().Add(time.Hour)
		if !testing.Short() && rnd.IntN(3) == 0 {
			soon = time.Now().Add(time.Duration(rnd.Int64N(int64(8 * time.Second))))
		}
		if a.waitFor(ctx, o, min(enough, total), soon) >= total {
			a.t.Logf("the program was killed %d times, the broker %d times", kills, brokers)
			a.End(syscall.SIGTERM)
			return
		}
		victim := "program"
		if (kills+brokers)%3 == 1 {
			victim = "broker"
			brokers++
			a.n.Kill()
			a.n.Start(a.t)
		} else {
			kills++
			a.End(syscall.SIGKILL)
			a.Start()
		}
		a.t.Logf("the %s was killed with %d of %d records of output", victim, o.Count(), total)
	}
}

// waitFor waits for so many records of output, until a time at most, and returns how many there are.
func (a *app) waitFor(ctx context.Context, o *committed.Reader, enough int, until time.Time) int {
	a.t.Helper()
	for time.Now().Before(until) {
		time.Sleep(20 * time.Millisecond)
		a.MustRun()
		if err := o.Err(); err != nil {
			a.t.Fatal(err)
		}
		if ctx.Err() != nil {
			a.t.Fatalf("%d records of output, waiting for %d\n%s", o.Count(), enough, a.Tail())
		}
		if o.Count() >= enough {
			break
		}
	}
	return o.Count()
}

// setup tells how many records go in and starts a broker. The context ends when the work should be done long ago.
func setup(t *testing.T) (lines int, rnd *rand.Rand, n *process.Node, ctx context.Context) {
	t.Helper()
	kafka.Libs(t)
	usual := 20_000
	if testing.Short() {
		usual = 3000
	}
	lines = setting(t, "STREAMS_LINES", usual)
	seed := setting(t, "STREAMS_SEED", int(time.Now().UnixNano()%100000))
	t.Logf("STREAMS_LINES=%d STREAMS_SEED=%d", lines, seed)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute+time.Duration(lines)*2*time.Millisecond)
	t.Cleanup(cancel)
	n = broker.Start(t, "group.min.session.timeout.ms=1000")
	return lines, rand.New(rand.NewPCG(uint64(seed), 1)), n, ctx
}

func setting(t *testing.T, name string, usual int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return usual
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
