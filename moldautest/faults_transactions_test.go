package moldautest_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/moldautest"
)

// The fault scenarios of transactions; docs/faults.md lists them all.

// ends gives the high watermark and the last stable offset of a partition.
func ends(t *testing.T, n *moldautest.Node, topic string, partition int32) (hw, lso int64) {
	t.Helper()
	c := n.Client(t)
	defer c.Close()
	admin := kadm.NewClient(c)
	all, err := admin.ListEndOffsets(within(t), topic)
	if err != nil {
		t.Fatal(err)
	}
	committed, err := admin.ListCommittedOffsets(within(t), topic)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := all.Lookup(topic, partition)
	b, _ := committed.Lookup(topic, partition)
	return a.Offset, b.Offset
}

// contents gives what lies in a partition: values, and "commit" or "abort" for markers.
func contents(t *testing.T, n *moldautest.Node, topic string, partition int32) []string {
	t.Helper()
	hw, _ := ends(t, n, topic, partition)
	c := n.Client(t, kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		topic: {partition: kgo.NewOffset().AtStart()}}))
	defer c.Close()
	var out []string
	for next, ctx := int64(0), within(t); next < hw; {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			switch {
			case !r.Attrs.IsControl():
				out = append(out, string(r.Value))
			case binary.BigEndian.Uint16(r.Key[2:]) == 1:
				out = append(out, "commit")
			default:
				out = append(out, "abort")
			}
		})
	}
	return out
}

// isStable fails unless readers of committed records see the whole partition.
func isStable(t *testing.T, n *moldautest.Node, topic string, partition int32) {
	t.Helper()
	if hw, lso := ends(t, n, topic, partition); hw != lso {
		t.Errorf("%s-%d is stable up to %d of %d only", topic, partition, lso, hw)
	}
}

// TestFault19DelayedEnd: the end of a transaction that arrives when the next one is open ends nothing, and neither does its
// marker (KAFKA-17754, KAFKA-14562).
func TestFault19DelayedEnd(t *testing.T) {
	n := moldautest.Start(t)
	createTopics(t, n, 1, "orders")
	p := coordinated(t, n, "t", "orders")
	must(t, p.init(5))
	first := *p
	code, _ := p.produce(12, 0, 0, "one")
	must(t, code)
	must(t, p.end(5, true))
	code, _ = p.produce(12, 0, 0, "two")
	must(t, code)
	late := first
	wants(t, "the commit again", late.end(5, true), kafka.ProducerFenced, kafka.InvalidProducerEpoch)
	late = first
	wants(t, "an abort", late.end(5, false), kafka.ProducerFenced, kafka.InvalidProducerEpoch)
	wants(t, "the marker again", p.marker(0, p.epoch, true, 0), kafka.InvalidProducerEpoch)
	if hw, lso := ends(t, n, "orders", 0); lso != 2 || hw != 3 {
		t.Errorf("stable up to %d of %d", lso, hw)
	}
	must(t, p.end(5, false))
	p.settled()
	if got := stable(t, n, "orders"); !slices.Equal(got, []string{"one"}) {
		t.Error(got)
	}
}

// TestFault20Zombie: a producer that was away while another took its transactional id over is fenced whatever it does first,
// and what it had open is aborted once (KAFKA-9600).
func TestFault20Zombie(t *testing.T) {
	for _, version := range []int16{9, 12} {
		n := moldautest.Start(t)
		createTopics(t, n, 1, "orders")
		zombie := coordinated(t, n, "t", "orders")
		must(t, zombie.init(4))
		if version < 12 {
			must(t, zombie.add(0))
		}
		code, _ := zombie.produce(version, 0, 0, "lost")
		must(t, code)
		next := coordinated(t, n, "t", "orders")
		must(t, next.init(4))
		late := *zombie
		code, _ = late.produce(version, 0, 1, "late")
		wants(t, "produce", code, kafka.InvalidProducerEpoch)
		wants(t, "add", late.add(0), kafka.ProducerFenced)
		wants(t, "end v3", late.end(3, true), kafka.ProducerFenced)
		wants(t, "end v5", late.end(5, true), kafka.ProducerFenced)
		wants(t, "recover", late.init(4), kafka.ProducerFenced)
		must(t, next.add(0))
		code, _ = next.produce(9, 0, 0, "kept")
		must(t, code)
		must(t, next.end(3, true))
		next.settled()
		if got := contents(t, n, "orders", 0); !slices.Equal(got, []string{"lost", "abort", "kept", "commit"}) {
			t.Error(got)
		}
		isStable(t, n, "orders", 0)
	}
}

