package vnet

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// pair connects machine 1 to machine 2 and gives both ends.
func pair(t *testing.T, n *Network) (near, far net.Conn) {
	t.Helper()
	l, err := n.Listen(2, "two:1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	near, err = n.Dialer(1)(t.Context(), "tcp", "two:1")
	if err != nil {
		t.Fatal(err)
	}
	return near, <-accepted
}

func send(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if _, err := c.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
}

func arrives(t *testing.T, c net.Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Fatalf("%q, %v: want %q", b, err, want)
	}
}

func silent(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if n, err := c.Read(make([]byte, 8)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d bytes, %v: want silence", n, err)
	}
	_ = c.SetReadDeadline(time.Time{})
}

// TestCutOneWay: what is sent on the way that is cut arrives when it is mended, the end of the stream too; the other way
// goes on.
func TestCutOneWay(t *testing.T) {
	n := New()
	near, far := pair(t, n)
	n.Cut(1, 2)
	send(t, near, "ask")
	silent(t, far)
	send(t, far, "told")
	arrives(t, near, "told")
	if err := near.Close(); err != nil {
		t.Fatal(err)
	}
	silent(t, far)
	n.Heal()
	arrives(t, far, "ask")
	if _, err := far.Read(make([]byte, 1)); err != io.EOF {
		t.Fatalf("%v: want the end", err)
	}
}

// TestReaderIsWaiting: a read that had begun before the cut gives nothing after it, and what it found comes later.
func TestReaderIsWaiting(t *testing.T) {
	n := New()
	near, far := pair(t, n)
	got := make(chan string)
	go func() {
		b := make([]byte, 2)
		k, _ := io.ReadFull(far, b)
		got <- string(b[:k])
	}()
	n.Cut(1, 2)
	send(t, near, "ab")
	select {
	case s := <-got:
		t.Fatalf("%q came over a cut", s)
	case <-time.After(20 * time.Millisecond):
	}
	n.Mend(1, 2)
	if s := <-got; s != "ab" {
		t.Fatalf("%q arrived", s)
	}
}

// TestCloseEndsWaiting: a reader that waits behind a cut ends with its own connection.
func TestCloseEndsWaiting(t *testing.T) {
	n := New()
	near, far := pair(t, n)
	n.Cut(1, 2)
	send(t, near, "x")
	ended := make(chan error)
	go func() {
		_, err := far.Read(make([]byte, 1))
		ended <- err
	}()
	_ = far.Close()
	if err := <-ended; err == nil {
		t.Fatal("a closed connection was read")
	}
}

// TestDial: refused where nobody listens, silent where nothing passes, in either direction.
func TestDial(t *testing.T) {
	n := New()
	pair(t, n)
	dial := func(to string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := n.Dialer(1)(ctx, "tcp", to)
		return err
	}
	if err := dial("three:1"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("nobody there: %v", err)
	}
	n.Cut(2, 1)
	if err := dial("two:1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("answers are lost: %v", err)
	}
	n.Heal()
	n.Dark(2, true)
	if err := dial("two:1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without power: %v", err)
	}
	if _, err := n.Listen(2, "two:1"); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("two listeners at one address: %v", err)
	}
}

// TestDark: a machine without power says nothing; when it is back its connections are found broken.
func TestDark(t *testing.T) {
	n := New()
	near, far := pair(t, n)
	n.Dark(2, true)
	send(t, near, "x")
	_ = far.Close()
	silent(t, near)
	n.Dark(2, false)
	if _, err := near.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlived its machine")
	}
	near, far = pair(t, New())
	_ = far
	near.(*conn).network.Break(2, 1)
	if _, err := near.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlived Break")
	}
}
