package controller

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// chaos sends random requests, right and wrong ones, and holds the image to its rules after each.
type chaos struct {
	*world
	rt *rapid.T
	// complete are the brokers whose replica is known to hold everything that was acknowledged, by partition.
	// It is kept by an independent rule: members of an ISR that is large enough, until they lose their disk.
	complete map[part][]kafka.NodeID
	// proposed is the ISR that a leader asks for in this step: it vouches that its members have everything.
	proposed []kafka.NodeID
	lives    map[kafka.NodeID]byte // incarnations used
}

type part struct {
	topic kafka.UUID
	index int32
}

// TestRandomRequests checks that no sequence of requests breaks the rules of partitions, that equal requests
// get equal answers, and that only brokers that hold everything that was acknowledged become leaders cleanly.
func TestRandomRequests(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		minISR := rapid.SampledFrom([]string{"1", "2", "3"}).Draw(rt, "min ISR")
		bootstrap := founded()
		if rapid.IntRange(0, 4).Draw(rt, "elr") == 0 {
			bootstrap = slices.Delete(bootstrap, 1, 2)
		}
		c := &chaos{world: newWorld(t, bootstrap, "min.insync.replicas="+minISR), rt: rt,
			complete: map[part][]kafka.NodeID{}, lives: map[kafka.NodeID]byte{}}
		for id := kafka.NodeID(1); id <= 3; id++ {
			c.lives[id] = 1
		}
		c.up(1, 2, 3)
		c.create("a", []int32{1, 2, 3}, []int32{2, 3, 1})
		c.create("b", []int32{3, 1})
		for topic := range c.image.Topics() {
			for index, p := range topic.Partitions() {
				c.complete[part{topic.ID, index}] = p.ISR
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"register": c.doRegister, "beat": c.doBeat, "beat again": c.doBeat, "leave": c.doLeave,
			"create": c.doCreate, "delete": c.doDelete, "grow": c.doGrow, "isr": c.doISR, "isr again": c.doISR,
			"move": c.doMove, "move again": c.doMove, "take back": c.doTakeBack,
			"shrink": c.doShrink, "shrink again": c.doShrink, "beat once more": c.doBeat, "elect": c.doElect, "configure": c.doConfigure, "tick": c.doTick, "dirs": c.doDirs,
			"unregister": c.doUnregister, "term": c.doTerm, "features": c.doFeatures,
		})
	})
}

func (c *chaos) broker(rt *rapid.T) kafka.NodeID {
	return kafka.NodeID(rapid.IntRange(1, 4).Draw(rt, "broker"))
}

// try hands a request in, twice: both answers must be the same.
func (c *chaos) try(rt *rapid.T, body kmsg.Request) kmsg.Response {
	seed := rapid.Uint64().Draw(rt, "seed")
	first := c.state()
	first.Liveness = cloneLiveness(c.liveness)
	dry := Handle(c.now, first, Request{Body: body}, rand.New(rand.NewPCG(seed, 0)))
	r := Handle(c.now, c.state(), Request{Body: body}, rand.New(rand.NewPCG(seed, 0)))
	if diff := cmp.Diff(c.dump(dry.Records), c.dump(r.Records)); diff != "" {
		rt.Fatalf("not deterministic: %s", diff)
	}
	if !bytes.Equal(dry.Reply.AppendTo(nil), r.Reply.AppendTo(nil)) {
		rt.Fatalf("not deterministic: %+v and %+v", dry.Reply, r.Reply)
	}
	c.follow(rt, r)
	return r.Reply
}

func cloneLiveness(l *Liveness) *Liveness {
	next := *l
	next.brokers = maps.Clone(l.brokers)
	for id, b := range next.brokers {
		life := *b
		next.brokers[id] = &life
	}
	return &next
}

func (c *chaos) dump(records []metadata.Record) []string {
	var out []string
	for _, r := range records {
		out = append(out, metadata.Dump(r, metadata.VersionFor(r, 33)))
	}
	return out
}

