package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// brokerState is where a broker is in its life (KIP-631).
type brokerState int8

const (
	fenced brokerState = iota
	unfenced
	shuttingDown // moves its leaderships away
	shutDownNow  // may stop
)

// heartbeat answers BrokerHeartbeat: the broker lives, and says what it wants.
func (t *turn) heartbeat(r *kmsg.BrokerHeartbeatRequest, connected func() bool) Result {
	reply := kmsg.NewPtrBrokerHeartbeatResponse()
	reply.IsFenced = true
	b, err := t.checkBroker(kafka.NodeID(r.BrokerID), kafka.BrokerEpoch(r.BrokerEpoch))
	if err != nil {
		reply.ErrorCode = int16(kafka.CodeOf(err))
		return Result{Reply: reply}
	}
	life := t.Liveness.of(b.ID, b.Epoch)
	life.lastContact, life.connected = t.now, connected
	before := life.state(b)
	after := t.nextState(b, life, r)
	var records []metadata.Record
	if before != after {
		records = t.enter(b, after)
	}
	life.metadataOffset = kafka.Offset(r.CurrentMetadataOffset)
	records = append(records, t.after(records).directoryChanges(b.ID, r)...)
	switch after {
	case fenced, shutDownNow:
		life.shutdownOffset = kafka.NoOffset
	case shuttingDown:
		if !life.leaving() {
			life.shutdownOffset = t.NextOffset + kafka.Offset(len(records)) - 1
		}
	}
	reply.IsCaughtUp = life.metadataOffset >= life.registeredAt
	reply.IsFenced = after == fenced || after == shutDownNow
	reply.ShouldShutdown = after == shutDownNow
	return Result{Records: records, Reply: reply}
}

func (l *brokerLife) state(b *metadata.Broker) brokerState {
	switch {
	case b.Fenced:
		return fenced
	case l.leaving():
		return shuttingDown
	}
	return unfenced
}

// nextState is where a broker comes by what it wants.
func (t *turn) nextState(b *metadata.Broker, life *brokerLife, r *kmsg.BrokerHeartbeatRequest) brokerState {
	switch life.state(b) {
	case fenced:
		switch {
		case r.WantShutdown:
			return shutDownNow
		case !r.WantFence && kafka.Offset(r.CurrentMetadataOffset) >= life.registeredAt:
			return unfenced
		}
		return fenced
	case unfenced:
		switch {
		case r.WantShutdown && (r.WantFence || !t.leadsAny(b.ID)):
			return shutDownNow
		case r.WantShutdown:
			return shuttingDown
		case r.WantFence:
			return fenced
		}
		return unfenced
	}
	if t.leadsAny(b.ID) {
		return shuttingDown
	}
	if lowest, ok := t.lowestActiveOffset(); ok && lowest < life.shutdownOffset {
		return shuttingDown
	}
	return shutDownNow
}

func (t *turn) enter(b *metadata.Broker, s brokerState) []metadata.Record {
	switch s {
	case unfenced:
		return t.unfence(b)
	case shuttingDown:
		return t.shutDown(b)
	}
	return t.fence(b)
}

// directoryChanges takes note of log directories that failed (KIP-858) or are cordoned (KIP-1066).
func (t *turn) directoryChanges(id kafka.NodeID, r *kmsg.BrokerHeartbeatRequest) []metadata.Record {
	b, _ := t.Image.Broker(id)
	var out []metadata.Record
	if t.mv >= metadata.MVDirectories && len(r.OfflineLogDirs) > 0 {
		out = t.offlineDirectories(b, uuids(r.OfflineLogDirs))
	}
	if t.mv >= metadata.MVCordonedLogDirs && r.CordonedLogDirs != nil {
		cordoned := uuids(r.CordonedLogDirs)
		if b.Cordoned == nil || !slices.Equal(cordoned, b.Cordoned) {
			if cordoned == nil {
				cordoned = []kafka.UUID{}
			}
			out = append(out, &metadata.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch,
				CordonedLogDirs: cordoned})
		}
	}
	return out
}

// offlineDirectories moves leaderships away from replicas in directories that failed just now.
func (t *turn) offlineDirectories(b *metadata.Broker, offline []kafka.UUID) []metadata.Record {
	var online, lost []kafka.UUID
	for _, d := range b.LogDirs {
		if slices.Contains(offline, d) {
			lost = append(lost, d)
		} else {
			online = append(online, d)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	var out []metadata.Record
	for ref := range t.Image.InISR(b.ID) {
		if !slices.Contains(lost, ref.Partition.Directory(b.ID)) {
			continue
		}
		c := t.changeOf(ref, func(id kafka.NodeID) bool { return id != b.ID && t.active(id) })
		c.isr = without(ref.Partition.ISR, b.ID)
		if r := c.record(); r != nil {
			out = append(out, r)
		}
	}
	if len(online) == 0 {
		return out // a broker without directories stops; the record could not say it
	}
	return append(out, &metadata.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch,
		LogDirs: online})
}
