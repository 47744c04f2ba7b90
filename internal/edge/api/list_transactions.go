package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// listTransactionsRow lists the transactional ids that this broker coordinates, filtered by state, producer id, age
// (KIP-994) and pattern (KIP-1152). A client asks every broker; while a part is being loaded it is told to come again.
func (b *Broker) listTransactionsRow() server.API {
	return server.API{Key: int16(kmsg.ListTransactions), Min: 0, Max: 2, Listener: server.BrokerListener,
		Handle: b.handleListTransactions}
}

func (b *Broker) handleListTransactions(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	return eachShard(b.Transactions, c, r.(*kmsg.ListTransactionsRequest), listedTransactions)
}

func listedTransactions(parts []coordinator.Answer) (kmsg.Response, kafka.Code) {
	resp := kmsg.NewPtrListTransactionsResponse()
	code := joinShards(parts, func(body *kmsg.ListTransactionsResponse) int16 {
		if body.ErrorCode == 0 {
			resp.UnknownStateFilters = body.UnknownStateFilters
		}
		resp.TransactionStates = append(resp.TransactionStates, body.TransactionStates...)
		return body.ErrorCode
	})
	if code != kafka.None {
		resp.ErrorCode, resp.TransactionStates = int16(code), nil
	}
	return resp, code
}
