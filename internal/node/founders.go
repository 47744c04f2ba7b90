package node

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/quorum"
	"moldau/internal/config"
	"moldau/internal/edge/peer"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
)

// foundingFile keeps the directory id of a node that is being founded: it must not change between what the node told the
// others and what it becomes.
const foundingFile = "moldau.founding"

type foundingContent struct {
	Version   int    `json:"version"`
	Directory string `json:"directory.id"`
}

// Times of founding: how often the others are asked, and how long an answer may take.
const (
	foundingInterval = 50 * time.Millisecond
	foundingTimeout  = time.Second
)

// foundingLane keeps these questions off the connections that the quorum will use.
const foundingLane = "founding"

// founders is how a node without an identity gets one: the founding of a cluster from the list of its nodes, or the
// joining of one that is there. The list is that of --cluster, of controller.quorum.bootstrap.servers or of
// controller.quorum.voters. Every listed node asks all others who they are. When all are new, each writes the same first
// voters down and begins; a node that finds itself among the voters of one that has begun does the same. Any other comes too
// late to found, or lost its disk, and joins as an observer: an empty log never votes in the place of one that was lost.
type founders struct {
	n         *Node
	entries   []config.Endpoint // where controllers listen, in an order that is the same on every node
	own       int               // the entry that is this node; -1: it is none of them
	directory kafka.UUID
	// verdict says what the node becomes, if that is clear by what the others told.
	verdict func(seen []*sighting) (founded, bool)
	// numbered says that the list gives the nodes their numbers.
	numbered bool
	// static says that the voters are those of the settings (kraft.version 0).
	static bool
}

// settleIdentity finds out who the node is before anything is opened: what meta.properties says, else what the nodes of the
// cluster agree on. A lone node is founded when its directories are opened.
func (n *Node) settleIdentity(ctx context.Context) error {
	if alone(n.self) {
		return nil
	}
	listed := n.config.Text(config.ClusterKey) != ""
	meta, err := existing(n.o.FS, n.self)
	if errors.Is(err, fs.ErrNotExist) {
		if meta, err = n.foundCluster(ctx); err != nil {
			return fmt.Errorf("founding: %w", err)
		}
	}
	if err != nil || !listed {
		return err
	}
	if n.config.IsSet("node.id") && n.self.ID != meta.NodeID {
		return fmt.Errorf("node.id: %d is set, and in this cluster the node is %d; remove the key", n.self.ID, meta.NodeID)
	}
	if n.config, err = n.config.WithNodeID(meta.NodeID); err != nil {
		return err
	}
	n.self = n.config.Node()
	return nil
}

func (n *Node) foundCluster(ctx context.Context) (log.MetaProperties, error) {
	f, err := newFounders(n)
	if err != nil {
		return log.MetaProperties{}, err
	}
	outcome, err := f.settle(ctx)
	if err != nil {
		return log.MetaProperties{}, err
	}
	return f.write(outcome)
}

// settle finds out what the node becomes. A listed one tells the others of itself meanwhile.
func (f *founders) settle(ctx context.Context) (founded, error) {
	if f.own >= 0 {
		answers, err := f.answer()
		if err != nil {
			return founded{}, err
		}
		defer answers.Close()
	}
	return f.agree(ctx)
}

// newFounders finds the node's place in the list and makes its directory id durable.
func newFounders(n *Node) (*founders, error) {
	f := &founders{n: n, own: -1}
	var err error
	switch list := n.config.Text(config.ClusterKey); {
	case list != "":
		err = f.fromList(list)
	case len(n.self.Voters) > 0:
		f.fromVoters()
	default:
		err = f.fromBootstrap()
	}
	if err != nil {
		return nil, err
	}
	return f, f.ownDirectory()
}

// fromList takes the list of --cluster.
func (f *founders) fromList(list string) error {
	all, err := config.ParseCluster(list)
	if err != nil {
		return err
	}
	mine := f.n.controllerEndpoints()[0]
	for i, e := range all {
		e.Port += config.ControllerPortStep
		f.entries = append(f.entries, e)
		if e.Host == mine.Host && e.Port == int(mine.Port) {
			f.own = i
		}
	}
	f.verdict, f.numbered = f.judge, true
	if f.own < 0 {
		return fmt.Errorf("%s:%d, where this node's controller is reached, is not in the list", mine.Host, mine.Port)
	}
	return nil
}

