package group

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"moldau/internal/cluster/metadata"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// TestOffsetsAgainstModel runs random histories of commits, transactions, deletions, topics that come and go, time that
// passes, failing appends and restarts, and compares with a map. At every point reading the log gives the live state.
func TestOffsetsAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &offsetModel{
			offsetShard: newOffsetShard(t), rt: rt,
			offsets: map[modelKey]modelOffset{}, pending: map[int64]map[modelKey]modelOffset{},
		}
		w.settings.OffsetsRetention = 35 * time.Minute
		for _, topic := range modelTopics {
			w.change(w.topicRecords(topic, 2)...)
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			w.step()
			w.check()
		}
		for producer := range modelProducers {
			w.finish(int64(producer), rapid.Bool().Draw(rt, "commit"))
		}
		w.fail = nil
		w.pass(w.settings.OffsetsCheckInterval)
		w.check()
		for _, id := range w.m.ids() {
			for topic, c := range w.m.groups[id].offsets.all() {
				if w.m.stale(topic, c) {
					rt.Fatalf("%s keeps an offset of a %s that is gone: %+v", id, topic, c)
				}
			}
		}
		if len(w.m.open) > 0 {
			rt.Fatalf("transactions left: %v", w.m.open)
		}
	})
}

var (
	modelGroups = []string{"", "g", "h"}
	modelTopics = []string{"a", "b"}
)

const modelProducers = 3

type modelKey struct {
	group     string
	topic     kafka.UUID
	partition int32
}

type modelOffset struct {
	offset int64
	order  int // of the commits
	at     time.Time
}

type offsetModel struct {
	*offsetShard
	rt      *rapid.T
	order   int
	offsets map[modelKey]modelOffset
	pending map[int64]map[modelKey]modelOffset
}

func (w *offsetModel) step() {
	group := rapid.SampledFrom(modelGroups).Draw(w.rt, "group")
	topic := rapid.SampledFrom(modelTopics).Draw(w.rt, "topic")
	partition := rapid.Int32Range(0, 1).Draw(w.rt, "partition")
	producer := rapid.Int64Range(0, modelProducers-1).Draw(w.rt, "producer")
	switch rapid.SampledFrom([]string{
		"commit", "commit", "commit", "commit", "txn", "txn", "txn", "end", "end", "delete offset", "delete group", "remove",
		"create", "recreate", "fail", "restart", "time",
	}).Draw(w.rt, "action") {
	case "commit":
		w.commit(group, topic, partition)
	case "txn":
		if group != "" {
			w.txnCommit(group, topic, partition, producer)
		}
	case "end":
		w.finish(producer, rapid.Bool().Draw(w.rt, "commit"))
	case "delete offset":
		w.deleteOffset(group, topic, partition)
	case "delete group":
		w.deleteGroup(group)
	case "remove":
		if _, ok := w.image.Topic(topic); ok {
			w.change(w.removal(topic))
		}
	case "create":
		if _, ok := w.image.Topic(topic); !ok {
			w.change(w.topicRecords(topic, 2)...)
		}
	case "recreate":
		if _, ok := w.image.Topic(topic); ok {
			w.change(append([]metadata.Record{w.removal(topic)}, w.topicRecords(topic, 2)...)...)
		}
	case "fail":
		w.fail = kafka.CoordinatorNotAvailable
	case "restart":
		w.fail = nil
		w.restart()
	case "time":
		w.fail = nil
		w.pass(time.Duration(rapid.IntRange(0, 1800).Draw(w.rt, "seconds")) * time.Second)
	}
}

// pass lets time pass: each time that the expiry timer fires, what is old and not in a transaction goes.
func (w *offsetModel) pass(d time.Duration) {
	for until := w.now.Add(d); w.now.Before(until); {
		next := w.timers[coordinator.TimerKey{Kind: timerExpiry}]
		if next.After(until) {
			w.advance(until.Sub(w.now))
			return
		}
		w.advance(next.Sub(w.now))
		maps.DeleteFunc(w.offsets, func(k modelKey, o modelOffset) bool {
			for _, p := range w.pending {
				if _, ok := p[k]; ok {
					return false
				}
			}
			return w.now.Sub(o.at) >= w.settings.OffsetsRetention
		})
	}
}

func (w *offsetModel) key(group, topic string, partition int32) (modelKey, bool) {
	t, ok := w.image.Topic(topic)
	if !ok {
		return modelKey{}, false
	}
	return modelKey{group, t.ID, partition}, true
}

func (w *offsetModel) commit(group, topic string, partition int32) {
	w.order++
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.Generation = 9, group, -1
	r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{
		{Partition: partition, Offset: int64(w.order)},
	}}}
	key, exists := w.key(group, topic, partition)
	fails := exists && w.fail != nil
	resp, err := w.ask(r, nil)
	switch {
	case (err != nil) != fails:
		w.rt.Fatalf("commit: %v, append failing: %v", err, fails)
	case err == nil && (resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode == 0) != exists:
		w.rt.Fatalf("commit to %s: %+v", topic, resp)
	case err == nil && exists:
		w.offsets[key] = modelOffset{int64(w.order), w.order, w.now}
	}
}

