package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/controller"
	"moldau/internal/cluster/metadata"
	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
)

// decisionKey is something that the controller is asked, given an image.
type decisionKey struct {
	image int32
	kind  controlKind
	n     int32 // a node, or a message
}

type controlKind uint8

const (
	controlExpire   controlKind = iota // a session ends
	controlRegister                    // a broker starts again
	controlRevive                      // a broker that is fenced tells that it lives
	controlPropose                     // a proposal arrives
)

// controlResult is the image that follows, the same one if nothing does, and the answer to a proposal.
type controlResult struct {
	image  int32
	answer isrAnswer
}

func modelConfig(*metadata.Image, string) *log.Config { return topicConfig() }

// control lets the real controller decide.
func (m *model) control(k decisionKey) controlResult {
	if r, ok := m.decisions[k]; ok {
		return r
	}
	image := m.images[k.image]
	s := m.state(image)
	var out controller.Result
	switch id := kafka.NodeID(k.n); k.kind {
	case controlExpire:
		for b := range image.Brokers() {
			if b.ID != id {
				m.handle(s, m.heartbeat(b, b.Fenced))
			}
		}
		out = controller.Tick(modelNow, s, m.rnd)
	case controlRegister:
		out = m.handle(s, m.registration(image, id))
	case controlRevive:
		b, _ := image.Broker(id)
		out = m.handle(s, m.heartbeat(b, false))
	case controlPropose:
		out = m.handle(s, m.messages[k.n].propose.request(m.topic))
	}
	r := controlResult{image: k.image}
	if len(out.Records) > 0 {
		next, diff, err := image.Apply(out.Records)
		if err != nil {
			m.fail("the controller decides on what does not apply: %v", err)
			return r
		}
		r.image = m.intern(next)
		if r.image != k.image {
			m.diffs[[2]int32{k.image, r.image}] = diff
		}
	}
	if x, ok := out.Reply.(*kmsg.AlterPartitionResponse); ok {
		r.answer.code = kafka.Code(x.ErrorCode)
		if len(x.Topics) > 0 {
			p := x.Topics[0].Partitions[0]
			r.answer = isrAnswer{kafka.Code(p.ErrorCode), kafka.PartitionEpoch(p.PartitionEpoch)}
		}
	}
	m.decisions[k] = r
	return r
}

func (m *model) handle(s controller.State, r kmsg.Request) controller.Result {
	return controller.Handle(modelNow, s, controller.Request{Principal: kafka.Anonymous, Body: r}, m.rnd)
}

// nextEpoch makes broker epochs small: they count registrations, so that the same things in another order are the same.
func (m *model) nextEpoch(i *metadata.Image) kafka.Offset {
	next := kafka.Offset(1)
	for b := range i.Brokers() {
		next = max(next, kafka.Offset(b.Epoch)+1)
	}
	return next
}

func (m *model) heartbeat(b *metadata.Broker, fence bool) kmsg.Request {
	r := kmsg.NewPtrBrokerHeartbeatRequest()
	r.SetVersion(r.MaxVersion())
	r.BrokerID, r.BrokerEpoch, r.CurrentMetadataOffset, r.WantFence = int32(b.ID), int64(b.Epoch), 1000, fence
	return r
}

// registration claims the epoch of the life before: everything that it acknowledged is on the disk.
func (m *model) registration(i *metadata.Image, id kafka.NodeID) kmsg.Request {
	previous := kafka.BrokerEpoch(-1)
	if b, ok := i.Broker(id); ok {
		previous = b.Epoch
	}
	instance := kafka.UUID{0: byte(id), 1: byte(m.nextEpoch(i)), 15: 3}
	return registrationOf(id, instance, previous)
}