// follow applies a result and checks the step.
func (c *chaos) follow(rt *rapid.T, r Result) {
	before := c.image
	after, _, err := c.image.Apply(r.Records)
	if err != nil {
		rt.Fatalf("%v\n%s", err, strings.Join(c.dump(r.Records), "\n"))
	}
	c.image = after
	c.next += kafka.Offset(len(r.Records))
	for topic := range c.image.Topics() {
		for index, p := range topic.Partitions() {
			var old *metadata.Partition
			if was, ok := before.TopicByID(topic.ID); ok {
				old, _ = was.Partition(index)
			}
			if why := c.judge(topic, index, old, p); why != "" {
				rt.Fatalf("%s-%d: %s\nwas %v\nis  %v\n%s", topic.Name, index, why, old, show(p),
					strings.Join(c.dump(r.Records), "\n"))
			}
		}
	}
	if c.image.NextProducerID() < before.NextProducerID() {
		rt.Fatal("producer ids go back")
	}
}

// judge says what is wrong with a partition, and keeps the model of who holds everything.
func (c *chaos) judge(topic *metadata.Topic, index int32, old, p *metadata.Partition) string {
	elr := c.image.Feature(metadata.ElrVersionFeature) > 0
	switch {
	case repeats(p.Replicas) || len(p.Replicas) == 0:
		return "replicas"
	case repeats(p.ISR) || !containsAll(p.Replicas, p.ISR):
		return "the ISR is no set of replicas"
	case p.HasLeader() && !slices.Contains(p.ISR, p.Leader):
		return "the leader is not in the ISR"
	case len(p.ISR) == 0 && !elr:
		return "the ISR is empty without ELR"
	case !elr && len(p.ELR)+len(p.LastKnownELR) > 0 && old != nil && !slices.Equal(p.ELR, old.ELR):
		return "there is an ELR though it is off"
	case repeats(p.ELR) || !containsAll(p.Replicas, p.ELR) || slices.ContainsFunc(p.ISR, in(p.ELR)):
		return "the ELR is no set of replicas out of the ISR"
	case p.HasLeader() && len(p.LastKnownELR) > 0:
		return "a last known leader besides a leader"
	case !containsAll(p.Replicas, p.Adding) || !containsAll(p.Replicas, p.Removing):
		return "what is added or removed is no replica"
	case p.Reassigning() && containsAll(p.ISR, p.Replicas):
		return "a reassignment does not end although everybody is in sync"
	}
	for _, id := range p.ISR {
		b, ok := c.image.Broker(id)
		alone := !elr && len(p.ISR) == 1 // without ELR the last member is kept although it is gone
		if (!ok || b.Fenced) && !alone {
			return fmt.Sprintf("broker %d is in the ISR and not in service", id)
		}
		if p.Leader == id && (!ok || b.Fenced) {
			return "the leader is not in service"
		}
	}
	if old != nil {
		switch {
		case p.LeaderEpoch < old.LeaderEpoch || p.PartitionEpoch < old.PartitionEpoch:
			return "epochs go back"
		case p.Leader != old.Leader && p.LeaderEpoch == old.LeaderEpoch:
			return "another leader in the same epoch"
		case p.LeaderEpoch > old.LeaderEpoch && p.PartitionEpoch == old.PartitionEpoch:
			return "leader epoch without partition epoch"
		}
	}
	return c.judgeCompleteness(topic, index, old, p, elr)
}

func (c *chaos) judgeCompleteness(topic *metadata.Topic, index int32, old, p *metadata.Partition, elr bool) string {
	at := part{topic.ID, index}
	known := c.complete[at]
	t := newTurn(c.now, c.state(), c.world.rnd)
	enough := len(p.ISR) >= min(t.factsOf(topic).minISR, len(p.Replicas))
	switch {
	case old == nil:
		known = p.ISR
	case !p.HasLeader():
		c.complete[at] = known
		return ""
	case p.Recovering && p.Leader != old.Leader:
		known = []kafka.NodeID{p.Leader} // what it has counts from now on
	case p.Leader != old.Leader && elr && !slices.Contains(known, p.Leader) && !slices.Contains(c.proposed, p.Leader):
		return fmt.Sprintf("clean election of a broker that lacks acknowledged records (%v have them)", known)
	}
	if enough || !elr {
		known = p.ISR // records may be acknowledged that nobody else has
	}
	for _, id := range p.ISR {
		if !slices.Contains(known, id) {
			known = append(slices.Clone(known), id)
		}
	}
	c.complete[at] = known
	return ""
}

func in(ids []kafka.NodeID) func(kafka.NodeID) bool {
	return func(id kafka.NodeID) bool { return slices.Contains(ids, id) }
}

