package sim

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"time"

	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// modelNow is when everything in the model happens: it has no time, and what depends on time may happen at any moment.
var modelNow = time.UnixMilli(1_800_000_000_000)

// modelTopic has the one partition of the model.
var modelPartition = kafka.TopicPartition{Topic: topicName}

// stepKind is something that can happen to a node.
type stepKind uint8

const (
	stepStart   stepKind = iota // with the newest image and a new broker epoch
	stepImage                   // the next image arrives
	stepAppend                  // a client writes
	stepFlush                   // the disk has everything
	stepServe                   // a follower's fetch arrives
	stepTake                    // the answer to a fetch arrives
	stepTick                    // every follower that is not at the end has been so for too long
	stepDecided                 // the controller's answer to a proposal arrives
	stepLose                    // the power goes, with all that was not synced
	stepKill                    // kill -9: the page cache stays
)

// step is one thing that happens to one node. Messages and images are named by their places in the model's tables.
type step struct {
	kind stepKind
	n    int32
}

// fetchAsk is a follower's fetch.
type fetchAsk struct {
	from, to         kafka.NodeID
	broker           kafka.BrokerEpoch
	epoch, lastEpoch kafka.LeaderEpoch
	offset, start    kafka.Offset
}

// fetchAnswer is what comes back, with the leader's ends, which a follower that is out of range asks for.
type fetchAnswer struct {
	code            kafka.Code
	visible         kafka.Offset
	start, end      kafka.Offset
	diverging       kafka.LeaderEpoch
	divergingOffset kafka.Offset
	records         string
}

// isrAsk is a proposal for the in-sync set; members is three pairs of broker and broker epoch at most.
type isrAsk struct {
	from    kafka.NodeID
	broker  kafka.BrokerEpoch
	epoch   kafka.LeaderEpoch
	version kafka.PartitionEpoch
	members [3]replica.ISRMember
	count   int
}

// isrAnswer is the controller's word on it.
type isrAnswer struct {
	code    kafka.Code
	version kafka.PartitionEpoch
}

type messageKind uint8

const (
	messageFetch messageKind = iota
	messageAnswer
	messagePropose
	messageDecision
)

// modelMessage is a message under way.
type modelMessage struct {
	kind     messageKind
	fetch    fetchAsk
	answer   fetchAnswer
	propose  isrAsk
	decision isrAnswer
}

// acknowledgement is what a client is told.
type acknowledgement struct {
	at    kafka.Offset
	value int32
}

// modelView is what the model looks at in a node.
type modelView struct {
	up, fetches, dirty bool
	role               replica.Role
	epoch              kafka.LeaderEpoch
	visible            kafka.Offset
	end, durable       kafka.Offset
	entries            string // of the log, two bytes each: leader epoch and value
	ask                fetchAsk
	broker             kafka.BrokerEpoch
}

// modelNode is one broker with the replica of the partition: the real ones, on a disk in memory.
type modelNode struct {
	m        *model
	id       kafka.NodeID
	disk     *vfs.Mem
	manager  *replica.Manager
	p        *replica.Partition
	image    int32
	broker   kafka.BrokerEpoch
	unsynced bool // something was done since the last sync
	left     modelView
	sent     []modelMessage
	acks     []acknowledgement
	err      error
}

func (m *model) newNode(id kafka.NodeID) *modelNode {
	n := &modelNode{m: m, id: id, disk: vfs.NewMem(vfs.MemOptions{}), image: -1}
	n.err = log.FormatDir(n.disk, dataDir, log.MetaProperties{ClusterID: clusterID, NodeID: id, DirectoryID: directoryOf(id)})
	return n
}

// do lets a step happen.
func (n *modelNode) do(s step) {
	n.sent, n.acks = nil, nil
	switch s.kind {
	case stepStart:
		n.start(s.n)
	case stepImage:
		diff, epoch := n.m.diffs[[2]int32{n.image, s.n}], n.p.Info().LeaderEpoch
		n.image = s.n
		n.applied(n.manager.Apply(modelNow, n.m.images[s.n], diff, true, n))
		n.unsynced = n.unsynced || n.p.Role() == replica.Leader && n.p.Info().LeaderEpoch != epoch
	case stepAppend:
		n.append(s.n)
	case stepFlush:
		t := n.p.BeginFlush()
		e := n.p.Flushed(modelNow, t, t.Sync())
		n.unsynced = false
		e.Run(n)
	case stepServe:
		n.serve(n.m.messages[s.n].fetch)
	case stepTake:
		n.take(n.m.messages[s.n])
	case stepTick:
		e := n.p.Tick(modelNow, -1)
		e.Run(n)
	case stepDecided:
		n.decided(n.m.messages[s.n])
	case stepLose, stepKill:
		n.crash(s.kind == stepKill)
	}
}

