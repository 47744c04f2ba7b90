package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
)

func (b *Broker) updateRaftVoterRow() server.API {
	return server.API{Key: int16(kmsg.UpdateRaftVoter), Min: 0, Max: 0, Listener: server.ControllerListener, Internal: true,
		Handle: b.raft}
}