func (c *chaos) doRegister(rt *rapid.T) {
	id := c.broker(rt)
	life := c.lives[id]
	if rapid.IntRange(0, 3).Draw(rt, "restart") > 0 && life < 255 {
		life++
	}
	old, known := c.image.Broker(id)
	previous := kafka.BrokerEpoch(-1)
	clean := known && rapid.Bool().Draw(rt, "clean")
	if clean {
		previous = old.Epoch
	}
	r := c.registration(id, life, previous)
	if rapid.IntRange(0, 5).Draw(rt, "dir") == 0 {
		r.LogDirs = [][16]byte{directory(id, byte(rapid.IntRange(1, 2).Draw(rt, "which")))}
	}
	restart := !known || old.Incarnation != kafka.UUID(r.IncarnationID)
	if restart && !clean {
		// The model forgets before the controller decides, if it does.
		before := maps.Clone(c.complete)
		for at, ids := range c.complete {
			c.complete[at] = without(ids, id)
		}
		if c.try(rt, r).(*kmsg.BrokerRegistrationResponse).ErrorCode != 0 {
			c.complete = before
			return
		}
	} else if c.try(rt, r).(*kmsg.BrokerRegistrationResponse).ErrorCode != 0 {
		return
	}
	c.lives[id] = life
}

func (c *chaos) doBeat(rt *rapid.T) {
	id := c.broker(rt)
	b, ok := c.image.Broker(id)
	if !ok {
		return
	}
	r := latest(kmsg.NewPtrBrokerHeartbeatRequest())
	r.BrokerID, r.BrokerEpoch = int32(id), int64(b.Epoch)-int64(rapid.IntRange(0, 20).Draw(rt, "stale")/20)
	r.CurrentMetadataOffset = int64(c.next) - int64(rapid.IntRange(0, 10).Draw(rt, "behind")/5)
	r.WantFence = rapid.IntRange(0, 3).Draw(rt, "fence") == 0
	if rapid.IntRange(0, 9).Draw(rt, "offline") == 0 {
		r.OfflineLogDirs = [][16]byte{directory(id, 1)}
	}
	c.try(rt, r)
}

func (c *chaos) doLeave(rt *rapid.T) {
	id := c.broker(rt)
	b, ok := c.image.Broker(id)
	if !ok {
		return
	}
	r := latest(kmsg.NewPtrBrokerHeartbeatRequest())
	r.BrokerID, r.BrokerEpoch, r.CurrentMetadataOffset, r.WantShutdown = int32(id), int64(b.Epoch), int64(c.next), true
	c.try(rt, r)
}

func (c *chaos) name(rt *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c.d", "c_d"}).Draw(rt, "topic")
}

func (c *chaos) doCreate(rt *rapid.T) {
	r := latest(kmsg.NewPtrCreateTopicsRequest())
	for range rapid.IntRange(1, 2).Draw(rt, "topics") {
		x := kmsg.NewCreateTopicsRequestTopic()
		x.Topic = c.name(rt)
		x.NumPartitions = int32(rapid.IntRange(-1, 3).Draw(rt, "partitions"))
		x.ReplicationFactor = int16(rapid.IntRange(-1, 4).Draw(rt, "rf"))
		if rapid.Bool().Draw(rt, "unclean") {
			k := kmsg.NewCreateTopicsRequestTopicConfig()
			k.Name, k.Value = "unclean.leader.election.enable", new("true")
			x.Configs = append(x.Configs, k)
		}
		r.Topics = append(r.Topics, x)
	}
	c.try(rt, r)
}

func (c *chaos) doDelete(rt *rapid.T) {
	r := latest(kmsg.NewPtrDeleteTopicsRequest())
	x := kmsg.NewDeleteTopicsRequestTopic()
	x.Topic = new(c.name(rt))
	r.Topics = append(r.Topics, x)
	c.try(rt, r)
}

func (c *chaos) doGrow(rt *rapid.T) {
	r := latest(kmsg.NewPtrCreatePartitionsRequest())
	x := kmsg.NewCreatePartitionsRequestTopic()
	x.Topic, x.Count = c.name(rt), int32(rapid.IntRange(0, 5).Draw(rt, "count"))
	r.Topics = append(r.Topics, x)
	c.try(rt, r)
}