// ownDirectory makes the directory id that the node tells the others durable, or finds it again.
func (f *founders) ownDirectory() error {
	n := f.n
	if err := n.o.FS.MkdirAll(n.self.MetadataDir); err != nil {
		return err
	}
	name := path.Join(n.self.MetadataDir, foundingFile)
	if raw, err := readSmall(n.o.FS, name); err == nil {
		var c foundingContent
		if json.Unmarshal(raw, &c) == nil && c.Version == 0 {
			if f.directory, err = kafka.ParseUUID(c.Directory); err == nil {
				return nil
			}
		}
	}
	var err error
	if f.directory, err = kafka.NewUUID(rand.Reader); err != nil {
		return err
	}
	raw, err := json.Marshal(foundingContent{Directory: f.directory.String()})
	if err != nil {
		return err
	}
	return log.AtomicWrite(n.o.FS, name, append(raw, '\n'))
}

// listHash is what a new node gives as its cluster id: nodes with other lists do not found together.
func (f *founders) listHash() string { return hashID("nodes", f.addresses()...) }

func (f *founders) addresses() []string {
	var out []string
	for _, e := range f.entries {
		out = append(out, e.Address())
	}
	return out
}

// hashID makes an id of words.
func hashID(kind string, words ...string) string {
	h := sha256.New()
	for _, w := range append([]string{"moldau", kind}, words...) {
		fmt.Fprintf(h, "%d:%s,", len(w), w)
	}
	id := kafka.UUID(h.Sum(nil)[:16])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // as a random one looks
	return id.String()
}

// founded is what a node becomes.
type founded struct {
	id      kafka.NodeID
	cluster string
	voters  quorum.VoterSet // nil: it joins later, or the voters are those of the settings
	// late says of one of the settings' voters that the quorum is there already: it may be a voter that lost its disk.
	late bool
	// together are the directories of the voters that were new at the same time.
	together map[kafka.NodeID]kafka.UUID
}

// sighting is what another node has told.
type sighting struct {
	cluster string
	isNew   bool // not founded
	fresh   bool // founded, and its log has nothing yet, nor was there an election
	certain bool // its leader tells
	voters  quorum.VoterSet
	// controllers are the registered ones.
	controllers []quorum.Voter
}

// agree asks the others until it is clear what the node becomes.
func (f *founders) agree(ctx context.Context) (founded, error) {
	told := time.Time{}
	for {
		seen := f.look(ctx)
		if out, ok := f.verdict(seen); ok {
			return out, nil
		}
		if now := f.n.o.Now(); now.Sub(told) > 10*time.Second {
			if !told.IsZero() {
				f.tell(seen)
			}
			told = now
		}
		select {
		case <-ctx.Done():
			return founded{}, ctx.Err()
		case <-f.n.failed:
			return founded{}, f.n.Err()
		case <-time.After(foundingInterval):
		}
	}
}

// tell says what the founding waits for.
func (f *founders) tell(seen []*sighting) {
	for i, s := range seen {
		switch {
		case i == f.own:
		case s == nil && f.own < 0:
			f.n.log.Warn("no answer from a controller; the node joins the cluster that one of them tells", "address", f.entries[i].Address())
		case s == nil:
			f.n.log.Warn("the founding of the cluster waits for a node", "address", f.entries[i].Address())
		case s.isNew && s.cluster != f.listHash():
			f.n.log.Error("a node was given another list of nodes", "address", f.entries[i].Address())
		case s.isNew && f.own >= 0 && !f.numbered && len(s.voters) == 1 && s.voters[0].Key.ID == f.n.self.ID:
			f.n.log.Error("a node has the same node.id", "address", f.entries[i].Address(), "node", int32(f.n.self.ID))
		}
	}
}

