package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/promise"
)

func TestInitProducerID(t *testing.T) {
	f := newFixture(t)
	last := int64(0)
	for v := int16(0); v <= 5; v++ {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.Version, req.TransactionTimeoutMillis = v, 1000
		r := ask[*kmsg.InitProducerIDResponse](f, req)
		if r.ErrorCode != 0 || r.ProducerID <= last || r.ProducerEpoch != 0 {
			t.Fatalf("version %d: %+v", v, r)
		}
		last = r.ProducerID
		req.ProducerID, req.ProducerEpoch = last, 3
		if r := ask[*kmsg.InitProducerIDResponse](f, req); r.ErrorCode != 0 || r.ProducerID <= last || r.ProducerEpoch != 0 {
			t.Fatalf("version %d: %+v", v, r)
		}
		for _, half := range [][2]int64{{5, -1}, {-1, 3}} {
			want := kafka.Code(0)
			if v >= 3 {
				want = kafka.InvalidRequest
			}
			req.ProducerID, req.ProducerEpoch = half[0], int16(half[1])
			if r := ask[*kmsg.InitProducerIDResponse](f, req); kafka.Code(r.ErrorCode) != want {
				t.Fatalf("version %d, %v: %+v", v, half, r)
			}
		}
		last++
		req.TransactionalID = new(string)
		r = ask[*kmsg.InitProducerIDResponse](f, req)
		if kafka.Code(r.ErrorCode) != kafka.InvalidRequest || r.ProducerID != -1 || r.ProducerEpoch != -1 {
			t.Fatalf("version %d, empty transactional id: %+v", v, r)
		}
		id := "tx" // whose coordinator is elsewhere
		req.TransactionalID = &id
		r = ask[*kmsg.InitProducerIDResponse](f, req)
		if kafka.Code(r.ErrorCode) != kafka.NotCoordinator || r.ProducerID != -1 || r.ProducerEpoch != -1 {
			t.Fatalf("version %d: %+v", v, r)
		}
	}
}

func TestInitProducerIDWaits(t *testing.T) {
	f := newFixture(t)
	later := &promise.Promise[ProducerIDReply]{}
	f.ProducerID = func() *promise.Promise[ProducerIDReply] { return later }
	req := kmsg.NewPtrInitProducerIDRequest()
	_, p := f.start(req)
	f.wantWaiting(p, "no id is there")
	later.Set(ProducerIDReply{Err: kafka.CoordinatorLoadInProgress})
	r := f.body(req, f.reply(p)).(*kmsg.InitProducerIDResponse)
	if kafka.Code(r.ErrorCode) != kafka.CoordinatorLoadInProgress || r.ProducerID != -1 {
		t.Fatalf("%+v", r)
	}
}

// TestEmptyTransactionalID: wrong on a node that coordinates nothing, too.
func TestEmptyTransactionalID(t *testing.T) {
	f := newFixture(t)
	end, add := kmsg.NewPtrEndTxnRequest(), kmsg.NewPtrAddOffsetsToTxnRequest()
	end.SetVersion(5)
	add.SetVersion(4)
	add.Group = "g"
	if r := ask[*kmsg.EndTxnResponse](f, end); kafka.Code(r.ErrorCode) != kafka.InvalidRequest {
		t.Errorf("%+v", r)
	}
	if r := ask[*kmsg.AddOffsetsToTxnResponse](f, add); kafka.Code(r.ErrorCode) != kafka.InvalidRequest {
		t.Errorf("%+v", r)
	}
	end.TransactionalID = "tx" // whose coordinator is elsewhere
	if r := ask[*kmsg.EndTxnResponse](f, end); kafka.Code(r.ErrorCode) != kafka.NotCoordinator {
		t.Errorf("%+v", r)
	}
}
