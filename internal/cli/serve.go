package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"moldau/internal/config"
	"moldau/internal/node"
	"moldau/internal/telemetry"
)

// stopTimeout bounds an orderly stop. It is longer than the drain that the configuration allows by default.
const stopTimeout = time.Minute

func newServe(s streams) *cobra.Command {
	var f settingFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a node: broker and controller",
		Long: `Run a node: broker and controller.

Without any setting it is a complete broker on 127.0.0.1:9092 with its data in ./moldau-data. Settings have the names of
Kafka's server.properties and come, later ones winning, from --config, the environment (log.dirs is MOLDAU_LOG_DIRS),
--set, and the flags that stand for a key; moldau config explain KEY tells about each. SIGTERM or ctrl-C stops it in
good order; a second one at once.`,
		Example: `  moldau serve
  moldau serve --listen 0.0.0.0:9092 --data-dir /var/lib/moldau
  moldau serve --config server.properties --set log.retention.hours=24`,
		Args: args(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), s, f) },
	}
	f.add(c)
	return c
}

// serve runs a node until ctx ends or the node fails.
func serve(ctx context.Context, s streams, f settingFlags) error {
	begun := processStart()
	static, err := f.load()
	if err != nil {
		return err
	}
	registry := telemetry.NewRegistry().WithProcess()
	level, err := telemetry.ParseLevel(static.Text("moldau.log.level"))
	if err != nil {
		return err
	}
	var current slog.LevelVar
	current.Set(level)
	logger := telemetry.NewLogger(s.err, telemetry.LogOptions{Level: &current, JSON: static.Text("moldau.log.format") == "json",
		Registry: registry})
	for _, w := range static.Warnings() {
		logger.Warn(w)
	}
	n, err := node.Start(ctx, node.Options{Config: static, Log: logger, LogLevel: &current, Metrics: registry, Version: Version})
	if err != nil {
		return explainStart(err)
	}
	fmt.Fprintln(s.out, readyLine(n, static, time.Since(begun)))
	select {
	case <-ctx.Done():
	case <-n.Failed():
	}
	return stopNode(n)
}

func stopNode(n *node.Node) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
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
