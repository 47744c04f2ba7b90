package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"moldau/internal/kafka"
)

// checkTopic judges a topic's keys and the rules between them. The rules between keys look at effective values.
func (r *Resolver) checkTopic(topic string, next Map, touched map[string]bool) error {
	if err := parseTouched(Topic, kafka.InvalidConfig, next, touched); err != nil {
		return err
	}
	if len(next) == 0 {
		return nil
	}
	b := brokerSettings{r, r.levels()}
	value := func(name string) Value {
		k, _ := Lookup(Topic, name)
		v, _ := b.resourceValue(k, next, FromTopic)
		return v
	}
	if low, high := value("min.compaction.lag.ms").Int64(), value("max.compaction.lag.ms").Int64(); low > high {
		return kafka.Errorf(kafka.InvalidConfig, "min.compaction.lag.ms (%d) is above max.compaction.lag.ms (%d)",
			low, high)
	}
	was := brokerSettings{r, nil}
	k, _ := Lookup(Topic, "remote.storage.enable")
	before, _ := was.resourceValue(k, r.stored(TopicResource, topic), FromTopic)
	return r.checkRemote(value, before.Bool())
}

// checkRemote holds the rules of tiered topics (KIP-405, KIP-950).
func (r *Resolver) checkRemote(value func(string) Value, before bool) error {
	if !value("remote.storage.enable").Bool() {
		if before && !value("remote.log.delete.on.disable").Bool() {
			return kafka.Errorf(kafka.InvalidConfig, "remote.storage.enable can be turned off only with "+
				"remote.log.delete.on.disable=true, which deletes what is there; to keep it set remote.log.copy.disable=true")
		}
		return nil
	}
	total, local := value("retention.bytes").Int64(), value("local.retention.bytes").Int64()
	totalMs, localMs := value("retention.ms").Int64(), value("local.retention.ms").Int64()
	switch {
	case !r.static.Bool("remote.log.storage.system.enable"):
		return kafka.Errorf(kafka.InvalidConfig,
			"remote.storage.enable needs remote.log.storage.system.enable=true on the brokers")
	case slices.Contains(value("cleanup.policy").List(), "compact"):
		return kafka.Errorf(kafka.InvalidConfig, "remote.storage.enable needs a cleanup.policy without compact")
	case total != -1 && (local > total || local == -1):
		return kafka.Errorf(kafka.InvalidConfig, "local.retention.bytes (%d) is above retention.bytes (%d)", local, total)
	case totalMs != -1 && (localMs > totalMs || localMs == -1):
		return kafka.Errorf(kafka.InvalidConfig, "local.retention.ms (%d) is above retention.ms (%d)", localMs, totalMs)
	}
	return nil
}

// bareSecurityKeys may be altered only behind a listener prefix (KIP-226).
var bareSecurityKeys = []string{"ssl.key.password", "ssl.keystore.certificate.chain", "ssl.keystore.key",
	"ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type", "ssl.truststore.certificates",
	"ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type"}

// checkBroker judges the dynamic keys of one broker (name) or of all ("").
func (r *Resolver) checkBroker(name string, next Map, touched map[string]bool) error {
	var fixed, perBroker []string
	for _, n := range slices.Sorted(maps.Keys(touched)) {
		k, ok := Lookup(Broker, n)
		switch {
		case !ok:
		case slices.Contains(bareSecurityKeys, n):
			return kafka.Errorf(kafka.InvalidRequest,
				"%s can be altered only for a listener: listener.name.<listener>.%s", n, n)
		case k.Update == ReadOnly:
			fixed = append(fixed, n)
		case k.Update == PerBroker && name == "":
			perBroker = append(perBroker, n)
		}
	}
	if len(fixed) > 0 {
		return kafka.Errorf(kafka.InvalidRequest,
			"%s cannot be altered while the broker runs; set it in its configuration and restart", strings.Join(fixed, ", "))
	}
	if len(perBroker) > 0 {
		return kafka.Errorf(kafka.InvalidRequest, "%s can be altered only for one broker; name it",
			strings.Join(perBroker, ", "))
	}
	b := brokerSettings{r, r.levels()}
	for _, n := range slices.Sorted(maps.Keys(touched)) {
		if err := b.checkBrokerKey(n, next[n]); err != nil {
			return err
		}
	}
	return b.checkBrokerRelations(next, touched)
}

// checkBrokerKey judges one dynamic value. A key outside the table is allowed: it may belong to something that
// reads it by itself.
func (b brokerSettings) checkBrokerKey(name, raw string) error {
	k, ok := lookupBroker(name)
	if !ok {
		return nil
	}
	v, err := k.Parse(raw)
	if err != nil {
		return coded(kafka.InvalidRequest, err)
	}
	if l, ok := k.Rule.(listRule); ok && !l.keepRepeats && len(splitList(raw)) != len(v.list) {
		return kafka.Errorf(kafka.InvalidRequest, "%s: an entry stands there twice", name)
	}
	if k.Standing == Refused && v.Text() != k.defaultValue().Text() {
		return kafka.Errorf(kafka.InvalidRequest, "%s: %s yet", name, k.Reason)
	}
	if k.Throttled && name == k.Name {
		if now, _ := b.value(name); v.number > 2*now.number || v.number < now.number/2 {
			return kafka.Errorf(kafka.InvalidRequest, "%s: %d is more than double or less than half of the present %d; "+
				"change it in steps", name, v.number, now.number)
		}
	}
	switch name {
	case "log.retention.ms":
		if v.number == 0 {
			return kafka.Errorf(kafka.InvalidRequest,
				"%s: 0 would delete everything; allowed: -1 (no limit) or at least 1", name)
		}
	case "cordoned.log.dirs":
		for _, dir := range v.list {
			if dir != "*" && !slices.Contains(b.r.static.node.LogDirs, dir) {
				return kafka.Errorf(kafka.InvalidRequest, "%s: %s is not one of log.dirs", name, dir)
			}
		}
	}
	return nil
}