// TestFault21LateProduce: a batch that arrives after the marker of its transaction opens no new one that nobody would ever
// end (KAFKA-14402, KAFKA-14884).
func TestFault21LateProduce(t *testing.T) {
	n := moldautest.Start(t)
	createTopics(t, n, 2, "orders")
	p := coordinated(t, n, "classic", "orders")
	must(t, p.init(4))
	for round := range int32(2) {
		must(t, p.add(0))
		code, _ := p.produce(9, 0, 2*round, "v")
		must(t, code)
		must(t, p.end(3, round == 0))
		p.settled()
		code, _ = p.produce(9, 0, 2*round+1, "late")
		wants(t, "late", code, kafka.InvalidTxnState)
		code, _ = p.produce(11, 0, 2*round+1, "late")
		wants(t, "late v11", code, kafka.TransactionAbortable)
		isStable(t, n, "orders", 0)
		must(t, p.init(4)) // a new epoch: sequences begin at 0
		must(t, p.add(0))
		code, _ = p.produce(9, 0, 0, "again")
		must(t, code)
		must(t, p.end(3, false))
		p.settled()
		must(t, p.init(4))
		must(t, p.add(0))
		code, _ = p.produce(9, 0, 0, "again")
		must(t, code)
		code, _ = p.produce(9, 0, 1, "again")
		must(t, code)
		must(t, p.end(3, false))
		p.settled()
	}
	v2 := coordinated(t, n, "v2", "orders")
	must(t, v2.init(5))
	before := *v2
	code, _ := v2.produce(12, 1, 0, "v")
	must(t, code)
	must(t, v2.end(5, false))
	v2.settled()
	for sequence := range int32(2) {
		late := before
		code, _ = late.produce(12, 1, sequence, "late")
		wants(t, "late v12", code, kafka.InvalidProducerEpoch)
	}
	isStable(t, n, "orders", 0)
	isStable(t, n, "orders", 1)
}

// TestFault22CoordinatorDies: a coordinator that finds a decision without markers carries out that decision, also when a
// part of the markers is written; offsets are there before the next transaction begins (KAFKA-16352, KAFKA-17507).
func TestFault22CoordinatorDies(t *testing.T) {
	for _, commit := range []bool{true, false} {
		for _, marked := range []bool{false, true} {
			t.Run(fmt.Sprintf("commit=%t marked=%t", commit, marked), func(t *testing.T) { coordinatorDies(t, commit, marked) })
		}
	}
}

func coordinatorDies(t *testing.T, commit, marked bool) {
	n := moldautest.Start(t, moldautest.Config("transaction.state.log.num.partitions", "1"))
	createTopics(t, n, 2, "orders")
	p := coordinated(t, n, "t", "orders")
	must(t, p.init(5))
	for i := range int32(2) {
		code, _ := p.produce(12, i, 0, fmt.Sprint("v", i))
		must(t, code)
	}
	must(t, p.commitOffset("g", 0, 7))
	state := newestState(t, n, "t")
	binary.BigEndian.PutUint16(state[10:], uint16(p.epoch)+1)
	state[16] = 3 // PrepareAbort
	if commit {
		state[16] = 2
	}
	writeState(t, n, "t", state)
	if marked {
		must(t, p.marker(0, p.epoch+1, commit, 0))
	}
	n.Kill()
	n.Restart(t)
	next := coordinated(t, n, "t", "orders")
	must(t, next.init(5))
	if next.epoch != p.epoch+2 {
		t.Errorf("epoch %d after %d", next.epoch, p.epoch)
	}
	end, values, offset := "abort", []string(nil), int64(-1)
	if commit {
		end, values, offset = "commit", []string{"v0", "v1"}, 7
	}
	if got := next.committedOffset("g", 0); got != offset {
		t.Errorf("offset %d, want %d", got, offset)
	}
	for i := range int32(2) {
		got := slices.Compact(contents(t, n, "orders", i)) // a marker may be there twice
		if !slices.Equal(got, []string{fmt.Sprint("v", i), end}) {
			t.Error(i, got)
		}
		isStable(t, n, "orders", i)
	}
	got := stable(t, n, "orders")
	slices.Sort(got)
	if !slices.Equal(got, values) {
		t.Error(got)
	}
}

