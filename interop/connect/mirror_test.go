package connect

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/interop/broker"
	"moldau/interop/committed"
	"moldau/interop/kafka"
	"moldau/interop/process"
)

const mirrorPartitions = 3

// side is one of the two clusters: what was written to its topic, and what arrived of the other's.
type side struct {
	name, topic string
	n           *process.Node
	cl          *kgo.Client
	written     [mirrorPartitions][]*kgo.Record
	arrived     [mirrorPartitions][]*kgo.Record
	o           *committed.Reader
}

// mirrored is the name of the other side's topic here.
func (s *side) mirrored() string {
	if s.name == "apache" {
		return "moldau.shipped"
	}
	return "apache.ordered"
}

// TestMirror: MirrorMaker 2 copies a topic of Apache Kafka to the broker under test and one of that back, exactly once
// although it is killed: every record in its partition's order with key, value, headers and time. The topic's
// configuration comes along, and so do the offsets of a group, which leave out nothing that the group has not read.
func TestMirror(t *testing.T) {
	kafka.ConnectLibs(t)
	records, rnd := setup(t, 12_000, 3000)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute+time.Duration(records)*time.Millisecond)
	defer cancel()
	apache := newSide(ctx, t, "apache", "ordered", kafka.Start(t, map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	moldau := newSide(ctx, t, "moldau", "shipped", broker.Start(t))
	sides := []*side{apache, moldau}
	mirror := newMirror(t, apache.n, moldau.n)
	mirror.Start()
	const rounds = 20
	each := records / rounds
	kills := []int{rounds / 4, rounds / 2, rounds * 3 / 4}
	if testing.Short() { // a start of MirrorMaker takes longer than the rest
		kills = nil
	}
	for round := range rounds {
		for _, s := range sides {
			s.write(ctx, t, rnd, each)
			s.commitMost(ctx, t)
		}
		if slices.Contains(kills, round) { // some of it is copied, and some not yet
			for _, s := range sides {
				s.waitFor(ctx, t, mirror, min(each*(round+1), s.o.Count()+1+rnd.IntN(each*2)))
			}
			t.Logf("killed with %d and %d of %d records copied", apache.o.Count(), moldau.o.Count(), each*(round+1))
			mirror.End(syscall.SIGKILL)
			mirror.Start()
		}
	}
	for _, s := range sides {
		s.waitFor(ctx, t, mirror, each*rounds)
	}
	t.Log("all records are copied")
	for i, s := range sides {
		s.waitForOffsets(ctx, t, mirror, sides[1-i])
		s.waitForConfig(ctx, t, mirror)
	}
	t.Log("offsets and configuration are copied")
	mirror.End(syscall.SIGTERM)
	for i, s := range sides {
		s.o.Finish(ctx, t)
		s.compare(t, sides[1-i])
	}
	for _, s := range sides {
		s.n.Stop(t)
	}
}

func newSide(ctx context.Context, t *testing.T, name, topic string, n *process.Node) *side {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addr), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	s := &side{name: name, topic: topic, n: n, cl: cl}
	config := map[string]*string{"retention.ms": new("987654321"), "max.message.bytes": new("1234567")}
	if name == "moldau" && !broker.IsKafka() {
		config["moldau.flush"] = new("async")
	}
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, mirrorPartitions, 1, config, topic); err != nil {
		t.Fatal(err)
	}
	s.o = committed.Watch(t, n.Addr, func(r *kgo.Record) error {
		s.arrived[r.Partition] = append(s.arrived[r.Partition], r)
		return nil
	}, s.mirrored())
	return s
}

