package cluster

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// raftSpec is who a message of the quorum claims to come from and to go to. Empty fields are right.
type raftSpec struct {
	what      string
	cluster   string // "-" for none
	epochBy   int32  // added to the epoch
	voter     int32  // whom it is for; 0 for the node asked
	directory string // of that voter: "" right, "zero", "other"
	from      int32  // candidate or leader; 0 for node 3
	fromOther bool   // with a directory that is not its own
	topic     string
	partition int32
	preVote   bool
}

var raftSpecs = []raftSpec{
	{what: "as it is"}, {what: "another cluster", cluster: "AnotherClusterOfThree0"}, {what: "no cluster", cluster: "-"},
	{what: "an older epoch", epochBy: -1}, {what: "another voter", voter: 77}, {what: "voter -1", voter: -1},
	{what: "another directory", directory: "other"}, {what: "no directory", directory: "zero"},
	{what: "from node 77", from: 77}, {what: "from another directory", fromOther: true},
	{what: "another topic", topic: "nothing"}, {what: "partition 1", partition: 1},
}

var otherDirectory = [16]byte{9, 9, 9, 9, 9, 9, 0x49, 9, 0x89, 9, 9, 9, 9, 9, 9, 9}

func (s *script) clusterName(x raftSpec) *string {
	switch x.cluster {
	case "":
		return &s.clusterID
	case "-":
		return nil
	}
	return &x.cluster
}

func (s *script) directory(at int32, x raftSpec) [16]byte {
	switch x.directory {
	case "zero":
		return [16]byte{}
	case "other":
		return otherDirectory
	}
	return s.dirs[at]
}

func (x raftSpec) target(at int32) int32 {
	if x.voter != 0 {
		return x.voter
	}
	return at
}

func (x raftSpec) source() int32 {
	if x.from != 0 {
		return x.from
	}
	return 3
}

func (x raftSpec) topicName() string {
	if x.topic != "" {
		return x.topic
	}
	return metadataTopic
}

// voting sends Vote requests that must not change anything.
func (s *script) voting() {
	s.section("votes")
	s.steady()
	s.quorum = true
	defer func() { s.quorum = false }()
	for _, x := range raftSpecs {
		if x.epochBy != 0 {
			continue // in the first epoch nothing older can be asked for
		}
		for v := range int16(3) {
			for _, at := range []int32{1, 2} {
				s.askController(at, x.what, s.vote(at, v, x))
			}
		}
	}
	x := raftSpec{preVote: true}
	s.askController(1, "a vote to come", s.vote(1, 2, x))
	s.askController(2, "a vote to come", s.vote(2, 2, x))
	x.epochBy = -1
	s.askController(1, "a vote to come, an older epoch", s.vote(1, 2, x))
	s.ask(1, "at the port of clients", s.vote(1, 2, x))
	none := s.vote(1, 2, x)
	none.Topics = nil
	s.askController(1, "no topic", none)
	self := s.vote(1, 2, raftSpec{from: 1})
	s.askController(1, "from itself", self)
	wrong := s.vote(1, 2, raftSpec{})
	wrong.Topics[0].Partitions[0].LastOffset = -5
	s.askController(1, "a negative offset", wrong)
	wrong = s.vote(1, 2, raftSpec{})
	wrong.Topics[0].Partitions[0].LastOffsetEpoch = s.epoch + 1
	s.askController(1, "an end in a later epoch", wrong)
}

