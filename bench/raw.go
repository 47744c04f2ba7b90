package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// wire is one plain connection.
type wire struct {
	net.Conn
	out []byte
	in  []byte
}

func dial(address string) (*wire, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: c}, nil
}

func (w *wire) send(correlation int32, r kmsg.Request) error {
	w.out = kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")).AppendRequest(w.out[:0], r, correlation)
	_, err := w.Write(w.out)
	return err
}

// receive reads one response without its length.
func (w *wire) receive() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(w, size[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(size[:]))
	if cap(w.in) < n {
		w.in = make([]byte, n)
	}
	_, err := io.ReadFull(w, w.in[:n])
	return w.in[:n], err
}

// batch builds one record batch of about size bytes, with values of so many bytes.
func batch(size, value int) []byte {
	now := time.Now().UnixMilli()
	var records []byte
	count := int32(0)
	for 61+len(records)+value+20 <= size || count == 0 {
		var body []byte
		body = append(body, 0)
		body = binary.AppendVarint(body, 0)
		body = binary.AppendVarint(body, int64(count))
		body = binary.AppendVarint(body, -1)
		body = binary.AppendVarint(body, int64(value))
		body = append(body, make([]byte, value)...)
		body = binary.AppendVarint(body, 0)
		records = binary.AppendVarint(records, int64(len(body)))
		records = append(records, body...)
		count++
	}
	b := make([]byte, 61, 61+len(records))
	b = append(b, records...)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	b[16] = 2
	binary.BigEndian.PutUint32(b[23:], uint32(count-1))
	binary.BigEndian.PutUint64(b[27:], uint64(now))
	binary.BigEndian.PutUint64(b[35:], uint64(now))
	for _, at := range []int{43, 51, 53} {
		for i := at; i < at+map[int]int{43: 8, 51: 2, 53: 4}[at]; i++ {
			b[i] = 0xff
		}
	}
	binary.BigEndian.PutUint32(b[57:], uint32(count))
	sum(b)
	return b
}

// sum stamps the checksum of a batch.
func sum(b []byte) {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
}

func rawProduce(o options) (map[string]any, error) {
	if err := makeTopic(o); err != nil {
		return nil, err
	}
	lanes, err := lanesTo(o)
	if err != nil {
		return nil, err
	}
	payload := batch(o.batch, 1024)
	total := o.mib << 20 / len(payload)
	before := measure(o.pids)
	err = each(len(lanes), func(n int) error { return produceOn(o, lanes[n], payload, total/len(lanes)) })
	return report(before, o, int64(total)*int64(len(payload)), total), err
}

// each runs f on so many goroutines and gives their errors.
func each(n int, f func(int) error) error {
	errs := make([]error, n)
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { errs[i] = f(i) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

func produceOn(o options, l lane, payload []byte, count int) error {
	w, err := dial(l.address)
	if err != nil {
		return err
	}
	defer w.Close()
	tokens, failed := make(chan struct{}, o.depth), make(chan error, 1)
	go func() {
		for range count {
			raw, err := w.receive()
			if err == nil {
				err = produced(raw)
			}
			if err != nil {
				failed <- err
				return
			}
			<-tokens
		}
		failed <- nil
	}()
	for i := range count {
		select {
		case tokens <- struct{}{}:
		case err := <-failed:
			return err
		}
		r := kmsg.NewPtrProduceRequest()
		r.SetVersion(9)
		r.Acks, r.TimeoutMillis = -1, 30_000
		t := kmsg.NewProduceRequestTopic()
		t.Topic = o.topic
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = l.partitions[i%len(l.partitions)], payload
		t.Partitions = append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
		if err := w.send(int32(i), r); err != nil {
			return err
		}
	}
	return <-failed
}

func produced(raw []byte) error {
	r := kmsg.NewPtrProduceResponse()
	r.SetVersion(9)
	if err := r.ReadFrom(raw[5:]); err != nil {
		return err
	}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

// rawFetch fills the topic, then reads it from all connections, each its own partitions, again and again.
func rawFetch(o options) (map[string]any, error) {
	filled := o
	filled.mib = min(o.mib, 512)
	if _, err := rawProduce(filled); err != nil {
		return nil, err
	}
	lanes, err := lanesTo(o)
	if err != nil {
		return nil, err
	}
	want := int64(o.mib) << 20 / int64(len(lanes))
	var mu sync.Mutex
	var bytes int64
	requests := 0
	before := measure(o.pids)
	err = each(len(lanes), func(n int) error {
		got, count, err := fetchOn(o, lanes[n], want)
		mu.Lock()
		defer mu.Unlock()
		bytes, requests = bytes+got, requests+count
		return err
	})
	return report(before, o, bytes, requests), err
}

func fetchOn(o options, l lane, want int64) (got int64, count int, err error) {
	w, err := dial(l.address)
	if err != nil {
		return 0, 0, err
	}
	defer w.Close()
	offsets := map[int32]int64{}
	for got < want {
		for _, p := range l.partitions {
			records, err := fetchOnce(w, o, p, offsets[p], int32(count))
			if err != nil {
				return got, count, err
			}
			count++
			got += int64(len(records))
			offsets[p] = after(records, offsets[p])
		}
	}
	return got, count, nil
}

func fetchOnce(w *wire, o options, p int32, offset int64, correlation int32) ([]byte, error) {
	r := kmsg.NewPtrFetchRequest()
	r.SetVersion(11)
	r.ReplicaID, r.MaxWaitMillis, r.MinBytes, r.MaxBytes, r.SessionEpoch = -1, 100, 1, int32(o.answer), -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = o.topic
	x := kmsg.NewFetchRequestTopicPartition()
	x.Partition, x.FetchOffset, x.PartitionMaxBytes, x.CurrentLeaderEpoch = p, offset, int32(o.answer), -1
	t.Partitions = append(t.Partitions, x)
	r.Topics = append(r.Topics, t)
	if err := w.send(correlation, r); err != nil {
		return nil, err
	}
	raw, err := w.receive()
	if err != nil {
		return nil, err
	}
	resp := kmsg.NewPtrFetchResponse()
	resp.SetVersion(11)
	if err := resp.UnsafeReadFrom(raw[4:]); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("fetch answered %d topics", len(resp.Topics))
	}
	answer := resp.Topics[0].Partitions[0]
	return answer.RecordBatches, kerr.ErrorForCode(answer.ErrorCode)
}

// after gives the offset behind the last whole batch; at the end of the partition it begins again.
func after(records []byte, offset int64) int64 {
	if len(records) == 0 {
		return 0
	}
	for len(records) >= 61 {
		size := 12 + int(binary.BigEndian.Uint32(records[8:]))
		if size > len(records) {
			break
		}
		offset = int64(binary.BigEndian.Uint64(records)) + int64(binary.BigEndian.Uint32(records[23:])) + 1
		records = records[size:]
	}
	return offset
}
