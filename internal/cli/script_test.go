package cli

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"moldau/internal/config"
	"moldau/internal/node"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"moldau": func() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// TestScripts runs testdata/*.txtar against one node. In a script $DATA is its log directory, $FREE a free port,
// $PORTS the first of three for a cluster, and MOLDAU_BROKERS names the node.
func TestScripts(t *testing.T) {
	data := t.TempDir()
	n := startNode(t, data)
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("MOLDAU_BROKERS", n.Addresses()[0].String())
			e.Setenv("MOLDAU_ADMIN", n.AdminAddress().String())
			e.Setenv("DATA", data)
			e.Setenv("FREE", freePort(t))
			e.Setenv("PORTS", freePorts(t, 3))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"overwrite": overwrite,
			"answers":   answers,
			"member":    member,
			"opens":     opens,
			"hangs":     hangs,
			"settled":   settled,
			"brokers":   brokers,
			"endnode":   endNode,
		},
	})
}

func startNode(t *testing.T, data string) *node.Node {
	t.Helper()
	static, err := config.Load([]config.Layer{config.MapLayer("the test", map[string]string{
		"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": data, "moldau.admin.listener": "127.0.0.1:0",
	})}, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n, err := node.Start(ctx, node.Options{Config: static})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := n.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return n
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// freePorts gives the first of some ports in a row that are free, as are those of controllers.
func freePorts(t *testing.T, n int) string {
	t.Helper()
	for range 100 {
		first, err := strconv.Atoi(freePort(t))
		if err != nil {
			t.Fatal(err)
		}
		if last := first + n + config.ControllerPortStep; last <= 65535 && allFree(first, n) &&
			allFree(first+config.ControllerPortStep, n) {
			return strconv.Itoa(first)
		}
	}
	t.Fatal("no free ports")
	return ""
}

func allFree(first, n int) bool {
	for p := range n {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(first+p)))
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}

// brokers N waits until so many brokers are in service.
func brokers(ts *testscript.TestScript, _ bool, args []string) {
	for range 600 {
		if ts.Exec("moldau", "cluster", "brokers", "-o", "json") == nil &&
			strconv.Itoa(strings.Count(ts.ReadFile("stdout"), `"in service"`)) == args[0] {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	ts.Fatalf("not %s brokers", args[0])
}

// endnode DIR N kills node N of cluster up, whose data is in DIR.
func endNode(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[0] + "/node-" + args[1] + ".pid")))
	ts.Check(err)
	p, err := os.FindProcess(n)
	ts.Check(err)
	ts.Check(p.Kill())
}

// overwrite FILE POSITION TEXT changes bytes of a file.
func overwrite(ts *testscript.TestScript, _ bool, args []string) {
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_WRONLY, 0)
	ts.Check(err)
	pos, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	_, err = f.WriteAt([]byte(args[2]), pos)
	ts.Check(err)
	ts.Check(f.Close())
}

// answers ADDRESS waits until somebody accepts connections.
func answers(ts *testscript.TestScript, _ bool, args []string) {
	for range 200 {
		if c, err := net.Dial("tcp", args[0]); err == nil {
			_ = c.Close()
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("nobody answers at %s", args[0])
}

// member GROUP waits until the group is stable, which it is with a member only.
func member(ts *testscript.TestScript, _ bool, args []string) {
	for range 200 {
		if ts.Exec("moldau", "group", "describe", args[0]) == nil && strings.Contains(ts.ReadFile("stdout"), "state Stable") {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("group %s has no member", args[0])
}

// TestReferenceIsFresh keeps docs/reference/cli.md in step with the commands.
func TestReferenceIsFresh(t *testing.T) {
	got, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != Reference() {
		t.Error("docs/reference/cli.md is stale: run go run ./cmd/moldau docs docs/reference")
	}
}

// TestEveryCommandIsExplained holds every command to a line of its own and what it needs.
func TestEveryCommandIsExplained(t *testing.T) {
	page := Reference()
	for _, name := range []string{"serve", "topic create", "produce", "consume", "group reset-offsets", "explain group", "explain partition", "explain txn", "txn abort",
		"config explain", "cluster info", "log dump",
		"doctor", "bench latency", "completion", "version"} {
		if !strings.Contains(page, "## moldau "+name+"\n") {
			t.Errorf("the reference lacks moldau %s", name)
		}
	}
	if strings.Contains(page, "moldau docs") {
		t.Error("a hidden command is in the reference")
	}
}
