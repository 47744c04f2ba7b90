package quorum

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

var (
	clusterSeeds = flag.Int("cluster.seeds", 60, "how many random clusters TestCluster runs")
	clusterSeed  = flag.Uint64("cluster.seed", 0, "run this one random cluster only, with a trace")
)

// TestCluster runs clusters of several replicas on crashable disks and a bad network, everything decided by a
// seed, and checks after each step what must never happen; then heals everything and wants progress.
func TestCluster(t *testing.T) {
	if *clusterSeed != 0 {
		w := newWorld(t, *clusterSeed)
		w.trace = true
		w.run()
		return
	}
	var total worldStats
	for seed := range uint64(*clusterSeeds) {
		w := newWorld(t, seed+1)
		w.run()
		total.add(w.stats)
	}
	t.Logf("%+v", total)
	if total.elections < *clusterSeeds || total.crashes == 0 || total.truncations == 0 || total.downloads == 0 ||
		total.trims == 0 || total.changes == 0 {
		t.Errorf("the faults did not do their work: %+v", total)
	}
}

type worldStats struct {
	elections, crashes, committed, truncations, downloads, snapshots, trims, messages, changes int
}

func (s *worldStats) add(o worldStats) {
	s.elections += o.elections
	s.crashes += o.crashes
	s.committed += o.committed
	s.truncations += o.truncations
	s.downloads += o.downloads
	s.snapshots += o.snapshots
	s.trims += o.trims
	s.messages += o.messages
	s.changes += o.changes
}

// world is a cluster with its network, its clock and the truth about it.
type world struct {
	t     *testing.T
	seed  uint64
	rnd   *rand.Rand
	now   time.Time
	nodes []*simNode
	net   []flight
	token uint64
	calm  bool // no more faults
	trace bool
	churn int // the more, the more often voters come and go
	next  int // of the next proposed key

	leaders map[kafka.LeaderEpoch]kafka.NodeID
	// committed is the one history that everybody must agree on: for each committed batch its bytes, without
	// CRC.
	committed []committedBatch
	stats     worldStats
}

type committedBatch struct {
	base, last kafka.Offset
	epoch      kafka.LeaderEpoch
	raw        []byte
}

// simNode is a replica that can be down. Its disk outlives it.
type simNode struct {
	*testNode
	id     kafka.NodeID
	life   int
	disk   *vfs.Mem
	down   bool
	isle   int // nodes on different isles cannot talk
	served map[uint64]served
	config Config
	epoch  kafka.LeaderEpoch
	writer *SnapshotWriter
	todo   [][]byte // records that the writer still has to take
	works  []*Work
	end    kafka.Offset
}

// served is where the answer to a peer's request has to go.
type served struct {
	peer    int
	life    int
	request uint64
}

// flight is a message on its way.
type flight struct {
	from, to int
	life     int // of the receiver, for answers: -1 for requests
	message  Message
	answer   bool
	fails    bool // arrives as a lost connection
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, seed: seed, rnd: testRand(seed), now: testTime(), leaders: map[kafka.LeaderEpoch]kafka.NodeID{}}
	w.churn = 971 + w.rnd.IntN(3)*9
	voters := 1 + w.rnd.IntN(5)
	observers := w.rnd.IntN(3)
	static := w.rnd.IntN(4) == 0
	var set []Voter
	for i := range voters {
		v := testVoter(kafka.NodeID(i + 1))
		if static { // controller.quorum.voters knows no directories
			v.Key.Directory = kafka.ZeroUUID
		}
		set = append(set, v)
	}
	for i := range voters + observers {
		id := kafka.NodeID(i + 1)
		c := testConfig(id)
		c.SegmentBytes, c.RetentionBytes, c.SnapshotBytes = 1500, 3000, 1200
		c.FetchSnapshotMaxBytes, c.FetchMaxBytes = 300, 400
		own := VoterSet(set)
		if i >= voters {
			own = nil
			c.CanVote = w.rnd.IntN(2) == 0
			c.AutoJoin = w.rnd.IntN(2) == 0
			for _, v := range set {
				c.Bootstrap = append(c.Bootstrap, v.Endpoints[0])
			}
		}
		n := &simNode{id: id, disk: vfs.NewMem(vfs.MemOptions{}), config: c, down: true, served: map[uint64]served{}}
		if static {
			n.config.StaticVoters = set
		}
		if err := prepare(n.disk, n.config, own); err != nil {
			t.Fatal(err)
		}
		w.nodes = append(w.nodes, n)
	}
	for i := range w.nodes {
		w.start(i)
	}
	return w
}