func (a *isrAsk) request(topic kafka.UUID) kmsg.Request {
	r := kmsg.NewPtrAlterPartitionRequest()
	r.SetVersion(r.MaxVersion())
	r.BrokerID, r.BrokerEpoch = int32(a.from), int64(a.broker)
	t := kmsg.NewAlterPartitionRequestTopic()
	t.TopicID = topic
	x := kmsg.NewAlterPartitionRequestTopicPartition()
	x.LeaderEpoch, x.PartitionEpoch = int32(a.epoch), int32(a.version)
	for _, id := range a.members[:a.count] {
		e := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		e.BrokerID, e.BrokerEpoch = int32(id.Broker), int64(id.Epoch)
		if id.Broker == a.from {
			e.BrokerEpoch = int64(a.broker)
		}
		x.NewEpochISR = append(x.NewEpochISR, e)
	}
	t.Partitions = append(t.Partitions, x)
	r.Topics = append(r.Topics, t)
	return r
}

// intern gives an image its number: the same for images that say the same of brokers and the partition.
func (m *model) intern(i *metadata.Image) int32 {
	var key strings.Builder
	for b := range i.Brokers() {
		fmt.Fprintf(&key, "%d epoch %d fenced %v; ", b.ID, b.Epoch, b.Fenced)
	}
	if p, ok := i.Partition(modelPartition); ok {
		fmt.Fprintf(&key, "%+v", *p)
	}
	if n, ok := m.imageOf[key.String()]; ok {
		return n
	}
	n := int32(len(m.images))
	m.imageOf[key.String()] = n
	m.images = append(m.images, i)
	return n
}

func (m *model) partition(image int32) *metadata.Partition {
	p, _ := m.images[image].Partition(modelPartition)
	return p
}

// found makes the first image: three brokers in service, and a topic with min.insync.replicas 2 that the first one leads.
func (m *model) found() error {
	static, err := config.Load(nil, config.Options{})
	if err != nil {
		return err
	}
	m.settings, m.rnd = controller.SettingsFrom(static), rand.New(rand.NewPCG(1, 1))
	m.settings.Node, m.settings.ClusterID = 1, clusterID
	image := metadata.New()
	apply := func(records []metadata.Record) {
		if err == nil {
			image, _, err = image.Apply(records)
		}
	}
	apply([]metadata.Record{&metadata.FeatureLevelRecord{Name: metadata.MetadataVersionFeature, Level: metadataVersion},
		&metadata.FeatureLevelRecord{Name: metadata.ElrVersionFeature, Level: 1}})
	for _, id := range modelNodes {
		for _, r := range []func() kmsg.Request{func() kmsg.Request { return m.registration(image, id) }, func() kmsg.Request {
			b, _ := image.Broker(id)
			return m.heartbeat(b, false)
		}} {
			apply(m.handle(m.state(image), r()).Records)
		}
	}
	r := kmsg.NewPtrCreateTopicsRequest()
	r.SetVersion(r.MaxVersion())
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topicName, -1, -1
	a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	a.Replicas = []int32{1, 2, 3}
	t.ReplicaAssignment = append(t.ReplicaAssignment, a)
	c := kmsg.NewCreateTopicsRequestTopicConfig()
	c.Name, c.Value = "min.insync.replicas", kmsg.StringPtr("2")
	t.Configs = append(t.Configs, c)
	r.Topics = append(r.Topics, t)
	apply(m.handle(m.state(image), r).Records)
	if err != nil {
		return err
	}
	topic, ok := image.Topic(topicName)
	if !ok || !slices.Equal(m.partitionOf(image).ISR, modelNodes) {
		return fmt.Errorf("the topic was not created")
	}
	m.topic = topic.ID
	m.intern(image)
	return nil
}

func (m *model) state(i *metadata.Image) controller.State {
	return controller.State{Image: i, Liveness: controller.NewLiveness(), NextOffset: m.nextEpoch(i), Epoch: 1,
		Settings: m.settings}
}

func (m *model) partitionOf(i *metadata.Image) *metadata.Partition {
	p, _ := i.Partition(modelPartition)
	return p
}