func (w *offsetModel) txnCommit(group, topic string, partition int32, producer int64) {
	w.order++
	r := kmsg.NewPtrTxnOffsetCommitRequest()
	r.Version, r.Group, r.Generation, r.ProducerID = 5, group, -1, producer
	r.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{
		{Partition: partition, Offset: int64(w.order)},
	}}}
	key, exists := w.key(group, topic, partition)
	if _, err := w.ask(r, nil); err != nil || !exists {
		return
	}
	if w.pending[producer] == nil {
		w.pending[producer] = map[modelKey]modelOffset{}
	}
	w.pending[producer][key] = modelOffset{int64(w.order), w.order, w.now}
}

func (w *offsetModel) finish(producer int64, commit bool) {
	w.end(kafka.ProducerID(producer), commit)
	for key, o := range w.pending[producer] {
		if commit && o.order > w.offsets[key].order {
			w.offsets[key] = o
		}
	}
	delete(w.pending, producer)
}

func (w *offsetModel) deleteOffset(group, topic string, partition int32) {
	r := kmsg.NewPtrOffsetDeleteRequest()
	r.Group = group
	r.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{
		{Partition: partition},
	}}}
	key, exists := w.key(group, topic, partition)
	if _, err := w.ask(r, nil); err != nil || !exists {
		return
	}
	w.forget(func(k modelKey) bool { return k == key })
}

func (w *offsetModel) deleteGroup(group string) {
	r := kmsg.NewPtrDeleteGroupsRequest()
	r.Groups = []string{group}
	if _, err := w.ask(r, nil); err == nil {
		w.forget(func(k modelKey) bool { return k.group == group })
	}
}

func (w *offsetModel) forget(which func(modelKey) bool) {
	maps.DeleteFunc(w.offsets, func(k modelKey, _ modelOffset) bool { return which(k) })
	for _, p := range w.pending {
		maps.DeleteFunc(p, func(k modelKey, _ modelOffset) bool { return which(k) })
	}
}

// check fetches everything in both ways and compares the live state with what a reader of the log makes of it.
func (w *offsetModel) check() {
	if live, read := dumpOffsets(w.m), dumpOffsets(w.reload()); live != read {
		w.rt.Fatalf("live:\n%s\nread:\n%s", live, read)
	}
	for _, group := range modelGroups {
		want := map[string]string{}
		for _, topic := range modelTopics {
			for p := range int32(2) {
				want[fmt.Sprintf("%s-%d", topic, p)] = w.expected(group, topic, p)
			}
		}
		got := w.fetched(group, []kmsg.OffsetFetchRequestTopic{
			{Topic: "a", Partitions: []int32{0, 1}}, {Topic: "b", Partitions: []int32{0, 1}},
		})
		if !maps.Equal(got, want) {
			w.rt.Fatalf("group %q: %v, want %v", group, got, want)
		}
		all := w.fetched(group, nil)
		for partition, o := range want {
			if o == "-1" || strings.HasSuffix(o, "only") {
				delete(want, partition)
			}
		}
		if !maps.Equal(all, want) {
			w.rt.Fatalf("all of group %q: %v, want %v", group, all, want)
		}
	}
}

// expected is the offset, and whether a transaction may change it.
func (w *offsetModel) expected(group, topic string, partition int32) string {
	key, ok := w.key(group, topic, partition)
	if !ok {
		return "-1"
	}
	o, committed := w.offsets[key]
	for _, p := range w.pending {
		if _, ok := p[key]; ok {
			if committed {
				return "unstable"
			}
			return "unstable only"
		}
	}
	if !committed {
		return "-1"
	}
	return fmt.Sprint(o.offset)
}

func (w *offsetModel) fetched(group string, topics []kmsg.OffsetFetchRequestTopic) map[string]string {
	r := kmsg.NewPtrOffsetFetchRequest()
	r.Version, r.Group, r.RequireStable, r.Topics = 7, group, true, topics
	resp, err := w.ask(r, nil)
	if err != nil {
		w.rt.Fatal(err)
	}
	out := map[string]string{}
	for _, t := range resp.(*kmsg.OffsetFetchResponse).Topics {
		for _, p := range t.Partitions {
			value := fmt.Sprint(p.Offset)
			if p.ErrorCode == int16(kafka.UnstableOffsetCommit) {
				value = "unstable"
				if key, _ := w.key(group, t.Topic, p.Partition); topics != nil && w.offsets[key] == (modelOffset{}) {
					value = "unstable only"
				}
			}
			out[fmt.Sprintf("%s-%d", t.Topic, p.Partition)] = value
		}
	}
	return out
}