// prepare formats a disk; that of a static quorum gets no checkpoint.
func prepare(disk vfs.FS, c Config, own VoterSet) error {
	if c.StaticVoters == nil {
		return format(disk, c, own, testTime())
	}
	return log.FormatDir(disk, testDir, log.MetaProperties{ClusterID: c.ClusterID, NodeID: c.Self.ID, DirectoryID: c.Self.Directory})
}

func (w *world) fatalf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d at %s: %s\n%s", w.seed, w.now.Sub(testTime()), fmt.Sprintf(format, args...), w.describe())
}

func (w *world) describe() string {
	var b strings.Builder
	for _, n := range w.nodes {
		if n.down {
			fmt.Fprintf(&b, "%d: down\n", n.id)
			continue
		}
		s := n.pump.State()
		fmt.Fprintf(&b, "%d: isle %d %s epoch=%d leader=%d hw=%d log=%d..%d durable=%d delivered=%d err=%v held=%v works=%d voters=%v canvote=%v\n", n.id,
			n.isle, s.Role, s.Epoch, s.Leader, s.HighWatermark, s.LogStart, s.LogEnd, s.Durable, n.offset, n.pump.Err(), n.pump.held != nil,
			len(n.works), s.Voters.ids(), n.config.CanVote)
	}
	return b.String()
}

func (w *world) logf(format string, args ...any) {
	if w.trace {
		fmt.Printf("%8s %s\n", w.now.Sub(testTime()), fmt.Sprintf(format, args...))
	}
}

func (w *world) run() {
	for range 2500 {
		w.step()
		w.check()
	}
	w.heal()
}

// heal ends all faults; then the cluster must commit something new and everybody must learn it.
func (w *world) heal() {
	w.calm = true
	for i, n := range w.nodes {
		n.isle = 0
		if n.down {
			w.start(i)
		}
	}
	limit := w.now.Add(2 * time.Minute)
	goal := -1
	for range 200_000 {
		w.step()
		w.check()
		if w.now.After(limit) {
			w.fatalf("no progress two minutes after the last fault")
		}
		if goal < 0 {
			if n := w.inOffice(); n != nil {
				goal = len(w.committed) + 3
			}
			continue
		}
		if len(w.committed) >= goal && w.allCaughtUp() {
			w.compareImages()
			return
		}
	}
	w.fatalf("no progress after many steps")
}

func (w *world) inOffice() *simNode {
	for _, n := range w.nodes {
		if n.down {
			continue
		}
		if _, ok := n.pump.InOffice(); ok {
			return n
		}
	}
	return nil
}

func (w *world) allCaughtUp() bool {
	end := w.committed[len(w.committed)-1].last + 1
	for _, n := range w.nodes {
		if n.offset < end {
			return false
		}
	}
	return true
}

// compareImages brings everybody to the same offset and compares what they make of it.
func (w *world) compareImages() {
	byOffset := map[kafka.Offset]string{}
	for _, n := range w.nodes {
		text := n.text()
		if other, ok := byOffset[n.offset]; ok && other != text {
			w.fatalf("images differ at offset %d", n.offset)
		}
		byOffset[n.offset] = text
	}
}

