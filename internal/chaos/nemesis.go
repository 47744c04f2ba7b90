//go:build unix

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"time"
)

// Fault is one kind of damage. Do returns when the damage is over: what was stopped is started again, what was held back
// passes. It need not be mended by then.
type Fault struct {
	Name string
	Do   func(context.Context, *Cluster, *rand.Rand) error
}

// fetchLanes are the connections over which followers copy.
var fetchLanes = regexp.MustCompile(`^fetch-`)

// Faults are all kinds that need nothing special of the machine.
func Faults() []Fault {
	return []Fault{
		{"kill -9 of a node", killOne}, {"kill -9 of two nodes", killTwo}, {"kill -9 of all nodes", killAll},
		{"kill -9 of a leader nobody copied from", killAhead}, {"SIGSTOP of a node", pauseOne}, {"SIGTERM of a node", stopOne},
		{"rolling restart", roll}, {"lost disk", wipe}, {"one-way partition", oneWay}, {"isolated node", isolate},
		{"slow links", slow}, {"kill -9 again and again", killLoop}, {"kill -9 while it stops", killStopping},
		{"kill -9 beside a partition", killBeside},
	}
}

// FaultsNamed picks from Faults.
func FaultsNamed(names *regexp.Regexp) []Fault {
	return slices.DeleteFunc(Faults(), func(f Fault) bool { return !names.MatchString(f.Name) })
}

// Run does as many faults as asked, drawn from a list by the seed.
func Run(ctx context.Context, c *Cluster, r *rand.Rand, faults []Fault, rounds int) error {
	for round := range rounds {
		f := faults[r.IntN(len(faults))]
		c.Logf("round %d: %s", round, f.Name)
		if err := f.Do(ctx, c, r); err != nil {
			return fmt.Errorf("round %d, %s: %w", round, f.Name, err)
		}
		for _, n := range c.Nodes {
			if err := n.Ended(); err != nil {
				return fmt.Errorf("round %d, %s: %w", round, f.Name, err)
			}
		}
		if r.IntN(2) == 0 { // else the next strikes while this one is being mended
			if err := c.Settle(ctx); err != nil {
				return fmt.Errorf("after round %d, %s: %w", round, f.Name, err)
			}
		}
		wait(r, 0, 1500)
	}
	return nil
}

// settleLimit is how long mending may take on a machine that does other things too.
const settleLimit = 90 * time.Second

// Settle is Settled within that time.
func (c *Cluster) Settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	return c.Settled(ctx, false)
}

func wait(r *rand.Rand, fromMs, toMs int) {
	time.Sleep(time.Duration(fromMs+r.IntN(toMs-fromMs)) * time.Millisecond)
}

// victim draws a node by what it is: the leader of a partition, the active controller, or any.
func (c *Cluster) victim(ctx context.Context, r *rand.Rand) *Node {
	id, role := 0, ""
	switch r.IntN(5) {
	case 0:
		id, role = c.Leader(ctx, Plain, r.Int32N(partitions)), "a leader"
	case 1:
		id, role = c.Leader(ctx, "__transaction_state", r.Int32N(3)), "a coordinator of transactions"
	case 2, 3:
		id, role = c.Controller(ctx), "the controller"
	}
	if id == 0 {
		id, role = 1+r.IntN(len(c.Nodes)), "any"
	}
	c.Logf("  node %d, %s", id, role)
	return c.Nodes[id-1]
}

func killOne(ctx context.Context, c *Cluster, r *rand.Rand) error {
	n := c.victim(ctx, r)
	n.Kill()
	wait(r, 1, []int{200, 4000}[r.IntN(2)])
	return n.Start()
}

func killTwo(ctx context.Context, c *Cluster, r *rand.Rand) error {
	n := c.victim(ctx, r)
	other := c.Nodes[n.ID%len(c.Nodes)]
	n.Kill()
	wait(r, 1, 2000)
	other.Kill()
	wait(r, 1, 1000)
	if r.IntN(2) == 0 {
		n, other = other, n
	}
	if err := n.Start(); err != nil {
		return err
	}
	wait(r, 1, 2000)
	return other.Start()
}

func killAll(_ context.Context, c *Cluster, r *rand.Rand) error {
	order := r.Perm(len(c.Nodes))
	for _, i := range order {
		c.Nodes[i].Kill()
	}
	for _, i := range r.Perm(len(c.Nodes)) {
		if err := c.Nodes[i].Start(); err != nil {
			return err
		}
		wait(r, 1, 1000)
	}
	return nil
}

// killAhead kills a node that has written what nobody else has yet.
func killAhead(ctx context.Context, c *Cluster, r *rand.Rand) error {
	n := c.victim(ctx, r)
	c.holdFetches(n)
	wait(r, 100, 1500)
	n.Kill()
	c.Links.Sever(n.ID)
	c.Links.Heal()
	wait(r, 1, 3000)
	return n.Start()
}

