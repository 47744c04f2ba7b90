package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// TestAlterReplicaLogDirs: every partition is answered once, by topic, with the code of its move; one that is named twice
// goes to the last directory, as in Kafka, and the answer waits for all.
func TestAlterReplicaLogDirs(t *testing.T) {
	f := newFixture(t)
	asked := map[kafka.TopicPartition]string{}
	late := &promise.Promise[error]{}
	f.AlterLogDir = func(tp kafka.TopicPartition, path string) *promise.Promise[error] {
		asked[tp] = path
		switch path {
		case "/none":
			return promise.Done[error](kafka.Errorf(kafka.LogDirNotFound, "no"))
		case "/late":
			return late
		}
		return promise.Done[error](kafka.NotLeaderOrFollower)
	}
	r := kmsg.NewPtrAlterReplicaLogDirsRequest()
	r.SetVersion(2)
	for _, d := range []struct {
		dir, topic string
		parts      []int32
	}{{"/none", "a", []int32{0, 1}}, {"/x", "b", []int32{3}}, {"/late", "a", []int32{1}}} {
		r.Dirs = append(r.Dirs, kmsg.AlterReplicaLogDirsRequestDir{Dir: d.dir,
			Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: d.topic, Partitions: d.parts}}})
	}
	p := f.row(r.Key()).Handle(f.call(r), r)
	if _, done := p.Get(); done {
		t.Fatal("answered before all moves have begun")
	}
	late.Set(nil)
	reply, done := p.Get()
	if !done {
		t.Fatal("not answered")
	}
	got := map[kafka.TopicPartition]kafka.Code{}
	for _, topic := range reply.Body.(*kmsg.AlterReplicaLogDirsResponse).Topics {
		for _, x := range topic.Partitions {
			tp := kafka.TopicPartition{Topic: topic.Topic, Partition: x.Partition}
			if _, twice := got[tp]; twice {
				t.Errorf("%s is answered twice", tp)
			}
			got[tp] = kafka.Code(x.ErrorCode)
		}
	}
	for tp, want := range map[kafka.TopicPartition]kafka.Code{
		{Topic: "a"}: kafka.LogDirNotFound, {Topic: "a", Partition: 1}: kafka.None,
		{Topic: "b", Partition: 3}: kafka.ReplicaNotAvailable,
	} {
		if got[tp] != want {
			t.Errorf("%s: %s, want %s", tp, got[tp].Name(), want.Name())
		}
	}
	if len(got) != 3 || asked[kafka.TopicPartition{Topic: "a", Partition: 1}] != "/late" {
		t.Errorf("%v, asked %v", got, asked)
	}
}
