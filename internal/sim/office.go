package sim

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/controller"
	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/quorum"
	"moldau/internal/kafka"
)

// office is a term of the controller on one node.
type office struct {
	b        *broker
	epoch    kafka.LeaderEpoch
	working  *metadata.Image // with what is appended and not committed
	liveness *controller.Liveness
	replies  []officeReply
}

// officeReply leaves once everything up to an offset is committed.
type officeReply struct {
	after kafka.Offset
	send  func(committed bool)
}

// checkOffice notices the begin and the end of a term, and lets replies go.
func (b *broker) checkOffice() {
	epoch, in := b.pump.InOffice()
	if b.office != nil && (!in || epoch != b.office.epoch) {
		for _, r := range b.office.replies {
			r.send(false)
		}
		b.office = nil
	}
	if in && b.office == nil {
		b.office = &office{b: b, epoch: epoch, working: b.image, liveness: controller.NewLiveness()}
		bootstrap, err := b.pump.Bootstrap()
		if err != nil {
			b.m.fail("the bootstrap records cannot be read: %v", err)
			return
		}
		b.world.logf("%d is controller in epoch %d", b.m.id, epoch)
		b.office.propose(controller.Activate(b.m.time(), b.office.state(), bootstrap), nil)
	}
	if o := b.office; o != nil {
		end := b.pump.Delivered().Offset
		for len(o.replies) > 0 && o.replies[0].after < end {
			r := o.replies[0]
			o.replies = o.replies[1:]
			r.send(true)
		}
	}
}

func (o *office) state() controller.State {
	return controller.State{Image: o.working, Liveness: o.liveness, NextOffset: o.b.pump.NextOffset(), Epoch: o.epoch,
		Settings: o.b.settings}
}

// submit gives a request to the controller, if it is here. connected says whether its connection is still open.
func (b *broker) submit(r kmsg.Request, connected func() bool, reply func(kmsg.Response, error)) {
	if b.office == nil {
		reply(nil, kafka.NotController)
		return
	}
	request := controller.Request{Principal: kafka.Anonymous, Connected: connected, Body: r}
	b.office.propose(controller.Handle(b.m.time(), b.office.state(), request, b.world.rnd), reply)
}

func (o *office) tick() {
	if o == nil {
		return
	}
	o.liveness.Alive(o.b.m.id, o.b.m.time())
	o.propose(controller.Tick(o.b.m.time(), o.state(), o.b.world.rnd), nil)
}

// propose appends a decision's records and holds its reply until they are committed.
func (o *office) propose(r controller.Result, reply func(kmsg.Response, error)) {
	b := o.b
	send := func(committed bool) {
		switch {
		case reply == nil:
		case committed:
			reply(r.Reply, nil)
		default:
			reply(nil, kafka.NotController)
		}
	}
	if len(r.Records) > 0 {
		image, _, err := o.working.Apply(r.Records)
		if err != nil {
			b.m.fail("the controller decides on records that do not apply: %v", err)
			return
		}
		_, err = b.pump.Propose(b.m.time(), quorum.Proposal{Epoch: o.epoch, Records: r.Records,
			MetadataVersion: max(image.MetadataVersion(), 7), Atomic: r.Atomic})
		if err != nil {
			send(false)
			return
		}
		o.working = image
	}
	o.replies = append(o.replies, officeReply{after: b.pump.NextOffset() - 1, send: send})
}
