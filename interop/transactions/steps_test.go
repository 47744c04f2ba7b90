package transactions

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// producer plays one transactional id by steps, which are words:
//
//	init/4  add/3  many/3  verify/5  offsets/3  commit/5  abort/5, each with a version;
//	a suffix names whom the request claims to come from: -prev, -next (epochs), -other (producer id), -none.
//
// timeout waits until the coordinator has aborted the open transaction.
type producer struct {
	c         *conn
	id        string
	timeoutMs int32
	pid       int64
	epoch     int16
	pids      []int64
}

// do sends one step and gives the answer: the code and the producer id (by its number in the life of this id) and epoch
// that came with it. CONCURRENT_TRANSACTIONS is tried again.
func (p *producer) do(t testing.TB, step string) string {
	t.Helper()
	if step == "timeout" {
		for end := time.Now().Add(60 * time.Second); p.state(t).State != "CompleteAbort"; {
			if time.Now().After(end) {
				t.Fatalf("%s: no timeout", p.id)
			}
			time.Sleep(20 * time.Millisecond)
		}
		return "OK"
	}
	for range 1000 {
		code, pid, epoch := p.once(t, step)
		if code == kerr.ConcurrentTransactions.Code || code == kerr.CoordinatorLoadInProgress.Code ||
			code == kerr.CoordinatorNotAvailable.Code || code == kerr.NotCoordinator.Code {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		p.settle(t)
		if code != 0 {
			return strings.TrimPrefix(kerr.TypedErrorForCode(code).Message, "kerr.")
		}
		if pid < 0 {
			return "OK"
		}
		p.pid, p.epoch = pid, epoch
		return fmt.Sprintf("OK %s/%d", p.name(pid), epoch)
	}
	t.Fatalf("%s: %s never ends", p.id, step)
	return ""
}

func (p *producer) once(t testing.TB, step string) (code int16, pid int64, epoch int16) {
	name, rest, _ := strings.Cut(step, "/")
	v, who, _ := strings.Cut(rest, "-")
	version, err := strconv.Atoi(v)
	if err != nil {
		t.Fatal(step, err)
	}
	asPid, asEpoch := p.pid, p.epoch
	switch who {
	case "prev":
		asEpoch--
	case "next":
		asEpoch++
	case "other":
		asPid += 1_000_000
	case "none":
		asPid, asEpoch = -1, -1
	}
	switch r := p.c.send(t, request(name, int16(version), p.id, p.timeoutMs, asPid, asEpoch)).(type) {
	case *kmsg.InitProducerIDResponse:
		return r.ErrorCode, r.ProducerID, r.ProducerEpoch
	case *kmsg.EndTxnResponse:
		return r.ErrorCode, r.ProducerID, r.ProducerEpoch
	case *kmsg.AddOffsetsToTxnResponse:
		return r.ErrorCode, -1, -1
	case *kmsg.AddPartitionsToTxnResponse:
		if version < 4 {
			return r.Topics[0].Partitions[0].ErrorCode, -1, -1
		}
		return r.Transactions[0].Topics[0].Partitions[0].ErrorCode, -1, -1
	}
	t.Fatal(step)
	return 0, 0, 0
}

func request(name string, version int16, id string, timeoutMs int32, pid int64, epoch int16) kmsg.Request {
	switch name {
	case "init":
		r := kmsg.NewPtrInitProducerIDRequest()
		r.Version, r.TransactionalID, r.TransactionTimeoutMillis = version, &id, timeoutMs
		r.ProducerID, r.ProducerEpoch = pid, epoch
		return r
	case "commit", "abort":
		r := kmsg.NewPtrEndTxnRequest()
		r.Version, r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Commit = version, id, pid, epoch, name == "commit"
		return r
	case "offsets":
		r := kmsg.NewPtrAddOffsetsToTxnRequest()
		r.Version, r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Group = version, id, pid, epoch, "g"
		return r
	}
	partitions := []int32{0}
	if name == "many" {
		partitions = []int32{0, 1, 2}
	}
	r := kmsg.NewPtrAddPartitionsToTxnRequest()
	r.Version = version
	if version < 4 {
		r.TransactionalID, r.ProducerID, r.ProducerEpoch = id, pid, epoch
		t := kmsg.NewAddPartitionsToTxnRequestTopic()
		t.Topic, t.Partitions = "t", partitions
		r.Topics = append(r.Topics, t)
		return r
	}
	x := kmsg.NewAddPartitionsToTxnRequestTransaction()
	x.TransactionalID, x.ProducerID, x.ProducerEpoch, x.VerifyOnly = id, pid, epoch, name == "verify"
	t := kmsg.NewAddPartitionsToTxnRequestTransactionTopic()
	t.Topic, t.Partitions = "t", partitions
	x.Topics = append(x.Topics, t)
	r.Transactions = append(r.Transactions, x)
	return r
}

// name numbers the producer ids that the transactional id has had.
func (p *producer) name(pid int64) string {
	for i, x := range p.pids {
		if x == pid {
			return fmt.Sprint("p", i)
		}
	}
	p.pids = append(p.pids, pid)
	return fmt.Sprint("p", len(p.pids)-1)
}

func (p *producer) state(t testing.TB) kmsg.DescribeTransactionsResponseTransactionState {
	t.Helper()
	r := kmsg.NewPtrDescribeTransactionsRequest()
	r.TransactionalIDs = []string{p.id}
	return p.c.send(t, r).(*kmsg.DescribeTransactionsResponse).TransactionStates[0]
}

// settle waits until no markers are under way.
func (p *producer) settle(t testing.TB) {
	t.Helper()
	for strings.HasPrefix(p.state(t).State, "Prepare") {
		time.Sleep(2 * time.Millisecond)
	}
}