func (n *modelNode) applied(a replica.Applied) {
	if len(a.Failed) > 0 {
		n.err = a.Failed[0].Err
	}
}

func (n *modelNode) start(image int32) {
	d, err := log.OpenDir(n.disk, dataDir, log.MetaProperties{NodeID: n.id})
	if err != nil {
		n.err = err
		return
	}
	n.image, n.unsynced = image, true
	self, _ := n.m.images[image].Broker(n.id)
	n.broker = self.Epoch
	n.manager = replica.NewManager(replica.ManagerOptions{Self: n.id, Dirs: []*log.Dir{d}, Config: modelConfig,
		NewUUID: func() kafka.UUID { return kafka.UUID{1: 1} }, Limits: replica.Limits{ReplicaLag: replicaLag}})
	parts, err := d.Partitions()
	if err != nil {
		n.err = err
		return
	}
	for _, p := range parts {
		x := d.Load(p, topicConfig(), log.Options{}, modelNow)
		for done := false; !done && err == nil; {
			done, err = x.Step()
		}
		if err == nil && (x.Report().BelowHighWatermark || x.Report().BelowRecoveryPoint) {
			err = fmt.Errorf("recovery lost records")
		}
		if err == nil {
			err = n.manager.Adopt(x.Log())
		}
		if err != nil {
			n.err = err
			return
		}
	}
	n.applied(n.manager.Activate(modelNow, n.m.images[image], n))
	n.p, n.err = n.manager.Get(modelPartition)
}

func (n *modelNode) append(value int32) {
	b := record.NewBuilder(record.Options{})
	b.Append(modelNow.UnixMilli(), nil, []byte{byte(value)}, nil)
	raw, err := b.Build()
	if err != nil {
		n.err = err
		return
	}
	w := &replica.AppendWaiter{Done: func(w *replica.AppendWaiter) {
		if w.Result.Err == nil {
			n.acks = append(n.acks, acknowledgement{w.Result.First, value})
		}
	}}
	n.unsynced = true
	e, _ := n.p.Append(modelNow, replica.AppendRequest{Batch: raw, Acks: replica.AcksAll, LeaderEpoch: kafka.NoEpoch,
		Producer: log.ProducerCheck{Origin: log.FromClient}}, w) // refused: nothing happens
	e.Run(n)
}

// serve answers a fetch, as the API of brokers does.
func (n *modelNode) serve(f fetchAsk) {
	var a fetchAnswer
	got := n.p.Read(replica.ReadSpec{Replica: f.from, Offset: f.offset, MaxBytes: 1, WholeBatch: true, LeaderEpoch: f.epoch,
		LastEpoch: f.lastEpoch})
	a.code, a.visible, a.start = kafka.CodeOf(got.Err), got.HighWatermark, got.LogStart
	a.diverging, a.divergingOffset = got.DivergingEpoch, got.DivergingEnd
	a.end = n.p.Info().End
	if got.Err == nil && got.DivergingEpoch == kafka.NoEpoch {
		e := n.p.Fetched(modelNow, replica.FollowerFetch{Replica: f.from, Epoch: f.broker, LeaderEpoch: got.LeaderEpoch,
			Offset: f.offset, Start: f.start}, n.eligible)
		e.Run(n)
		raw, err := got.Extents.ReadAll()
		got.Extents.Release()
		if err != nil {
			n.err = err
		}
		a.records, a.visible = string(raw), n.p.HighWatermark()
	}
	n.sent = append(n.sent, modelMessage{kind: messageAnswer, fetch: f, answer: a})
}

func (n *modelNode) eligible(id kafka.NodeID) (kafka.BrokerEpoch, bool) {
	b, ok := n.m.images[n.image].Broker(id)
	if !ok || !b.Active() {
		return -1, false
	}
	return b.Epoch, true
}

// take takes the answer to a fetch.
func (n *modelNode) take(m modelMessage) {
	view := replica.LeaderView{Epoch: m.fetch.epoch, Offset: m.fetch.offset, HighWatermark: m.answer.visible,
		LogStart: m.answer.start}
	before := n.p.Info().End
	var e replica.Effects
	var err error
	switch {
	case m.answer.code == kafka.OffsetOutOfRange:
		e, err = n.p.OutOfRange(view, m.answer.start, m.answer.end)
	case m.answer.code != kafka.None:
		return
	case m.answer.diverging != kafka.NoEpoch:
		e, err = n.p.Diverged(view, m.answer.diverging, m.answer.divergingOffset)
	default:
		_, e, err = n.p.Replicate(modelNow, bytes.Clone([]byte(m.answer.records)), view)
	}
	if err != nil {
		n.err = fmt.Errorf("the answer of %d does not fit: %w", m.fetch.to, err)
	}
	n.unsynced = n.unsynced || n.p.Info().End != before
	e.Run(n)
}

