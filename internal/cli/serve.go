package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"moldau/internal/config"
	"moldau/internal/node"
	"moldau/internal/telemetry"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	config  string
	set     []string
	dataDir string
	listen  string
}

func newServe(s streams) *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a node: broker and controller",
		Long: `Run a node: broker and controller.

Without any setting it is a complete broker on 127.0.0.1:9092 with its data in ./moldau-data. Settings have the names of
Kafka's server.properties and come, later ones winning, from --config, the environment (log.dirs is MOLDAU_LOG_DIRS),
--set, and the flags that stand for a key. SIGTERM or ctrl-C stops it in good order; a second one at once.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), s, f) },
	}
	c.Flags().StringVar(&f.config, "config", "", "a Kafka server.properties `file`")
	c.Flags().StringArrayVar(&f.set, "set", nil, "set a key, as `key=value`; may be given again")
	c.Flags().StringVar(&f.dataDir, "data-dir", "", "`directory` of the data (log.dirs)")
	c.Flags().StringVar(&f.listen, "listen", "", "address to serve on, as `host:port` (listeners)")
	return c
}

// layers reads the settings from all places.
func (f serveFlags) layers() ([]config.Layer, error) {
	var out []config.Layer
	if f.config != "" {
		file, err := os.Open(f.config)
		if err != nil {
			return nil, fmt.Errorf("--config: %w", plain(err))
		}
		defer file.Close()
		l, err := config.FileLayer(f.config, file)
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	out = append(out, config.EnvLayer(os.Environ(), "MOLDAU_BROKERS"))
	l, err := config.SetLayer(f.set)
	if err != nil {
		return nil, err
	}
	out = append(out, l)
	if f.dataDir != "" {
		out = append(out, config.MapLayer("--data-dir", map[string]string{"log.dirs": f.dataDir}))
	}
	if f.listen != "" {
		host, port, err := net.SplitHostPort(f.listen)
		if err != nil {
			return nil, fmt.Errorf("--listen %s: it must be host:port, such as 0.0.0.0:9092", f.listen)
		}
		out = append(out, config.MapLayer("--listen", map[string]string{
			"listeners": "PLAINTEXT://" + net.JoinHostPort(host, port)}))
	}
	return out, nil
}

func serve(parent context.Context, s streams, f serveFlags) error {
	begun := processStart()
	layers, err := f.layers()
	if err != nil {
		return err
	}
	static, err := config.Load(layers, config.Options{})
	if err != nil {
		return err
	}
	registry := telemetry.NewRegistry().WithProcess()
	level, err := telemetry.ParseLevel(static.Text("moldau.log.level"))
	if err != nil {
		return err
	}
	logger := telemetry.NewLogger(s.err, telemetry.LogOptions{Level: level, JSON: static.Text("moldau.log.format") == "json",
		Registry: registry})
	for _, w := range static.Warnings() {
		logger.Warn(w)
	}
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	defer stop()
	n, err := node.Start(ctx, node.Options{Config: static, Log: logger, Metrics: registry, Version: Version})
	if err != nil {
		return explainStart(err)
	}
	fmt.Fprintln(s.out, readyLine(n, static, time.Since(begun)))
	select {
	case <-ctx.Done():
	case <-n.Failed():
	}
	stop() // a second signal ends the process at once
	return stopNode(n)
}

func stopNode(n *node.Node) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := n.Stop(ctx)
	return errors.Join(n.Err(), err)
}

// readyLine says where the node serves, where its data is and how long it took.
func readyLine(n *node.Node, static *config.Static, took time.Duration) string {
	var addresses []string
	loopback := true
	for _, a := range n.Addresses() {
		addresses = append(addresses, a.String())
		if t, ok := a.(*net.TCPAddr); !ok || !t.IP.IsLoopback() {
			loopback = false
		}
	}
	line := fmt.Sprintf("moldau serves on %s, data in %s, ready in %d ms", strings.Join(addresses, ", "),
		strings.Join(static.Node().LogDirs, ", "), took.Milliseconds())
	if loopback && !static.IsSet("listeners") {
		line += " (this machine only; --listen 0.0.0.0:9092 opens it)"
	}
	return line
}

// explainStart adds what can be done about the commonest reasons for a node not to start.
func explainStart(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; another program serves there: stop it, or choose another address with --listen", err)
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; choose a directory that this user may write with --data-dir", err)
	}
	return err
}

// plain takes the operation off a path error, which the message around it says already.
func plain(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return fmt.Errorf("%s: %w", p.Path, p.Err)
	}
	return err
}
