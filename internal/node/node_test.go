package node

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"moldau/internal/config"
	"moldau/internal/edge/server"
	"moldau/internal/storage/vfs"
)

func start(t *testing.T, fs vfs.FS) *Node {
	t.Helper()
	static, err := config.Load([]config.Layer{config.MapLayer("test", map[string]string{"log.dirs": "/data"})}, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	n, err := Start(ctx, Options{Config: static, FS: fs, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), NoAdmin: true,
		Memory: server.NewMemoryListener("test:9092"), NoListen: true})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestStartStop(t *testing.T) {
	fs := vfs.NewMem(vfs.MemOptions{})
	var cluster string
	for i := range 3 {
		n := start(t, fs)
		if !n.Ready() {
			t.Fatal("started and not ready")
		}
		if i > 0 && n.ClusterID() != cluster {
			t.Fatalf("the cluster id changed from %s to %s", cluster, n.ClusterID())
		}
		cluster = n.ClusterID()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		if err := n.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
}

func TestKillAndStart(t *testing.T) {
	fs := vfs.NewMem(vfs.MemOptions{})
	for range 3 {
		n := start(t, fs)
		fs.Crash()
		n.Kill()
		fs = fs.KillClone()
	}
}
