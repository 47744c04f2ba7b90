package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"moldau/internal/kafka"
)

// TestSlowClients holds connections that send or read too slowly beside those that are merely quiet.
func TestSlowClients(t *testing.T) {
	s := newSuite(t, map[string]string{"moldau.memory.budget.bytes": "67108864"})
	s.healthy("the start")
	before := measure()
	whole := frame(produceRequest(9, "healthy", 0, 1, batchOf(string(make([]byte, 5000))).bytes()), 1)
	large := binary.BigEndian.AppendUint32(nil, 90<<20)
	large = append(large, whole[4:100]...)
	// Each is sent at once, then a byte at a time, but for the length, which would be complete soon.
	slow := map[string][]byte{
		"in the length": whole[:2], "in the header": whole[:9], "in the body": whole[:3000], "in a large body": large,
	}
	var wg sync.WaitGroup
	for name, start := range slow {
		for range 5 {
			c := s.dial()
			wg.Go(func() {
				if err := dribble(c, start, name != "in the length"); err != nil {
					t.Errorf("slow %s: %v", name, err)
				}
			})
		}
	}
	quiet := s.dial()
	if err := goesOn(s, quiet); err != nil {
		t.Error(err)
	}
	reader := s.dial()
	wg.Go(func() {
		if err := neverReads(reader); err != nil {
			t.Errorf("a client that does not read: %v", err)
		}
	})
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for closed := false; !closed; {
		select {
		case <-done:
			closed = true
		case <-time.After(100 * time.Millisecond):
		}
		s.healthy("slow clients")
	}
	if err := goesOn(s, quiet); err != nil { // two seconds without a request, which is no fault
		t.Errorf("a quiet client: %v", err)
	}
	quiet.Close()
	s.settled(before)
}

// dribble sends start and then a byte now and then, and wants to be cut off.
func dribble(c *wire, start []byte, goOn bool) error {
	began := time.Now()
	if _, err := c.Write(start); err != nil {
		return err
	}
	for time.Since(began) < patience {
		_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		n, err := c.Read(make([]byte, 1))
		switch {
		case n > 0:
			return errors.New("answered")
		case !errors.Is(err, os.ErrDeadlineExceeded):
			if time.Since(began) < 900*time.Millisecond {
				return fmt.Errorf("cut off after %v", time.Since(began))
			}
			return nil
		}
		if goOn {
			_, _ = c.Write([]byte{0}) // fails once it is closed, which the next read tells
		}
	}
	return errors.New("still open")
}

// neverReads asks for more answers than the sockets' buffers hold, and wants to be cut off.
func neverReads(c *wire) error {
	_ = c.Conn.(*net.TCPConn).SetReadBuffer(4096)
	many := frame(metadataOf("healthy"), 1)
	for began := time.Now(); time.Since(began) < patience; {
		_ = c.SetWriteDeadline(time.Now().Add(patience / 2))
		if _, err := c.Write(many); errors.Is(err, os.ErrDeadlineExceeded) {
			break
		} else if err != nil {
			return nil
		}
	}
	// With full buffers on both sides the end may not have reached us. What is left to read must end in it.
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("not cut off")
	}
	return nil
}

// TestParkedConnectionsClose opens connections that wait in Fetch and closes them while they do.
func TestParkedConnectionsClose(t *testing.T) {
	s := newSuite(t, nil)
	s.create("parked")
	s.healthy("the start")
	before := measure()
	rounds, each := 4, 500
	if long() {
		rounds, each = 10, 2000
	}
	p, err := s.node.manager.Get(kafka.TopicPartition{Topic: "parked"})
	if err != nil {
		t.Fatal(err)
	}
	r := fetchRequest(12, "parked", 0, 0)
	r.MaxWaitMillis = 600_000
	for range rounds {
		conns := make([]*wire, each)
		for i := range conns {
			conns[i] = s.dial()
			if i%2 == 0 { // with a session, which stays, and without one
				r.SessionEpoch = -1
			} else {
				r.SessionEpoch = 0
			}
			if _, err := conns[i].Write(frame(r, 1)); err != nil {
				t.Fatal(err)
			}
		}
		waitFor(t, "all are parked", func() bool { return p.Watching() >= each/2 })
		s.healthy("parked fetches")
		for _, c := range conns {
			c.Close()
		}
	}
	sessions := min(1000, rounds*each/2) // max.incremental.fetch.session.cache.slots
	waitFor(t, "the watchers of connections are gone", func() bool { return p.Watching() <= sessions })
	s.settled(before)
	s.healthy("parked connections")
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}