// look asks all others at once.
func (f *founders) look(ctx context.Context) []*sighting {
	seen := make([]*sighting, len(f.entries))
	var all sync.WaitGroup
	for i := range f.entries {
		if i != f.own {
			all.Go(func() { seen[i] = f.ask(ctx, f.entries[i]) })
		}
	}
	all.Wait()
	return seen
}

func (f *founders) ask(ctx context.Context, at config.Endpoint) *sighting {
	to := peer.Address{Host: at.Host, Port: at.Port}
	return inquire(func(r kmsg.Request) kmsg.Response {
		a, err := f.n.peers.Send(to, foundingLane, r, foundingTimeout).Wait(ctx)
		if err != nil || a.Err != nil {
			return nil
		}
		return a.Body
	})
}

// inquire asks a node who it is; nil when it does not tell. It may be founded between the two questions: asked for its
// cluster last, a node that names voters never names the cluster id of a new one with them.
func inquire(send func(kmsg.Request) kmsg.Response) *sighting {
	what := kmsg.NewPtrDescribeQuorumRequest()
	what.Version = 2
	p := kmsg.NewDescribeQuorumRequestTopicPartition()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic, t.Partitions = kafka.MetadataTopic, append(t.Partitions, p)
	what.Topics = append(what.Topics, t)
	who := kmsg.NewPtrDescribeClusterRequest()
	who.Version, who.EndpointType = 1, 2 // of controllers
	described, ok := send(what).(*kmsg.DescribeQuorumResponse)
	if !ok {
		return nil
	}
	cluster, ok := send(who).(*kmsg.DescribeClusterResponse)
	if !ok || cluster.ErrorCode != 0 {
		return nil
	}
	return sighted(cluster, described)
}

func sighted(cluster *kmsg.DescribeClusterResponse, r *kmsg.DescribeQuorumResponse) *sighting {
	s := &sighting{cluster: cluster.ClusterID}
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return s // of another make, and it does not lead
	}
	p := r.Topics[0].Partitions[0]
	s.isNew, s.certain = p.ErrorCode == 0 && p.LeaderID < 0, p.ErrorCode == 0 && p.LeaderID >= 0
	for _, v := range p.CurrentVoters {
		s.fresh = s.fresh || p.ErrorCode != 0 && v.LogEndOffset == 0
		key := quorum.ReplicaKey{ID: kafka.NodeID(v.ReplicaID), Directory: v.ReplicaDirectoryID}
		var at []quorum.Endpoint
		for _, x := range r.Nodes {
			if x.NodeID == v.ReplicaID {
				for _, l := range x.Listeners {
					at = append(at, quorum.Endpoint{Name: l.Name, Host: l.Host, Port: l.Port})
				}
			}
		}
		s.voters = s.voters.With(quorum.NewVoter(key, at))
	}
	for _, b := range cluster.Brokers {
		s.controllers = append(s.controllers, quorum.NewVoter(quorum.ReplicaKey{ID: kafka.NodeID(b.NodeID)},
			[]quorum.Endpoint{{Host: b.Host, Port: uint16(b.Port)}}))
	}
	return s
}

// judge says what the node becomes, if that is clear.
func (f *founders) judge(seen []*sighting) (founded, bool) {
	everybodyIsNew := true
	var certain *sighting
	for i, s := range seen {
		if i == f.own {
			continue
		}
		if s == nil || !s.isNew || s.cluster != f.listHash() || len(s.voters) != 1 || s.voters[0].Key.Directory.IsZero() {
			everybodyIsNew = false
		}
		if s == nil || s.isNew {
			continue
		}
		for _, v := range s.voters {
			if v.Key.Directory == f.directory {
				return founded{id: v.Key.ID, cluster: s.cluster, voters: s.voters}, true
			}
		}
		if s.certain {
			certain = s
		}
	}
	switch {
	case certain != nil:
		return founded{id: f.vacancy(certain), cluster: certain.cluster}, true
	case everybodyIsNew && f.distinct(seen):
		return f.together(seen), true
	}
	return founded{}, false
}

