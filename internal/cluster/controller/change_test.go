package controller

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// TestCompletedReassignment: an ISR that holds what a reassignment waits for ends it.
func TestCompletedReassignment(t *testing.T) {
	ids := func(n ...kafka.NodeID) []kafka.NodeID { return n }
	for _, tt := range []struct {
		name                       string
		replicas, adding, removing []kafka.NodeID
		isr                        []kafka.NodeID // asked for by the leader, 1
		want                       string
		code                       kafka.Code
	}{
		{"an added one is in", ids(1, 2, 3), ids(3), nil, ids(1, 2, 3), "[1 2 3] leader=1 epoch=5/8 isr=[1 2 3] elr=[] last=[]", 0},
		{"not all added ones are in", ids(1, 2, 3, 4), ids(3, 4), nil, ids(1, 2, 3),
			"[1 2 3 4] leader=1 epoch=5/8 isr=[1 2 3] elr=[] last=[]", 0},
		{"a removed one goes", ids(1, 2, 3), ids(3), ids(2), ids(1, 2, 3), "[1 3] leader=1 epoch=6/8 isr=[1 3] elr=[] last=[]", 0},
		{"the leader goes", ids(2, 3, 1), ids(2, 3), ids(1), ids(1, 2, 3), "[2 3] leader=2 epoch=6/8 isr=[2 3] elr=[] last=[]",
			kafka.NewLeaderElected},
		{"fewer are added than removed: all of the target must be in", ids(4, 3, 1, 2), ids(4), ids(1, 2), ids(1, 2, 4),
			"[4 3 1 2] leader=1 epoch=5/8 isr=[1 2 4] elr=[] last=[]", 0},
		{"and are", ids(4, 3, 1, 2), ids(4), ids(1, 2), ids(1, 2, 3, 4), "[4 3] leader=4 epoch=6/8 isr=[3 4] elr=[] last=[]",
			kafka.NewLeaderElected},
		{"only removed", ids(1, 2, 3), nil, ids(3), ids(1, 2), "[1 2] leader=1 epoch=6/8 isr=[1 2] elr=[] last=[]", 0},
		{"nobody of the target is in", ids(2, 1), nil, ids(1), ids(1), "[2 1] leader=1 epoch=5/7 isr=[1] elr=[] last=[]", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, founded())
			w.up(1, 2, 3, 4)
			id := kafka.UUID{0: 7, 15: 200}
			record := &metadata.PartitionRecord{TopicID: id, Replicas: tt.replicas, AddingReplicas: tt.adding,
				RemovingReplicas: tt.removing, ISR: ids(1), Leader: 1, LeaderEpoch: 5, PartitionEpoch: 7}
			for _, b := range tt.replicas {
				record.Directories = append(record.Directories, directory(b, 1))
			}
			w.apply(Result{Records: []metadata.Record{&metadata.TopicRecord{Name: "r", TopicID: id}, record}})
			r := &recorder{world: w}
			reply := r.alter(1, "r-0 isr="+join(tt.isr))
			if code := kafka.Code(reply.Topics[0].Partitions[0].ErrorCode); code != tt.code {
				t.Errorf("code %v", code)
			}
			p := w.partition("r", 0)
			if got := sprint(p.Replicas) + " " + show(p); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if p.Reassigning() == (len(p.Replicas) < len(tt.replicas) || tt.name == "an added one is in") {
				t.Errorf("reassigning: %v", p.Reassigning())
			}
			for i, b := range p.Replicas {
				if p.Directories[i] != directory(b, 1) {
					t.Errorf("directory of %d: %s", b, p.Directories[i])
				}
			}
		})
	}
}

// TestOldMetadataVersion: below 12 a smaller ISR raises the leader epoch, below 17 there are no directories.
func TestOldMetadataVersion(t *testing.T) {
	for _, mv := range []int16{7, 11, 12, 16} {
		w := newWorld(t, []metadata.Record{level("metadata.version", mv)})
		for id := kafka.NodeID(1); id <= 2; id++ {
			r := w.registration(id, 1, -1)
			r.LogDirs = nil
			w.do(r)
			w.beat(id, false, false)
		}
		w.create("a", []int32{1, 2})
		r := &recorder{world: w}
		r.alter(1, "a-0 isr=1")
		want := "leader=1 epoch=0/1 isr=[1] elr=[] last=[]"
		if mv < 12 {
			want = "leader=1 epoch=1/1 isr=[1] elr=[] last=[]"
		}
		if got := show(w.partition("a", 0)); got != want {
			t.Errorf("metadata.version %d: %s", mv, got)
		}
		// Without eligible leader replicas the last member stays in the ISR.
		w.beat(1, true, false)
		if p := w.partition("a", 0); p.HasLeader() || !slices.Equal(p.ISR, []kafka.NodeID{1}) {
			t.Errorf("metadata.version %d: %s", mv, show(p))
		}
		w.beat(1, false, false)
		if p := w.partition("a", 0); p.Leader != 1 || p.Recovering {
			t.Errorf("metadata.version %d: %s", mv, show(p))
		}
		w.now = w.now.Add(time.Minute) // without directories only the end of the session lets a new process in
		w.register(1, 2, -1)           // nothing is known of clean stops yet
		if p := w.partition("a", 0); p.HasLeader() || !slices.Equal(p.ISR, []kafka.NodeID{1}) {
			t.Errorf("metadata.version %d: %s", mv, show(p))
		}
		if _, ok := w.image.Broker(1); !ok {
			t.Error("not registered")
		}
	}
}

// TestChangeAliasesNothing: a record keeps no slice of the partition that a later change could write through.
func TestChangeAliasesNothing(t *testing.T) {
	w := newWorld(t, founded())
	w.up(1, 2, 3)
	w.create("a", []int32{1, 2, 3})
	before := *w.partition("a", 0)
	replicas, isr := slices.Clone(before.Replicas), slices.Clone(before.ISR)
	w.beat(1, true, false)
	w.beat(2, true, false)
	w.beat(3, true, false)
	if diff := cmp.Diff([][]kafka.NodeID{replicas, isr}, [][]kafka.NodeID{before.Replicas, before.ISR}); diff != "" {
		t.Fatal(diff)
	}
}
