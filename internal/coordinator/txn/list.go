package txn

import (
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// describe answers for one transactional id.
func (m *Machine) describe(p *coordinator.Pending, r *kmsg.DescribeTransactionsRequest) coordinator.Result {
	id := r.TransactionalIDs[0]
	s := kmsg.NewDescribeTransactionsResponseTransactionState()
	s.TransactionalID = id
	switch e := m.ids[id]; {
	case id == "":
		s.ErrorCode = int16(kafka.InvalidRequest)
	case e == nil:
		s.ErrorCode = int16(kafka.TransactionalIDNotFound)
	default:
		s.State, s.TimeoutMillis, s.StartTimestamp = e.state.String(), e.timeoutMs, e.startMs
		s.ProducerID, s.ProducerEpoch = int64(e.producer.ID), int16(e.producer.Epoch)
		for _, tp := range e.partitions {
			if p.Call.May != nil && !p.Call.May(tp.Topic) {
				continue
			}
			if n := len(s.Topics); n == 0 || s.Topics[n-1].Topic != tp.Topic {
				t := kmsg.NewDescribeTransactionsResponseTransactionStateTopic()
				t.Topic = tp.Topic
				s.Topics = append(s.Topics, t)
			}
			last := &s.Topics[len(s.Topics)-1]
			last.Partitions = append(last.Partitions, tp.Partition)
		}
	}
	resp := kmsg.NewPtrDescribeTransactionsResponse()
	resp.TransactionStates = append(resp.TransactionStates, s)
	return reply(p, id, resp)
}

// list answers for all ids of this shard that pass the filters (KIP-664, KIP-994, KIP-1152).
func (m *Machine) list(now time.Time, p *coordinator.Pending, r *kmsg.ListTransactionsRequest) coordinator.Result {
	resp := kmsg.NewPtrListTransactionsResponse()
	states := map[string]bool{}
	for _, s := range r.StateFilters {
		if slices.Contains(stateNames[:], s) || s == "Dead" || s == "PrepareEpochFence" {
			states[s] = true
		} else {
			resp.UnknownStateFilters = append(resp.UnknownStateFilters, s)
		}
	}
	var pattern *regexp.Regexp
	if r.TransactionalIDPattern != nil && *r.TransactionalIDPattern != "" {
		var err error
		if pattern, err = regexp.Compile("^(?:" + *r.TransactionalIDPattern + ")$"); err != nil {
			return answer(p, "", kafka.InvalidRegularExpression)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.ids)) {
		e := m.ids[id]
		switch {
		case len(r.StateFilters) > 0 && !states[e.state.String()]:
		case len(r.ProducerIDFilters) > 0 && !slices.Contains(r.ProducerIDFilters, int64(e.producer.ID)):
		case r.DurationFilterMillis >= 0 && now.UnixMilli()-e.startMs <= r.DurationFilterMillis:
		case pattern != nil && !pattern.MatchString(id):
		default:
			s := kmsg.NewListTransactionsResponseTransactionState()
			s.TransactionalID, s.ProducerID, s.TransactionState = id, int64(e.producer.ID), e.state.String()
			resp.TransactionStates = append(resp.TransactionStates, s)
		}
	}
	out := reply(p, "", resp)
	out.WholeShard = true
	return out
}