func (s *script) vote(at int32, version int16, x raftSpec) *kmsg.VoteRequest {
	r := kmsg.NewPtrVoteRequest()
	r.Version, r.ClusterID, r.VoterID = version, s.clusterName(x), x.target(at)
	p := kmsg.NewVoteRequestTopicPartition()
	p.Partition, p.CandidateEpoch, p.CandidateID = x.partition, s.epoch+x.epochBy, x.source()
	p.CandidateDirectoryID, p.VoterDirectoryID = s.dirs[x.source()], s.directory(at, x)
	if x.fromOther {
		p.CandidateDirectoryID = otherDirectory
	}
	p.LastOffsetEpoch, p.LastOffset, p.PreVote = 0, 0, x.preVote
	t := kmsg.NewVoteRequestTopic()
	t.Topic = x.topicName()
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

// leading sends BeginQuorumEpoch and EndQuorumEpoch that must not change anything.
func (s *script) leading() {
	s.section("begin and end of epochs")
	s.steady()
	s.quorum = true
	defer func() { s.quorum = false }()
	for _, x := range raftSpecs {
		if x.epochBy == 0 && x.cluster != "AnotherClusterOfThree0" && x.topic == "" && x.partition == 0 {
			x.from = 1 // the leader itself: nothing new
		}
		if x.what == "from node 77" {
			x.from, x.epochBy = 77, -1
		}
		for v := range int16(2) {
			s.askController(2, x.what, s.beginEpoch(2, v, x))
			if x.epochBy != 0 || x.what == "another cluster" {
				s.askController(1, x.what, s.beginEpoch(1, v, x))
				s.askController(2, x.what, s.endEpoch(v, x))
			}
		}
	}
	x := raftSpec{from: 3, epochBy: -1}
	s.askController(1, "an older epoch", s.endEpoch(1, x))
	x = raftSpec{from: 3}
	s.ask(1, "at the port of clients", s.endEpoch(1, x))
	s.ask(1, "at the port of clients", s.beginEpoch(1, 1, x))
}

func (s *script) beginEpoch(at int32, version int16, x raftSpec) *kmsg.BeginQuorumEpochRequest {
	r := kmsg.NewPtrBeginQuorumEpochRequest()
	r.Version, r.ClusterID, r.VoterID = version, s.clusterName(x), x.target(at)
	p := kmsg.NewBeginQuorumEpochRequestTopicPartition()
	p.Partition, p.VoterDirectoryID, p.LeaderID, p.LeaderEpoch = x.partition, s.directory(at, x), x.source(), s.epoch+x.epochBy
	t := kmsg.NewBeginQuorumEpochRequestTopic()
	t.Topic = x.topicName()
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	e := kmsg.NewBeginQuorumEpochRequestLeaderEndpoint()
	e.Name, e.Host, e.Port = "CONTROLLER", "127.0.0.1", uint16(s.c.ports[1]+controllerStep)
	r.LeaderEndpoints = append(r.LeaderEndpoints, e)
	return r
}

func (s *script) endEpoch(version int16, x raftSpec) *kmsg.EndQuorumEpochRequest {
	r := kmsg.NewPtrEndQuorumEpochRequest()
	r.Version, r.ClusterID = version, s.clusterName(x)
	p := kmsg.NewEndQuorumEpochRequestTopicPartition()
	p.Partition, p.LeaderID, p.LeaderEpoch = x.partition, x.source(), s.epoch+x.epochBy
	p.PreferredSuccessors = []int32{2, 3}
	t := kmsg.NewEndQuorumEpochRequestTopic()
	t.Topic = x.topicName()
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

// metadataFetches is about the log of the metadata and its snapshots.
func (s *script) metadataFetches() {
	s.section("fetches of metadata")
	s.steady()
	s.quorum = true
	defer func() { s.quorum = false }()
	s.topics[metadataTopic] = [16]byte{15: 1}
	fetch := func(change func(*kmsg.FetchRequest, *kmsg.FetchRequestTopicPartition)) *kmsg.FetchRequest {
		spec := consumer(17, 0, 1<<40)
		spec.epoch = s.epoch
		r := s.fetch(metadataTopic, spec)
		r.ClusterID, r.SessionEpoch = &s.clusterID, 0
		if change != nil {
			change(r, &r.Topics[0].Partitions[0])
		}
		return r
	}
	another := "AnotherClusterOfThree0"
	for _, x := range []struct {
		what   string
		change func(*kmsg.FetchRequest, *kmsg.FetchRequestTopicPartition)
	}{
		{"another cluster", func(r *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { r.ClusterID = &another }},
		{"an older epoch", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch-- }},
		{"a later epoch", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch += 5 }},
		{"partition 1", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.Partition = 1 }},
		{"a negative offset", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) {
			p.FetchOffset, p.LastFetchedEpoch = -1, 0
		}},
		{"an epoch of the last record that is too new", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) {
			p.FetchOffset, p.LastFetchedEpoch = 1, s.epoch+3
		}},
	} {
		s.askController(1, x.what, fetch(x.change))
		s.askController(2, x.what, fetch(x.change))
	}
	s.ask(1, "at the port of clients", fetch(nil))
	for _, x := range raftSpecs {
		if x.voter != 0 || x.directory != "" || x.from != 0 || x.fromOther || x.what == "as it is" || x.what == "no cluster" {
			continue
		}
		for v := range int16(2) {
			s.askController(1, x.what, s.fetchSnapshot(v, x, 0))
			s.askController(2, x.what, s.fetchSnapshot(v, x, 0))
		}
	}
	s.askController(1, "a snapshot that is not", s.fetchSnapshot(1, raftSpec{}, 0))
	s.askController(2, "a snapshot that is not", s.fetchSnapshot(1, raftSpec{}, 0))
	s.askController(1, "a later epoch", s.fetchSnapshot(1, raftSpec{epochBy: 5}, 0))
	s.askController(1, "a negative position", s.fetchSnapshot(1, raftSpec{}, -1))
	s.ask(1, "at the port of clients", s.fetchSnapshot(1, raftSpec{}, 0))
}

