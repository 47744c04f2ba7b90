package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/interop/raw"
)

// script sends requests to the nodes one after the other and writes down the answers.
type script struct {
	t   testing.TB
	c   *trio
	out strings.Builder

	conns     map[string]*raw.Conn
	names     map[[16]byte]string // of topic and directory ids
	topics    map[string][16]byte
	dirs      map[int32][16]byte
	clusterID string
	// quorum tells that the section is about the metadata log, whose epoch is epoch.
	quorum bool
	epoch  int32
	down   []int32 // nodes that do not run
}

func newScript(t testing.TB, c *trio) *script {
	s := &script{t: t, c: c, conns: map[string]*raw.Conn{}, names: map[[16]byte]string{}, topics: map[string][16]byte{},
		dirs: map[int32][16]byte{}}
	t.Cleanup(func() {
		for _, c := range s.conns {
			c.Close()
		}
	})
	return s
}

// section begins a part of the transcript; nothing of its answers depends on other parts.
func (s *script) section(name string) {
	s.t.Logf("%s %s", time.Now().Format(time.TimeOnly), name)
	fmt.Fprintf(&s.out, "\n== %s\n", name)
}

func (s *script) note(format string, args ...any) { fmt.Fprintf(&s.out, "-- "+format+"\n", args...) }

// ask sends a request to the port of a node's clients, askController to its controller.
func (s *script) ask(at int32, what string, req kmsg.Request) kmsg.Response {
	return s.exchange(fmt.Sprint("node ", at), s.c.addr(at), what, req)
}

func (s *script) askController(at int32, what string, req kmsg.Request) kmsg.Response {
	return s.exchange(fmt.Sprint("controller ", at), s.c.controller(at), what, req)
}

func (s *script) exchange(where, addr, what string, req kmsg.Request) kmsg.Response {
	resp, err := s.send(addr, req)
	name := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", req), "*kmsg."), "Request")
	fmt.Fprintf(&s.out, "%s v%d, %s, %s: %s\n", name, req.GetVersion(), where, what, s.show(resp, err))
	return resp
}

func (s *script) send(addr string, req kmsg.Request) (kmsg.Response, error) {
	c := s.conns[addr]
	if c == nil {
		c = raw.New(addr, "cluster")
		s.conns[addr] = c
	}
	return c.Send(req)
}

// must sends a request that has to be answered, without writing it down.
func (s *script) must(at int32, req kmsg.Request) kmsg.Response {
	s.t.Helper()
	resp, err := s.send(s.c.addr(at), req)
	if err != nil {
		s.t.Fatalf("%T at node %d: %v", req, at, err)
	}
	return resp
}

// meet learns what names the cluster gave to things, and that node 1 leads the quorum.
func (s *script) meet() {
	s.t.Helper()
	eventually(s.t, "node 1 leads the quorum of three", func() bool {
		p := s.describeQuorum()
		if p == nil || len(p.CurrentVoters) != size {
			return false
		}
		if p.LeaderID != 1 { // on a loaded machine another may win: it gives up when it ends in good order
			s.c.nodes[p.LeaderID].Stop(s.t)
			s.c.nodes[p.LeaderID].Start(s.t)
			return false
		}
		s.epoch = p.LeaderEpoch
		for _, v := range p.CurrentVoters {
			s.dirs[v.ReplicaID] = v.ReplicaDirectoryID
			s.names[v.ReplicaDirectoryID] = fmt.Sprint("dir of ", v.ReplicaID)
		}
		return true
	})
	s.c.waitInService(s.t, s.c.ids()...)
	r := kmsg.NewPtrMetadataRequest()
	r.Version = 12
	s.clusterID = *s.must(1, r).(*kmsg.MetadataResponse).ClusterID
	// The default differs.
	const key = "min.insync.replicas"
	s.must(1, alterConfig(kmsg.ConfigResourceTypeBroker, "", key, "1"))
	for _, at := range s.c.ids() {
		s.until("the default is the same", at, func() kmsg.Request { return describeConfig(kmsg.ConfigResourceTypeBroker, "", key) },
			func(r kmsg.Response) bool {
				x := r.(*kmsg.DescribeConfigsResponse).Resources[0].Configs
				return len(x) == 1 && x[0].Value != nil && *x[0].Value == "1"
			})
	}
}

// steady fails the test when the quorum has another leader or epoch than at the beginning: later answers would be about
// that.
func (s *script) steady() {
	s.t.Helper()
	if p := s.describeQuorum(); p == nil || p.LeaderID != 1 || p.LeaderEpoch != s.epoch {
		s.t.Fatalf("the quorum has moved from epoch %d: %+v", s.epoch, p)
	}
}

func (s *script) describeQuorum() *kmsg.DescribeQuorumResponseTopicPartition {
	resp, err := s.send(s.c.addr(1), quorumRequest(2))
	if err != nil {
		return nil
	}
	q := resp.(*kmsg.DescribeQuorumResponse)
	if q.ErrorCode != 0 || q.Topics[0].Partitions[0].ErrorCode != 0 {
		return nil
	}
	return &q.Topics[0].Partitions[0]
}

