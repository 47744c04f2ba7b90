//go:build unix

package chaos

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// way is one direction between two nodes.
type way struct{ from, to int }

// state is what a direction does with bytes.
type state struct {
	lane  *regexp.Regexp // only connections of these lanes; nil: all
	held  bool           // nothing arrives until the direction is healed, as when packets are dropped and sent again
	delay time.Duration  // before each piece of up to 64 KiB
}

// Links are the relays in front of the nodes. Connections of clients always pass. Safe for concurrent use.
type Links struct {
	mu      sync.Mutex
	changed *sync.Cond
	ways    map[way]state
	conns   map[*carried]bool
	loops   sync.WaitGroup
}

// carried is one connection through a relay.
type carried struct {
	links          *Links
	from, to       int // from 0: a client
	lane           string
	client, server net.Conn
	closed         bool // under Links.mu
}

func newLinks() *Links {
	l := &Links{ways: map[way]state{}, conns: map[*carried]bool{}}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// Hold keeps back what goes from one node to another, until Heal: on all connections between them, whoever opened them, or
// on those of the lanes that match.
func (l *Links) Hold(from, to int, lane *regexp.Regexp) {
	l.set(from, to, state{held: true, lane: lane})
}

// Slow delays each piece that goes from one node to another.
func (l *Links) Slow(from, to int, delay time.Duration) { l.set(from, to, state{delay: delay}) }

// Heal lets everything pass at once again, what was held back first.
func (l *Links) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.ways)
	l.changed.Broadcast()
}

// Sever breaks all connections to and from a node without delivering what they hold, as the loss of a machine does.
func (l *Links) Sever(node int) {
	l.mu.Lock()
	var cut []*carried
	for c := range l.conns {
		if c.from == node || c.to == node {
			cut = append(cut, c)
		}
	}
	l.mu.Unlock()
	for _, c := range cut {
		c.close()
	}
}

func (l *Links) set(from, to int, s state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ways[way{from, to}] = s
	l.changed.Broadcast()
}

// entry is a relay: a listener in front of an address of one node.
type entry struct {
	links   *Links
	node    int
	port    int
	backend string
	mu      sync.Mutex
	at      net.Listener
}

// follow opens the relay once the process behind it listens: until then connections are refused, as without a relay. It
// gives up when ended is closed.
func (e *entry) follow(ended <-chan struct{}) {
	for {
		c, err := net.Dial("tcp", e.backend)
		if err == nil {
			c.Close()
			if e.open(ended) == nil {
				return
			}
		}
		select {
		case <-ended:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// open listens. A port that somebody has taken for a moment is waited for.
func (e *entry) open(ended <-chan struct{}) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-ended:
		return nil
	default:
	}
	var err error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var at net.Listener
		if at, err = net.Listen("tcp", fmt.Sprint("127.0.0.1:", e.port)); err == nil {
			e.at = at
			e.links.loops.Go(func() { e.accept(at) })
			return nil
		}
	}
	return err
}

// shut refuses connections from now on, as the kernel does for a process that is gone.
func (e *entry) shut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.at != nil {
		e.at.Close()
		e.at = nil
	}
}

func (e *entry) accept(at net.Listener) {
	for {
		c, err := at.Accept()
		if err != nil {
			return
		}
		e.links.loops.Go(func() { e.carry(c) })
	}
}

var nodeClient = regexp.MustCompile(`^(?:node|broker|controller)-([0-9]+)-(.*)$`)

// firstFrame reads as far as the client id of a connection's first request.
func firstFrame(c net.Conn) (head []byte, clientID string, err error) {
	head = make([]byte, 14)
	if _, err = io.ReadFull(c, head); err != nil {
		return nil, "", err
	}
	n := int16(binary.BigEndian.Uint16(head[12:]))
	if n <= 0 {
		return head, "", nil
	}
	id := make([]byte, n)
	_, err = io.ReadFull(c, id)
	return append(head, id...), string(id), err
}

func (e *entry) carry(client net.Conn) {
	l := e.links
	c := &carried{links: l, to: e.node, client: client}
	c.enter()
	defer c.close()
	head, id, err := firstFrame(client)
	if err != nil {
		return
	}
	if m := nodeClient.FindStringSubmatch(id); m != nil {
		l.mu.Lock()
		c.from, _ = strconv.Atoi(m[1])
		c.lane = m[2]
		l.mu.Unlock()
	}
	server, err := net.Dial("tcp", e.backend)
	if err != nil { // it has just gone: what a kernel says then is reset
		if t, ok := client.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
		return
	}
	l.mu.Lock()
	c.server = server
	gone := c.closed
	l.mu.Unlock()
	if gone {
		server.Close()
		return
	}
	back := make(chan struct{})
	l.loops.Go(func() {
		defer close(back)
		c.copy(client, server, nil, way{c.to, c.from})
		c.close()
	})
	c.copy(server, client, head, way{c.from, c.to})
	c.close()
	<-back
}

func (c *carried) enter() {
	c.links.mu.Lock()
	defer c.links.mu.Unlock()
	c.links.conns[c] = true
}

// close hangs up on both sides, at once and without the rest, so that neither waits.
func (c *carried) close() {
	c.links.mu.Lock()
	c.closed = true
	delete(c.links.conns, c)
	client, server := c.client, c.server
	c.links.changed.Broadcast()
	c.links.mu.Unlock()
	client.Close()
	if server != nil {
		server.Close()
	}
}

// copy carries one direction until it ends; pending goes first.
func (c *carried) copy(to, from net.Conn, pending []byte, w way) {
	buf := make([]byte, 64<<10)
	n, err := copy(buf, pending), error(nil)
	for {
		if n > 0 {
			if !c.pass(w) {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			c.pass(w) // the end of the connection takes the same way
			return
		}
		n, err = from.Read(buf)
	}
}

// pass waits as long as the direction is held back; false: the connection is closed.
func (c *carried) pass(w way) bool {
	l := c.links
	l.mu.Lock()
	defer l.mu.Unlock()
	for !c.closed {
		s := l.ways[w]
		if c.from == 0 || s.lane != nil && !s.lane.MatchString(c.lane) {
			return true
		}
		if s.delay > 0 {
			l.mu.Unlock()
			time.Sleep(s.delay)
			l.mu.Lock()
			return !c.closed
		}
		if !s.held {
			return true
		}
		l.changed.Wait()
	}
	return false
}

// close ends all relays; the entries are shut before.
func (l *Links) close() {
	l.mu.Lock()
	var all []*carried
	for c := range l.conns {
		all = append(all, c)
	}
	l.mu.Unlock()
	for _, c := range all {
		c.close()
	}
	l.loops.Wait()
}