// commitOffset commits an offset of partition in the transaction, by transactions v2.
func (p *txnProducer) commitOffset(group string, partition int32, offset int64) kafka.Code {
	p.t.Helper()
	return p.patiently(func() kafka.Code {
		r := kmsg.NewPtrTxnOffsetCommitRequest()
		r.Version, r.TransactionalID, r.Group, r.ProducerID, r.ProducerEpoch, r.Generation = 5, p.id, group, p.pid, p.epoch, -1
		t := kmsg.NewTxnOffsetCommitRequestTopic()
		t.Topic = p.topic
		q := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		q.Partition, q.Offset = partition, offset
		t.Partitions = append(t.Partitions, q)
		r.Topics = append(r.Topics, t)
		return kafka.Code(p.send(r).(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
	})
}

// committedOffset fetches an offset, pending ones not accepted.
func (p *txnProducer) committedOffset(group string, partition int32) int64 {
	p.t.Helper()
	var offset int64
	must(p.t, p.patiently(func() kafka.Code {
		r := kmsg.NewPtrOffsetFetchRequest()
		r.Version, r.Group, r.RequireStable = 7, group, true
		t := kmsg.NewOffsetFetchRequestTopic()
		t.Topic, t.Partitions = p.topic, []int32{partition}
		r.Topics = append(r.Topics, t)
		resp := p.send(r).(*kmsg.OffsetFetchResponse)
		if resp.ErrorCode != 0 {
			return kafka.Code(resp.ErrorCode)
		}
		offset = resp.Topics[0].Partitions[0].Offset
		return kafka.Code(resp.Topics[0].Partitions[0].ErrorCode)
	}))
	return offset
}

// newestState reads the newest record of a transactional id; __transaction_state has one partition.
func newestState(t *testing.T, n *moldautest.Node, id string) []byte {
	t.Helper()
	hw, _ := ends(t, n, kafka.TransactionsTopic, 0)
	c := n.Client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{kafka.TransactionsTopic: {0: kgo.NewOffset().AtStart()}}))
	defer c.Close()
	var out []byte
	for next, ctx := int64(0), within(t); next < hw; {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			if string(r.Key[4:]) == id {
				out = r.Value
			}
		})
	}
	return out
}

