package moldautest_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
	"moldau/moldautest"
)

// wire sends requests of chosen versions and contents, one at a time.
type wire struct {
	t    *testing.T
	n    *moldautest.Node
	c    net.Conn
	corr int32
	fmt  *kmsg.RequestFormatter
}

func newWire(t *testing.T, n *moldautest.Node) *wire {
	return &wire{t: t, n: n, fmt: kmsg.NewRequestFormatter(kmsg.FormatterClientID("__admin_client"))}
}

// send gives the answer. A connection that ends before it is a failure.
func (w *wire) send(req kmsg.Request) kmsg.Response {
	w.t.Helper()
	resp, err := w.try(req)
	if err != nil {
		w.t.Fatalf("%T: %v", req, err)
	}
	return resp
}

func (w *wire) try(req kmsg.Request) (kmsg.Response, error) {
	if w.c == nil {
		c, err := w.n.Dial(w.t.Context(), "", "")
		if err != nil {
			return nil, err
		}
		w.c = c
		w.t.Cleanup(func() { _ = c.Close() })
	}
	resp, err := w.exchange(req)
	if err != nil {
		_ = w.c.Close()
		w.c = nil
		if errors.Is(err, io.ErrClosedPipe) {
			return w.try(req) // of a node that was restarted: it is not sent yet
		}
	}
	return resp, err
}