func quorumRequest(version int16) *kmsg.DescribeQuorumRequest {
	r := kmsg.NewPtrDescribeQuorumRequest()
	r.Version = version
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic, t.Partitions = metadataTopic, []kmsg.DescribeQuorumRequestTopicPartition{kmsg.NewDescribeQuorumRequestTopicPartition()}
	r.Topics = append(r.Topics, t)
	return r
}

const metadataTopic = "__cluster_metadata"

// create makes a topic whose partitions have these replicas, and waits until all nodes know it.
func (s *script) create(topic string, configs map[string]string, partitions ...[]int32) {
	s.t.Helper()
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version, r.TimeoutMillis = 7, 30000
	r.Topics = []kmsg.CreateTopicsRequestTopic{newTopic(topic, configs, partitions...)}
	got := s.must(1, r).(*kmsg.CreateTopicsResponse).Topics[0]
	if got.ErrorCode != 0 {
		s.t.Fatalf("create %s: %d", topic, got.ErrorCode)
	}
	s.topics[topic], s.names[got.TopicID] = got.TopicID, "id of "+topic
	for i, replicas := range partitions {
		var live []int32
		for _, r := range replicas {
			if !slices.Contains(s.down, r) {
				live = append(live, r)
			}
		}
		s.waitPartition(topic, int32(i), live[0], live...)
	}
}

func newTopic(topic string, configs map[string]string, partitions ...[]int32) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, -1, -1
	for i, replicas := range partitions {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(i), replicas
		t.ReplicaAssignment = append(t.ReplicaAssignment, a)
	}
	for k, v := range configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = k, &v
		t.Configs = append(t.Configs, c)
	}
	return t
}

// running are the nodes that run.
func (s *script) running() []int32 {
	return slices.DeleteFunc(s.c.ids(), func(id int32) bool { return slices.Contains(s.down, id) })
}

// partition is what a node knows of a partition.
func (s *script) partition(at int32, topic string, p int32) *kmsg.MetadataResponseTopicPartition {
	resp, err := s.send(s.c.addr(at), metadataRequest(12, topic))
	if err != nil || len(resp.(*kmsg.MetadataResponse).Topics) == 0 {
		return nil
	}
	for _, x := range resp.(*kmsg.MetadataResponse).Topics[0].Partitions {
		if x.Partition == p {
			return &x
		}
	}
	return nil
}

// waitPartition waits until all running nodes know a partition to have this leader, if any, and these in sync.
func (s *script) waitPartition(topic string, p, leader int32, inSync ...int32) {
	s.t.Helper()
	slices.Sort(inSync)
	for _, at := range s.running() {
		eventually(s.t, fmt.Sprintf("node %d knows %s-%d as led by %d with %v", at, topic, p, leader, inSync), func() bool {
			x := s.partition(at, topic, p)
			if x == nil {
				return false
			}
			slices.Sort(x.ISR)
			return x.Leader == leader && (leader < 0 || slices.Equal(x.ISR, inSync))
		})
	}
	// A node may know of its role a moment before it takes it on.
	if leader > 0 && slices.Contains(s.c.ids(), leader) {
		eventually(s.t, fmt.Sprintf("%s-%d is served by %d", topic, p, leader), func() bool {
			r := listOffsets(7, -1, -2, topic, p)
			resp, err := s.send(s.c.addr(leader), r)
			return err == nil && resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode == 0
		})
	}
}

func metadataRequest(version int16, topics ...string) *kmsg.MetadataRequest {
	r := kmsg.NewPtrMetadataRequest()
	r.Version = version
	r.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		r.Topics = append(r.Topics, t)
	}
	return r
}

// kill ends a node as a crash would, and waits until the others know.
func (s *script) kill(id int32) {
	s.t.Helper()
	s.c.nodes[id].Kill()
	s.forget(id)
	s.down = append(s.down, id)
	s.c.waitInService(s.t, s.running()...)
	s.note("node %d is killed", id)
}

// revive starts a node again and waits until all know.
func (s *script) revive(id int32) {
	s.t.Helper()
	s.c.nodes[id].Start(s.t)
	s.down = slices.DeleteFunc(s.down, func(x int32) bool { return x == id })
	s.c.waitInService(s.t, s.running()...)
	s.note("node %d is back", id)
}

func (s *script) forget(id int32) {
	for _, addr := range []string{s.c.addr(id), s.c.controller(id)} {
		if c := s.conns[addr]; c != nil {
			c.Close()
		}
	}
}

// until retries a request until it is answered as wanted: for what a node learns a moment later.
func (s *script) until(what string, at int32, build func() kmsg.Request, done func(kmsg.Response) bool) {
	s.t.Helper()
	eventually(s.t, what, func() bool {
		resp, err := s.send(s.c.addr(at), build())
		return err == nil && done(resp)
	})
}