// writeState writes a record of a transactional id, which the coordinator reads when it starts.
func writeState(t *testing.T, n *moldautest.Node, id string, value []byte) {
	t.Helper()
	c := n.Client(t, kgo.ClientID("__admin_client"), kgo.DisableIdempotentWrite(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer c.Close()
	key := binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(len(id)))
	err := c.ProduceSync(within(t), &kgo.Record{Topic: kafka.TransactionsTopic, Key: append(key, id...), Value: value}).FirstErr()
	if err != nil {
		t.Fatal(err)
	}
}

// TestFault23RetryAfterRestart: a batch that is sent again after the leader changed, or after its segments were removed, is
// known by the last five (Redpanda #3039, #5355, KAFKA-14034).
func TestFault23RetryAfterRestart(t *testing.T) {
	for name, end := range map[string]func(n *moldautest.Node){
		"stop": func(n *moldautest.Node) { n.Stop(t) }, "kill": (*moldautest.Node).Kill, "power cut": (*moldautest.Node).PowerCut,
	} {
		n := moldautest.Start(t, moldautest.Seed(3))
		createTopics(t, n, 1, "orders")
		p := coordinated(t, n, "", "orders")
		p.pid, p.epoch = 4000, 0
		const batches = 9
		for i := range int32(batches) {
			code, offset := p.produce(9, 0, i, fmt.Sprint(i))
			must(t, code)
			if offset != int64(i) {
				t.Fatal(offset)
			}
		}
		again := func(when string, known int32) {
			t.Helper()
			for i := batches - known; i < batches; i++ {
				code, offset := p.produce(9, 0, i, fmt.Sprint(i))
				if code != kafka.None || offset != int64(i) {
					t.Errorf("%s, %s: batch %d again: %v, offset %d", name, when, i, code, offset)
				}
			}
			code, _ := p.produce(9, 0, 0, "0")
			wants(t, name+", "+when+": too old", code, kafka.OutOfOrderSequenceNumber)
		}
		again("before", 5)
		end(n)
		n.Restart(t)
		known := int32(5)
		if name == "stop" {
			known = 1 // a snapshot keeps the newest batch only, as Apache Kafka's does
		}
		again("after", known)
		admin := kadm.NewClient(n.Client(t))
		if _, err := admin.DeleteRecords(within(t), kadm.Offsets{"orders": {0: {Topic: "orders", At: batches}}}); err != nil {
			t.Fatal(err)
		}
		again("its records deleted", known)
		code, offset := p.produce(9, 0, batches, "next")
		if code != kafka.None || offset != batches {
			t.Errorf("%s: the next batch: %v, offset %d", name, code, offset)
		}
		if got := contents(t, n, "orders", 0); !slices.Equal(got, []string{"next"}) {
			t.Error(name, got)
		}
	}
}

// TestFault24ExpiredProducer: a producer that was forgotten goes on where it was, and one with an open transaction is not
// forgotten (KAFKA-7190, KIP-360).
func TestFault24ExpiredProducer(t *testing.T) {
	n := moldautest.Start(t, moldautest.Config("producer.id.expiration.ms", "100"),
		moldautest.Config("producer.id.expiration.check.interval.ms", "20"))
	createTopics(t, n, 1, "orders")
	p := coordinated(t, n, "", "orders")
	p.pid, p.epoch = 4000, 2
	open := coordinated(t, n, "open", "orders")
	must(t, open.init(5))
	code, _ := open.produce(12, 0, 0, "open")
	must(t, code)
	known := func() []int64 {
		r := kmsg.NewPtrDescribeProducersRequest()
		topic := kmsg.NewDescribeProducersRequestTopic()
		topic.Topic, topic.Partitions = "orders", []int32{0}
		r.Topics = append(r.Topics, topic)
		var out []int64
		for _, x := range p.send(r).(*kmsg.DescribeProducersResponse).Topics[0].Partitions[0].ActiveProducers {
			out = append(out, x.ProducerID)
		}
		return out
	}
	for i := range int32(3) {
		code, _ := p.produce(9, 0, i, fmt.Sprint(i))
		must(t, code)
		for end := time.Now().Add(20 * time.Second); slices.Contains(known(), p.pid); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("never forgotten")
			}
		}
	}
	if !slices.Contains(known(), open.pid) {
		t.Fatal("a producer with an open transaction is forgotten")
	}
	code, _ = open.produce(12, 0, 1, "open")
	must(t, code)
	must(t, open.end(5, true))
	open.settled()
	if got := stable(t, n, "orders"); !slices.Equal(got, []string{"open", "0", "1", "2", "open"}) {
		t.Error(got)
	}
}

// TestFault25CoordinatorMoves: partitions that were added to a transaction are in it after the coordinator came up again,
// whenever it went away; nobody is answered from a state that is not loaded (Redpanda #6018).
func TestFault25CoordinatorMoves(t *testing.T) {
	n := moldautest.Start(t, moldautest.Seed(11))
	createTopics(t, n, 64, "orders")
	const ids = 6
	var mu sync.Mutex
	added := map[string][]int32{}
	var producers []*txnProducer
	for i := range ids {
		p := coordinated(t, n, fmt.Sprint("id-", i), "orders")
		must(t, p.init(4))
		producers = append(producers, p)
	}
	for round := range int32(3) {
		var wait sync.WaitGroup
		for _, p := range producers {
			wait.Go(func() {
				for k := round * 20; k < round*20+20; k++ {
					r := kmsg.NewPtrAddPartitionsToTxnRequest()
					r.Version, r.TransactionalID, r.ProducerID, r.ProducerEpoch = 3, p.id, p.pid, p.epoch
					x := kmsg.NewAddPartitionsToTxnRequestTopic()
					x.Topic, x.Partitions = "orders", []int32{k}
					r.Topics = append(r.Topics, x)
					resp, err := p.try(r)
					if err != nil {
						return // the node is gone
					}
					if kafka.Code(resp.(*kmsg.AddPartitionsToTxnResponse).Topics[0].Partitions[0].ErrorCode) == kafka.None {
						mu.Lock()
						added[p.id] = append(added[p.id], k)
						mu.Unlock()
					}
				}
			})
		}
		time.Sleep(time.Duration(5+5*round) * time.Millisecond)
		if round%2 == 0 {
			n.Kill()
		} else {
			n.PowerCut()
		}
		wait.Wait()
		n.Restart(t)
		for _, p := range producers {
			var got []int32
			if topics := p.state().Topics; len(topics) > 0 {
				got = topics[0].Partitions
			}
			for _, k := range added[p.id] {
				if !slices.Contains(got, k) {
					t.Errorf("round %d: %s has %v without %d", round, p.id, got, k)
				}
			}
		}
	}
	for _, p := range producers {
		if len(added[p.id]) == 0 {
			must(t, p.add(0))
		}
		must(t, p.end(3, true))
		if s := p.settled(); s != "CompleteCommit" {
			t.Error(p.id, s)
		}
	}
}

