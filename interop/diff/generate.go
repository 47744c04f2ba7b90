package diff

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Generate gives the steps of a seed: some topics and producers first, then n of any kind.
func Generate(seed uint64, n int) []Step {
	g := &gen{Rand: rand.New(rand.NewPCG(seed, 1)), seqs: map[string]int32{}}
	var steps []Step
	for range 4 {
		steps = append(steps, g.goodTopic())
	}
	for range 2 {
		steps = append(steps, g.goodProducer())
	}
	kinds := []struct {
		weight int
		make   func() Step
	}{
		{12, g.produce}, {8, g.fetch}, {8, g.listOffsets}, {3, g.epochs}, {2, g.initProducer}, {5, g.createTopics},
		{1, g.goodTopic}, {1, g.deleteTopics}, {2, g.createPartitions}, {3, g.deleteRecords}, {3, g.describeConfigs},
		{4, g.incrementalAlter}, {2, g.alter}, {4, g.metadata}, {1, g.apiVersions}, {1, g.cluster},
		{2, g.topicPartitions}, {2, g.producers}, {1, g.quorum}, {2, g.elect}, {1, g.features}, {1, g.logDirs},
	}
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	for range n {
		at := g.IntN(total)
		for _, k := range kinds {
			if at -= k.weight; at < 0 {
				steps = append(steps, k.make())
				break
			}
		}
	}
	return steps
}

// fixed is a step whose request is the same for every broker.
func fixed(what string, req kmsg.Request, changes bool) Step {
	name := fmt.Sprintf("%s v%d %s", strings.TrimSuffix(kmsg.NameForKey(req.Key()), "Request"), req.GetVersion(), what)
	return Step{Name: strings.TrimSpace(name), Changes: changes, Build: func(*World) kmsg.Request { return req }}
}

// built is a step whose request depends on what the broker chose; req already has its version.
func built(what string, req kmsg.Request, fill func(w *World)) Step {
	s := fixed(what, req, false)
	s.Build = func(w *World) kmsg.Request {
		fill(w)
		return req
	}
	return s
}

// goodTopic creates the next topic that the other steps use: two partitions.
func (g *gen) goodTopic() Step {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.SetVersion(7)
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = fmt.Sprintf("t%d", g.made), 2, 1
	if g.made%4 == 3 {
		v := "compact"
		t.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "cleanup.policy", Value: &v}}
	}
	g.made++
	req.Topics = append(req.Topics, t)
	req.TimeoutMillis = 10000
	return fixed(t.Topic, req, true)
}

func (g *gen) goodProducer() Step {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.SetVersion(4)
	g.pids++
	return fixed("", req, false)
}

func (g *gen) initProducer() Step {
	req := kmsg.NewPtrInitProducerIDRequest()
	g.version(req, 0, 5)
	// An id without a transactional id is refused, so nothing is allocated then.
	req.ProducerID = often(g, -1, int64(5))
	req.ProducerEpoch = often(g, -1, int16(0))
	req.TransactionTimeoutMillis = pick(g, int32(0), -1, 60000)
	return fixed(fmt.Sprintf("pid %d epoch %d", req.ProducerID, req.ProducerEpoch), req, false)
}

func (g *gen) metadata() Step {
	req := kmsg.NewPtrMetadataRequest()
	g.version(req, 0, 13)
	req.AllowAutoTopicCreation = false
	var names []string
	byID := req.Version >= 12 && g.IntN(3) == 0
	for range 1 + g.IntN(2) {
		t, name := kmsg.NewMetadataRequestTopic(), g.topic()
		// Before version 4 asking creates.
		if req.Version < 4 && !strings.HasPrefix(name, "t") {
			name = "t0"
		}
		names = append(names, name)
		t.Topic = &name
		if byID {
			t.Topic = nil
		}
		req.Topics = append(req.Topics, t)
	}
	return built(fmt.Sprintf("%q by id %v", names, byID), req, func(w *World) {
		for i := range req.Topics {
			if byID {
				req.Topics[i].TopicID = w.id(names[i])
			}
		}
	})
}

func (g *gen) apiVersions() Step {
	req := kmsg.NewPtrApiVersionsRequest()
	g.version(req, 0, 4)
	req.ClientSoftwareName = often(g, "diff", "", "bad name!", "-x")
	req.ClientSoftwareVersion = often(g, "1.0", "", "?")
	return fixed(fmt.Sprintf("%q %q", req.ClientSoftwareName, req.ClientSoftwareVersion), req, false)
}

func (g *gen) cluster() Step {
	req := kmsg.NewPtrDescribeClusterRequest()
	g.version(req, 0, 2)
	req.EndpointType = often(g, int8(1), 2, 0, 9)
	return fixed(fmt.Sprintf("endpoints %d", req.EndpointType), req, false)
}

func (g *gen) quorum() Step {
	req := kmsg.NewPtrDescribeQuorumRequest()
	g.version(req, 0, 2)
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic = often(g, "__cluster_metadata", "t0")
	p := kmsg.NewDescribeQuorumRequestTopicPartition()
	p.Partition = often(g, int32(0), 1)
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return fixed(fmt.Sprintf("%s-%d", t.Topic, p.Partition), req, false)
}
