package node

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/controller"
	"moldau/internal/config"
	"moldau/internal/edge/api"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

// TestFailedDirIsNotMarkedClean: what a failed sync left is in the page cache and perhaps not on the disk; a marker would
// make the next start trust it unread.
func TestFailedDirIsNotMarkedClean(t *testing.T) {
	fs := vfs.NewMem(vfs.MemOptions{})
	static, err := config.Load([]config.Layer{config.MapLayer("test", map[string]string{"log.dirs": "/a,/b"})}, config.Options{})
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
	for _, d := range n.dirs.online {
		if d != n.dirs.metadata {
			n.DirFailed(d, errors.New("the disk broke"))
		}
	}
	if err := n.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{"/a": true, "/b": false} {
		if _, err := fs.Stat(path.Join(dir, log.CleanShutdownFile)); (err == nil) != want {
			t.Errorf("%s is marked clean: %t", dir, err == nil)
		}
	}
}

// TestControlAnswersEverybody: no promise is left open by a controller that has ended, however it ended.
func TestControlAnswersEverybody(t *testing.T) {
	fs := vfs.NewMem(vfs.MemOptions{})
	n := start(t, fs)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var answers []*promise.Promise[api.ControlReply]
	var caught []*promise.Promise[struct{}]
	ask := func() {
		r := kmsg.NewPtrBrokerHeartbeatRequest()
		r.BrokerID, r.BrokerEpoch = int32(n.self.ID), n.lifecycle.epoch.Load()
		answers = append(answers, n.control.Submit(controller.Request{Body: r}))
		caught = append(caught, n.control.CaughtUp())
	}
	stopped := make(chan struct{})
	ask()
	go func() {
		n.Kill()
		close(stopped)
	}()
	for open := true; open; {
		select {
		case <-stopped:
			open = false
		case <-time.After(100 * time.Microsecond):
		}
		ask()
	}
	for i := range answers {
		if _, err := answers[i].Wait(ctx); err != nil {
			t.Fatalf("request %d of %d: %v", i, len(answers), err)
		}
		if _, err := caught[i].Wait(ctx); err != nil {
			t.Fatalf("wait %d of %d: %v", i, len(caught), err)
		}
	}
}

// TestNoHeartbeatAsksToReturn: while the node drains after its controlled shutdown, no heartbeat may ask to be unfenced.
func TestNoHeartbeatAsksToReturn(t *testing.T) {
	var sent []*kmsg.BrokerHeartbeatRequest
	l := &lifecycle{publisher: newPublisher(), changed: make(chan struct{}, 1), cordoned: func() []kafka.UUID { return nil }}
	l.failed = func() (none []kafka.UUID) { return none }
	l.submit = func(r kmsg.Request) *promise.Promise[api.ControlReply] {
		sent = append(sent, r.(*kmsg.BrokerHeartbeatRequest))
		answer := kmsg.NewPtrBrokerHeartbeatResponse()
		answer.ShouldShutdown = true
		return promise.Done(api.ControlReply{Body: answer})
	}
	l.remind = l.submit
	l.tellAlive()
	if err := l.leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.tellAlive()
	for i, want := range []bool{false, true, true} {
		if sent[i].WantShutdown != want {
			t.Errorf("heartbeat %d says that the broker leaves: %t", i, sent[i].WantShutdown)
		}
	}
}

// TestMarkThatStaysEndsTheNode: a mark that cannot be removed would vouch for what only the page cache has.
func TestMarkThatStaysEndsTheNode(t *testing.T) {
	fs, err := vfs.Faulty(vfs.NewMem(vfs.MemOptions{}), "remove "+incarnationFile+" 1- error EIO")
	if err != nil {
		t.Fatal(err)
	}
	n := start(t, fs)
	defer n.Kill()
	n.marker.forget()
	if n.Err() == nil {
		t.Fatal("the node goes on")
	}
}
