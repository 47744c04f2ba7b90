package transactions

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/interop/broker"
)

// scripts are lives of transactional ids whose records are kept byte for byte, under each level of transaction.version.
var scripts = []string{
	"init/4",
	"init/4 init/4",
	"init/4 add/3 commit/3 add/3 abort/3",
	"init/4 many/3 commit/3",
	"init/4 offsets/3 add/3 commit/3",
	"init/4 add/5 commit/5 add/5 abort/5",
	"init/4 abort/5",
	"init/4 add/3 init/4-none",
	"init/4 add/5 init/4-none",
	"init/4 add/3 init/4",
	"init/4 add/3 timeout init/4",
	"init/4 add/5 timeout init/4-none add/5 commit/5",
	"init/4 @32765 init/4 init/4 init/4",
	"init/4 @32766 add/5 commit/5 add/5 commit/5",
	"init/4 @32766 abort/5",
	"init/4 @32766 add/3 commit/3",
	"init/4 add/3 @32766 init/4-none",
	"init/4 add/3 @32766 timeout init/4-none",
}

// life is one transactional id with a script, of which rest is to be played.
type life struct {
	p      *producer
	script string
	level  int
	rest   []string
}

// play goes on to the end or to a raised epoch.
func (x *life) play(t testing.TB) {
	for i, step := range x.rest {
		if step[0] == '@' {
			x.rest = x.rest[i:]
			return
		}
		x.p.do(t, step)
	}
	x.rest = nil
}

// TestBytes plays the scripts and compares or records every record that follows. Apache Kafka's are the golden bytes of the
// unit tests; of Moldau the producer ids and times differ, so only that it goes through is checked here.
func TestBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for timeouts")
	}
	n := broker.Start(t, "transaction.state.log.num.partitions=1", "offsets.topic.num.partitions=1",
		"transaction.abort.timed.out.transaction.cleanup.interval.ms=100")
	createTopic(t, n, "t")
	c := dial(t, n.Addr, "bytes")
	findCoordinators(t, c)
	var lives []*life
	for _, level := range []int{2, 1, 0} {
		setLevel(t, c, level)
		for _, s := range scripts {
			if level < 2 && strings.Contains(s, "5") {
				continue
			}
			x := &life{p: &producer{c: c, id: fmt.Sprintf("life-%d", len(lives)), timeoutMs: 60000, pid: -1, epoch: -1},
				script: s, level: level, rest: strings.Fields(s)}
			switch timeout := strings.Contains(s, "timeout"); {
			case timeout && strings.Contains(s, "@"):
				x.p.timeoutMs = 20000 // a restart lies between
			case timeout:
				x.p.timeoutMs = 3000
			}
			x.play(t)
			lives = append(lives, x)
		}
	}
	newest, values := records(t, n), map[string][]byte{}
	for _, x := range lives {
		if len(x.rest) > 0 {
			values[x.p.id] = x.p.raise(newest[x.p.id], x.rest[0][1:])
		}
	}
	setLevel(t, c, 2)
	patch(t, n, values)
	n.Stop(t)
	n.Start(t)
	c = dial(t, n.Addr, "bytes")
	for _, x := range lives {
		if len(x.rest) > 0 && x.level == 2 {
			x.p.c, x.rest = c, x.rest[1:]
			x.play(t)
		}
	}
	all := records(t, n)
	var b strings.Builder
	for _, x := range lives {
		if len(x.rest) > 0 {
			continue
		}
		fmt.Fprintf(&b, "level %d timeout %d %s: %s\n", x.level, x.p.timeoutMs, x.p.id, x.script)
		for _, v := range all[x.p.id] {
			fmt.Fprintf(&b, "  %x\n", v)
		}
	}
	if recording() {
		record(t, "bytes.txt", b.String())
	}
}

// setLevel finalizes transaction.version.
func setLevel(t testing.TB, c *conn, level int) {
	t.Helper()
	r := kmsg.NewPtrUpdateFeaturesRequest()
	r.Version = 1
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = "transaction.version", int16(level), 1
	r.FeatureUpdates = append(r.FeatureUpdates, u)
	resp := c.send(t, r).(*kmsg.UpdateFeaturesResponse)
	if resp.ErrorCode != 0 {
		r.FeatureUpdates[0].UpgradeType = 2
		resp = c.send(t, r).(*kmsg.UpdateFeaturesResponse)
	}
	if resp.ErrorCode != 0 {
		msg := ""
		if resp.ErrorMessage != nil {
			msg = *resp.ErrorMessage
		}
		t.Fatal(kerr.ErrorForCode(resp.ErrorCode), msg)
	}
}
