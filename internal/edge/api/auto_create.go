package api

import (
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
)

// autoCreationWarning is how often a failed creation is worth a warning: clients ask again many times a second.
const autoCreationWarning = 10 * time.Second

// maxAutoCreations bounds the topics that wait for the controller because somebody asked about them. Clients ask again.
const maxAutoCreations = 10_000

// autoCreation holds the topics that are being created because a client asked about them, so that the many clients that
// ask at once make one request.
type autoCreation struct {
	mu     sync.Mutex
	names  map[string]bool
	warned time.Time
}

// begin keeps the names that nobody is creating.
func (a *autoCreation) begin(names []string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for _, name := range names {
		if a.names[name] || len(a.names) >= maxAutoCreations {
			continue
		}
		if a.names == nil {
			a.names = map[string]bool{}
		}
		a.names[name] = true
		out = append(out, name)
	}
	return out
}

// mayWarn says whether a failure may be logged now.
func (a *autoCreation) mayWarn(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.warned) < autoCreationWarning {
		return false
	}
	a.warned = now
	return true
}

func (a *autoCreation) end(names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range names {
		delete(a.names, name)
	}
}

// autoCreate asks the controller to create topics, if auto.create.topics.enable says so, and does not wait for it. The
// names must own their memory.
func (b *Broker) autoCreate(c *server.Call, names []string) {
	if b.Config.Bool("auto.create.topics.enable") {
		b.createSoon(c, names)
	}
}

// createInternal asks the controller to create a coordinator's topic, whatever auto.create.topics.enable says.
func (b *Broker) createInternal(c *server.Call, name string) { b.createSoon(c, []string{name}) }

func (b *Broker) createSoon(c *server.Call, names []string) {
	names = b.creating.begin(names)
	if len(names) == 0 {
		return
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, int32(b.requestTimeout().Milliseconds())
	for _, name := range names {
		req.Topics = append(req.Topics, b.automaticTopic(name))
	}
	b.controlWithin(c, req, b.requestTimeout()).OnDone(func(r ControlReply) {
		b.creating.end(names)
		b.reportCreation(names, r)
	})
}

// reportCreation logs what became of it: no client is told.
func (b *Broker) reportCreation(names []string, r ControlReply) {
	resp, ok := r.Body.(*kmsg.CreateTopicsResponse)
	if !ok {
		if b.creating.mayWarn(b.Now()) {
			b.Log.Warn("topics that clients asked about were not created", "topics", len(names), "error", r.Err)
		}
		return
	}
	for _, t := range resp.Topics {
		switch code := kafka.Code(t.ErrorCode); code {
		case kafka.None:
			b.Log.Info("topic created because a client asked about it", "topic", t.Topic)
		case kafka.TopicAlreadyExists:
		default:
			if b.creating.mayWarn(b.Now()) {
				b.Log.Warn("a topic that a client asked about was not created", "topic", t.Topic, "error", code.Name())
			}
		}
	}
}

// leastSegment is the least value of segment.bytes of a topic (KIP-1030).
const leastSegment = 1 << 20

// automaticTopic describes a topic as it is created without being described by anybody: with the defaults, or with what
// a coordinator needs of its own topic.
func (b *Broker) automaticTopic(name string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, -1, -1
	set := func(key, value string) {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = key, &value
		t.Configs = append(t.Configs, c)
	}
	number := func(key string) string { return strconv.FormatInt(b.Config.Int64(key), 10) }
	// These keys may be smaller than a topic's segments: Kafka tries to create the topic for ever then.
	segment := func(key string) string { return strconv.FormatInt(max(b.Config.Int64(key), leastSegment), 10) }
	size := func(partitions, replicas string) {
		t.NumPartitions, t.ReplicationFactor = int32(b.Config.Int64(partitions)), int16(b.Config.Int64(replicas))
	}
	// A lone node's 1 is left to the cluster's: a topic's own would look like somebody's wish when more brokers join.
	minISR := func(key string) {
		if b.Config.IsSet(key) || b.Config.Int64(key) > 1 {
			set("min.insync.replicas", number(key))
		}
	}
	switch name {
	case kafka.OffsetsTopic:
		size("offsets.topic.num.partitions", "offsets.topic.replication.factor")
		set("cleanup.policy", "compact")
		set("compression.type", "producer")
		set("segment.bytes", segment("offsets.topic.segment.bytes"))
	case kafka.TransactionsTopic:
		size("transaction.state.log.num.partitions", "transaction.state.log.replication.factor")
		set("cleanup.policy", "compact")
		set("compression.type", "uncompressed")
		minISR("transaction.state.log.min.isr")
		set("segment.bytes", segment("transaction.state.log.segment.bytes"))
		set("unclean.leader.election.enable", "false")
	case kafka.ShareStateTopic:
		size("share.coordinator.state.topic.num.partitions", "share.coordinator.state.topic.replication.factor")
		set("cleanup.policy", "delete")
		set("compression.type", "producer")
		minISR("share.coordinator.state.topic.min.isr")
		set("retention.ms", "-1")
		set("segment.bytes", segment("share.coordinator.state.topic.segment.bytes"))
	}
	return t
}