// numberOf gives the number of an entry's node at a founding by all.
func (f *founders) numberOf(i int, seen []*sighting) kafka.NodeID {
	switch {
	case f.numbered:
		return kafka.NodeID(i + 1)
	case i == f.own:
		return f.n.self.ID
	}
	return seen[i].voters[0].Key.ID
}

// distinct says whether no two of the nodes have the same number.
func (f *founders) distinct(seen []*sighting) bool {
	ids := map[kafka.NodeID]bool{}
	for i := range f.entries {
		ids[f.numberOf(i, seen)] = true
	}
	return len(ids) == len(f.entries)
}

// together is the outcome of a founding by all: the same on every node.
func (f *founders) together(seen []*sighting) founded {
	out := founded{id: f.numberOf(f.own, seen)}
	words := f.addresses()
	for i, e := range f.entries {
		directory := f.directory
		if i != f.own {
			directory = seen[i].voters[0].Key.Directory
		}
		key := quorum.ReplicaKey{ID: f.numberOf(i, seen), Directory: directory}
		out.voters = out.voters.With(quorum.NewVoter(key, []quorum.Endpoint{f.endpoint(e)}))
		words = append(words, directory.String())
	}
	out.cluster = hashID("cluster", words...)
	return out
}

func (f *founders) endpoint(e config.Endpoint) quorum.Endpoint {
	return quorum.Endpoint{Name: f.n.quorumListener(), Host: e.Host, Port: uint16(e.Port)}
}

// vacancy is the number of a node that joins: the one that its address is known by, else the k-th that is free, k being its
// place among the nodes of the list that the cluster does not know.
func (f *founders) vacancy(s *sighting) kafka.NodeID {
	if !f.numbered {
		return f.n.self.ID
	}
	known := slices.Concat(s.controllers, []quorum.Voter(s.voters))
	idOf := func(e config.Endpoint) (kafka.NodeID, bool) {
		i := slices.IndexFunc(known, func(v quorum.Voter) bool {
			return slices.ContainsFunc(v.Endpoints, func(x quorum.Endpoint) bool { return x.Host == e.Host && int(x.Port) == e.Port })
		})
		if i < 0 {
			return kafka.NoNode, false
		}
		return known[i].Key.ID, true
	}
	if id, ok := idOf(f.entries[f.own]); ok {
		return id
	}
	place := 0
	for _, e := range f.entries[:f.own] {
		if _, ok := idOf(e); !ok {
			place++
		}
	}
	for id := kafka.NodeID(1); ; id++ {
		if slices.ContainsFunc(known, func(v quorum.Voter) bool { return v.Key.ID == id }) {
			continue
		}
		if place == 0 {
			return id
		}
		place--
	}
}

// write makes the outcome durable: the metadata first, meta.properties last.
func (f *founders) write(x founded) (log.MetaProperties, error) {
	n := f.n
	meta := log.MetaProperties{ClusterID: x.cluster, NodeID: x.id, DirectoryID: f.directory}
	if err := discardUnfounded(n.o.FS, n.self.MetadataDir); err != nil {
		return meta, err
	}
	if n.self.IsController {
		o := n.foundingFormat()
		o.Voters, o.Static = x.voters, f.static
		if f.numbered && len(x.voters) > 2 && !n.config.IsSet(minISRKey) {
			o.Records = append(o.Records, &metadata.ConfigRecord{ResourceType: metadata.BrokerResource, Name: minISRKey, Value: new("2")})
		}
		if err := quorum.Format(n.o.FS, n.self.MetadataDir, o); err != nil {
			return meta, err
		}
	}
	if x.late {
		if err := markLate(n.o.FS, n.self.MetadataDir); err != nil {
			return meta, err
		}
	}
	if err := log.FormatDir(n.o.FS, n.self.MetadataDir, meta); err != nil {
		return meta, err
	}
	_ = n.o.FS.Remove(path.Join(n.self.MetadataDir, foundingFile)) // meta.properties rules now
	n.foundedWith = x.together
	n.log.Info("the node is founded", "node", int32(x.id), "cluster", x.cluster, "founder", len(x.voters)+len(x.together) > 0)
	return meta, nil
}

const minISRKey = "min.insync.replicas"
