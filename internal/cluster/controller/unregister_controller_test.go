package controller

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// TestOldClustersForgetNoController: below metadata.version 33 nobody could read the record.
func TestOldClustersForgetNoController(t *testing.T) {
	w := newWorld(t, []metadata.Record{&metadata.FeatureLevelRecord{Name: metadata.MetadataVersionFeature, Level: 32}})
	register := latest(kmsg.NewPtrControllerRegistrationRequest())
	register.ControllerID = 2
	w.do(register)
	r := latest(kmsg.NewPtrUnregisterControllerRequest())
	r.ControllerID = 2
	if got := kafka.Code(w.do(r).(*kmsg.UnregisterControllerResponse).ErrorCode); got != kafka.UnsupportedVersion {
		t.Errorf("got %v", got)
	}
	if _, ok := w.image.Controller(2); !ok {
		t.Error("the controller is forgotten")
	}
}
