package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"moldau/internal/kafka"
)

// admin is the HTTP listener for people and machines that watch the node: metrics, health and profiles. It is bound to
// loopback unless somebody asks for more, because it asks nobody who they are.
type admin struct {
	listener net.Listener
	server   *http.Server
	done     chan struct{}
}

func newAdmin(n *Node, address string) (*admin, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("moldau.admin.listener: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", n.o.Metrics.Handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := n.Err(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !n.Ready() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.HandleFunc("GET /groups/{name}", n.serveGroup)
	mux.HandleFunc("GET /transactions/{id}", n.serveTransaction)
	mux.HandleFunc("GET /partitions/{topic}/{partition}", n.servePartition)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	a := &admin{listener: l, done: make(chan struct{}),
		server: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 1 << 16}}
	n.loops.Go(func() {
		defer close(a.done)
		if err := a.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			n.log.Error("the admin listener ended", "error", err)
		}
	})
	return a, nil
}

func (a *admin) address() net.Addr { return a.listener.Addr() }

func (a *admin) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if a.server.Shutdown(ctx) != nil {
		_ = a.server.Close()
	}
	<-a.done
}

// adminError is the body of an answer that is none.
type adminError struct {
	Error string `json:"error"`
}

// answerAdmin answers with a document, or with why there is none.
func answerAdmin(w http.ResponseWriter, body any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		status := http.StatusServiceUnavailable
		switch kafka.CodeOf(err) {
		case kafka.GroupIDNotFound, kafka.TransactionalIDNotFound, kafka.UnknownTopicOrPartition:
			status = http.StatusNotFound
		case kafka.NotCoordinator, kafka.NotLeaderOrFollower:
			status = http.StatusMisdirectedRequest
		}
		w.WriteHeader(status)
		body = adminError{err.Error()}
	}
	_ = json.NewEncoder(w).Encode(body) // the client is gone
}
