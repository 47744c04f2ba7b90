package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	defaultBrokers = "127.0.0.1:9092"
	brokersEnv     = "MOLDAU_BROKERS"
	// completionTimeout bounds what pressing tab may take.
	completionTimeout = time.Second
)

// clientFlags say where the brokers are.
type clientFlags struct {
	brokers []string
	timeout time.Duration
	given   func() bool // whether --brokers stands on the command line
}

// clientFlagsOf adds the flags of all commands that talk to a broker.
func clientFlagsOf(c *cobra.Command) *clientFlags {
	f := &clientFlags{given: func() bool { return c.Flags().Changed("brokers") }}
	c.Flags().StringSliceVarP(&f.brokers, "brokers", "b", []string{defaultBrokers},
		"`host:port` of one or more brokers (environment "+brokersEnv+")")
	c.Flags().DurationVar(&f.timeout, "timeout", 10*time.Second, "how long to wait for an answer")
	return f
}

// seeds gives the addresses to begin with: the flag, else the environment, else the default.
func (f *clientFlags) seeds() []string {
	brokers := f.brokers
	if env := os.Getenv(brokersEnv); env != "" && !f.given() {
		brokers = strings.Split(env, ",")
	}
	var out []string
	for _, b := range brokers {
		if b = strings.TrimSpace(b); b != "" {
			out = append(out, b)
		}
	}
	return out
}

// session is a connected client with what it takes to explain a failure.
type session struct {
	*kgo.Client
	admin   *kadm.Client
	seeds   []string
	timeout time.Duration
	dials   *dials
}

// connect reaches a broker, or says why not.
func (f *clientFlags) connect(ctx context.Context, opts ...kgo.Opt) (*session, error) {
	if f.timeout <= 0 {
		return nil, errors.New("--timeout must be more than 0, such as 10s")
	}
	s := &session{seeds: f.seeds(), timeout: f.timeout, dials: &dials{}}
	if len(s.seeds) == 0 {
		return nil, errors.New("--brokers is empty: give host:port of a broker")
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(s.seeds...), kgo.ClientID("moldau-cli"), kgo.WithHooks(s.dials), kgo.DialTimeout(f.timeout),
		kgo.RetryTimeout(f.timeout), kgo.MetadataMinAge(100 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("%s (%s)", strings.TrimPrefix(err.Error(), "invalid "), strings.Join(s.seeds, ","))
	}
	s.Client, s.admin = cl, kadm.NewClient(cl)
	s.admin.SetTimeoutMillis(int32(f.timeout.Milliseconds()))
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if err := cl.Ping(ctx); err != nil {
		cl.Close()
		return nil, s.explain(err)
	}
	return s, nil
}

// bound gives a context for one request.
func (s *session) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.timeout)
}

// explain makes an error of the client one that helps a person.
func (s *session) explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if e, ok := asBrokerError(err); ok {
		return e
	}
	where := strings.Join(s.seeds, ",")
	at, failed := s.dials.last()
	if failed != nil && !slices.Contains(s.seeds, at) {
		return fmt.Errorf("the broker at %s says that it is reached at %s, where nothing answers (%s); "+
			"mend its advertised.listeners (moldau doctor checks it)", where, at, cause(failed))
	}
	var dial *net.OpError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("no broker answers at %s (%s); start one with moldau serve or name another with --brokers",
			where, cause(err))
	case errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err) || errors.Is(err, kgo.ErrRecordTimeout):
		return fmt.Errorf("no answer from %s within %s; see whether the broker is well, or wait longer with --timeout",
			where, s.timeout)
	case errors.Is(err, net.ErrClosed), strings.Contains(err.Error(), "EOF"):
		return fmt.Errorf("%s closed the connection; see whether it is a Kafka broker's plaintext listener", where)
	}
	return err
}

// cause is the innermost reason of a network error.
func cause(err error) string {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return "the name " + dns.Name + " is not known"
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	var call *os.SyscallError
	if errors.As(err, &call) {
		err = call.Err
	}
	if os.IsTimeout(err) || errors.Is(err, context.DeadlineExceeded) {
		return "no answer"
	}
	return err.Error()
}

// dials remembers the last connection that failed, because requests that wait for it only time out.
type dials struct {
	mu   sync.Mutex
	addr string
	err  error
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (d *dials) OnBrokerConnect(m kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch addr := net.JoinHostPort(m.Host, fmt.Sprint(m.Port)); {
	case err != nil && !errors.Is(err, context.Canceled):
		d.addr, d.err = addr, err
	case err == nil && d.addr == addr:
		d.addr, d.err = "", nil
	}
}

func (d *dials) last() (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.addr, d.err
}

// completeTopics offers the topics of the broker to the shell.
func (f *clientFlags) completeTopics(most int) cobra.CompletionFunc {
	return f.complete(most, func(ctx context.Context, s *session) []string {
		topics, _ := s.admin.ListTopics(ctx)
		return topics.Names()
	})
}

// complete offers the names that a broker gives quickly; most bounds the arguments, -1 does not.
func (f *clientFlags) complete(most int, list func(context.Context, *session) []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, given []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most >= 0 && len(given) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		quick := &clientFlags{brokers: f.brokers, timeout: completionTimeout, given: f.given}
		ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
		defer cancel()
		s, err := quick.connect(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer s.Close()
		var names []string
		for _, name := range list(ctx, s) {
			if strings.HasPrefix(name, prefix) && !slices.Contains(given, name) {
				names = append(names, name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
