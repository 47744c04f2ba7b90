package node

import (
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/coordinator"
	"moldau/internal/coordinator/txn"
	"moldau/internal/edge/api"
	"moldau/internal/kafka"
)

// transactional makes o the options of the transaction coordinators.
func (c *coordinators) transactional(o *coordinator.Options) {
	n := c.n
	ms := func(key string) time.Duration { return time.Duration(n.config.Int64(key)) * time.Millisecond }
	machine := txn.Options{
		MaxTimeout:       ms("transaction.max.timeout.ms"),
		Expiration:       ms("transactional.id.expiration.ms"),
		ExpirationCheck:  ms("transaction.remove.expired.transaction.cleanup.interval.ms"),
		ParkTime:         ms("moldau.transaction.wait.ms"),
		OffsetsPartition: c.offsetsPartition,
	}
	timeout := ms("request.timeout.ms")
	o.Topic = kafka.TransactionsTopic
	o.NewMachine = func(_ int32, image *metadata.Image) coordinator.Machine { return txn.New(machine, image) }
	o.CommitTimeout = func() time.Duration { return timeout }
	o.LoadBytes = n.config.Int("transaction.state.log.load.buffer.size")
	o.Work = c.work
}

// offsetsPartition gives the partition of __consumer_offsets that a group's offsets go to.
func (c *coordinators) offsetsPartition(_ *metadata.Image, group string) (kafka.TopicPartition, bool) {
	partition, ok := c.groups.PartitionFor(group)
	return kafka.TopicPartition{Topic: kafka.OffsetsTopic, Partition: partition}, ok
}

// work does what transaction coordinators ask for.
func (c *coordinators) work(w coordinator.Work, _ coordinator.ShardID, alive func() bool, done func(coordinator.Event)) {
	switch w := w.(type) {
	case txn.DrawProducerID:
		c.n.producers.draw().OnDone(func(r api.ProducerIDReply) { done(w.Drawn(r.ID, r.Err)) })
	case txn.WriteMarkers:
		c.markers.add(newMarking(c.markers, w, alive, done))
	}
}