// start boots a node from its disk.
func (w *world) start(i int) {
	n := w.nodes[i]
	node, err := open(n.disk, n.config, w.now, rand.New(rand.NewPCG(w.rnd.Uint64(), 1)))
	if err != nil {
		w.fatalf("node %d does not start: %v", n.id, err)
	}
	n.testNode, n.down, n.works, n.writer, n.todo = node, false, nil, nil, nil
	n.life++
	n.served = map[uint64]served{}
	n.end = node.log.View().End
	w.logf("%d starts, log %d..%d", n.id, node.log.View().Start, n.end)
}

// crash cuts the power of a node.
func (w *world) crash(i int) {
	n := w.nodes[i]
	n.disk.Crash()
	n.disk = n.disk.CrashClone(w.rnd, vfs.KeepSome(w.rnd))
	n.down = true
	w.stats.crashes++
	w.logf("%d crashes", n.id)
}

// step does one thing, picked at random.
func (w *world) step() {
	i := w.rnd.IntN(len(w.nodes))
	n := w.nodes[i]
	roll := w.rnd.IntN(1000)
	switch {
	case roll < 4 && !w.calm:
		if n.down {
			w.start(i)
		} else {
			w.crash(i)
		}
	case roll < 30 && n.down && !w.calm:
		w.start(i)
	case roll < 34 && !w.calm:
		n.isle = w.rnd.IntN(2)
		w.logf("%d moves to isle %d", n.id, n.isle)
	case roll < 50 && !w.calm:
		for _, n := range w.nodes {
			n.isle = 0
		}
	case roll < 450:
		w.deliver()
	case roll < 550:
		w.advance()
	case n.down:
	case roll < 800:
		w.work(n)
	case roll < 900:
		w.take(n)
	case roll < 970:
		w.propose(n)
	case roll < w.churn && !w.calm:
		w.reconfigure(n)
	default:
		w.snapshot(n)
	}
	for i, n := range w.nodes {
		if !n.down {
			w.collect(i)
		}
	}
}

// advance moves the clock and ticks whoever is due.
func (w *world) advance() {
	most := 40
	if w.rnd.IntN(8) == 0 && !w.calm {
		most = 1500
	}
	w.now = w.now.Add(time.Duration(w.rnd.IntN(most)) * time.Millisecond)
	for _, n := range w.nodes {
		if n.down {
			continue
		}
		if d := n.pump.Deadline(); !d.IsZero() && !d.After(w.now) {
			n.pump.Tick(w.now)
		}
	}
}

// collect takes messages and work off a node.
func (w *world) collect(i int) {
	n := w.nodes[i]
	for _, m := range n.pump.Messages() {
		w.stats.messages++
		if isRequest(m.Body) {
			to := w.find(m.Peer)
			w.logf("%d sends %s", n.id, describeMessage(m))
			w.net = append(w.net, flight{from: i, to: to, life: n.life, message: m})
			continue
		}
		s, ok := n.served[m.Request]
		if !ok {
			w.fatalf("%d answers an unknown request", n.id)
		}
		delete(n.served, m.Request)
		if s.peer < 0 {
			if r, ok := m.Body.(*ChangeVoterResponse); ok && r.Code == kafka.None {
				w.stats.changes++
			}
			continue
		}
		w.logf("%d answers %d: %s", n.id, w.nodes[s.peer].id, describeMessage(m))
		m.Request = s.request
		w.net = append(w.net, flight{from: i, to: s.peer, life: s.life, message: m, answer: true})
	}
	for {
		work, ok := n.pump.Work()
		if !ok {
			return
		}
		n.works = append(n.works, work)
	}
}

func isRequest(b Body) bool {
	switch b.(type) {
	case *VoteRequest, *BeginQuorumEpochRequest, *EndQuorumEpochRequest, *FetchRequest, *FetchSnapshotRequest,
		*AddVoterRequest, *RemoveVoterRequest, *UpdateVoterRequest, *ApiVersionsRequest:
		return true
	}
	return false
}

