package api

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/replica"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// fetchHandler answers Fetch. The way of a request: a session, or a set of its own, says which partitions
// are meant (fetch_session.go, fetch_set.go); fetch_read.go looks at those that could have something; what
// is not enough yet waits in fetch_wait.go; fetch_head.go writes the answer, whose records never pass
// through the heap.
//
// The high watermark that a version 18 request names (KIP-1166) is for the controllers' log only.
type fetchHandler struct {
	b        *Broker
	sessions *fetchSessions
	replies  fetchReplies
	maxBytes int  // fetch.max.bytes
	near     bool // consumers are sent to replicas in their rack (replica.selector.class)
}

func (b *Broker) fetchRow() server.API {
	return server.API{Key: int16(kmsg.Fetch), Min: 4, Max: 18, Listener: server.BothListeners,
		Handle: newFetchHandler(b).handle}
}

func newFetchHandler(b *Broker) *fetchHandler {
	return &fetchHandler{b: b, sessions: newFetchSessions(b), maxBytes: b.Config.Int("fetch.max.bytes"),
		near: b.Config.Text("replica.selector.class") == rackAwareSelector}
}

// fetchOp is one Fetch request on its way.
type fetchOp struct {
	h       *fetchHandler
	call    *server.Call
	version int16

	replica       kafka.NodeID // NoNode: a consumer or a tool
	replicaEpoch  kafka.BrokerEpoch
	fromFollower  bool   // a replica that only follows may answer (KIP-392)
	rack          string // of a consumer that may be sent elsewhere, "" otherwise
	readCommitted bool
	minBytes      int
	maxBytes      int

	set *fetchSet
	// full says that the answer lists every partition, not only those of which there is something new.
	full      bool
	session   *fetchSession // nil without one
	sessionID int32         // of the answer
	epoch     int32         // of the session while this is its latest request

	wait fetchWait
}

func (h *fetchHandler) handle(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	if c.Conn.Kind == server.ControllerListener {
		return h.b.raft(c, r) // the metadata log is the quorum's own
	}
	req := r.(*kmsg.FetchRequest)
	if req.IsolationLevel != 0 && req.IsolationLevel != 1 {
		return answer(refuseFetch(req))
	}
	n := 0
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	if tooMany(h.b.Image(), n) {
		return hangUp()
	}
	op := h.begin(c, req)
	if code := h.sessions.attach(op, req); code != 0 {
		return answer(op.topLevel(code))
	}
	if n <= smallFetch {
		c.Lease.Release() // the set has its own copy of everything
	}
	wait := time.Duration(req.MaxWaitMillis) * time.Millisecond
	op.set.session.Lock()
	reply, done := op.collect(wait <= 0)
	op.set.session.Unlock()
	op.set.runEffects(h.b.Host)
	if done {
		op.detach()
		return answer(reply)
	}
	return op.park(wait)
}

func (h *fetchHandler) begin(c *server.Call, req *kmsg.FetchRequest) *fetchOp {
	op := &fetchOp{h: h, call: c, version: req.Version, replica: kafka.NoNode, replicaEpoch: -1}
	id := req.ReplicaID
	if req.Version >= 15 { // KIP-903
		id, op.replicaEpoch = req.ReplicaState.ID, kafka.BrokerEpoch(req.ReplicaState.Epoch)
	}
	op.replica = replicaOf(id)
	op.fromFollower = op.replica == kafka.NoNode && (req.Version >= 11 || id == debuggingReplica)
	if h.near && op.replica == kafka.NoNode && req.Version >= 11 {
		op.rack = strings.Clone(req.Rack)
	}
	op.readCommitted = req.IsolationLevel == 1 && op.replica == kafka.NoNode
	op.maxBytes = min(int(req.MaxBytes), h.maxBytes)
	op.minBytes = min(int(req.MinBytes), op.maxBytes)
	return op
}

// smallFetch is up to how many partitions of a request are remembered without their charge. Larger requests
// keep it until they are answered: what they wait with is memory too.
const smallFetch = 256

// debuggingReplica is the replica id by which tools read from any replica.
const debuggingReplica = -2

// topLevel is an answer without partitions.
func (op *fetchOp) topLevel(code kafka.Code) server.Reply {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version, resp.ErrorCode = op.version, int16(code)
	return server.Reply{Body: resp, Code: code}
}

// refuseFetch answers an isolation level that does not exist, as Kafka does.
func refuseFetch(req *kmsg.FetchRequest) server.Reply {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version, resp.ErrorCode, resp.SessionID = req.Version, int16(kafka.UnknownServerError), req.SessionID
	for i := range req.Topics {
		t := &req.Topics[i]
		if req.Version >= 13 {
			break
		}
		// The reply may alias the request: the lease stays with the server.
		out := kmsg.FetchResponseTopic{Topic: t.Topic}
		for j := range t.Partitions {
			p := kmsg.NewFetchResponseTopicPartition()
			p.Partition, p.ErrorCode, p.HighWatermark = t.Partitions[j].Partition, int16(kafka.UnknownServerError), -1
			p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
			p.RecordBatches = []byte{}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return server.Reply{Body: resp, Code: kafka.UnknownServerError}
}

// spec is how one partition is read.
func (op *fetchOp) spec(e *fetchEntry, room int, whole bool) replica.ReadSpec {
	return replica.ReadSpec{
		Replica: op.replica, Offset: e.offset, MaxBytes: max(min(int(e.maxBytes), room), 0), WholeBatch: whole,
		LeaderEpoch: e.leaderEpoch, LastEpoch: e.lastEpoch, ReadCommitted: op.readCommitted,
		FromFollower: op.fromFollower,
	}
}
