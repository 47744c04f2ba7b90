package controller

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// deleteTopics answers DeleteTopics: topics by name or, from version 6 on, by id. All records go into one
// batch.
func (t *turn) deleteTopics(r *kmsg.DeleteTopicsRequest) Result {
	wanted := r.Topics
	if r.Version < 6 {
		wanted = nil
		for _, name := range r.TopicNames {
			x := kmsg.NewDeleteTopicsRequestTopic()
			x.Topic = &name
			wanted = append(wanted, x)
		}
	}
	d := &topicDeleter{turn: t, reply: kmsg.NewPtrDeleteTopicsResponse(), named: map[kafka.UUID]int{}}
	if !t.Settings.DeleteTopics {
		err := kafka.Errorf(kafka.TopicDeletionDisabled, "delete.topic.enable is false")
		if r.Version < 3 {
			err = kafka.InvalidRequest
		}
		for _, w := range wanted {
			d.answer(w.Topic, w.TopicID, err)
		}
		return Result{Reply: d.reply}
	}
	if err := checkSize(len(wanted)); err != nil {
		for _, w := range wanted {
			d.answer(w.Topic, w.TopicID, err)
		}
		return Result{Reply: d.reply}
	}
	d.run(d.wellFormed(wanted))
	return Result{Records: d.records, Atomic: true, Reply: d.reply}
}

// topicDeleter collects the outcome of one DeleteTopics.
type topicDeleter struct {
	*turn
	reply   *kmsg.DeleteTopicsResponse
	records []metadata.Record
	named   map[kafka.UUID]int // how often a topic is asked for
}

func (d *topicDeleter) answer(name *string, id kafka.UUID, err error) {
	x := kmsg.NewDeleteTopicsResponseTopic()
	x.Topic, x.TopicID, x.ErrorCode, x.ErrorMessage = name, id, int16(kafka.CodeOf(err)), messageOf(err)
	d.reply.Topics = append(d.reply.Topics, x)
}

// wellFormed answers the entries that ask for nothing, for two things or for the same as another one, and
// gives the rest. Of several equal entries none is carried out and one is answered, as in Kafka.
func (d *topicDeleter) wellFormed(wanted []kmsg.DeleteTopicsRequestTopic) []kmsg.DeleteTopicsRequestTopic {
	type key struct {
		byName bool
		name   string
		id     kafka.UUID
	}
	count := map[key]int{}
	keyOf := func(w kmsg.DeleteTopicsRequestTopic) (key, error) {
		switch {
		case w.Topic == nil && kafka.UUID(w.TopicID).IsZero():
			return key{}, kafka.Errorf(kafka.InvalidRequest, "neither a name nor an id is given")
		case w.Topic == nil:
			return key{id: w.TopicID}, nil
		case !kafka.UUID(w.TopicID).IsZero():
			return key{}, kafka.Errorf(kafka.InvalidRequest, "both a name and an id are given")
		}
		return key{byName: true, name: *w.Topic}, nil
	}
	for _, w := range wanted {
		if k, err := keyOf(w); err != nil {
			d.answer(w.Topic, w.TopicID, err)
		} else if count[k]++; count[k] == 2 {
			d.answer(w.Topic, w.TopicID, kafka.Errorf(kafka.InvalidRequest, "the topic stands there twice"))
		}
	}
	var good []kmsg.DeleteTopicsRequestTopic
	for _, w := range wanted {
		if k, err := keyOf(w); err == nil && count[k] == 1 {
			good = append(good, w)
		}
	}
	return good
}

// run deletes what is there. A topic that is given by name and by id stays and is answered once, as in Kafka.
func (d *topicDeleter) run(wanted []kmsg.DeleteTopicsRequestTopic) {
	topics := make([]*metadata.Topic, len(wanted))
	for i, w := range wanted {
		var ok bool
		if w.Topic != nil {
			topics[i], ok = d.Image.Topic(*w.Topic)
		} else {
			topics[i], ok = d.Image.TopicByID(w.TopicID)
		}
		if ok {
			d.named[topics[i].ID]++
		}
	}
	for i, w := range wanted {
		id := kafka.UUID(w.TopicID)
		switch topic := topics[i]; {
		case topic == nil && w.Topic != nil:
			d.answer(w.Topic, kafka.UUID{}, kafka.Errorf(kafka.UnknownTopicOrPartition,
				"there is no topic %q", *w.Topic))
		case topic == nil:
			d.answer(nil, w.TopicID, kafka.Errorf(kafka.UnknownTopicID,
				"there is no topic with id %s", id))
		case d.named[topic.ID] == 1:
			d.records = append(d.records, &metadata.RemoveTopicRecord{TopicID: topic.ID})
			d.answer(&topic.Name, topic.ID, nil)
		case w.Topic != nil:
			d.answer(w.Topic, topic.ID, kafka.Errorf(kafka.InvalidRequest,
				"the topic is given by name and by id"))
		}
	}
}