// isVersions says whether a request is one that the driver answers itself.
func isVersions(b Body) bool {
	_, ok := b.(*ApiVersionsRequest)
	return ok
}

// reconfigure asks a leader to add a replica to the voters or to remove one.
func (w *world) reconfigure(n *simNode) {
	s := n.pump.State()
	if s.Role != Leader || s.KRaftVersion == 0 {
		return
	}
	other := w.nodes[w.rnd.IntN(len(w.nodes))]
	var body Body = &AddVoterRequest{Voter: other.config.Self, Endpoints: other.config.Endpoints,
		AckWhenCommitted: w.rnd.IntN(2) == 0}
	if s.Voters.Contains(other.config.Self) {
		body = &RemoveVoterRequest{Voter: other.config.Self}
	} else if !other.config.CanVote {
		return
	}
	w.token++
	n.served[w.token] = served{peer: -1}
	n.pump.Receive(w.now, Message{Request: w.token, Body: body})
}

func (w *world) find(p Peer) int {
	for i, n := range w.nodes {
		if n.config.Endpoints[0].Host == p.Host {
			return i
		}
	}
	w.fatalf("nobody is at %+v", p)
	return 0
}

// deliver brings one message, not necessarily the oldest, to where it belongs, or loses it.
func (w *world) deliver() {
	if len(w.net) == 0 {
		return
	}
	k := w.rnd.IntN(min(4, len(w.net)))
	f := w.net[k]
	duplicate := !w.calm && !f.answer && w.rnd.IntN(100) == 0
	if !duplicate {
		w.net = slices.Delete(w.net, k, k+1)
	}
	from, to := w.nodes[f.from], w.nodes[f.to]
	lost := to.down || from.isle != to.isle || !w.calm && w.rnd.IntN(60) == 0
	switch {
	case f.answer && (to.down || to.life != f.life):
	case f.answer && lost:
		to.pump.Lost(w.now, f.message.Request, false)
	case f.answer:
		to.pump.Receive(w.now, f.message)
	case lost:
		// The sender's connection breaks, if it is told at all.
		if !from.down && from.life == f.life && w.rnd.IntN(2) == 0 {
			from.pump.Lost(w.now, f.message.Request, to.down && from.isle == to.isle)
		}
	case isVersions(f.message.Body):
		m := f.message
		m.Body = &ApiVersionsResponse{KRaft: supportedKRaft}
		w.net = append(w.net, flight{from: f.to, to: f.from, life: f.life, message: m, answer: true})
	default:
		w.token++
		to.served[w.token] = served{peer: f.from, life: f.life, request: f.message.Request}
		m := f.message
		m.Request, m.Peer = w.token, Peer{ID: from.id}
		to.pump.Receive(w.now, m)
	}
}

func (w *world) work(n *simNode) {
	if len(n.works) == 0 {
		return
	}
	k := w.rnd.IntN(len(n.works))
	work := n.works[k]
	n.works = slices.Delete(n.works, k, k+1)
	err := work.Run()
	if !w.calm && w.rnd.IntN(20) == 0 && work.kind != workFlush || !w.calm && w.rnd.IntN(300) == 0 {
		w.crash(slices.Index(w.nodes, n)) // done, and nobody hears of it
		return
	}
	n.pump.Completed(w.now, work, err)
	if work.kind == workInstall {
		w.stats.downloads++
	}
}

// take applies one delivery, and holds it against the history.
func (w *world) take(n *simNode) {
	d, ok := n.pump.Next()
	if !ok {
		return
	}
	if d.Snapshot == nil {
		w.record(n, d.Batch)
	}
	if err := n.testNode.take(d); err != nil {
		w.fatalf("node %d: %v", n.id, err)
	}
}