// newMirror describes a dedicated MirrorMaker between the two, both ways and exactly once.
func newMirror(t *testing.T, apache, moldau *process.Node) *process.Program {
	t.Helper()
	dir := t.TempDir()
	file := kafka.WriteProperties(t, dir, map[string]string{
		"clusters":                               "apache,moldau",
		"apache.bootstrap.servers":               apache.Addr,
		"moldau.bootstrap.servers":               moldau.Addr,
		"apache->moldau.enabled":                 "true",
		"moldau->apache.enabled":                 "true",
		"apache->moldau.topics":                  "ordered",
		"moldau->apache.topics":                  "shipped",
		"apache.exactly.once.source.support":     "enabled",
		"moldau.exactly.once.source.support":     "enabled",
		"dedicated.mode.enable.internal.rest":    "true",
		"listeners":                              fmt.Sprintf("http://127.0.0.1:%d", process.FreePort(t)),
		"apache.producer.transaction.timeout.ms": "10000",
		"moldau.producer.transaction.timeout.ms": "10000",
		"tasks.max":                              "2",
		"replication.factor":                     "1",
		"checkpoints.topic.replication.factor":   "1",
		"heartbeats.topic.replication.factor":    "1",
		"offset-syncs.topic.replication.factor":  "1",
		"config.storage.replication.factor":      "1",
		"offset.storage.replication.factor":      "1",
		"status.storage.replication.factor":      "1",
		"offset.storage.partitions":              "2",
		"status.storage.partitions":              "1",
		"offset.lag.max":                         "0",
		"config.properties.exclude": "follower.replication.throttled.replicas,leader.replication.throttled.replicas," +
			"message.timestamp.difference.max.ms,message.timestamp.before.max.ms,message.timestamp.after.max.ms," +
			"unclean.leader.election.enable,min.insync.replicas,moldau.flush", // the default, and what Apache Kafka refuses
		"sync.topic.acls.enabled":             "false",
		"sync.group.offsets.enabled":          "true",
		"sync.group.offsets.interval.seconds": "1",
		"emit.checkpoints.interval.seconds":   "1",
		"emit.heartbeats.interval.seconds":    "1",
		"refresh.topics.interval.seconds":     "2",
		"refresh.groups.interval.seconds":     "2",
		"sync.topic.configs.interval.seconds": "2",
		"session.timeout.ms":                  "6000",
		"heartbeat.interval.ms":               "500",
		"rebalance.timeout.ms":                "5000",
		"scheduled.rebalance.max.delay.ms":    "0",
		"offset.flush.interval.ms":            "500",
	})
	return process.NewProgram(t, dir, func() *exec.Cmd {
		return kafka.Connect(t, "org.apache.kafka.connect.mirror.MirrorMaker", file)
	})
}

