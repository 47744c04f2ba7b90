package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/promise"
)

func (b *Broker) addRaftVoterRow() server.API {
	return server.API{Key: int16(kmsg.AddRaftVoter), Min: 0, Max: 1, Listener: server.BothListeners, Forward: true,
		Handle: b.addRaftVoter}
}

func (b *Broker) addRaftVoter(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	return b.changeVoters(c, r, refuseAddRaftVoter)
}

func refuseAddRaftVoter(_ kmsg.Request, err error) kmsg.Response {
	resp := kmsg.NewPtrAddRaftVoterResponse()
	resp.ErrorCode, resp.ErrorMessage = codeAndMessage(err)
	return resp
}
