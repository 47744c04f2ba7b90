package main

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// producers writes one idempotent batch with each of count producer ids, in requests with a batch for every partition,
// and tells what memory the broker's process took for an id: all of it, not only the producer's state.
func producers(o options) (map[string]any, error) {
	if err := makeTopic(o); err != nil {
		return nil, err
	}
	empty := residentMiB(o.pids)
	before := measure(o.pids)
	err := each(o.connections, func(n int) error { return produceAs(o, n) })
	out := report(before, o, 0, o.count)
	delete(out, "mb_s")
	delete(out, "cpu_s_per_gb")
	out["rss_mib_before"] = round(empty)
	out["bytes_an_id"] = round((residentMiB(o.pids) - empty) * (1 << 20) / float64(o.count))
	return out, err
}

// produceAs is what one connection does of it: every so many-th id.
func produceAs(o options, n int) error {
	w, err := dial(o.brokers[0])
	if err != nil {
		return err
	}
	defer w.Close()
	payload := batch(0, 100)
	batches := make([][]byte, o.partitions)
	for i := range batches {
		batches[i] = append([]byte(nil), payload...)
	}
	for id := n; id < o.count; {
		r := kmsg.NewPtrProduceRequest()
		r.SetVersion(9)
		r.Acks, r.TimeoutMillis = -1, 30_000
		t := kmsg.NewProduceRequestTopic()
		t.Topic = o.topic
		for i := 0; i < o.partitions && id < o.count; i++ {
			stamp(batches[i], int64(id))
			p := kmsg.NewProduceRequestTopicPartition()
			p.Partition, p.Records = int32(i), batches[i]
			t.Partitions = append(t.Partitions, p)
			id += o.connections
		}
		r.Topics = append(r.Topics, t)
		if err := w.send(int32(id), r); err != nil {
			return err
		}
		raw, err := w.receive()
		if err != nil {
			return err
		}
		if err := produced(raw); err != nil {
			return err
		}
	}
	return nil
}

// stamp makes a batch the first one of a producer.
func stamp(b []byte, id int64) {
	const producerID, epoch, sequence = 43, 51, 53
	binary.BigEndian.PutUint64(b[producerID:], uint64(id))
	binary.BigEndian.PutUint16(b[epoch:], 0)
	binary.BigEndian.PutUint32(b[sequence:], 0)
	sum(b)
}
