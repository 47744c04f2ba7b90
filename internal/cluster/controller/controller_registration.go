package controller

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// registerController answers ControllerRegistration (KIP-919): a controller tells how it is reached and what
// it supports.
func (t *turn) registerController(r *kmsg.ControllerRegistrationRequest) Result {
	reply := kmsg.NewPtrControllerRegistrationResponse()
	record, err := t.controllerRecord(r)
	if err != nil {
		reply.ErrorCode, reply.ErrorMessage = int16(kafka.CodeOf(err)), messageOf(err)
		return Result{Reply: reply}
	}
	return Result{Records: []metadata.Record{record}, Atomic: true, Reply: reply}
}

func (t *turn) controllerRecord(r *kmsg.ControllerRegistrationRequest) (metadata.Record, error) {
	if t.mv < metadata.MVControllers {
		return nil, kafka.Errorf(kafka.UnsupportedVersion,
			"metadata.version %d knows no registration of controllers", t.mv)
	}
	out := &metadata.RegisterControllerRecord{ControllerID: kafka.NodeID(r.ControllerID),
		IncarnationID: r.IncarnationID, ZkMigrationReady: r.ZkMigrationReady}
	for _, l := range r.Listeners {
		e := metadata.Endpoint{Name: l.Name, Host: l.Host, Port: l.Port,
			SecurityProtocol: metadata.SecurityProtocol(l.SecurityProtocol)}
		if err := checkEndpoint(e); err != nil {
			return nil, err
		}
		out.Endpoints = append(out.Endpoints, e)
	}
	for _, f := range r.Features {
		out.Features = append(out.Features, metadata.FeatureRange{Name: f.Name, Min: f.MinSupportedVersion,
			Max: f.MaxSupportedVersion})
	}
	return out, nil
}
