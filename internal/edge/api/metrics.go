package api

import (
	"moldau/internal/kafka"
	"moldau/internal/storage/record"
	"moldau/internal/telemetry"
)

// Metrics are what handlers count. The zero value counts nothing.
type Metrics struct {
	Fetches, Produces telemetry.Waiting
	Sessions          telemetry.FetchSessions
	Logs              *telemetry.Logs
	Topics            *telemetry.Topics
	ReplicaBytes      telemetry.Counter // given to followers
}

// appended counts a batch that stands in a log now, or did already.
func (m *Metrics) appended(topic string, b record.Batch, duplicate bool) {
	switch {
	case m.Logs == nil:
		return
	case duplicate:
		m.Logs.Duplicates.Inc()
		return
	}
	records := int(b.Count())
	m.Logs.Records.Add(records)
	m.Logs.Batches.Inc()
	m.Logs.Bytes.Add(len(b))
	of := m.Topics.Of(topic)
	of.Records.Add(records)
	of.Bytes.Add(len(b))
}

// rewritten counts a batch that was not appended as its producer made it.
func (m *Metrics) rewritten() {
	if m.Logs != nil {
		m.Logs.Recompressed.Inc()
	}
}

// rejected counts a batch that was refused.
func (m *Metrics) rejected(err error) {
	if m.Logs == nil {
		return
	}
	code := kafka.CodeOf(err)
	m.Logs.Rejected(code)
	if code == kafka.PolicyViolation { // nothing else in an append gives it
		m.Logs.ProducerIDsRefused.Inc()
	}
}

// fetched counts the records that a consumer is sent.
func (m *Metrics) fetched(topic string, bytes int) {
	if m.Logs == nil || bytes == 0 {
		return
	}
	m.Logs.FetchedBytes.Add(bytes)
	m.Topics.Of(topic).FetchedBytes.Add(bytes)
}
