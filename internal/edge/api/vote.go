package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
)

func (b *Broker) voteRow() server.API {
	return server.API{Key: int16(kmsg.Vote), Min: 0, Max: 2, Listener: server.ControllerListener, Internal: true,
		Handle: b.raft}
}
