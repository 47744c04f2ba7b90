package api

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// sessionModel is a client of one session and what it believes; a fetch without a session tells the truth.
type sessionModel struct {
	f         *fixture
	rnd       *rand.Rand
	r         *reader
	positions map[modelKey]int64 // of the partitions in the session
	told      map[modelKey]modelState
	topics    int
}

type modelKey struct {
	topic     string
	partition int32
}

// modelState is what a response says of a partition beside its records.
type modelState struct {
	code          kafka.Code
	highWatermark int64
	logStart      int64
}

// TestSessionModel: whatever happens, what a session's answers add up to is what a full fetch says, and records that
// can be read are sent.
func TestSessionModel(t *testing.T) {
	for seed := range uint64(60) {
		m := &sessionModel{f: newFixture(t), rnd: rand.New(rand.NewPCG(seed, 3)), positions: map[modelKey]int64{},
			told: map[modelKey]modelState{}}
		m.r = newReader(m.f, []int16{7, 12, 13, 18}[seed%4])
		for range 3 {
			m.newTopic()
		}
		for step := range 120 {
			if err := m.step(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
		}
	}
}

func (m *sessionModel) newTopic() {
	m.topics++
	m.f.create(fmt.Sprintf("t%d", m.topics), 2)
}

// pick gives any partition, also such that do not exist.
func (m *sessionModel) pick() modelKey {
	return modelKey{fmt.Sprintf("t%d", 1+m.rnd.IntN(m.topics+1)), int32(m.rnd.IntN(3))}
}

func (m *sessionModel) step() error {
	k := m.pick()
	part, err := m.f.Partitions.Get(kafka.TopicPartition{Topic: k.topic, Partition: k.partition})
	switch m.rnd.IntN(10) {
	case 0, 1, 2:
		if err == nil {
			m.f.produce(k.topic, k.partition, "v")
		}
	case 3:
		if err == nil {
			_, e, _ := part.DeleteRecords(t0, part.HighWatermark())
			e.Run(m.f)
		}
	case 4:
		switch {
		case m.rnd.IntN(3) > 0:
		case err == nil:
			m.f.remove(topicID(k.topic))
		default:
			if _, ok := m.f.image.Topic(k.topic); !ok && k.topic != fmt.Sprintf("t%d", m.topics+1) {
				m.f.create(k.topic, 2)
			}
		}
	default:
		return m.fetch()
	}
	return nil
}

// fetch sends a request with random changes and checks the answer.
func (m *sessionModel) fetch() error {
	req := m.r.request()
	changes := map[string][]kmsg.FetchRequestTopicPartition{}
	for range m.rnd.IntN(3) {
		k := m.pick()
		m.positions[k] = int64(m.rnd.IntN(6))
		changes[k.topic] = append(changes[k.topic], fetchPartition(k.partition, m.positions[k]))
	}
	if m.rnd.IntN(4) == 0 && req.SessionEpoch > 0 {
		k := m.pick()
		if _, ok := m.positions[k]; ok && len(m.positions) > 1 {
			delete(m.positions, k)
			delete(m.told, k)
			req.ForgottenTopics = append(req.ForgottenTopics, kmsg.FetchRequestForgottenTopic{
				Topic: k.topic, TopicID: topicID(k.topic), Partitions: []int32{k.partition}})
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(changes)) {
		req.Topics = append(req.Topics, fetchTopic(topic, changes[topic]...))
	}
	if req.SessionEpoch == 0 && len(m.positions) == 0 {
		return nil
	}
	m.r.epoch++
	resp := m.f.body(req, m.f.reply(second(m.f.start(req)))).(*kmsg.FetchResponse)
	if resp.ErrorCode != 0 {
		return kafka.Code(resp.ErrorCode)
	}
	m.r.id = resp.SessionID
	got, err := m.take(resp)
	if err != nil {
		return err
	}
	return m.check(got)
}

// take adds a response to what was told, and gives the partitions that had records.
func (m *sessionModel) take(resp *kmsg.FetchResponse) (map[modelKey]bool, error) {
	got := map[modelKey]bool{}
	for _, x := range resp.Topics {
		name := x.Topic
		if m.r.version >= 13 {
			for i := range m.topics + 1 {
				if n := fmt.Sprintf("t%d", i+1); topicID(n) == x.TopicID {
					name = n
				}
			}
		}
		for _, p := range x.Partitions {
			k := modelKey{name, p.Partition}
			if _, ok := m.positions[k]; !ok {
				return nil, fmt.Errorf("%v is told of, but not in the session", k)
			}
			m.told[k] = modelState{kafka.Code(p.ErrorCode), p.HighWatermark, p.LogStartOffset}
			got[k] = len(p.RecordBatches) > 0
		}
	}
	return got, nil
}

// check compares with fetches that have no session.
func (m *sessionModel) check(got map[modelKey]bool) error {
	for k, offset := range m.positions {
		req := fetchRequest(m.r.version, k.topic, k.partition, offset)
		req.MaxWaitMillis = 0
		p := m.f.fetched(req)
		want := modelState{kafka.Code(p.ErrorCode), p.HighWatermark, p.LogStartOffset}
		if told := m.told[k]; told != want && !m.sameError(told.code, want.code) {
			return fmt.Errorf("%v at %d: told %+v, the truth is %+v", k, offset, told, want)
		}
		if readable := len(p.RecordBatches) > 0; readable != got[k] {
			return fmt.Errorf("%v at %d: records told %v, readable %v", k, offset, got[k], readable)
		}
	}
	return nil
}

// sameError lets a session that knew a topic by its id say that the topic is gone, where a new request only has an id
// that nobody knows.
func (m *sessionModel) sameError(told, want kafka.Code) bool {
	return m.r.version >= 13 && want == kafka.UnknownTopicID &&
		(told == kafka.UnknownTopicOrPartition || told == kafka.InconsistentTopicID)
}
