package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/promise"
)

func (b *Broker) removeRaftVoterRow() server.API {
	return server.API{Key: int16(kmsg.RemoveRaftVoter), Min: 0, Max: 0, Listener: server.BothListeners, Forward: true,
		Handle: b.removeRaftVoter}
}

func (b *Broker) removeRaftVoter(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	return b.changeVoters(c, r, refuseRemoveRaftVoter)
}

func refuseRemoveRaftVoter(_ kmsg.Request, err error) kmsg.Response {
	resp := kmsg.NewPtrRemoveRaftVoterResponse()
	resp.ErrorCode, resp.ErrorMessage = codeAndMessage(err)
	return resp
}
