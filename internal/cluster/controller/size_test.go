package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// TestTooLarge sends requests that name more than one request may write: each entry is refused, nothing is written, and
// the controller is not held up.
func TestTooLarge(t *testing.T) {
	const many = 30_000
	create, del := latest(kmsg.NewPtrCreateTopicsRequest()), latest(kmsg.NewPtrDeleteTopicsRequest())
	grow, alter := latest(kmsg.NewPtrCreatePartitionsRequest()), latest(kmsg.NewPtrIncrementalAlterConfigsRequest())
	replace := latest(kmsg.NewPtrAlterConfigsRequest())
	for i := range many {
		name := fmt.Sprint("t", i)
		topic := createTopic(name + " no.such.key=1")
		topic.NumPartitions = 0
		create.Topics = append(create.Topics, topic)
		x := kmsg.NewDeleteTopicsRequestTopic()
		x.Topic = &name
		del.Topics = append(del.Topics, x)
		g := kmsg.NewCreatePartitionsRequestTopic()
		g.Topic = name
		grow.Topics = append(grow.Topics, g)
		a := kmsg.NewIncrementalAlterConfigsRequestResource()
		a.ResourceType, a.ResourceName = kmsg.ConfigResourceTypeTopic, name
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = "no.such.key", &name
		a.Configs = append(a.Configs, c)
		alter.Resources = append(alter.Resources, a)
		r := kmsg.NewAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, name
		replace.Resources = append(replace.Resources, r)
	}
	w := newWorld(t, founded())
	w.up(1)
	start := time.Now()
	codes := [][2]int16{}
	note := func(n int, first, last int16) {
		if n != many {
			t.Errorf("%d answers", n)
		}
		if len(w.written) > 0 {
			t.Errorf("%d records", len(w.written))
		}
		codes = append(codes, [2]int16{first, last})
	}
	a := w.do(create).(*kmsg.CreateTopicsResponse).Topics
	note(len(a), a[0].ErrorCode, a[many-1].ErrorCode)
	b := w.do(del).(*kmsg.DeleteTopicsResponse).Topics
	note(len(b), b[0].ErrorCode, b[many-1].ErrorCode)
	c := w.do(grow).(*kmsg.CreatePartitionsResponse).Topics
	note(len(c), c[0].ErrorCode, c[many-1].ErrorCode)
	d := w.do(alter).(*kmsg.IncrementalAlterConfigsResponse).Resources
	note(len(d), d[0].ErrorCode, d[many-1].ErrorCode)
	e := w.do(replace).(*kmsg.AlterConfigsResponse).Resources
	note(len(e), e[0].ErrorCode, e[many-1].ErrorCode)
	for _, c := range codes {
		if c != [2]int16{int16(kafka.PolicyViolation), int16(kafka.PolicyViolation)} {
			t.Errorf("%v", codes)
		}
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}
