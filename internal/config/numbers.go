package config

import "fmt"

// relation is a rule between two numeric broker keys: first <= second.
type relation struct{ first, second string }

// relations are Kafka's rules between keys.
var relations = []relation{
	{"replica.fetch.wait.max.ms", "replica.lag.time.max.ms"},
	{"log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"},
	{"group.min.session.timeout.ms", "group.max.session.timeout.ms"},
	{"group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"},
	{"group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"},
	{"group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"},
	{"group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"},
	{"group.consumer.min.assignment.interval.ms", "group.consumer.assignment.interval.ms"},
	{"group.consumer.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"},
	{"group.share.min.session.timeout.ms", "group.share.session.timeout.ms"},
	{"group.share.session.timeout.ms", "group.share.max.session.timeout.ms"},
	{"group.share.min.heartbeat.interval.ms", "group.share.heartbeat.interval.ms"},
	{"group.share.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"},
	{"group.share.min.assignment.interval.ms", "group.share.assignment.interval.ms"},
	{"group.share.assignment.interval.ms", "group.share.max.assignment.interval.ms"},
	{"group.share.min.record.lock.duration.ms", "group.share.record.lock.duration.ms"},
	{"group.share.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"},
	{"group.share.min.delivery.count.limit", "group.share.delivery.count.limit"},
	{"group.share.delivery.count.limit", "group.share.max.delivery.count.limit"},
	{"group.share.min.partition.max.record.locks", "group.share.partition.max.record.locks"},
	{"group.share.partition.max.record.locks", "group.share.max.partition.max.record.locks"},
	{"group.streams.min.session.timeout.ms", "group.streams.session.timeout.ms"},
	{"group.streams.session.timeout.ms", "group.streams.max.session.timeout.ms"},
	{"group.streams.min.heartbeat.interval.ms", "group.streams.heartbeat.interval.ms"},
	{"group.streams.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"},
	{"group.streams.min.assignment.interval.ms", "group.streams.assignment.interval.ms"},
	{"group.streams.assignment.interval.ms", "group.streams.max.assignment.interval.ms"},
	{"group.streams.num.standby.replicas", "group.streams.max.standby.replicas"},
	{"group.streams.num.warmup.replicas", "group.streams.max.warmup.replicas"},
	{"group.streams.min.task.offset.interval.ms", "group.streams.task.offset.interval.ms"},
}

// violated gives the reason against a relation, or "". get gives the value of a key.
func (r relation) violated(get func(string) int64) string {
	if a, b := get(r.first), get(r.second); a > b {
		return fmt.Sprintf("%d is above %s (%d)", a, r.second, b)
	}
	return ""
}

// judgeNumbers checks the relations and the few rules that are none.
func (s *Static) judgeNumbers() []error {
	var problems []error
	for _, r := range relations {
		if why := r.violated(s.Int64); why != "" {
			problems = append(problems, s.wrong(r.settled(s), "%s", s.reword(r, why)))
		}
	}
	if b := s.Int64("queued.max.request.bytes"); b > 0 && b < s.Int64("socket.request.max.bytes") {
		problems = append(problems, s.wrong("queued.max.request.bytes", "%d is below socket.request.max.bytes (%d)",
			b, s.Int64("socket.request.max.bytes")))
	}
	if ms := s.Int64("log.retention.ms"); ms == 0 {
		set := s.firstSet("log.retention.ms", "log.retention.minutes", "log.retention.hours")
		problems = append(problems, s.wrong(set, "0 would delete everything; allowed: -1 (no limit) or at least 1"))
	}
	if s.Int64("max.connections.per.ip") == 0 && s.Text("max.connections.per.ip.overrides") == "" {
		problems = append(problems, s.wrong("max.connections.per.ip",
			"0 lets nobody connect unless max.connections.per.ip.overrides names somebody"))
	}
	for _, topic := range []string{"offsets.topic", "share.coordinator.state.topic"} {
		key := topic + ".compression.codec"
		if c := s.Int64(key); c < 0 || c > 4 {
			problems = append(problems, s.wrong(key, "%d is no codec; allowed: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd", c))
		}
	}
	if s.IsSet("broker.session.timeout.ms") && s.IsSet("broker.heartbeat.interval.ms") &&
		s.Int64("broker.heartbeat.interval.ms") >= s.Int64("broker.session.timeout.ms") {
		problems = append(problems, s.wrong("broker.heartbeat.interval.ms",
			"%d is not below broker.session.timeout.ms (%d)",
			s.Int64("broker.heartbeat.interval.ms"), s.Int64("broker.session.timeout.ms")))
	}
	return problems
}

// settled names the key of a relation that somebody set, to blame it rather than a default.
func (r relation) settled(s *Static) string { return s.firstSet(r.first, r.second) }

// reword turns the reason around when the second key is blamed.
func (s *Static) reword(r relation, why string) string {
	if r.settled(s) == r.second {
		return fmt.Sprintf("%d is below %s (%d)", s.Int64(r.second), r.first, s.Int64(r.first))
	}
	return why
}

func (s *Static) firstSet(keys ...string) string {
	for _, k := range keys {
		if s.IsSet(k) {
			return k
		}
	}
	return keys[0]
}