// aPartition draws one that exists, nil if there is none.
func (c *chaos) aPartition(rt *rapid.T) *metadata.PartitionRef {
	var all []metadata.PartitionRef
	for topic := range c.image.Topics() {
		for index, p := range topic.Partitions() {
			all = append(all, metadata.PartitionRef{Topic: topic, Index: index, Partition: p})
		}
	}
	if len(all) == 0 {
		return nil
	}
	return &all[rapid.IntRange(0, len(all)-1).Draw(rt, "partition")]
}

// alter asks for an ISR in the name of a broker.
func (c *chaos) alter(rt *rapid.T, ref *metadata.PartitionRef, sender kafka.NodeID, isr []kafka.NodeID) {
	b, ok := c.image.Broker(sender)
	if !ok {
		return
	}
	r := latest(kmsg.NewPtrAlterPartitionRequest())
	r.BrokerID, r.BrokerEpoch = int32(sender), int64(b.Epoch)
	topic := kmsg.NewAlterPartitionRequestTopic()
	topic.TopicID = ref.Topic.ID
	p := kmsg.NewAlterPartitionRequestTopicPartition()
	p.Partition = ref.Index
	p.LeaderEpoch = int32(ref.Partition.LeaderEpoch) + int32(rapid.IntRange(-9, 9).Draw(rt, "epoch off")/9)
	p.PartitionEpoch = int32(ref.Partition.PartitionEpoch) + int32(rapid.IntRange(-9, 9).Draw(rt, "partition epoch off")/9)
	if ref.Partition.Recovering && rapid.Bool().Draw(rt, "recovering") {
		p.LeaderRecoveryState = int8(metadata.LeaderRecovering)
	}
	for _, id := range isr {
		m := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		m.BrokerID, m.BrokerEpoch = int32(id), -1
		if known, ok := c.image.Broker(id); ok {
			m.BrokerEpoch = int64(known.Epoch)
		}
		p.NewEpochISR = append(p.NewEpochISR, m)
	}
	topic.Partitions = append(topic.Partitions, p)
	r.Topics = append(r.Topics, topic)
	c.proposed = isr
	c.try(rt, r)
	c.proposed = nil
}

// doISR asks for any ISR in the name of anybody.
func (c *chaos) doISR(rt *rapid.T) {
	ref := c.aPartition(rt)
	if ref == nil {
		return
	}
	sender := ref.Partition.Leader
	if rapid.IntRange(0, 5).Draw(rt, "other sender") == 0 {
		sender = c.broker(rt)
	}
	isr := nodeIDs(rapid.SliceOfN(rapid.Int32Range(1, 4), 0, 4).Draw(rt, "isr"))
	c.alter(rt, ref, sender, isr)
}

// doShrink is what leaders do most: it drops a member, or takes all replicas in.
func (c *chaos) doShrink(rt *rapid.T) {
	ref := c.aPartition(rt)
	if ref == nil || !ref.Partition.HasLeader() {
		return
	}
	isr := []kafka.NodeID{ref.Partition.Leader}
	if rapid.Bool().Draw(rt, "all") {
		isr = ref.Partition.Replicas
	}
	c.alter(rt, ref, ref.Partition.Leader, isr)
}

func (c *chaos) doMove(rt *rapid.T) {
	r := latest(kmsg.NewPtrAlterPartitionAssignmentsRequest())
	r.AllowReplicationFactorChange = rapid.IntRange(0, 3).Draw(rt, "keep factor") > 0
	for range rapid.IntRange(1, 2).Draw(rt, "moves") {
		ref := c.aPartition(rt)
		if ref == nil {
			return
		}
		var target []int32
		for range rapid.IntRange(1, 3).Draw(rt, "replicas") {
			if id := int32(c.broker(rt)); !slices.Contains(target, id) {
				target = append(target, id)
			}
		}
		c.addMove(r, ref, target)
	}
	c.try(rt, r)
}

func (c *chaos) doTakeBack(rt *rapid.T) {
	r := latest(kmsg.NewPtrAlterPartitionAssignmentsRequest())
	for topic := range c.image.Topics() {
		for index, p := range topic.Partitions() {
			if p.Reassigning() {
				c.addMove(r, &metadata.PartitionRef{Topic: topic, Index: index, Partition: p}, nil)
			}
		}
	}
	c.try(rt, r)
}

