package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// describeTransactionsRow shows what the coordinators know of transactional ids (KIP-664).
func (b *Broker) describeTransactionsRow() server.API {
	return server.API{Key: int16(kmsg.DescribeTransactions), Min: 0, Max: 0, Listener: server.BrokerListener,
		Handle: b.handleDescribeTransactions}
}

func (b *Broker) handleDescribeTransactions(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	req := r.(*kmsg.DescribeTransactionsRequest)
	part := func(id string) kmsg.Request {
		one := kmsg.NewPtrDescribeTransactionsRequest()
		one.TransactionalIDs = []string{id}
		return one
	}
	return eachAt(b.Transactions, c, req.TransactionalIDs, part,
		func(ids []string, answers []coordinator.Answer) kmsg.Response {
			resp := kmsg.NewPtrDescribeTransactionsResponse()
			for i, a := range answers {
				s := kmsg.NewDescribeTransactionsResponseTransactionState()
				if body, ok := a.Body.(*kmsg.DescribeTransactionsResponse); ok && len(body.TransactionStates) > 0 {
					s = body.TransactionStates[0]
				} else {
					s.ErrorCode = int16(kafka.CodeOf(a.Err))
				}
				s.TransactionalID = ids[i]
				resp.TransactionStates = append(resp.TransactionStates, s)
			}
			return resp
		})
}
