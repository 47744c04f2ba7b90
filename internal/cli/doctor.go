package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"moldau/internal/config"
)

// States of a check.
const (
	stateOK   = "ok"
	stateWarn = "warn"
	stateFail = "fail"
)

// finding is what a check found.
type finding struct {
	State string `json:"state"`
	Check string `json:"check"`
	Found string `json:"found"`
	Mend  string `json:"mend,omitempty"`
}

func newDoctor(s streams) *cobra.Command {
	var settings settingFlags
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether this machine and these settings make a good broker",
		Long: `Check whether this machine and these settings make a good broker: ports, the advertised address as a client sees it,
disks, file limit, clock and kernel. Give it what serve is given. While the broker runs it is asked; nothing is changed.`,
		Example: `  moldau doctor
  moldau doctor --config server.properties -o json`,
		Args: args(0, 0, "no argument"),
	}
	settings.add(c)
	output := outputFlag(c)
	timeout := c.Flags().Duration("timeout", 3*time.Second, "how long to wait for an answer")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		d := &doctor{ctx: cmd.Context(), timeout: *timeout, findings: []finding{}}
		d.examine(settings)
		if output.value == "json" {
			if err := writeJSON(s.out, d.findings); err != nil {
				return err
			}
		} else {
			for _, f := range d.findings {
				line := fmt.Sprintf("%-5s %-12s %s", f.State, f.Check, f.Found)
				if f.Mend != "" {
					line += "; " + f.Mend
				}
				fmt.Fprintln(s.out, line)
			}
		}
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		failed := 0
		for _, f := range d.findings {
			if f.State == stateFail {
				failed++
			}
		}
		if failed > 0 {
			return fmt.Errorf("%s failed", count(failed, "check"))
		}
		return nil
	}
	return c
}

// doctor gathers findings.
type doctor struct {
	ctx      context.Context
	timeout  time.Duration
	findings []finding
	running  []*session // brokers that answer at our own listeners
}

func (d *doctor) add(state, check, found, mend string) {
	d.findings = append(d.findings, finding{state, check, found, mend})
}

func (d *doctor) examine(settings settingFlags) {
	static, err := settings.load()
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			d.add(stateFail, "settings", line, "")
		}
		static = config.Defaults()
	} else if len(static.Warnings()) == 0 {
		d.add(stateOK, "settings", "all keys and values are understood", "")
	}
	for _, w := range static.Warnings() {
		d.add(stateWarn, "settings", w, "")
	}
	for _, e := range static.Node().Listeners {
		d.listener(e)
	}
	if admin := static.Text("moldau.admin.listener"); admin != "" {
		d.adminListener(admin)
	}
	d.advertised(static)
	for _, dir := range static.Node().LogDirs {
		d.logDir(dir, static.Int64("moldau.disk.reserve.bytes"))
	}
	d.machine()
	for _, s := range d.running {
		s.Close()
	}
}

// listener looks whether a listener's port is free, and if not, whether a broker answers there.
func (d *doctor) listener(e config.Endpoint) {
	address := e.Address()
	check := "port"
	l, err := net.Listen("tcp", address)
	if err == nil {
		_ = l.Close()
		d.add(stateOK, check, e.String()+" is free", "")
		return
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		d.add(stateFail, check, fmt.Sprintf("%s cannot be had: %s", e, cause(err)), "choose another with --listen")
		return
	}
	f := &clientFlags{brokers: []string{reachable(address)}, timeout: d.timeout, given: func() bool { return true }}
	s, err := f.connect(d.ctx)
	if err != nil {
		d.add(stateFail, check, e.String()+" is taken by a program that is no broker",
			"stop that program or choose another port with --listen")
		return
	}
	d.running = append(d.running, s)
	d.add(stateOK, check, e.String()+" is taken by a broker, which is examined", "")
}

// reachable puts this machine in place of "all interfaces".
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}

func (d *doctor) adminListener(address string) {
	l, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		_ = l.Close()
		d.add(stateOK, "admin port", address+" is free", "")
	case len(d.running) > 0:
		d.add(stateOK, "admin port", address+" is taken, as the broker runs", "")
	default:
		d.add(stateFail, "admin port", fmt.Sprintf("%s cannot be had: %s", address, cause(err)),
			"set moldau.admin.listener to another address, or to nothing")
	}
}

// advertised tests the addresses that clients are told.
func (d *doctor) advertised(static *config.Static) {
	if len(d.running) > 0 {
		d.askRunning()
		return
	}
	node := static.Node()
	if len(node.Advertised) == 0 {
		d.add(stateOK, "advertised", "clients are told the address they connected to", "")
		for _, e := range node.Listeners {
			if ip := net.ParseIP(e.Host); inContainer() && (ip == nil || !ip.IsLoopback()) {
				d.add(stateWarn, "advertised", "in a container or behind NAT clients outside see another address than this one",
					"set advertised.listeners to the host and port that they use")
				break
			}
		}
		return
	}
	for _, e := range node.Advertised {
		addresses, err := net.DefaultResolver.LookupHost(d.ctx, e.Host)
		switch {
		case err != nil:
			d.add(stateFail, "advertised", e.String()+": the name is not known here",
				"mend advertised.listeners or the name service")
		case allLoopback(addresses) && !listensOnLoopback(node.Listeners):
			d.add(stateWarn, "advertised", e.String()+" means this machine only, but the listeners are open to others",
				"set advertised.listeners to an address that clients reach")
		default:
			d.add(stateOK, "advertised", fmt.Sprintf("%s is %s", e, strings.Join(addresses, ", ")), "")
		}
	}
}

// askRunning goes where the running brokers send clients.
func (d *doctor) askRunning() {
	for _, s := range d.running {
		ctx, cancel := s.bound(d.ctx)
		meta, err := s.admin.BrokerMetadata(ctx)
		cancel()
		if err != nil {
			d.add(stateFail, "advertised", s.explain(err).Error(), "")
			continue
		}
		for _, b := range meta.Brokers {
			address := net.JoinHostPort(b.Host, fmt.Sprint(b.Port))
			conn, err := net.DialTimeout("tcp", address, d.timeout)
			if err != nil {
				d.add(stateFail, "advertised", fmt.Sprintf("broker %d sends clients to %s, where nothing answers (%s)", b.NodeID,
					address, cause(err)), "mend its advertised.listeners")
				continue
			}
			_ = conn.Close()
			d.add(stateOK, "advertised", fmt.Sprintf("broker %d sends clients to %s, which answers", b.NodeID, address), "")
		}
	}
}

func allLoopback(addresses []string) bool {
	for _, a := range addresses {
		if ip := net.ParseIP(a); ip == nil || !ip.IsLoopback() {
			return false
		}
	}
	return true
}

func listensOnLoopback(es []config.Endpoint) bool {
	for _, e := range es {
		ip := net.ParseIP(e.Host)
		if e.Host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return false
		}
	}
	return true
}