// TestFault26EpochsAndIDsRunOut: after the last epoch comes a new producer id, and no producer id is given twice, whatever
// blocks of them are lost by restarts (KAFKA-19367, KAFKA-20090).
func TestFault26EpochsAndIDsRunOut(t *testing.T) {
	n := moldautest.Start(t, moldautest.Config("transaction.state.log.num.partitions", "1"))
	createTopics(t, n, 1, "orders")
	given := map[int64]bool{}
	give := func(id int64) {
		t.Helper()
		if id < 0 || given[id] {
			t.Fatalf("producer id %d", id)
		}
		given[id] = true
	}
	p := coordinated(t, n, "t", "orders")
	must(t, p.init(5))
	give(p.pid)
	state := newestState(t, n, "t")
	binary.BigEndian.PutUint16(state[10:], 32765)
	writeState(t, n, "t", state)
	n.Kill()
	n.Restart(t)
	p.epoch = 32765
	var want []string
	for i := range 4 {
		code, _ := p.produce(12, 0, 0, fmt.Sprint(i))
		must(t, code)
		before := p.pid
		must(t, p.end(5, true))
		if p.epoch < 0 || p.epoch > 32766 || (p.pid != before) != (p.epoch == 0) {
			t.Errorf("transaction %d: producer %d/%d after %d", i, p.pid, p.epoch, before)
		}
		if p.pid != before {
			give(p.pid)
		}
		want = append(want, fmt.Sprint(i))
	}
	p.settled()
	if got := stable(t, n, "orders"); !slices.Equal(got, want) {
		t.Error(got)
	}
	for restart := range 4 {
		w := newWire(t, n)
		for range 700 { // a block has 1000
			r := kmsg.NewPtrInitProducerIDRequest()
			r.Version = 4
			resp := w.send(r).(*kmsg.InitProducerIDResponse)
			if resp.ErrorCode == int16(kafka.CoordinatorLoadInProgress) {
				continue
			}
			must(t, kafka.Code(resp.ErrorCode))
			give(resp.ProducerID)
		}
		if restart%2 == 0 {
			n.Kill()
		} else {
			n.PowerCut()
		}
		n.Restart(t)
	}
	if len(given) < 2000 {
		t.Errorf("%d producer ids", len(given))
	}
}

// TestFault27IndexFails: the disk fails when the abort is noted in the index, after the marker is written. No offset is
// given twice, and readers of committed records see nothing of the aborted transaction, then and after a restart (KAFKA-7866).
func TestFault27IndexFails(t *testing.T) {
	faults, hits := moldautest.Faults(t, "write *.txnindex error EIO")
	n := moldautest.Start(t, faults)
	createTopics(t, n, 1, "orders")
	p := coordinated(t, n, "t", "orders")
	must(t, p.init(5))
	code, _ := p.produce(12, 0, 0, "lost")
	must(t, code)
	must(t, p.end(5, false))
	for end := time.Now().Add(20 * time.Second); hits() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the index is never written")
		}
	}
	n.Kill()
	n.Restart(t)
	next := coordinated(t, n, "t", "orders")
	must(t, next.init(5))
	code, _ = next.produce(12, 0, 0, "kept")
	must(t, code)
	must(t, next.end(5, true))
	next.settled()
	if got := stable(t, n, "orders"); !slices.Equal(got, []string{"kept"}) {
		t.Error(got)
	}
	got := contents(t, n, "orders", 0)
	if want := []string{"lost", "abort", "kept", "commit"}; !slices.Equal(slices.Compact(got), want) {
		t.Error(got)
	}
	isStable(t, n, "orders", 0)
}

