package cluster

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/interop/raw"
)

const (
	fakeID = 9
	// beatEvery is well below the session's timeout.
	beatEvery = 500 * time.Millisecond
)

var (
	fakeDir         = [16]byte{1, 1, 1, 1, 1, 1, 0x41, 1, 0x81, 1, 1, 1, 1, 1, 1, 1}
	fakeIncarnation = [16]byte{2, 2, 2, 2, 2, 2, 0x42, 2, 0x82, 2, 2, 2, 2, 2, 2, 2}
)

// fakeBroker is this test as broker 9: with an epoch that the controller gave it, so that it can send what is right but for
// one thing.
type fakeBroker struct {
	s     *script
	epoch int64
	port  int
}

// brokers is about what brokers and controllers tell the active controller.
func (s *script) brokers() {
	s.section("brokers")
	s.steady()
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = door.Close() }()
	go func() {
		for {
			c, err := door.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	b := &fakeBroker{s: s, epoch: -1, port: door.Addr().(*net.TCPAddr).Port}
	s.names[fakeDir] = "dir of 9"
	b.registrations()
	b.heartbeats()
	stop := b.live()
	b.partitions()
	b.assignments()
	b.producerIDs()
	stop()
	b.leave()
	b.controllers()
}

// registration is a good one.
func (b *fakeBroker) registration(change func(*kmsg.BrokerRegistrationRequest)) *kmsg.BrokerRegistrationRequest {
	r := kmsg.NewPtrBrokerRegistrationRequest()
	r.Version, r.BrokerID, r.ClusterID, r.IncarnationID, r.PreviousBrokerEpoch = 4, fakeID, b.s.clusterID, fakeIncarnation, -1
	r.LogDirs = [][16]byte{fakeDir}
	l := kmsg.NewBrokerRegistrationRequestListener()
	l.Name, l.Host, l.Port = "PLAINTEXT", "127.0.0.1", uint16(b.port)
	r.Listeners = append(r.Listeners, l)
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.Version, versions.ClientSoftwareName, versions.ClientSoftwareVersion = 4, "cluster", "1"
	for _, f := range b.s.must(1, versions).(*kmsg.ApiVersionsResponse).SupportedFeatures {
		x := kmsg.NewBrokerRegistrationRequestFeature()
		x.Name, x.MinSupportedVersion, x.MaxSupportedVersion = f.Name, f.MinVersion, f.MaxVersion
		r.Features = append(r.Features, x)
	}
	if change != nil {
		change(r)
	}
	return r
}

func (b *fakeBroker) registrations() {
	s := b.s
	other := otherDirectory
	for _, x := range []struct {
		what   string
		change func(*kmsg.BrokerRegistrationRequest)
	}{
		{"another cluster", func(r *kmsg.BrokerRegistrationRequest) { r.ClusterID = "AnotherClusterOfThree0" }},
		{"broker 2, which runs", func(r *kmsg.BrokerRegistrationRequest) { r.BrokerID = 2 }},
		{"no features", func(r *kmsg.BrokerRegistrationRequest) { r.Features = nil }},
		{"features too old", func(r *kmsg.BrokerRegistrationRequest) {
			for i := range r.Features {
				if r.Features[i].Name == "metadata.version" {
					r.Features[i].MinSupportedVersion, r.Features[i].MaxSupportedVersion = 7, 8
				}
			}
		}},
		{"the same directory twice", func(r *kmsg.BrokerRegistrationRequest) { r.LogDirs = append(r.LogDirs, fakeDir) }},
		{"another broker's directory", func(r *kmsg.BrokerRegistrationRequest) { r.LogDirs = [][16]byte{s.dirs[2]} }},
		{"no directory", func(r *kmsg.BrokerRegistrationRequest) { r.LogDirs = nil }},
		{"a reserved directory", func(r *kmsg.BrokerRegistrationRequest) { r.LogDirs = [][16]byte{{15: 2}} }},
		{"migrating", func(r *kmsg.BrokerRegistrationRequest) { r.IsMigratingZkBroker = true }},
	} {
		s.askController(1, x.what, b.registration(x.change))
	}
	s.askController(2, "good, at a controller that is not active", b.registration(nil))
	s.ask(1, "good, at the port of clients", b.registration(nil))
	got, _ := s.askController(1, "good", b.registration(nil)).(*kmsg.BrokerRegistrationResponse)
	if got == nil || got.ErrorCode != 0 {
		s.t.Fatalf("broker 9 is not registered: %+v", got)
	}
	b.epoch = got.BrokerEpoch
	again, _ := s.askController(1, "again, the same incarnation", b.registration(nil)).(*kmsg.BrokerRegistrationResponse)
	if again != nil && again.ErrorCode == 0 {
		s.note("the epoch is the same: %v", again.BrokerEpoch == b.epoch)
		b.epoch = again.BrokerEpoch
	}
	s.until("broker 9 is known to be fenced", 2, func() kmsg.Request { return describeCluster(2, 1, true) },
		func(r kmsg.Response) bool { return len(r.(*kmsg.DescribeClusterResponse).Brokers) == size+1 })
	s.ask(2, "with fenced brokers", describeCluster(2, 1, true))
	s.ask(2, "without fenced brokers", describeCluster(2, 1, false))
	s.ask(2, "an assignment to a fenced broker, to validate", createTopics(true, newTopic("fenced", nil, []int32{9, 1})))
	s.askController(1, "another incarnation, while this one is fenced", b.registration(func(r *kmsg.BrokerRegistrationRequest) {
		r.IncarnationID, r.ClusterID = other, "AnotherClusterOfThree0"
	}))
}

func (b *fakeBroker) heartbeat(change func(*kmsg.BrokerHeartbeatRequest)) *kmsg.BrokerHeartbeatRequest {
	r := kmsg.NewPtrBrokerHeartbeatRequest()
	r.Version, r.BrokerID, r.BrokerEpoch, r.CurrentMetadataOffset = 1, fakeID, b.epoch, b.epoch+1000
	if change != nil {
		change(r)
	}
	return r
}

func (b *fakeBroker) heartbeats() {
	s := b.s
	for _, x := range []struct {
		what   string
		change func(*kmsg.BrokerHeartbeatRequest)
	}{
		{"an older epoch", func(r *kmsg.BrokerHeartbeatRequest) { r.BrokerEpoch-- }},
		{"a later epoch", func(r *kmsg.BrokerHeartbeatRequest) { r.BrokerEpoch += 1 << 20 }},
		{"an unknown broker", func(r *kmsg.BrokerHeartbeatRequest) { r.BrokerID = 77 }},
		{"broker 2 with this one's epoch", func(r *kmsg.BrokerHeartbeatRequest) { r.BrokerID = 2 }},
		{"stays fenced", func(r *kmsg.BrokerHeartbeatRequest) { r.WantFence = true }},
		{"not caught up", func(r *kmsg.BrokerHeartbeatRequest) { r.CurrentMetadataOffset = 0 }},
		{"version 0", func(r *kmsg.BrokerHeartbeatRequest) { r.Version, r.WantFence = 0, true }},
		{"version 2", func(r *kmsg.BrokerHeartbeatRequest) { r.Version, r.WantFence = 2, true }},
	} {
		s.askController(1, x.what, b.heartbeat(x.change))
	}
	s.askController(2, "at a controller that is not active", b.heartbeat(nil))
	s.ask(1, "at the port of clients", b.heartbeat(nil))
	s.askController(1, "good", b.heartbeat(nil))
}

// live keeps the broker in service until the result is called.
func (b *fakeBroker) live() func() {
	s := b.s
	s.t.Helper()
	end, done := make(chan struct{}), make(chan struct{})
	var once sync.Once
	conn := raw.New(s.c.controller(1), "broker 9")
	go func() {
		defer close(done)
		defer conn.Close()
		for {
			_, _ = conn.Send(b.heartbeat(nil))
			select {
			case <-end:
				return
			case <-time.After(beatEvery):
			}
		}
	}()
	stop := func() { once.Do(func() { close(end); <-done }) }
	s.t.Cleanup(stop)
	eventually(s.t, "broker 9 is in service", func() bool {
		return len(s.must(2, describeCluster(2, 1, false)).(*kmsg.DescribeClusterResponse).Brokers) == size+1
	})
	return stop
}

// alterPartition proposes an in-sync set for partition 0 as its leader.
func (b *fakeBroker) alterPartition(version int16, topic string, change func(*kmsg.AlterPartitionRequest,
	*kmsg.AlterPartitionRequestTopicPartition), inSync ...int32) *kmsg.AlterPartitionRequest {
	r := kmsg.NewPtrAlterPartitionRequest()
	r.Version, r.BrokerID, r.BrokerEpoch = version, fakeID, b.epoch
	p := kmsg.NewAlterPartitionRequestTopicPartition()
	for _, id := range inSync {
		x := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		x.BrokerID, x.BrokerEpoch = id, -1
		if id == fakeID {
			x.BrokerEpoch = b.epoch
		}
		p.NewEpochISR = append(p.NewEpochISR, x)
	}
	p.NewISR = inSync
	if change != nil {
		change(r, &p)
	}
	t := kmsg.NewAlterPartitionRequestTopic()
	t.TopicID = b.s.topics[topic]
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

func (b *fakeBroker) partitions() {
	s := b.s
	s.create("fake", minISR1, []int32{9, 1}, []int32{1, 9})
	type partition = kmsg.AlterPartitionRequestTopicPartition
	for _, v := range []int16{2, 3} {
		for _, x := range []struct {
			what   string
			change func(*kmsg.AlterPartitionRequest, *partition)
			inSync []int32
		}{
			{"an older broker epoch", func(r *kmsg.AlterPartitionRequest, _ *partition) { r.BrokerEpoch-- }, []int32{9}},
			{"a later broker epoch", func(r *kmsg.AlterPartitionRequest, _ *partition) { r.BrokerEpoch += 1 << 30 }, []int32{9}},
			{"an unknown broker", func(r *kmsg.AlterPartitionRequest, _ *partition) { r.BrokerID = 77 }, []int32{9}},
			{"an older leader epoch", func(_ *kmsg.AlterPartitionRequest, p *partition) { p.LeaderEpoch-- }, []int32{9}},
			{"a later leader epoch", func(_ *kmsg.AlterPartitionRequest, p *partition) { p.LeaderEpoch++ }, []int32{9}},
			{"an older partition epoch", func(_ *kmsg.AlterPartitionRequest, p *partition) { p.PartitionEpoch-- }, []int32{9}},
			{"a later partition epoch", func(_ *kmsg.AlterPartitionRequest, p *partition) { p.PartitionEpoch++ }, []int32{9}},
			{"another's partition", func(_ *kmsg.AlterPartitionRequest, p *partition) { p.Partition = 1 }, []int32{9}},
			{"an unknown partition", func(_ *kmsg.AlterPartitionRequest, p *partition) { p.Partition = 5 }, []int32{9}},
			{"nobody in sync", nil, nil},
			{"without the leader", nil, []int32{1}},
			{"broker 2, which has no replica", nil, []int32{9, 2}},
			{"broker 77", nil, []int32{9, 77}},
			{"the leader twice", nil, []int32{9, 9}},
			{"recovering, with more than the leader", func(_ *kmsg.AlterPartitionRequest, p *partition) { p.LeaderRecoveryState = 1 },
				[]int32{9, 1}},
			{"recovering", func(_ *kmsg.AlterPartitionRequest, p *partition) { p.LeaderRecoveryState = 1 }, []int32{9}},
		} {
			s.askController(1, x.what, b.alterPartition(v, "fake", x.change, x.inSync...))
		}
	}
	s.askController(1, "an unknown topic", b.alterPartition(3, "no such", nil, 9))
	s.askController(1, "this broker with an older epoch", b.alterPartition(3, "fake", func(_ *kmsg.AlterPartitionRequest, p *partition) {
		p.NewEpochISR[0].BrokerEpoch--
	}, 9))
	s.askController(2, "at a controller that is not active", b.alterPartition(3, "fake", nil, 9))
	s.ask(1, "at the port of clients", b.alterPartition(3, "fake", nil, 9))
	s.askController(1, "as it is", b.alterPartition(3, "fake", nil, 9, 1))
	s.askController(1, "without broker 1", b.alterPartition(3, "fake", func(_ *kmsg.AlterPartitionRequest, p *partition) {
		p.PartitionEpoch = b.partitionEpoch()
	}, 9))
	s.waitPartition("fake", 0, 9, 9)
	s.ask(2, "after that", metadataRequest(12, "fake"))
}

// partitionEpoch is how often partition 0 of fake has changed since, found by proposing what is never taken.
func (b *fakeBroker) partitionEpoch() int32 {
	resp, err := b.s.send(b.s.c.controller(1), b.alterPartition(3, "fake", func(_ *kmsg.AlterPartitionRequest,
		p *kmsg.AlterPartitionRequestTopicPartition) {
		p.PartitionEpoch = 0
	}, 9, 1))
	if err != nil {
		b.s.t.Fatal(err)
	}
	x := resp.(*kmsg.AlterPartitionResponse)
	if x.ErrorCode != 0 || len(x.Topics) == 0 || x.Topics[0].Partitions[0].ErrorCode != 0 {
		return 1
	}
	return x.Topics[0].Partitions[0].PartitionEpoch
}

func (b *fakeBroker) assignments() {
	s := b.s
	assign := func(epochBy int64, broker int32, dir, topic [16]byte, partition int32) *kmsg.AssignReplicasToDirsRequest {
		r := kmsg.NewPtrAssignReplicasToDirsRequest()
		r.BrokerID, r.BrokerEpoch = broker, b.epoch+epochBy
		d := kmsg.NewAssignReplicasToDirsRequestDirectory()
		d.ID = dir
		t := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
		p := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
		p.Partition = partition
		t.TopicID, t.Partitions = topic, append(t.Partitions, p)
		d.Topics = append(d.Topics, t)
		r.Directories = append(r.Directories, d)
		return r
	}
	id := s.topics["fake"]
	for _, x := range []struct {
		what string
		r    *kmsg.AssignReplicasToDirsRequest
	}{
		{"an older epoch", assign(-1, fakeID, fakeDir, id, 0)}, {"a later epoch", assign(1<<30, fakeID, fakeDir, id, 0)},
		{"an unknown broker", assign(0, 77, fakeDir, id, 0)}, {"an unknown topic", assign(0, fakeID, fakeDir, otherDirectory, 0)},
		{"an unknown partition", assign(0, fakeID, fakeDir, id, 7)}, {"a directory it does not have", assign(0, fakeID, otherDirectory, id, 0)},
		{"no replica of it", assign(0, fakeID, fakeDir, s.topics["leaders"], 0)}, {"good", assign(0, fakeID, fakeDir, id, 1)},
		{"the directory it is in", assign(0, fakeID, fakeDir, id, 1)}, {"a lost directory", assign(0, fakeID, [16]byte{15: 1}, id, 1)},
	} {
		s.askController(1, x.what, x.r)
	}
	s.askController(2, "at a controller that is not active", assign(0, fakeID, fakeDir, id, 0))
	s.ask(1, "at the port of clients", assign(0, fakeID, fakeDir, id, 0))
}

func (b *fakeBroker) producerIDs() {
	s := b.s
	allocate := func(broker int32, epochBy int64) *kmsg.AllocateProducerIDsRequest {
		r := kmsg.NewPtrAllocateProducerIDsRequest()
		r.BrokerID, r.BrokerEpoch = broker, b.epoch+epochBy
		return r
	}
	s.askController(1, "an older epoch", allocate(fakeID, -1))
	s.askController(1, "an unknown broker", allocate(77, 0))
	s.askController(2, "at a controller that is not active", allocate(fakeID, 0))
	s.ask(1, "at the port of clients", allocate(fakeID, 0))
}

// leave has the broker shut down in good order, and the cluster forget it.
func (b *fakeBroker) leave() {
	s := b.s
	s.ask(1, "another leader of fake-0", reassign("fake", 0, 9, 1))
	shutdown := b.heartbeat(func(r *kmsg.BrokerHeartbeatRequest) { r.WantShutdown, r.CurrentMetadataOffset = true, 1<<40 })
	eventually(s.t, "broker 9 may go", func() bool {
		resp, err := s.send(s.c.controller(1), shutdown)
		return err == nil && resp.(*kmsg.BrokerHeartbeatResponse).ShouldShutdown
	})
	s.askController(1, "shuts down again", shutdown)
	s.waitPartition("fake", 1, 1, 1)
	for p := range int32(2) {
		s.ask(1, fmt.Sprint("partition ", p), reassign("fake", p, 1))
	}
	s.ask(1, "broker 9", unregister(fakeID))
	s.askController(1, "after that", b.heartbeat(nil))
	s.askController(1, "a proposal after that", b.alterPartition(3, "fake", nil, 9))
	s.until("broker 9 is forgotten", 2, func() kmsg.Request { return describeCluster(2, 1, true) },
		func(r kmsg.Response) bool { return len(r.(*kmsg.DescribeClusterResponse).Brokers) == size })
	s.ask(2, "with fenced brokers", describeCluster(2, 1, true))
}

// controllers is about registrations of controllers.
func (b *fakeBroker) controllers() {
	s := b.s
	registration := func(change func(*kmsg.ControllerRegistrationRequest)) *kmsg.ControllerRegistrationRequest {
		r := kmsg.NewPtrControllerRegistrationRequest()
		r.ControllerID, r.IncarnationID = 3, fakeIncarnation
		l := kmsg.NewControllerRegistrationRequestListener()
		l.Name, l.Host, l.Port = "CONTROLLER", "127.0.0.1", uint16(s.c.ports[3]+controllerStep)
		r.Listeners = append(r.Listeners, l)
		for _, f := range b.registration(nil).Features {
			x := kmsg.NewControllerRegistrationRequestFeature()
			x.Name, x.MinSupportedVersion, x.MaxSupportedVersion = f.Name, f.MinSupportedVersion, f.MaxSupportedVersion
			r.Features = append(r.Features, x)
		}
		if change != nil {
			change(r)
		}
		return r
	}
	s.askController(2, "at a controller that is not active", registration(nil))
	s.ask(1, "at the port of clients", registration(nil))
	s.askController(1, "no features", registration(func(r *kmsg.ControllerRegistrationRequest) { r.Features = nil }))
	s.askController(1, "features too old", registration(func(r *kmsg.ControllerRegistrationRequest) {
		for i := range r.Features {
			if r.Features[i].Name == "metadata.version" {
				r.Features[i].MinSupportedVersion, r.Features[i].MaxSupportedVersion = 7, 8
			}
		}
	}))
	// Clients' requests at the port of controllers.
	for _, at := range []int32{1, 2} {
		s.askController(at, "metadata", metadataRequest(12, "leaders"))
		s.askController(at, "topic", createTopics(true, counted("c", 1, 1)))
		s.askController(at, "configs", describeConfig(kmsg.ConfigResourceTypeTopic, "leaders", "retention.ms"))
		s.askController(at, "change of a config", alterConfig(kmsg.ConfigResourceTypeTopic, "nothing", "retention.ms", "1"))
		s.askController(at, "reassignments", listReassignments(""))
		s.askController(at, "elections", elect(2, 0, "leaders", 0))
		s.askController(at, "broker 77", unregister(77))
		s.askController(at, "features", updateFeature(2, "no.such.feature", 1, 1, true))
		s.askController(at, "produce", s.produce(9, 1, "leaders", 0))
	}
}
