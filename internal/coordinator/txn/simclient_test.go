package txn

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// simTimeout is the timeout of the clients' transactions.
const simTimeout = 2 * time.Second

type outcome int

const (
	outcomeUnknown outcome = iota
	outcomeCommitted
	outcomeAborted
)

// simTxn is one transaction of a client: one value, written to some partitions.
type simTxn struct {
	value   string
	wrote   []int32 // acknowledged
	outcome outcome
}

// simClient is a producer. By transactions v2 its messages may come late and repeatedly; before, the protocol relies on
// connections that do not do that, and only answers are lost.
type simClient struct {
	s     *sim
	id    string
	name  string
	v2    bool
	end   time.Time
	dead  bool
	stamp coordinator.Stamp
	seqs  map[int32]int32
	txn   *simTxn
	done  []simTxn
	count int
}

func (s *sim) newClient(id string, v2 bool, end time.Time) {
	c := &simClient{s: s, id: id, name: fmt.Sprintf("%s#%d", id, len(s.clients)), v2: v2, end: end, stamp: coordinator.NoStamp}
	s.clients = append(s.clients, c)
	s.soon(time.Second, c.init)
}

// open is the transaction that was under way when the client stopped.
func (c *simClient) open() []simTxn {
	if c.txn == nil {
		return nil
	}
	return []simTxn{*c.txn}
}

// send repeats a message until an answer comes that is no reason to try again.
func (c *simClient) send(what string, deliver func(told func(error)), got func(error)) {
	answered := false
	var try func()
	try = func() {
		if answered {
			return
		}
		told := func(err error) {
			if c.s.chance(5) {
				return // the answer is lost
			}
			c.s.soon(20*time.Millisecond, func() {
				if answered || err != nil && retriable(err) {
					return
				}
				answered = true
				c.s.note("%s: %s: %v", c.name, what, err)
				got(err)
			})
		}
		late := 20 * time.Millisecond
		if c.v2 && c.s.chance(5) {
			late = 3 * time.Second
		}
		c.s.soon(late, func() { deliver(told) })
		if c.v2 && c.s.chance(10) {
			c.s.soon(3*time.Second, func() { deliver(func(error) {}) })
		}
		c.s.after(700*time.Millisecond, try) // longer than anything but a late message takes
	}
	try()
}

func retriable(err error) bool {
	switch kafka.CodeOf(err) {
	case kafka.NotCoordinator, kafka.CoordinatorNotAvailable, kafka.CoordinatorLoadInProgress, kafka.ConcurrentTransactions,
		kafka.NotLeaderOrFollower, kafka.NotEnoughReplicas:
		return true
	}
	return false
}

// ask sends a request to the coordinator; read takes a good answer over.
func (c *simClient) ask(what string, r kmsg.Request, read func(kmsg.Response) error, got func(error)) {
	var body kmsg.Response
	c.send(what, func(told func(error)) {
		c.s.ask(r, func(a coordinator.Answer) {
			if a.Err == nil {
				body = a.Body
			}
			told(a.Err)
		})
	}, func(err error) {
		if err == nil {
			err = read(body)
		}
		got(err)
	})
}

// init begins, or recovers what the client had.
func (c *simClient) init() {
	r := initRequest(5, c.id, int64(c.stamp.ID), int16(c.stamp.Epoch))
	if !c.v2 {
		r.Version = 4
	}
	r.TransactionTimeoutMillis = int32(simTimeout.Milliseconds())
	c.ask("init", r, func(b kmsg.Response) error {
		x := b.(*kmsg.InitProducerIDResponse)
		c.takeOver(x.ProducerID, x.ProducerEpoch)
		return nil
	}, func(err error) {
		switch kafka.CodeOf(err) {
		case kafka.None:
			c.next()
		default:
			c.die(err)
		}
	})
}

func (c *simClient) takeOver(id int64, epoch int16) {
	c.stamp = coordinator.Stamp{ID: kafka.ProducerID(id), Epoch: kafka.ProducerEpoch(epoch)}
	c.seqs = map[int32]int32{}
}

func (c *simClient) die(err error) {
	c.s.note("%s ends: %v", c.name, err)
	c.dead = true
}

// next begins a transaction.
func (c *simClient) next() {
	if c.s.now.After(c.end) {
		return
	}
	c.count++
	c.txn = &simTxn{value: fmt.Sprintf("%s-%d", c.name, c.count)}
	partitions := c.s.rnd.Perm(len(c.s.partitions))[:1+c.s.rnd.IntN(len(c.s.partitions))]
	c.write(partitions)
}

// write writes to the partitions, then ends the transaction.
func (c *simClient) write(partitions []int) {
	if len(partitions) == 0 {
		if c.s.chance(10) {
			c.s.after(2*simTimeout, func() { c.finish(true) })
			return
		}
		c.finish(c.s.chance(75))
		return
	}
	i := int32(partitions[0])
	p := c.s.partitions[i]
	produce := func() {
		from, sequence, value := c.stamp, c.seqs[i], c.txn.value
		c.send(fmt.Sprint("produce to ", i), func(told func(error)) {
			p.produce(c.id, from, sequence, value, c.v2, told)
		}, func(err error) {
			if err != nil {
				c.failed(err)
				return
			}
			c.seqs[i]++
			c.txn.wrote = append(c.txn.wrote, i)
			c.write(partitions[1:])
		})
	}
	if c.v2 {
		produce()
		return
	}
	r := addRequest(3, c.id, int64(c.stamp.ID), int16(c.stamp.Epoch), false, i)
	c.ask("add", r, func(b kmsg.Response) error {
		if code := kafka.Code(b.(*kmsg.AddPartitionsToTxnResponse).Topics[0].Partitions[0].ErrorCode); code != kafka.None {
			return code
		}
		return nil
	}, func(err error) {
		if err != nil {
			c.failed(err)
			return
		}
		produce()
	})
}

// failed gives the transaction up before its commit was asked for.
func (c *simClient) failed(err error) {
	c.over(outcomeAborted)
	if errors.Is(err, kafka.TransactionAbortable) {
		c.finish(false)
		return
	}
	c.init() // recovers, or learns that it is fenced
}

func (c *simClient) over(o outcome) {
	if c.txn != nil {
		c.txn.outcome = o
		c.done = append(c.done, *c.txn)
		c.txn = nil
	}
}

// finish ends the transaction.
func (c *simClient) finish(commit bool) {
	version := int16(3)
	if c.v2 {
		version = 5
	}
	r := endRequest(version, c.id, int64(c.stamp.ID), int16(c.stamp.Epoch), commit)
	c.ask(fmt.Sprint("end ", commit), r, func(b kmsg.Response) error {
		if x := b.(*kmsg.EndTxnResponse); c.v2 {
			c.takeOver(x.ProducerID, x.ProducerEpoch)
		}
		return nil
	}, func(err error) {
		switch {
		case err == nil && commit:
			c.over(outcomeCommitted)
		case !commit:
			c.over(outcomeAborted)
		default:
			c.over(outcomeUnknown)
		}
		if err != nil {
			c.init()
			return
		}
		c.next()
	})
}