func (w *world) record(n *simNode, b Batch) {
	got := committedBatch{b.Base, b.Last, b.Epoch, slices.Clone(b.raw)}
	i, ok := slices.BinarySearchFunc(w.committed, b.Base, func(c committedBatch, o kafka.Offset) int { return int(c.base - o) })
	if !ok {
		if n := len(w.committed); i != n || n > 0 && w.committed[n-1].last+1 != b.Base || n == 0 && b.Base != 0 {
			w.fatalf("batch %d..%d was delivered between others", b.Base, b.Last)
		}
		w.committed = append(w.committed, got)
		w.stats.committed++
		return
	}
	if c := w.committed[i]; !bytes.Equal(c.raw, got.raw) {
		w.fatalf("node %d delivered another batch at %d: %d..%d of epoch %d, committed was %d..%d of epoch %d", n.id, b.Base, b.Base,
			b.Last, b.Epoch, c.base, c.last, c.epoch)
	}
}

func (w *world) propose(n *simNode) {
	if _, ok := n.pump.InOffice(); !ok {
		return
	}
	var records []metadata.Record
	for range 1 + w.rnd.IntN(3) {
		w.next++
		records = append(records, setConfig(fmt.Sprintf("key%d", w.next%40), fmt.Sprint(w.next)))
	}
	if _, err := n.propose(w.now, records...); err != nil {
		w.fatalf("node %d: propose: %v", n.id, err)
	}
}

// snapshot moves a snapshot on by one step.
func (w *world) snapshot(n *simNode) {
	if n.writer == nil {
		if !n.pump.SnapshotDue(w.now) {
			return
		}
		writer, err := n.pump.NewSnapshot(w.now)
		if err != nil {
			w.fatalf("node %d: %v", n.id, err)
		}
		n.writer = writer
		for r := range n.image.Records(33) {
			n.todo = append(n.todo, metadata.Encode(nil, r, metadata.VersionFor(r, 33)))
		}
		return
	}
	if len(n.todo) > 0 {
		k := min(len(n.todo), 10)
		if err := n.writer.Add(n.todo[:k]...); err != nil {
			w.fatalf("node %d: %v", n.id, err)
		}
		n.todo = n.todo[k:]
		return
	}
	if err := n.writer.Finish(); err != nil {
		w.fatalf("node %d: %v", n.id, err)
	}
	n.pump.SnapshotWritten(n.writer)
	n.writer = nil
	w.stats.snapshots++
	before := n.pump.State().LogStart
	n.pump.trim(w.now)
	if n.pump.State().LogStart > before {
		w.stats.trims++
	}
}

// check looks for what must never be.
func (w *world) check() {
	for _, n := range w.nodes {
		if n.down {
			continue
		}
		if err := n.pump.Err(); err != nil {
			w.fatalf("node %d: %v", n.id, err)
		}
		s := n.pump.State()
		if s.Epoch < n.epoch {
			w.fatalf("node %d went from epoch %d back to %d", n.id, n.epoch, s.Epoch)
		}
		n.epoch = s.Epoch
		if s.Role == Leader {
			if other, ok := w.leaders[s.Epoch]; ok && other != n.id {
				w.fatalf("epoch %d is led by %d and %d", s.Epoch, other, n.id)
			} else if !ok {
				w.leaders[s.Epoch] = n.id
				w.stats.elections++
				w.logf("%d leads epoch %d", n.id, s.Epoch)
			}
		}
		if s.LogEnd < n.end {
			w.stats.truncations++
		}
		n.end = s.LogEnd
		if s.HighWatermark > s.LogEnd {
			w.fatalf("node %d: high watermark %d above the end %d", n.id, s.HighWatermark, s.LogEnd)
		}
		if s.LogStart > 0 && !slices.ContainsFunc(n.pump.store.Snapshots(), func(id OffsetAndEpoch) bool { return id.Offset == s.LogStart }) {
			w.fatalf("node %d: log starts at %d, snapshots %v", n.id, s.LogStart, n.pump.store.Snapshots())
		}
	}
}