func (w *wire) exchange(req kmsg.Request) (kmsg.Response, error) {
	w.corr++
	_ = w.c.SetDeadline(time.Now().Add(40 * time.Second))
	if _, err := w.c.Write(w.fmt.AppendRequest(nil, req, w.corr)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(w.c, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(w.c, body); err != nil {
		return nil, err
	}
	body = body[4:]
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() {
		body = body[1:]
	}
	return resp, resp.ReadFrom(body)
}

// txnProducer sends a transactional producer's requests by hand. Its calls give the error code of the answer; what only has
// to wait is tried again.
type txnProducer struct {
	*wire
	id      string
	topic   string
	pid     int64
	epoch   int16
	timeout time.Duration
}

// coordinated makes a producer once the coordinators are there.
func coordinated(t *testing.T, n *moldautest.Node, id, topic string) *txnProducer {
	t.Helper()
	p := &txnProducer{wire: newWire(t, n), id: id, topic: topic, pid: -1, epoch: -1, timeout: time.Minute}
	for kind := range int8(2) {
		p.patiently(func() kafka.Code {
			r := kmsg.NewPtrFindCoordinatorRequest()
			r.Version, r.CoordinatorKey, r.CoordinatorType = 3, id, kind
			return kafka.Code(p.send(r).(*kmsg.FindCoordinatorResponse).ErrorCode)
		})
	}
	return p
}

func (p *txnProducer) patiently(do func() kafka.Code) kafka.Code {
	p.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		switch code := do(); code {
		case kafka.CoordinatorNotAvailable, kafka.NotCoordinator, kafka.CoordinatorLoadInProgress, kafka.ConcurrentTransactions,
			kafka.NotEnoughReplicas, kafka.UnknownTopicOrPartition, kafka.LeaderNotAvailable, kafka.NotLeaderOrFollower:
			if time.Now().After(end) {
				p.t.Fatal("still ", code)
			}
		default:
			return code
		}
	}
}

// init takes producer id and epoch over.
func (p *txnProducer) init(version int16) kafka.Code {
	p.t.Helper()
	return p.patiently(func() kafka.Code {
		r := kmsg.NewPtrInitProducerIDRequest()
		r.Version, r.TransactionalID, r.TransactionTimeoutMillis = version, &p.id, int32(p.timeout.Milliseconds())
		r.ProducerID, r.ProducerEpoch = p.pid, p.epoch
		resp := p.send(r).(*kmsg.InitProducerIDResponse)
		if resp.ErrorCode == 0 {
			p.pid, p.epoch = resp.ProducerID, resp.ProducerEpoch
		}
		return kafka.Code(resp.ErrorCode)
	})
}

func (p *txnProducer) add(partitions ...int32) kafka.Code {
	p.t.Helper()
	return p.patiently(func() kafka.Code {
		r := kmsg.NewPtrAddPartitionsToTxnRequest()
		r.Version, r.TransactionalID, r.ProducerID, r.ProducerEpoch = 3, p.id, p.pid, p.epoch
		t := kmsg.NewAddPartitionsToTxnRequestTopic()
		t.Topic, t.Partitions = p.topic, partitions
		r.Topics = append(r.Topics, t)
		return kafka.Code(p.send(r).(*kmsg.AddPartitionsToTxnResponse).Topics[0].Partitions[0].ErrorCode)
	})
}

// produce sends one record. Version 12 adds the partition to the transaction, which 9 does not.
func (p *txnProducer) produce(version int16, partition, sequence int32, value string) (kafka.Code, int64) {
	p.t.Helper()
	b := record.NewBuilder(record.Options{Transactional: p.id != "",
		Producer: &record.Producer{ID: kafka.ProducerID(p.pid), Epoch: kafka.ProducerEpoch(p.epoch), Sequence: sequence}})
	b.Append(time.Now().UnixMilli(), nil, []byte(value), nil)
	batch, err := b.Build()
	if err != nil {
		p.t.Fatal(err)
	}
	var offset int64
	return p.patiently(func() kafka.Code {
		r := kmsg.NewPtrProduceRequest()
		r.Version, r.Acks, r.TimeoutMillis = version, -1, 10000
		if p.id != "" {
			r.TransactionID = &p.id
		}
		t := kmsg.NewProduceRequestTopic()
		t.Topic = p.topic
		q := kmsg.NewProduceRequestTopicPartition()
		q.Partition, q.Records = partition, batch
		t.Partitions = append(t.Partitions, q)
		r.Topics = append(r.Topics, t)
		resp := p.send(r).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		offset = resp.BaseOffset
		return kafka.Code(resp.ErrorCode)
	}), offset
}

func (p *txnProducer) end(version int16, commit bool) kafka.Code {
	p.t.Helper()
	return p.patiently(func() kafka.Code {
		r := kmsg.NewPtrEndTxnRequest()
		r.Version, r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Commit = version, p.id, p.pid, p.epoch, commit
		resp := p.send(r).(*kmsg.EndTxnResponse)
		if resp.ErrorCode == 0 && version >= 5 {
			p.pid, p.epoch = resp.ProducerID, resp.ProducerEpoch
		}
		return kafka.Code(resp.ErrorCode)
	})
}

// marker writes a marker for p as another coordinator would.
func (p *txnProducer) marker(partition int32, epoch int16, commit bool, coordinatorEpoch int32) kafka.Code {
	p.t.Helper()
	r := kmsg.NewPtrWriteTxnMarkersRequest()
	r.Version = 2
	m := kmsg.NewWriteTxnMarkersRequestMarker()
	m.ProducerID, m.ProducerEpoch, m.Committed, m.CoordinatorEpoch, m.TransactionVersion = p.pid, epoch, commit, coordinatorEpoch, 2
	t := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
	t.Topic, t.Partitions = p.topic, []int32{partition}
	m.Topics = append(m.Topics, t)
	r.Markers = append(r.Markers, m)
	return kafka.Code(p.send(r).(*kmsg.WriteTxnMarkersResponse).Markers[0].Topics[0].Partitions[0].ErrorCode)
}

// state describes the transactional id.
func (p *txnProducer) state() kmsg.DescribeTransactionsResponseTransactionState {
	p.t.Helper()
	var out kmsg.DescribeTransactionsResponseTransactionState
	p.patiently(func() kafka.Code {
		r := kmsg.NewPtrDescribeTransactionsRequest()
		r.TransactionalIDs = []string{p.id}
		out = p.send(r).(*kmsg.DescribeTransactionsResponse).TransactionStates[0]
		return kafka.Code(out.ErrorCode)
	})
	return out
}

// settled waits until the id has no transaction that is being completed, and gives its state.
func (p *txnProducer) settled() string {
	p.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if s := p.state().State; s != "PrepareCommit" && s != "PrepareAbort" {
			return s
		} else if time.Now().After(end) {
			p.t.Fatal("still ", s)
		}
	}
}

// must fails when a call did not go well.
func must(t *testing.T, code kafka.Code) {
	t.Helper()
	if code != kafka.None {
		t.Fatal(code)
	}
}

// wants fails when the code is none of those.
func wants(t *testing.T, what string, code kafka.Code, want ...kafka.Code) {
	t.Helper()
	for _, w := range want {
		if code == w {
			return
		}
	}
	t.Errorf("%s: %v, want %v", what, code, want)
}
