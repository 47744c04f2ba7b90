package controller

import (
	"moldau/internal/cluster/metadata"
	"moldau/internal/config"
	"moldau/internal/invariant"
	"moldau/internal/kafka"
)

// resolver answers what configurations are worth at this controller.
func (t *turn) resolver() *config.Resolver {
	return resolverOf(t.Settings, t.Image)
}

func resolverOf(s *Settings, image *metadata.Image) *config.Resolver {
	return image.Resolver(s.Static, s.Node)
}

// topicFacts are the settings of a topic that elections depend on.
type topicFacts struct {
	minISR  int
	unclean bool
}

const uncleanKey = "unclean.leader.election.enable"

// factsOf reads the settings of one topic. What a topic does not set itself is the same for all, and read once.
func (t *turn) factsOf(topic *metadata.Topic) topicFacts {
	if f, ok := t.facts[topic.ID]; ok {
		return f
	}
	if t.facts == nil {
		t.facts = map[kafka.UUID]topicFacts{}
		t.common = t.readFacts("")
	}
	f := t.common
	own := t.Image.Config(metadata.TopicResource, topic.Name)
	_, setsMinISR := own.Get(minISRKey)
	_, setsUnclean := own.Get(uncleanKey)
	if setsMinISR || setsUnclean {
		f = t.readFacts(topic.Name)
	}
	t.facts[topic.ID] = f
	return f
}

// readFacts resolves the settings of a topic; "" stands for one that sets nothing.
func (t *turn) readFacts(topic string) topicFacts {
	r := t.resolver()
	return topicFacts{minISR: int(r.TopicValue(topic, minISRKey).Int64()),
		unclean: r.TopicValue(topic, uncleanKey).Bool()}
}

// active says whether a broker is registered and may lead and be in sync.
func (t *turn) active(id kafka.NodeID) bool {
	b, ok := t.Image.Broker(id)
	return ok && b.Active()
}

// defaultDirectory is the log directory a new replica on a broker is recorded in: its only one, or not known
// yet.
func (t *turn) defaultDirectory(id kafka.NodeID) kafka.UUID {
	b, ok := t.Image.Broker(id)
	switch {
	case !ok:
		return kafka.DirectoryUnassigned
	case len(b.LogDirs) == 0:
		return kafka.DirectoryMigrating
	case len(b.LogDirs) == 1:
		return b.LogDirs[0]
	}
	return kafka.DirectoryUnassigned
}

// checkBroker compares a broker's epoch with that of its registration.
func (t *turn) checkBroker(id kafka.NodeID, epoch kafka.BrokerEpoch) (*metadata.Broker, error) {
	b, ok := t.Image.Broker(id)
	if !ok || b.Epoch != epoch {
		return nil, kafka.StaleBrokerEpoch
	}
	return b, nil
}

// after is the same turn once some records have happened, for a decision of several steps.
func (t *turn) after(records []metadata.Record) *turn {
	if len(records) == 0 {
		return t
	}
	image, _, err := t.Image.Apply(records)
	invariant.Check(err == nil, "the controller's own records do not apply: %v", err)
	if err != nil {
		return t // the driver refuses the records
	}
	next := *t
	next.Image, next.facts = image, nil
	next.NextOffset += kafka.Offset(len(records))
	return &next
}
