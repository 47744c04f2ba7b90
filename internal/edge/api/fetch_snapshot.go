package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
)

func (b *Broker) fetchSnapshotRow() server.API {
	return server.API{Key: int16(kmsg.FetchSnapshot), Min: 0, Max: 1, Listener: server.ControllerListener, Internal: true,
		Handle: b.raft}
}