func (c *chaos) addMove(r *kmsg.AlterPartitionAssignmentsRequest, ref *metadata.PartitionRef, target []int32) {
	x, p := kmsg.NewAlterPartitionAssignmentsRequestTopic(), kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	x.Topic, p.Partition, p.Replicas = ref.Topic.Name, ref.Index, target
	x.Partitions = append(x.Partitions, p)
	r.Topics = append(r.Topics, x)
}

func (c *chaos) doElect(rt *rapid.T) {
	r := latest(kmsg.NewPtrElectLeadersRequest())
	r.ElectionType = int8(rapid.IntRange(0, 1).Draw(rt, "type"))
	c.try(rt, r)
}

func (c *chaos) doConfigure(rt *rapid.T) {
	line := rapid.SampledFrom([]string{
		"2:a min.insync.replicas=1", "2:a min.insync.replicas=2", "2:a !min.insync.replicas", "2:b min.insync.replicas=3",
		"4: min.insync.replicas=2", "4:1 min.insync.replicas=2", "4: !min.insync.replicas",
		"2:a unclean.leader.election.enable=true", "2:a !unclean.leader.election.enable", "2:zzz retention.ms=1",
	}).Draw(rt, "change")
	s := &script{world: c.world}
	c.try(rt, s.configRequest("alter-configs", words{}, []string{line}))
}

func (c *chaos) doFeatures(rt *rapid.T) {
	r := latest(kmsg.NewPtrUpdateFeaturesRequest())
	x := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	x.Feature = rapid.SampledFrom([]string{"group.version", "share.version", "metadata.version", "none"}).Draw(rt, "feature")
	x.MaxVersionLevel = int16(rapid.IntRange(-1, 34).Draw(rt, "level"))
	x.UpgradeType = int8(rapid.IntRange(0, 3).Draw(rt, "type"))
	r.FeatureUpdates = append(r.FeatureUpdates, x)
	c.try(rt, r)
}

func (c *chaos) doTick(rt *rapid.T) {
	c.now = c.now.Add(time.Duration(rapid.IntRange(1, 400_000).Draw(rt, "ms")) * time.Millisecond)
	before, due := c.now, c.liveness.NextTick(c.now, c.state())
	r := Tick(c.now, c.state(), c.world.rnd)
	if len(r.Records) > 0 && due.After(before) {
		rt.Fatalf("work was done at %v, it was due at %v", before, due)
	}
	c.follow(rt, r)
}

func (c *chaos) doDirs(rt *rapid.T) {
	id := c.broker(rt)
	b, ok := c.image.Broker(id)
	ref := c.aPartition(rt)
	if !ok || ref == nil {
		return
	}
	r := latest(kmsg.NewPtrAssignReplicasToDirsRequest())
	r.BrokerID, r.BrokerEpoch = int32(id), int64(b.Epoch)
	dir := kmsg.NewAssignReplicasToDirsRequestDirectory()
	dir.ID = directory(id, byte(rapid.IntRange(1, 3).Draw(rt, "dir")))
	if rapid.Bool().Draw(rt, "lost") {
		dir.ID = kafka.DirectoryLost
	}
	topic := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
	topic.TopicID = ref.Topic.ID
	p := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
	p.Partition = ref.Index
	topic.Partitions = append(topic.Partitions, p, p) // the same twice
	dir.Topics = append(dir.Topics, topic)
	r.Directories = append(r.Directories, dir)
	c.try(rt, r)
}

func (c *chaos) doUnregister(rt *rapid.T) {
	r := latest(kmsg.NewPtrUnregisterBrokerRequest())
	r.BrokerID = int32(c.broker(rt))
	id := kafka.NodeID(r.BrokerID)
	if b, ok := c.image.Broker(id); ok && b.Fenced { // else it would just register again
		for at, ids := range c.complete {
			c.complete[at] = without(ids, id)
		}
		c.try(rt, r)
	}
}

// doTerm begins another controller's term.
func (c *chaos) doTerm(rt *rapid.T) {
	c.liveness = NewLiveness()
	c.next++
	r := Activate(c.now, c.state(), nil)
	if len(r.Records) != 0 {
		rt.Fatal("a founded cluster needs no records")
	}
}