// checkBrokerRelations judges the rules between keys of which one is touched. Compaction lags are left out: Kafka
// judges those on topics only.
func (b brokerSettings) checkBrokerRelations(next Map, touched map[string]bool) error {
	get := func(name string) int64 {
		if raw, ok := next[name]; ok {
			if v, err := mustLookup(name).Parse(raw); err == nil {
				return v.Int64()
			}
		}
		v, _ := b.value(name)
		return v.Int64()
	}
	for _, r := range relations {
		if !touched[r.first] && !touched[r.second] || r.first == "log.cleaner.min.compaction.lag.ms" {
			continue
		}
		if why := r.violated(get); why != "" {
			return kafka.Errorf(kafka.InvalidRequest, "%s: %s", r.first, why)
		}
	}
	return nil
}

func mustLookup(name string) *Key {
	k, _ := Lookup(Broker, name)
	return k
}

// groupBounds gives the bounds the broker sets for a group's key (KIP-1240). get gives the value of a broker key.
func groupBounds(name string, get func(string) int64) (low, high int64, ok bool) {
	protocol, rest, found := strings.Cut(name, ".")
	if !found {
		return 0, 0, false
	}
	lowKey, highKey := "group."+protocol+".min."+rest, "group."+protocol+".max."+rest
	switch name {
	case "streams.num.standby.replicas", "streams.num.warmup.replicas":
		return 0, get("group.streams.max." + strings.TrimPrefix(rest, "num.")), true
	case "streams.task.offset.interval.ms":
		return get(lowKey), 1<<31 - 1, true
	}
	if _, ok := Lookup(Broker, lowKey); !ok {
		return 0, 0, false
	}
	return get(lowKey), get(highKey), true
}

// checkGroup judges a group's keys and their bounds.
func (r *Resolver) checkGroup(next Map, touched map[string]bool) error {
	if err := parseTouched(Group, kafka.InvalidConfig, next, touched); err != nil {
		return err
	}
	b := brokerSettings{r, r.levels()}
	get := func(name string) int64 { v, _ := b.value(name); return v.Int64() }
	for _, name := range slices.Sorted(maps.Keys(touched)) {
		k, _ := Lookup(Group, name)
		v, _ := k.Parse(next[name])
		if low, high, ok := groupBounds(name, get); ok && (v.number < low || v.number > high) {
			return kafka.Errorf(kafka.InvalidConfig, "%s: %d is outside what the broker allows: from %d to %d", name,
				v.number, low, high)
		}
		if why := b.judgeGroupText(name, v.Text()); why != "" {
			return kafka.Errorf(kafka.InvalidConfig, "%s: %s", name, why)
		}
	}
	for _, protocol := range []string{"consumer.", "share.", "streams."} {
		sessionKey, heartbeatKey := protocol+"session.timeout.ms", protocol+"heartbeat.interval.ms"
		session, heartbeat := groupNumber(b, next, sessionKey), groupNumber(b, next, heartbeatKey)
		if (touched[sessionKey] || touched[heartbeatKey]) && session <= heartbeat {
			return kafka.Errorf(kafka.InvalidConfig, "%s (%d) must be above %s (%d)", sessionKey, session, heartbeatKey,
				heartbeat)
		}
	}
	return nil
}

func groupNumber(b brokerSettings, next Map, name string) int64 {
	k, _ := Lookup(Group, name)
	v, _ := b.resourceValue(k, next, FromGroup)
	return v.Int64()
}

func (b brokerSettings) judgeGroupText(name, text string) string {
	switch name {
	case "streams.assignor.name":
		if known, _ := b.value("group.streams.assignors"); !slices.Contains(known.List(), text) {
			return fmt.Sprintf("%q is not one of group.streams.assignors (%s)", text, known.Text())
		}
	case "errors.deadletterqueue.topic.name":
		if strings.HasPrefix(text, "__") {
			return "the name must not begin with __, which internal topics do"
		}
	}
	return ""
}

// matchAttributes are what a client-metrics subscription may match (KIP-714).
var matchAttributes = []string{"client_instance_id", "client_id", "client_software_name", "client_software_version",
	"client_source_address", "client_source_port"}

// checkClientMetrics judges a subscription. Kafka answers INVALID_REQUEST to a wrong key or interval and
// INVALID_CONFIG to a wrong pattern.
func checkClientMetrics(next Map, touched map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(touched)) {
		k, ok := Lookup(ClientMetrics, name)
		if !ok {
			return unknownKey(kafka.InvalidRequest, ClientMetrics, name)
		}
		v, err := k.Parse(next[name])
		if err != nil {
			return coded(kafka.InvalidRequest, err)
		}
		switch {
		case name == "interval.ms" && (v.number < 100 || v.number > 3600000):
			return kafka.Errorf(kafka.InvalidRequest, "interval.ms: %d is outside what is allowed: from 100 to 3600000",
				v.number)
		case name == "match":
			for _, pattern := range v.list {
				attribute, expression, ok := strings.Cut(pattern, "=")
				if _, err := regexp.Compile(trim(expression)); !ok || err != nil || strings.Contains(expression, "=") ||
					!slices.Contains(matchAttributes, trim(attribute)) {
					return kafka.Errorf(kafka.InvalidConfig, "match: %q is not attribute=pattern; attributes: %s", pattern,
						strings.Join(matchAttributes, ", "))
				}
			}
		}
	}
	return nil
}
