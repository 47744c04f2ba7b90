package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// What follows stands in until the classic protocol is here: delete this file with it.

type classicGroup struct{ id string }

func newClassicGroup(id string) *classicGroup { return &classicGroup{id: id} }

func (*classicGroup) groupType() string    { return "Classic" }
func (*classicGroup) protocolType() string { return "" }
func (*classicGroup) state() string        { return "Empty" }
func (*classicGroup) generation() int32    { return 0 }
func (*classicGroup) members() int         { return 0 }
func (*classicGroup) checkCommit(now time.Time, c commitCheck) (func(topic kafka.UUID, partition int32) error, []coordinator.Timer, error) {
	return nil, nil, nil
}
func (*classicGroup) checkFetch(member *string, epoch int32) error { return nil }
func (*classicGroup) checkDelete() error                           { return nil }
func (*classicGroup) subscribed(topic string) bool                 { return false }
func (*classicGroup) expires() expiry                              { return expiry{mode: expireByCommit} }
func (c *classicGroup) tombstones() []coordinator.Record {
	k := kmsg.GroupMetadataKey{Version: keyGroupMetadata, Group: c.id}
	return []coordinator.Record{{Key: k.AppendTo(nil)}}
}

func (*classicGroup) waits(now time.Time) []MemberWait { return nil }

func (m *Machine) classicLoaded(now time.Time, g *group) coordinator.Result {
	return coordinator.Result{}
}