// write writes to the side's own topic.
func (s *side) write(ctx context.Context, t *testing.T, rnd *rand.Rand, records int) {
	t.Helper()
	now, batch := time.Now().Truncate(time.Millisecond), []*kgo.Record(nil)
	for i := range records {
		p := rnd.Int32N(mirrorPartitions)
		r := &kgo.Record{Topic: s.topic, Partition: p, Timestamp: now.Add(-time.Duration(rnd.Int64N(int64(24 * time.Hour))))}
		if rnd.IntN(10) > 0 {
			r.Key = fmt.Append(nil, s.name, "-", rnd.IntN(100))
		}
		if rnd.IntN(20) > 0 {
			r.Value = fmt.Append(nil, i, strings.Repeat("v", rnd.IntN(200)))
		}
		for range rnd.IntN(3) {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: fmt.Sprint("h", rnd.IntN(3)), Value: fmt.Append(nil, rnd.IntN(9))})
		}
		batch, s.written[p] = append(batch, r), append(s.written[p], r)
	}
	if err := s.cl.ProduceSync(ctx, batch...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// hasRead is how many of so many records the side's group has read. That is more than there were at the last kill: after
// a start, MirrorMaker translates only offsets behind those that it knew last before.
func hasRead(written int) int { return written * 9 / 10 }

// commitMost commits what hasRead says for a group that is not running.
func (s *side) commitMost(ctx context.Context, t *testing.T) {
	t.Helper()
	offsets := kadm.Offsets{}
	for p, all := range s.written {
		offsets.AddOffset(s.topic, int32(p), int64(hasRead(len(all))), -1)
	}
	if err := kadm.NewClient(s.cl).CommitAllOffsets(ctx, s.name+"-readers", offsets); err != nil {
		t.Fatal(err)
	}
}

// until waits for a condition, with what is missing for the day it never comes true.
func until(ctx context.Context, t *testing.T, mirror *process.Program, ok func() (bool, string)) {
	t.Helper()
	for {
		done, missing := ok()
		if done {
			return
		}
		mirror.MustRun()
		if ctx.Err() != nil {
			t.Fatalf("%s\n%s", missing, mirror.Tail())
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (s *side) waitFor(ctx context.Context, t *testing.T, mirror *process.Program, records int) {
	t.Helper()
	until(ctx, t, mirror, func() (bool, string) {
		return s.o.Count() >= records, fmt.Sprintf("%s has %v of %d records of the other", s.name, s.o, records)
	})
}

// compare compares what arrived here with what was written there.
func (s *side) compare(t *testing.T, from *side) {
	t.Helper()
	text := func(r *kgo.Record) string {
		return fmt.Sprintf("%d %q %q %v %q", r.Timestamp.UnixMilli(), r.Key, r.Value, r.Value == nil, r.Headers)
	}
	for p := range mirrorPartitions {
		got, want := s.arrived[p], from.written[p]
		if len(got) != len(want) {
			t.Errorf("%s has %d records of %s-%d, want %d", s.name, len(got), from.topic, p, len(want))
		}
		for i := range min(len(got), len(want)) {
			if text(got[i]) != text(want[i]) {
				t.Fatalf("record %d of %s-%d at %s is %s, want %s", i, from.topic, p, s.name, text(got[i]), text(want[i]))
			}
		}
	}
}

// waitForOffsets waits until the other side's group has offsets for the mirrored topic here. They must not pass a record
// that it has not read.
func (s *side) waitForOffsets(ctx context.Context, t *testing.T, mirror *process.Program, from *side) {
	t.Helper()
	until(ctx, t, mirror, func() (bool, string) {
		offsets, err := kadm.NewClient(s.cl).FetchOffsets(ctx, from.name+"-readers")
		missing, found := "", 0
		for p := range mirrorPartitions {
			at, ok := offsets.Lookup(s.mirrored(), int32(p))
			if err != nil || !ok || at.At <= 0 {
				missing = fmt.Sprintf("%s has offset %v (%v) of %s-%d for the other's group", s.name, at.At, err, s.mirrored(), p)
				continue
			}
			found++
			behind, _ := slices.BinarySearchFunc(s.arrived[p], at.At, func(r *kgo.Record, o int64) int { return int(r.Offset - o) })
			if read := hasRead(len(from.written[p])); behind > read {
				t.Fatalf("%s leaves out %d records of %s-%d, of which its group has read %d", s.name, behind, from.topic, p, read)
			}
		}
		// MirrorMaker notes now and then which offsets go together. If it was never restarted, a partition that it copied
		// at one go may have too few notes for an offset, for ever.
		return missing == "" || testing.Short() && found > 0, missing
	})
}

// waitForConfig waits until the mirrored topic has its original's configuration.
func (s *side) waitForConfig(ctx context.Context, t *testing.T, mirror *process.Program) {
	t.Helper()
	until(ctx, t, mirror, func() (bool, string) {
		all, err := kadm.NewClient(s.cl).DescribeTopicConfigs(ctx, s.mirrored())
		have := map[string]string{}
		for _, of := range all {
			for _, c := range of.Configs {
				have[c.Key] = c.MaybeValue()
			}
		}
		same := have["retention.ms"] == "987654321" && have["max.message.bytes"] == "1234567"
		return same, fmt.Sprintf("%s is configured %v (%v)", s.mirrored(), have, err)
	})
}
