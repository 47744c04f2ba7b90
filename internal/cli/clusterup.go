package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"moldau/internal/config"
)

// adminPortStep leads from the port of a node to that of its admin listener: 9092 to 9644, the default of both.
const adminPortStep = 9644 - 9092

// mostNodes is how many nodes one machine is asked to run for trying out.
const mostNodes = 9

// readyWords begin the line that a node prints when it serves; see readyLine.
const readyWords = "moldau serves on "

// upFlags are the flags of cluster up.
type upFlags struct {
	nodes, port int
	dir         string
	set         []string
}

func newClusterUp(s streams) *cobra.Command {
	var f upFlags
	c := &cobra.Command{
		Use:   "up",
		Short: "Run a cluster on this machine, for trying out",
		Long: `Run a cluster on this machine, for trying out: one process for each node, all on 127.0.0.1.

It prints the addresses for clients when all nodes serve, and what the nodes say, each line behind its node; the same is
in DIRECTORY/node-N.log, and the process id in node-N.pid. A node may be killed: the others go on. SIGTERM or ctrl-C stops
all nodes in good order. Run again, the command finds the data of the last time.

This is no way to run a cluster that must not be lost, because all nodes share one machine: see moldau serve --cluster.`,
		Example: `  moldau cluster up
  moldau cluster up --nodes 5 --data-dir /tmp/five --port 19092`,
		Args: args(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error { return clusterUp(cmd.Context(), s, f) },
	}
	c.Flags().IntVar(&f.nodes, "nodes", 3, "`number` of nodes")
	c.Flags().IntVar(&f.port, "port", 9092, "`port` of the first node; the next has the next, controllers "+
		strconv.Itoa(config.ControllerPortStep)+" more")
	c.Flags().StringVar(&f.dir, "data-dir", "./moldau-cluster", "`directory` of the nodes' data and logs")
	c.Flags().StringArrayVar(&f.set, "set", nil, "set a key on every node, as `key=value`; may be given again")
	_ = c.MarkFlagDirname("data-dir")
	return c
}

// check judges the flags.
func (f upFlags) check() error {
	if f.nodes < 1 || f.nodes > mostNodes {
		return fmt.Errorf("--nodes %d: it must be 1 to %d", f.nodes, mostNodes)
	}
	if last := 65535 - config.ControllerPortStep - f.nodes; f.port < 1 || f.port > last {
		return fmt.Errorf("--port %d: it must be 1 to %d", f.port, last)
	}
	return nil
}

// localCluster is a cluster of child processes.
type localCluster struct {
	s        streams
	f        upFlags
	program  string
	list     string
	children []*child
	lines    lockedLines
}

// child is the process of one node.
type child struct {
	number  int
	address string
	args    []string
	logPath string
	pidPath string // holds the process id while it runs
	log     *os.File
	cmd     *exec.Cmd
	ready   chan struct{} // closed when it serves
	ended   chan struct{} // closed when it has ended, with err
	err     error
}

// clusterUp runs a cluster until ctx ends or no node is left.
func clusterUp(ctx context.Context, s streams, f upFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	begun := time.Now()
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return fmt.Errorf("--data-dir: %w", plain(err))
	}
	// Children are bound to the thread that starts them, where the system can end them with it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := &localCluster{s: s, f: f, program: program, lines: lockedLines{w: s.err}}
	err = c.start()
	if err == nil {
		err = c.waitReady(ctx)
	}
	if err == nil && ctx.Err() == nil {
		c.announce(time.Since(begun))
		err = c.watch(ctx)
	}
	if stopped := c.stop(); err == nil {
		err = stopped
	}
	return err
}

// start starts all nodes. On an error those that were started run.
func (c *localCluster) start() error {
	var all []string
	for i := range c.f.nodes {
		all = append(all, "127.0.0.1:"+strconv.Itoa(c.f.port+i))
	}
	c.list = strings.Join(all, ",")
	for i, address := range all {
		name := "node-" + strconv.Itoa(i+1)
		n := &child{number: i + 1, address: address, logPath: filepath.Join(c.f.dir, name+".log"),
			pidPath: filepath.Join(c.f.dir, name+".pid"), ready: make(chan struct{}), ended: make(chan struct{})}
		n.args = []string{"serve", "--cluster", c.list, "--listen", address, "--data-dir", filepath.Join(c.f.dir, name)}
		if _, ok := os.LookupEnv("MOLDAU_ADMIN_LISTENER"); !ok {
			n.args = append(n.args, "--set", "moldau.admin.listener=127.0.0.1:"+strconv.Itoa(c.f.port+i+adminPortStep))
		}
		for _, kv := range c.f.set {
			n.args = append(n.args, "--set", kv)
		}
		if err := c.run(n); err != nil {
			return fmt.Errorf("node %d: %w", n.number, err)
		}
		c.children = append(c.children, n)
	}
	return nil
}

