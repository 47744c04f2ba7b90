package controller

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// normalizer replaces what differs from run to run by names: ids by the order in which they appear.
type normalizer struct {
	names map[string]string
	count map[string]int
}

func newNormalizer() *normalizer {
	return &normalizer{names: map[string]string{}, count: map[string]int{}}
}

// name gives the stable name of a value of a kind.
func (n *normalizer) name(kind string, v any) string {
	key := fmt.Sprint(kind, v)
	if _, ok := n.names[key]; !ok {
		n.count[kind]++
		n.names[key] = fmt.Sprint(kind, n.count[kind])
	}
	return n.names[key]
}

// lines gives records, dumped as JSON, in a comparable form. Changes of several partitions in a row are
// sorted: Kafka goes through them in the order of a hash map.
func (n *normalizer) lines(t *testing.T, dumped []string) []string {
	var out []string
	start := 0 // of the run of partition changes
	flush := func() {
		slices.Sort(out[start:])
		start = len(out)
	}
	for _, line := range dumped {
		var r struct {
			Type    string
			Version int
			Data    map[string]any
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if r.Type == "TOPIC_RECORD" {
			n.names["topic"+fmt.Sprint(r.Data["topicId"])] = fmt.Sprint(r.Data["name"])
		}
		for key, v := range r.Data {
			switch key {
			case "topicId":
				r.Data[key] = n.name("topic", v)
			case "incarnationId":
				r.Data[key] = n.name("incarnation", v)
			case "brokerEpoch":
				r.Data[key] = n.name("epoch", v)
			case "directories", "logDirs":
				for i, d := range v.([]any) {
					v.([]any)[i] = n.name("dir", d)
				}
			case "features":
				slices.SortFunc(v.([]any), func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			case "endPoints":
				delete(r.Data, key)
			}
		}
		data, _ := json.Marshal(r.Data)
		if r.Type != "PARTITION_CHANGE_RECORD" {
			flush()
		}
		out = append(out, fmt.Sprintf("%s v%d %s", r.Type, r.Version, data))
		if r.Type != "PARTITION_CHANGE_RECORD" {
			start = len(out)
		}
	}
	flush()
	return out
}

// recorder is a world that keeps every record but NoOps as JSON.
type recorder struct {
	*world
	dumped []string
}

func (r *recorder) note() {
	for _, x := range r.written {
		if _, ok := x.(*metadata.NoOpRecord); !ok {
			r.dumped = append(r.dumped, metadata.Dump(x, metadata.VersionFor(x, r.image.MetadataVersion())))
		}
	}
	r.written = nil
}

func (r *recorder) send(body kmsg.Request) {
	r.do(body)
	r.note()
}

// start is what a broker does until it serves: it registers, catches up and asks to be unfenced.
func (r *recorder) start(id kafka.NodeID, incarnation byte, previous kafka.BrokerEpoch) kafka.BrokerEpoch {
	epoch := r.register(id, incarnation, previous)
	r.note()
	for _, fence := range []bool{true, false} {
		b := r.heartbeat(id)
		b.WantFence, b.CordonedLogDirs = fence, [][16]byte{}
		r.send(b)
	}
	return epoch
}

func (r *recorder) heartbeat(id kafka.NodeID) *kmsg.BrokerHeartbeatRequest {
	b, _ := r.image.Broker(id)
	x := latest(kmsg.NewPtrBrokerHeartbeatRequest())
	x.BrokerID, x.BrokerEpoch, x.CurrentMetadataOffset = int32(id), int64(b.Epoch), int64(r.next-1)
	return x
}

// leave is a controlled shutdown.
func (r *recorder) leave(id kafka.NodeID) {
	for {
		b := r.heartbeat(id)
		b.WantShutdown = true
		reply := r.do(b).(*kmsg.BrokerHeartbeatResponse)
		r.note()
		if reply.ShouldShutdown {
			return
		}
	}
}

func (r *recorder) makeTopic(line string) {
	x := latest(kmsg.NewPtrCreateTopicsRequest())
	x.Topics = append(x.Topics, createTopic(line))
	r.send(x)
}

func (r *recorder) configure(line string) {
	s := &script{world: r.world}
	r.send(s.configRequest("alter-configs", words{}, []string{line}))
}

func kafkaRecords(t *testing.T, file string) []string {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range bytes.Lines(raw) {
		out = append(out, string(line))
	}
	return out
}

// TestLoneBrokerAsKafka holds the records of a lone broker's life (founding, topics, configurations, a clean
// stop, a crash) against those that Apache Kafka 4.4.0 wrote for the same one. Its NoOp and
// RegisterController records are left out of the file.
func TestLoneBrokerAsKafka(t *testing.T) {
	bootstrap := slices.Insert(founded(), 3, []metadata.Record{
		&metadata.FeatureLevelRecord{Name: "share.version", Level: 2},
		&metadata.FeatureLevelRecord{Name: "streams.version", Level: 1},
	}...)
	w := &recorder{world: newWorld(t, bootstrap, "broker.session.timeout.ms=9000", "min.insync.replicas=1")}
	w.note()
	first := w.start(1, 1, -1)
	w.makeTopic("a partitions=2 rf=1 retention.ms=5 min.insync.replicas=1")
	w.makeTopic("b partitions=1")
	w.configure("2:a min.insync.replicas=1 cleanup.policy=compact")
	w.configure("4: min.insync.replicas=1")
	w.configure("4:1 log.cleaner.threads=2")
	w.configure("2:a !min.insync.replicas")
	grow := latest(kmsg.NewPtrCreatePartitionsRequest())
	more := kmsg.NewCreatePartitionsRequestTopic()
	more.Topic, more.Count = "b", 2
	grow.Topics = append(grow.Topics, more)
	w.send(grow)
	gone := latest(kmsg.NewPtrDeleteTopicsRequest())
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = kmsg.StringPtr("b")
	gone.Topics = append(gone.Topics, topic)
	w.send(gone)
	w.makeTopic("mark-before-clean-stop partitions=1")
	w.leave(1)

	w.activate(nil)
	w.note()
	w.start(1, 2, first)
	w.makeTopic("mark-after-clean-restart partitions=1")

	w.activate(nil) // after the crash Kafka waits for the end of the old session
	w.note()
	w.tick(10 * time.Second)
	w.note()
	w.start(1, 3, -1)
	w.makeTopic("mark-after-crash partitions=1")
	w.leave(1)

	w.compare(t, "kafka-4.4.0-lone-broker.jsonl")
}

func (r *recorder) compare(t *testing.T, file string) {
	t.Helper()
	want := newNormalizer().lines(t, kafkaRecords(t, file))
	if diff := cmp.Diff(want, newNormalizer().lines(t, r.dumped)); diff != "" {
		t.Fatalf("-Kafka +ours:\n%s", diff)
	}
}

// alter asks for an ISR in the name of the leader.
func (r *recorder) alter(sender kafka.NodeID, line string) *kmsg.AlterPartitionResponse {
	s := &script{world: r.world}
	b, _ := r.image.Broker(sender)
	x := latest(kmsg.NewPtrAlterPartitionRequest())
	x.BrokerID, x.BrokerEpoch = int32(sender), int64(b.Epoch)
	x.Topics = append(x.Topics, s.alterPartition(line))
	for i := range x.Topics[0].Partitions[0].NewEpochISR {
		m := &x.Topics[0].Partitions[0].NewEpochISR[i]
		member, _ := r.image.Broker(kafka.NodeID(m.BrokerID))
		m.BrokerEpoch = int64(member.Epoch)
	}
	reply := r.do(x).(*kmsg.AlterPartitionResponse)
	r.note()
	return reply
}

func join(ids []kafka.NodeID) string {
	return strings.Join(strings.Fields(strings.Trim(sprint(ids), "[]")), ",")
}

func sprint(ids []kafka.NodeID) string { return fmt.Sprint(ids) }

// TestThreeBrokersAsKafka holds a controlled shutdown, a crash, ISR changes and a preferred election in a
// cluster of three against the records of Apache Kafka 4.4.0.
func TestThreeBrokersAsKafka(t *testing.T) {
	bootstrap := slices.Insert(founded(), 3, []metadata.Record{
		&metadata.FeatureLevelRecord{Name: "share.version", Level: 2},
		&metadata.FeatureLevelRecord{Name: "streams.version", Level: 1},
	}...)
	w := &recorder{world: newWorld(t, bootstrap, "broker.session.timeout.ms=9000", "min.insync.replicas=1")}
	w.note()
	beat := func(id kafka.NodeID, fence bool) {
		b := w.heartbeat(id)
		b.WantFence, b.CordonedLogDirs = fence, [][16]byte{}
		w.send(b)
	}
	register := func(id kafka.NodeID, incarnation byte, previous kafka.BrokerEpoch) kafka.BrokerEpoch {
		epoch := w.register(id, incarnation, previous)
		w.note()
		return epoch
	}
	third := register(3, 1, -1)
	register(1, 1, -1)
	register(3, 1, -1) // its answer was lost
	beat(1, true)
	beat(3, true)
	beat(1, false)
	register(2, 1, -1)
	beat(3, false)
	beat(2, true)
	beat(2, false)
	w.makeTopic("t assign=0:1,2,3 min.insync.replicas=2")
	w.makeTopic("u assign=0:2,3/1:3,2 min.insync.replicas=2")
	w.makeTopic("v assign=0:2,1 unclean.leader.election.enable=true")
	w.makeTopic("w assign=0:3")

	leave := w.heartbeat(3)
	leave.WantShutdown = true
	w.send(leave)
	beat(1, false)
	beat(2, false)
	w.leave(3)
	w.leave(3) // it asks once more
	w.start(3, 2, third)
	w.alter(2, "u-1 isr=2,3")
	w.alter(1, "t-0 isr=1,2,3")
	w.alter(2, "u-0 isr=2,3")
	w.makeTopic("mark-after-clean-3 assign=0:1")

	for range 10 { // broker 2 is dead, and Kafka's own election of preferred leaders finds nothing yet
		w.now = w.now.Add(time.Second)
		w.send(w.heartbeat(1))
		w.send(w.heartbeat(3))
		w.tick(0)
		w.note()
	}
	w.start(2, 2, -1)
	w.alter(1, "t-0 isr=1,2,3")
	w.alter(1, "v-0 isr=1,2")
	w.alter(3, "u-1 isr=2,3")
	w.alter(3, "u-0 isr=2,3")
	w.now = w.now.Add(300 * time.Second)
	beat(1, false)
	beat(2, false)
	beat(3, false)
	w.tick(0)
	w.note()
	w.makeTopic("mark-after-crash-2 assign=0:1")
	w.configure("2:u min.insync.replicas=1")
	b := w.heartbeat(1)
	b.WantShutdown = true
	w.send(b)
	beat(2, false)
	beat(3, false)
	w.leave(1)
	w.compare(t, "kafka-4.4.0-three-brokers.jsonl")
}
