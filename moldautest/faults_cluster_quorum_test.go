package moldautest_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"moldau/moldautest"
)

// TestFault11MembershipAndCuts: a voter loses its disk and joins again, while the active controller is cut off and another
// node is killed. Old and new majorities overlap: nothing acknowledged is lost (KIP-853).
func TestFault11MembershipAndCuts(t *testing.T) {
	beside(t)
	c := moldautest.Cluster(t, 3)
	c.CreateTopic("t", 2, 3)
	h := begin(t, c, "t", 2)
	for range 2 {
		h.progress(50)
		controller := c.WaitController()
		rest := without(c.IDs(), controller)
		c.Kill(rest[0])
		c.WipeDisk(rest[0])
		started := make(chan struct{})
		go func() {
			defer close(started)
			_ = c.TryStart(t.Context(), rest[0]) // it may take until the cut is mended
		}()
		c.Isolate(controller)
		c.Kill(rest[1])
		c.Heal()
		c.Start(rest[1])
		<-started
		c.Start()
		c.WaitISR("t", 0)
		c.WaitISR("t", 1)
	}
	h.progress(50)
	h.verify()
	sameLogs(t, c, "t", 2)
}

// TestFault36Impostors: a node comes with the disk of another cluster, another one under the id of a node that runs, with
// directories of its own. Neither is let in, and those that run go on.
func TestFault36Impostors(t *testing.T) {
	beside(t)
	other := moldautest.Cluster(t, 3)
	other.Kill()
	c := moldautest.Cluster(t, 3)
	c.CreateTopic("t", 2, 3)
	h := begin(t, c, "t", 2)
	h.progress(50)
	const place = 3
	c.Kill(place)
	own := c.Disk(place)
	for name, disk := range map[string]func() error{
		"of another cluster": func() error {
			c.SetDisk(place, other.Disk(place))
			return c.TryStart(short(t, 10*time.Second), place)
		},
		"and the id of a node that runs": func() error {
			c.SetDisk(place, c.Disk(1).KillClone())
			rewrite(t, c, place, "/data/meta.properties", func(b []byte) []byte {
				at := bytes.Index(b, []byte("directory.id=")) + len("directory.id=")
				if b[at] == 'A' {
					b[at] = 'C'
				} else {
					b[at] = 'A' // a valid id still
				}
				return b
			})
			return c.TryStart(short(t, 10*time.Second), place)
		},
	} {
		if err := disk(); err == nil {
			t.Errorf("a node with the disk %s was let in", name)
		} else {
			t.Logf("with the disk %s: %v", name, err)
		}
		h.progress(30)
		if !c.Running(1) || !c.Running(2) {
			t.Errorf("with the disk %s a node that ran has ended: %v, %v", name, c.Failure(1), c.Failure(2))
		}
		c.Kill(place)
	}
	c.SetDisk(place, own)
	c.Start(place)
	c.WaitISR("t", 0)
	c.WaitISR("t", 1)
	h.verify()
}

// TestFault37OneWay: a controller that nobody hears gives way; a voter that hears nobody does not depose a controller that
// the others hear (KIP-996).
func TestFault37OneWay(t *testing.T) {
	beside(t)
	t.Run("not heard", func(t *testing.T) {
		c := moldautest.Cluster(t, 3)
		c.CreateTopic("t", 2, 3)
		h := begin(t, c, "t", 2)
		h.progress(50)
		mute := c.WaitController()
		c.PartitionOneWay([]int32{mute}, without(c.IDs(), mute))
		c.WaitFor("another controller", func() bool { return c.WaitController() != mute })
		c.WaitFor("the old one resigns", func() bool { return c.Controller(mute) != mute })
		c.Heal()
		h.progress(50)
		h.verify()
		sameLogs(t, c, "t", 2)
	})
	t.Run("deaf", func(t *testing.T) {
		// Long enough that a busy machine does not make anybody stand.
		c := moldautest.Cluster(t, 3, moldautest.Config("controller.quorum.fetch.timeout.ms", "5000"),
			moldautest.Config("controller.quorum.request.timeout.ms", "5000"))
		c.CreateTopic("t", 2, 3)
		h := begin(t, c, "t", 2)
		h.progress(50)
		controller := c.WaitController()
		deaf := without(c.IDs(), controller)[0]
		c.PartitionOneWay(without(c.IDs(), deaf), []int32{deaf})
		c.WaitFor("the deaf one looks for a controller", func() bool { return c.Controller(deaf) != controller })
		h.progress(200)
		for _, id := range without(c.IDs(), deaf) {
			if now := c.Controller(id); now != controller {
				t.Errorf("node %d has another controller: %d", id, now)
			}
		}
		c.Heal()
		c.WaitFor("the deaf one hears the controller again", func() bool { return c.Controller(deaf) >= 0 })
		h.progress(50)
		h.verify()
		sameLogs(t, c, "t", 2)
	})
}

// TestFault38ClocksJump: the clocks of nodes jump years ahead and back while records are written that are kept for a day.
// Nothing is deleted, nobody is taken for dead for ever, and what is written goes on.
func TestFault38ClocksJump(t *testing.T) {
	beside(t)
	c := moldautest.Cluster(t, 3, moldautest.Config("log.retention.check.interval.ms", "50"))
	c.CreateTopic("t", 2, 3, "retention.ms", "86400000", "segment.ms", "400")
	h := begin(t, c, "t", 2)
	h.progress(100)
	for _, by := range []time.Duration{-time.Hour, time.Hour, 10 * 365 * 24 * time.Hour, 0} {
		for _, id := range slices.Backward(c.IDs()) {
			c.SkewClock(id, by)
			h.progress(50)
		}
	}
	c.Restart()
	h.progress(50)
	h.verify()
	sameLogs(t, c, "t", 2)
}