// holdFetches keeps back what others ask a node for to copy.
func (c *Cluster) holdFetches(n *Node) {
	for _, other := range c.Nodes {
		if other != n {
			c.Links.Hold(other.ID, n.ID, fetchLanes)
		}
	}
}

func pauseOne(ctx context.Context, c *Cluster, r *rand.Rand) error {
	n := c.victim(ctx, r)
	n.Pause()
	wait(r, 200, 7000)
	n.Resume()
	return nil
}

// killLoop kills a node that has just been started.
func killLoop(ctx context.Context, c *Cluster, r *rand.Rand) error {
	n := c.victim(ctx, r)
	for range 2 + r.IntN(6) {
		n.Kill()
		if err := n.Start(); err != nil {
			return err
		}
		wait(r, 1, 400)
	}
	return nil
}

// killStopping kills a node in the middle of its orderly stop.
func killStopping(ctx context.Context, c *Cluster, r *rand.Rand) error {
	n := c.victim(ctx, r)
	n.askToStop()
	wait(r, 1, 300)
	n.Kill()
	wait(r, 1, 1000)
	return n.Start()
}

// killBeside kills a node while another one is cut off, one way or both.
func killBeside(ctx context.Context, c *Cluster, r *rand.Rand) error {
	n := c.victim(ctx, r)
	cut := c.Nodes[n.ID%len(c.Nodes)]
	both := r.IntN(2) == 0
	for _, other := range c.Nodes {
		if other != cut {
			c.Links.Hold(cut.ID, other.ID, nil)
			if both {
				c.Links.Hold(other.ID, cut.ID, nil)
			}
		}
	}
	wait(r, 1, 3000)
	n.Kill()
	wait(r, 1, 2000)
	if r.IntN(2) == 0 {
		c.Links.Heal()
		wait(r, 1, 2000)
	}
	if err := n.Start(); err != nil {
		return err
	}
	return c.heal(cut, r)
}

func stopOne(ctx context.Context, c *Cluster, r *rand.Rand) error {
	n := c.victim(ctx, r)
	if err := n.Stop(); err != nil {
		return err
	}
	wait(r, 1, 1000)
	return n.Start()
}

func roll(ctx context.Context, c *Cluster, r *rand.Rand) error {
	for _, i := range r.Perm(len(c.Nodes)) {
		if err := c.Nodes[i].Stop(); err != nil {
			return err
		}
		if err := c.Nodes[i].Start(); err != nil {
			return err
		}
		if err := c.Settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// wipe loses a disk. Two lost disks at once are more than a cluster promises to survive.
func wipe(ctx context.Context, c *Cluster, r *rand.Rand) error {
	if err := c.Settle(ctx); err != nil {
		return err
	}
	n := c.victim(ctx, r)
	n.Kill()
	wait(r, 1, 1500)
	if err := empty(n.Data); err != nil {
		return err
	}
	if err := n.Start(); err != nil {
		return err
	}
	return c.Settle(ctx)
}

// empty removes what a directory holds; the directory may be a mount.
func empty(dir string) error {
	all, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range all {
		if err := os.RemoveAll(dir + string(os.PathSeparator) + e.Name()); err != nil {
			return err
		}
	}
	return nil
}

func oneWay(ctx context.Context, c *Cluster, r *rand.Rand) error {
	n := c.victim(ctx, r)
	deaf := r.IntN(2) == 0 // it hears nobody, or nobody hears it
	c.Logf("  deaf %v", deaf)
	for _, other := range c.Nodes {
		switch {
		case other == n:
		case deaf:
			c.Links.Hold(other.ID, n.ID, nil)
		default:
			c.Links.Hold(n.ID, other.ID, nil)
		}
		if r.IntN(3) == 0 { // one link only
			break
		}
	}
	return c.heal(n, r)
}

func isolate(ctx context.Context, c *Cluster, r *rand.Rand) error {
	n := c.victim(ctx, r)
	for _, other := range c.Nodes {
		if other != n {
			c.Links.Hold(other.ID, n.ID, nil)
			c.Links.Hold(n.ID, other.ID, nil)
		}
	}
	return c.heal(n, r)
}

// heal ends a partition: what was held back arrives late, or never.
func (c *Cluster) heal(n *Node, r *rand.Rand) error {
	wait(r, 500, 9000)
	if r.IntN(2) == 0 {
		c.Links.Sever(n.ID)
	}
	c.Links.Heal()
	return nil
}

func slow(ctx context.Context, c *Cluster, r *rand.Rand) error {
	n := c.victim(ctx, r)
	for _, other := range c.Nodes {
		if other != n {
			c.Links.Slow(other.ID, n.ID, time.Duration(5+r.IntN(150))*time.Millisecond)
			c.Links.Slow(n.ID, other.ID, time.Duration(5+r.IntN(150))*time.Millisecond)
		}
	}
	wait(r, 1000, 6000)
	c.Links.Heal()
	return nil
}
