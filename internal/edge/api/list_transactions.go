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
	req, err := own(r.(*kmsg.ListTransactionsRequest))
	if err != nil {
		return answer(server.Reply{Body: listedTransactions([]coordinator.Answer{{Err: err}}), Code: kafka.CodeOf(err)})
	}
	call := callOf(c)
	c.Lease.Release()
	parts := b.Transactions.Each(func() *coordinator.Pending { return coordinator.NewPending(call, req) })
	return promise.Map(gather(parts), func(all []coordinator.Answer) server.Reply {
		resp := listedTransactions(all)
		return server.Reply{Body: resp, Code: kafka.Code(resp.ErrorCode)}
	})
}

func listedTransactions(parts []coordinator.Answer) *kmsg.ListTransactionsResponse {
	resp := kmsg.NewPtrListTransactionsResponse()
	for _, a := range parts {
		body, ok := a.Body.(*kmsg.ListTransactionsResponse)
		switch code := kafka.CodeOf(a.Err); {
		case code == kafka.NotCoordinator:
			continue // it has just moved to another broker, and is listed there
		case a.Err == nil && ok && body.ErrorCode == 0:
			resp.UnknownStateFilters = body.UnknownStateFilters
			resp.TransactionStates = append(resp.TransactionStates, body.TransactionStates...)
			continue
		case a.Err == nil && ok:
			resp.ErrorCode = body.ErrorCode
		case a.Err == nil:
			resp.ErrorCode = int16(kafka.UnknownServerError)
		default:
			resp.ErrorCode = int16(code)
		}
		resp.TransactionStates = nil
		return resp
	}
	return resp
}
