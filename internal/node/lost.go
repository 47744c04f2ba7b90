package node

import (
	"sync"

	"moldau/internal/kafka"
)

// lostReplicas are the partitions whose recovery ended below what was once durable or visible.
type lostReplicas struct {
	mu   sync.Mutex
	list []kafka.TopicPartition
}

func (l *lostReplicas) add(tp kafka.TopicPartition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, tp)
}
