package group

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// The version that GroupMetadata records are written in, and the newest that is understood. Kafka writes 3 although 4
// exists: older brokers could not read a flexible one.
const (
	groupMetadataWritten = 3
	groupMetadataNewest  = 4
)

// groupMetadata is the value of a GroupMetadata record: what survives of a classic group.
type groupMetadata struct {
	protocolType string
	generation   int32
	protocol     *string // nil while there is no member
	leader       *string // nil while there is no member
	sinceMs      int64   // when the group entered its state; -1: not known (records before version 2)
	members      []memberMetadata
}

// memberMetadata is one member in a GroupMetadata record.
type memberMetadata struct {
	id, clientID, clientHost string
	instance                 *string
	rebalanceMs, sessionMs   int32
	subscription, assignment []byte
}

// groupMetadataRecord makes the record of a group.
func groupMetadataRecord(group string, g groupMetadata) coordinator.Record {
	v := kmsg.GroupMetadataValue{
		Version:               groupMetadataWritten,
		ProtocolType:          g.protocolType,
		Generation:            g.generation,
		Protocol:              g.protocol,
		Leader:                g.leader,
		CurrentStateTimestamp: g.sinceMs,
		Members:               make([]kmsg.GroupMetadataValueMember, 0, len(g.members)),
	}
	for _, m := range g.members {
		v.Members = append(v.Members, kmsg.GroupMetadataValueMember{
			MemberID:               m.id,
			InstanceID:             m.instance,
			ClientID:               m.clientID,
			ClientHost:             m.clientHost,
			RebalanceTimeoutMillis: m.rebalanceMs,
			SessionTimeoutMillis:   m.sessionMs,
			Subscription:           m.subscription,
			Assignment:             m.assignment,
		})
	}
	return coordinator.Record{Key: groupMetadataKey(group), Value: v.AppendTo(nil)}
}

// groupMetadataTombstone makes the record that deletes a group.
func groupMetadataTombstone(group string) coordinator.Record {
	return coordinator.Record{Key: groupMetadataKey(group)}
}

func groupMetadataKey(group string) []byte {
	k := kmsg.GroupMetadataKey{Version: keyGroupMetadata, Group: group}
	return k.AppendTo(nil)
}

// parseGroupMetadataKey gives the group that a key is about.
func parseGroupMetadataKey(key []byte) (string, error) {
	var k kmsg.GroupMetadataKey
	if err := k.ReadFrom(key); err != nil {
		return "", kafka.Errorf(kafka.CorruptMessage, "key of a group: %v", err)
	}
	return k.Group, nil
}

// parseGroupMetadata takes a value apart. Byte slices of the result alias it.
func parseGroupMetadata(value []byte) (*groupMetadata, error) {
	if len(value) < 2 {
		return nil, kafka.Errorf(kafka.CorruptMessage, "metadata of a group in %d bytes", len(value))
	}
	if v := int16(binary.BigEndian.Uint16(value)); v < 0 || v > groupMetadataNewest {
		return nil, kafka.Errorf(kafka.CorruptMessage, "metadata of a group in version %d", v)
	}
	v := kmsg.NewGroupMetadataValue()
	if err := v.ReadFrom(value); err != nil {
		return nil, kafka.Errorf(kafka.CorruptMessage, "metadata of a group: %v", err)
	}
	g := &groupMetadata{
		protocolType: v.ProtocolType,
		generation:   v.Generation,
		protocol:     v.Protocol,
		leader:       v.Leader,
		sinceMs:      -1,
		members:      make([]memberMetadata, 0, len(v.Members)),
	}
	if v.Version >= 2 {
		g.sinceMs = v.CurrentStateTimestamp
	}
	for _, m := range v.Members {
		if v.Version < 1 || m.RebalanceTimeoutMillis == -1 {
			m.RebalanceTimeoutMillis = m.SessionTimeoutMillis // version 0 had one timeout for both
		}
		g.members = append(g.members, memberMetadata{
			id:           m.MemberID,
			instance:     m.InstanceID,
			clientID:     m.ClientID,
			clientHost:   m.ClientHost,
			rebalanceMs:  m.RebalanceTimeoutMillis,
			sessionMs:    m.SessionTimeoutMillis,
			subscription: m.Subscription,
			assignment:   m.Assignment,
		})
	}
	return g, nil
}

// applyClassic takes a GroupMetadata record over. Only what the log holds changes here: the live state of a group is
// built from it once after a load and is ahead of it from then on.
func (m *Machine) applyClassic(r coordinator.Record, _ coordinator.Origin) error {
	id, err := parseGroupMetadataKey(r.Key)
	if err != nil {
		return err
	}
	if r.Value == nil {
		if g := m.groups[id]; g != nil && g.classic() != nil {
			m.vacate(g)
		}
		return nil
	}
	stored, err := parseGroupMetadata(r.Value)
	if err != nil {
		return err
	}
	g := m.groups[id]
	if g == nil {
		g = m.create(id)
	}
	c := g.classic()
	if c == nil { // the group goes back to the classic protocol
		c = newClassicGroup(id)
		g.kind = c
	}
	c.stored = stored
	return nil
}