func (n *modelNode) decided(m modelMessage) {
	r := m.propose.proposal(n.p.TopicID())
	var e replica.Effects
	switch m.decision.code {
	case kafka.None:
		e = n.p.ISRAccepted(modelNow, r, m.decision.version)
	case kafka.IneligibleReplica, kafka.OperationNotAttempted:
		e = n.p.ISRRefused(modelNow, r)
	}
	e.Run(n)
}

func (a *isrAsk) proposal(topic kafka.UUID) replica.ISRProposal {
	return replica.ISRProposal{Partition: modelPartition, TopicID: topic, LeaderEpoch: a.epoch, PartitionEpoch: a.version,
		ISR: a.members[:a.count]}
}

// crash ends the broker. What is left is looked at on the disk that it leaves.
func (n *modelNode) crash(cache bool) {
	n.left = n.view()
	if !cache {
		n.left.end = n.left.durable
		n.left.entries = n.left.entries[:2*n.left.durable]
	}
	n.left = modelView{end: n.left.end, durable: n.left.end, entries: n.left.entries, broker: n.left.broker}
	if cache {
		n.disk = n.disk.KillClone()
	} else {
		n.disk = n.disk.CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.CrashOptions{})
	}
	n.manager, n.p = nil, nil
}

// view looks at the node.
func (n *modelNode) view() modelView {
	if n.p == nil {
		return n.left
	}
	i := n.p.Info()
	out := modelView{up: true, role: i.Role, epoch: i.LeaderEpoch, visible: i.HighWatermark, end: i.End, durable: i.Durable,
		dirty: n.unsynced || i.Durable < i.End, broker: n.broker}
	at, synced, follows := n.p.FetchPosition()
	out.fetches = follows && synced
	out.ask = fetchAsk{from: n.id, to: at.Leader, broker: n.broker, epoch: at.LeaderEpoch, lastEpoch: at.LastEpoch,
		offset: at.Offset, start: at.LogStart}
	out.entries = n.entries(i.End)
	return out
}

// entries reads the log.
func (n *modelNode) entries(end kafka.Offset) string {
	x, err := n.p.Log().View().Read(0, end, 1<<20, true)
	if err != nil {
		n.err = err
		return ""
	}
	raw, err := x.ReadAll()
	x.Release()
	var out []byte
	for err == nil && len(raw) > 0 {
		var b record.Batch
		if b, raw, err = record.Split(raw); err == nil {
			for r := range b.Records(record.Limits{}) {
				out = append(out, byte(b.LeaderEpoch()), r.Value[0])
			}
		}
	}
	if err != nil {
		n.err = err
	}
	return string(out)
}

// fingerprint is the same for nodes that will do the same.
func (n *modelNode) fingerprint() string {
	v := n.view()
	if n.p == nil {
		return fmt.Sprintf("%d down %q broker %d", n.id, v.entries, n.broker)
	}
	return fmt.Sprintf("%d image %d broker %d unsynced %v %q %s", n.id, n.image, n.broker, n.unsynced, v.entries,
		n.p.Fingerprint())
}

// The host of the partition.

// RequestFlush needs nothing: syncing may happen at any time.
func (n *modelNode) RequestFlush(*replica.Partition) {}

// ProposeISR sends a proposal.
func (n *modelNode) ProposeISR(_ *replica.Partition, r replica.ISRProposal) {
	a := isrAsk{from: n.id, broker: n.broker, epoch: r.LeaderEpoch, version: r.PartitionEpoch, count: len(r.ISR)}
	copy(a.members[:], r.ISR)
	n.sent = append(n.sent, modelMessage{kind: messagePropose, propose: a})
}

// DirFailed and the others are findings.
func (n *modelNode) DirFailed(_ *log.Dir, err error) { n.err = err }

// DirFull is a finding.
func (n *modelNode) DirFull(*log.Dir) { n.err = kafka.KafkaStorageError }

// LogBroken is a finding.
func (n *modelNode) LogBroken(_ *replica.Partition, err error) { n.err = err }

// Verify is never asked.
func (n *modelNode) Verify(*replica.Partition, replica.TxnCheck) { n.err = kafka.InvalidTxnState }
