package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
)

func (b *Broker) endQuorumEpochRow() server.API {
	return server.API{Key: int16(kmsg.EndQuorumEpoch), Min: 0, Max: 1, Listener: server.ControllerListener, Internal: true,
		Handle: b.raft}
}
