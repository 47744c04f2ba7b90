package config

import "slices"

// Nearest gives the key of a scope whose name is closest to a mistyped one, or "" when none is close: at most a
// fifth of the name, and never more than four characters, may differ.
func Nearest(scope Scope, name string) string {
	best, bestDistance := "", min(4, max(1, len(name)/5))+1
	for _, k := range Keys(scope) {
		if k.Internal || abs(len(k.Name)-len(name)) >= bestDistance {
			continue
		}
		if d := distance(name, k.Name); d < bestDistance {
			best, bestDistance = k.Name, d
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }

// distance counts insertions, deletions, changes and swaps of neighbours (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// removedKeys are known to readers of older documentation; the text says what to do.
var removedKeys = map[string]string{
	"zookeeper.connect":                       "Kafka 4 and Moldau have no ZooKeeper; remove it",
	"zookeeper.connection.timeout.ms":         "Kafka 4 and Moldau have no ZooKeeper; remove it",
	"zookeeper.session.timeout.ms":            "Kafka 4 and Moldau have no ZooKeeper; remove it",
	"zookeeper.set.acl":                       "Kafka 4 and Moldau have no ZooKeeper; remove it",
	"inter.broker.protocol.version":           "Kafka 4 replaced it by the feature metadata.version; remove it",
	"log.message.format.version":              "removed in Kafka 4; remove it",
	"message.format.version":                  "removed in Kafka 4; remove it",
	"log.message.downconversion.enable":       "removed in Kafka 4; remove it",
	"log.message.timestamp.difference.max.ms": "use log.message.timestamp.{before,after}.max.ms",
	"control.plane.listener.name":             "removed in Kafka 4; use controller.listener.names",
	"broker.id.generation.enable":             "removed in Kafka 4; set node.id",
	"reserved.broker.max.id":                  "removed in Kafka 4; remove it",
	"auto.include.jmx.reporter":               "removed in Kafka 4; remove it",
	"group.coordinator.new.enable":            "removed in Kafka 4; remove it",
	"delegation.token.master.key":             "use delegation.token.secret.key",
	"host.name":                               "use listeners",
	"port":                                    "use listeners",
	"advertised.host.name":                    "use advertised.listeners",
	"advertised.port":                         "use advertised.listeners",
	"quota.producer.default":                  "removed in Kafka 4; quotas are set at run time",
	"quota.consumer.default":                  "removed in Kafka 4; quotas are set at run time",
	"password.encoder.secret":                 "removed in Kafka 4; remove it",
	"bootstrap.servers":                       "this is a client's key; see controller.quorum.bootstrap.servers",
}

// Hint says what to do about a broker key that is not in the table, or "".
func Hint(name string) string {
	if text, ok := removedKeys[name]; ok {
		return text
	}
	if k, ok := Lookup(Topic, name); ok {
		if len(k.Synonyms) > 0 {
			return "that is a topic's key; the broker's is " + k.Synonyms[0].Name
		}
		return "that is a topic's key"
	}
	if near := Nearest(Broker, name); near != "" {
		return "did you mean " + near + "?"
	}
	return ""
}

// sortedUnion merges names, sorted, each once.
func sortedUnion(lists ...[]string) []string {
	out := slices.Concat(lists...)
	slices.Sort(out)
	return slices.Compact(out)
}
