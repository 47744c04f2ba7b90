package controller

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// BenchmarkRestart is a crash and a start of the lone broker of a cluster with 5,000 topics: what the controller does of it.
func BenchmarkRestart(b *testing.B) {
	w := newWorld(b, founded())
	w.up(1)
	for i := range 5 {
		r := latest(kmsg.NewPtrCreateTopicsRequest())
		for n := range 1000 {
			r.Topics = append(r.Topics, createTopic(fmt.Sprintf("topic.%d.%d partitions=1", i, n)))
		}
		w.do(r)
	}
	incarnation := byte(1)
	for b.Loop() {
		incarnation++
		w.activate(nil)
		w.register(1, incarnation, -1)
		w.beat(1, false, false)
	}
	if len(w.written) != 5001 {
		b.Fatalf("%d records", len(w.written))
	}
}

// BenchmarkHeartbeat is the commonest request.
func BenchmarkHeartbeat(b *testing.B) {
	w := newWorld(b, founded())
	w.up(1)
	for b.Loop() {
		w.beat(1, false, false)
	}
}

// BenchmarkCreateTopic makes one topic in a cluster that has many whose names hold dots.
func BenchmarkCreateTopic(b *testing.B) {
	w := newWorld(b, founded())
	w.up(1)
	r := latest(kmsg.NewPtrCreateTopicsRequest())
	for n := range 4000 {
		r.Topics = append(r.Topics, createTopic(fmt.Sprintf("topic.%d partitions=1", n)))
	}
	w.do(r)
	one := latest(kmsg.NewPtrCreateTopicsRequest())
	one.Topics = append(one.Topics, createTopic("another.topic partitions=3"))
	one.ValidateOnly = true
	for b.Loop() {
		w.do(one)
	}
}