// run starts the process of a node and follows what it says.
func (c *localCluster) run(n *child) error {
	var err error
	if n.log, err = os.OpenFile(n.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return plain(err)
	}
	n.cmd = exec.Command(c.program, n.args...)
	ownGroup(n.cmd)
	out, err := n.cmd.StdoutPipe()
	if err == nil {
		n.cmd.Stderr = n.cmd.Stdout // the same pipe: one order
		err = n.cmd.Start()
	}
	if err != nil {
		return errors.Join(err, n.log.Close())
	}
	// For people only: what cannot be written is not worth a cluster.
	_ = os.WriteFile(n.pidPath, []byte(strconv.Itoa(n.cmd.Process.Pid)+"\n"), 0o644)
	go func() {
		c.follow(n, out)
		n.err = errors.Join(n.cmd.Wait(), n.log.Close())
		_ = os.Remove(n.pidPath)
		close(n.ended)
	}()
	return nil
}

// follow copies a node's lines to its log and, behind its number, to the terminal.
func (c *localCluster) follow(n *child, from io.Reader) {
	prefix := fmt.Sprintf("node %d | ", n.number)
	r := bufio.NewReader(from)
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			_, _ = n.log.WriteString(line) // a full disk must not stop the cluster
			c.lines.print(prefix, line)
		}
		if strings.HasPrefix(line, readyWords) {
			close(n.ready)
		}
		if err != nil {
			return
		}
	}
}

// lockedLines keeps the lines of several nodes whole.
type lockedLines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedLines) print(prefix, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(l.w, prefix+strings.TrimRight(line, "\r\n"))
}

// waitReady waits until all nodes serve or ctx ends.
func (c *localCluster) waitReady(ctx context.Context) error {
	for _, n := range c.children {
		select {
		case <-n.ready:
		case <-n.ended:
			return fmt.Errorf("node %d does not start; what it said is in %s", n.number, n.logPath)
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// announce says where the cluster is and which process is which node.
func (c *localCluster) announce(took time.Duration) {
	t := newTable("NODE", "ADDRESS", "PROCESS", "LOG")
	for _, n := range c.children {
		t.add(n.number, n.address, n.cmd.Process.Pid, n.logPath)
	}
	_ = t.print(c.s.out)
	fmt.Fprintf(c.s.out, "a cluster of %s serves on %s, data in %s, ready in %d ms\n", count(len(c.children), "node"), c.list,
		c.f.dir, took.Milliseconds())
}

// watch tells of nodes that end until ctx does or none is left.
func (c *localCluster) watch(ctx context.Context) error {
	gone := make(chan *child)
	for _, n := range c.children {
		go func() {
			select {
			case <-n.ended:
				select {
				case gone <- n:
				case <-ctx.Done():
				}
			case <-ctx.Done():
			}
		}()
	}
	for left := len(c.children); left > 0; left-- {
		select {
		case <-ctx.Done():
			return nil
		case n := <-gone:
			c.lines.print("", fmt.Sprintf("node %d has ended: %s; to start it again: %s %s", n.number, n.cmd.ProcessState,
				c.program, strings.Join(n.args, " ")))
		}
	}
	return errors.New("no node is left")
}

// stop stops all nodes that run, side by side, and says which did not stop in good order.
func (c *localCluster) stop() error {
	var errs []error
	var running []*child
	for _, n := range c.children {
		select {
		case <-n.ended:
		default:
			running = append(running, n)
			endInOrder(n.cmd.Process)
		}
	}
	for _, n := range running {
		select {
		case <-n.ended:
			if n.err != nil {
				errs = append(errs, fmt.Errorf("node %d did not stop in good order: %w", n.number, n.err))
			}
		case <-time.After(stopTimeout):
			_ = n.cmd.Process.Kill()
			<-n.ended
			errs = append(errs, fmt.Errorf("node %d had not stopped after %v and was killed", n.number, stopTimeout))
		}
	}
	return errors.Join(errs...)
}
