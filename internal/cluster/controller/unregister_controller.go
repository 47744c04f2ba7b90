package controller

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// unregisterController answers UnregisterController (KIP-1312): the cluster forgets a controller that is gone for
// good, whose registration would hold back new feature levels. One that lives registers again.
func (t *turn) unregisterController(r *kmsg.UnregisterControllerRequest) Result {
	reply := kmsg.NewPtrUnregisterControllerResponse()
	id := kafka.NodeID(r.ControllerID)
	_, known := t.Image.Controller(id)
	var err error
	switch {
	case !known:
		err = kafka.Errorf(kafka.ControllerIDNotRegistered, "controller %d is not registered", id)
	case t.mv < metadata.MVUnregisterController:
		err = kafka.Errorf(kafka.UnsupportedVersion, "metadata.version %d cannot forget controllers", t.mv)
	case id == t.Settings.Node:
		err = kafka.Errorf(kafka.InvalidRequest, "controller %d is the active one", id)
	}
	if err != nil {
		reply.ErrorCode, reply.ErrorMessage = int16(kafka.CodeOf(err)), messageOf(err)
		return Result{Reply: reply}
	}
	reply.ErrorMessage = new("")
	return Result{Records: []metadata.Record{&metadata.UnregisterControllerRecord{ControllerID: id}}, Atomic: true,
		Reply: reply}
}