// TestFault28ReadersRace: readers of committed records beside writers that commit and abort are never given anything above
// the last stable offset, and nothing that is aborted (KAFKA-9807, KAFKA-9835).
func TestFault28ReadersRace(t *testing.T) {
	n := moldautest.Start(t)
	createTopics(t, n, 1, "orders")
	ctx, stop := context.WithTimeout(within(t), 1500*time.Millisecond)
	defer stop()
	var wait sync.WaitGroup
	var committed atomic.Int64
	for i := range 3 {
		p := coordinated(t, n, fmt.Sprint("id-", i), "orders")
		wait.Go(func() {
			must(t, p.init(5))
			for round := 0; ctx.Err() == nil; round++ {
				commit := round%2 == i%2
				value := "bad"
				if commit {
					value = "good"
				}
				for sequence := range int32(3) {
					if code, _ := p.produce(12, 0, sequence, value); code != kafka.None {
						t.Error(code)
						return
					}
				}
				if code := p.end(5, commit); code != kafka.None {
					t.Error(code)
					return
				}
				if commit {
					committed.Add(3)
				}
			}
		})
	}
	for range 2 {
		w := newWire(t, n)
		wait.Go(func() { readCommitted(ctx, w) })
	}
	wait.Wait()
	for i := range 3 {
		coordinated(t, n, fmt.Sprint("id-", i), "orders").settled()
	}
	got := stable(t, n, "orders")
	if len(got) != int(committed.Load()) || slices.Contains(got, "bad") {
		t.Errorf("%d records, %d committed; aborted ones: %t", len(got), committed.Load(), slices.Contains(got, "bad"))
	}
}

// readCommitted fetches over and over and checks each answer against its own last stable offset.
func readCommitted(ctx context.Context, w *wire) {
	at, lastStable := int64(0), int64(0)
	for ctx.Err() == nil {
		r := kmsg.NewPtrFetchRequest()
		r.Version, r.ReplicaID, r.MaxWaitMillis, r.MinBytes, r.MaxBytes, r.IsolationLevel, r.SessionEpoch = 12, -1, 5, 1, 1<<20, 1, -1
		x := kmsg.NewFetchRequestTopic()
		x.Topic = "orders"
		q := kmsg.NewFetchRequestTopicPartition()
		q.FetchOffset, q.PartitionMaxBytes, q.CurrentLeaderEpoch = at, 2000, -1
		x.Partitions = append(x.Partitions, q)
		r.Topics = append(r.Topics, x)
		got := w.send(r).(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if got.ErrorCode != 0 {
			w.t.Errorf("fetch: %v", kafka.Code(got.ErrorCode))
			return
		}
		if got.LastStableOffset > got.HighWatermark || got.LastStableOffset < lastStable {
			w.t.Errorf("last stable offset %d after %d, high watermark %d", got.LastStableOffset, lastStable, got.HighWatermark)
		}
		lastStable = got.LastStableOffset
		for b := got.RecordBatches; len(b) >= 61; {
			base, size := int64(binary.BigEndian.Uint64(b)), 12+int(binary.BigEndian.Uint32(b[8:]))
			last := base + int64(int32(binary.BigEndian.Uint32(b[23:])))
			if size > len(b) {
				break
			}
			if last >= got.LastStableOffset {
				w.t.Errorf("offset %d is answered with last stable offset %d", last, got.LastStableOffset)
			}
			at = last + 1
			producer, control := int64(binary.BigEndian.Uint64(b[43:])), b[22]&0x20 != 0
			if !control && strings.Contains(string(b[61:size]), "bad") && !slices.ContainsFunc(got.AbortedTransactions,
				func(a kmsg.FetchResponseTopicPartitionAbortedTransaction) bool {
					return a.ProducerID == producer && a.FirstOffset <= base
				}) {
				w.t.Errorf("offset %d is of an aborted transaction that is not listed", base)
			}
			b = b[size:]
		}
	}
}