func (s *script) fetchSnapshot(version int16, x raftSpec, position int64) *kmsg.FetchSnapshotRequest {
	r := kmsg.NewPtrFetchSnapshotRequest()
	r.Version, r.ClusterID, r.ReplicaID, r.MaxBytes = version, s.clusterName(x), -1, 1<<20
	p := kmsg.NewFetchSnapshotRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.Position = x.partition, s.epoch+x.epochBy, position
	p.SnapshotID.EndOffset, p.SnapshotID.Epoch = 123456, 1
	t := kmsg.NewFetchSnapshotRequestTopic()
	t.Topic = x.topicName()
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

// voters is about changes of the quorum that are refused.
func (s *script) voters() {
	s.section("voters")
	s.steady()
	s.quorum = true
	defer func() { s.quorum = false }()
	another := "AnotherClusterOfThree0"
	for _, at := range []int32{1, 2} {
		ask := func(what string, r kmsg.Request) {
			s.askController(at, what, r)
			s.ask(at, what, r)
		}
		for _, v := range []int16{0, 1} {
			ask("another cluster", s.addVoter(v, &another, 9, otherDirectory))
			ask("there already", s.addVoter(v, &s.clusterID, 2, s.dirs[2]))
			ask("a known id with another directory", s.addVoter(v, &s.clusterID, 2, otherDirectory))
			ask("no directory", s.addVoter(v, &s.clusterID, 9, [16]byte{}))
			ask("negative id", s.addVoter(v, &s.clusterID, -1, otherDirectory))
			noDoor := s.addVoter(v, &s.clusterID, 9, otherDirectory)
			noDoor.Listeners = nil
			ask("no listener", noDoor)
			noDoor = s.addVoter(v, &s.clusterID, 9, otherDirectory)
			noDoor.Listeners[0].Name = "OTHER"
			ask("another listener", noDoor)
		}
		ask("another cluster", removeVoter(&another, 2, s.dirs[2]))
		ask("an unknown id", removeVoter(&s.clusterID, 9, otherDirectory))
		ask("another directory", removeVoter(&s.clusterID, 2, otherDirectory))
		ask("no directory", removeVoter(&s.clusterID, 2, [16]byte{}))
		for _, x := range []struct {
			what    string
			cluster *string
			epochBy int32
			id      int32
			dir     [16]byte
		}{
			{"another cluster", &another, 0, 2, s.dirs[2]}, {"an older epoch", &s.clusterID, -1, 2, s.dirs[2]},
			{"an unknown id", &s.clusterID, 0, 9, otherDirectory},
			{"another directory", &s.clusterID, 0, 2, otherDirectory},
		} {
			s.askController(at, x.what, s.updateVoter(x.cluster, s.epoch+x.epochBy, x.id, x.dir))
		}
	}
	s.ask(1, "at the port of clients", s.updateVoter(&s.clusterID, s.epoch, 9, otherDirectory))
	s.ask(1, "still the same", quorumRequest(2))
}

// laterEpochs is about messages from epochs that nobody has heard of. Some of them begin such an epoch, so it comes last.
func (s *script) laterEpochs() {
	s.section("later epochs")
	s.quorum = true
	defer func() { s.quorum = false }()
	p := s.describeQuorum()
	if p == nil {
		s.t.Fatal("no leader of the quorum")
	}
	s.epoch = p.LeaderEpoch
	leader, other := p.LeaderID, int32(1)
	if leader == 1 {
		other = 2
	}
	// Which nodes these are differs from run to run.
	for _, x := range []struct {
		name string
		at   int32
	}{{"a follower", other}, {"the leader", leader}} {
		ask := func(what string, r kmsg.Request) { s.exchange(x.name, s.c.controller(x.at), what, r) }
		ask("a vote to come, from node 77", s.vote(x.at, 2, raftSpec{from: 77, fromOther: true, preVote: true, epochBy: later}))
	}
}

func (s *script) addVoter(version int16, cluster *string, id int32, directory [16]byte) *kmsg.AddRaftVoterRequest {
	r := kmsg.NewPtrAddRaftVoterRequest()
	r.Version, r.ClusterID, r.TimeoutMillis, r.VoterID, r.VoterDirectoryID, r.AckWhenCommitted = version, cluster, 2000, id, directory, true
	l := kmsg.NewAddRaftVoterRequestListener()
	l.Name, l.Host, l.Port = "CONTROLLER", "127.0.0.1", 9
	r.Listeners = append(r.Listeners, l)
	return r
}

func removeVoter(cluster *string, id int32, directory [16]byte) *kmsg.RemoveRaftVoterRequest {
	r := kmsg.NewPtrRemoveRaftVoterRequest()
	r.ClusterID, r.VoterID, r.VoterDirectoryID = cluster, id, directory
	return r
}

func (s *script) updateVoter(cluster *string, epoch, id int32, directory [16]byte) *kmsg.UpdateRaftVoterRequest {
	r := kmsg.NewPtrUpdateRaftVoterRequest()
	r.ClusterID, r.CurrentLeaderEpoch, r.VoterID, r.VoterDirectoryID = cluster, epoch, id, directory
	l := kmsg.NewUpdateRaftVoterRequestListener()
	l.Name, l.Host, l.Port = "CONTROLLER", "127.0.0.1", uint16(s.c.ports[2]+controllerStep)
	r.Listeners = append(r.Listeners, l)
	r.KRaftVersionFeature.MaxSupportedVersion = 1
	return r
}
