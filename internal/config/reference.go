package config

import (
	"fmt"
	"strings"
)

// part is one group of keys on the reference page.
type part struct {
	title string
	keys  []Key
}

// brokerParts groups the broker keys as the reference page shows them.
func brokerParts() []part {
	return []part{
		{"Moldau's own keys", moldauKeys},
		{"Identity, quorum, metadata, topics", nodeKeys},
		{"Listeners and connections", networkKeys},
		{"Logs, retention, compaction, replication", logKeys},
		{"Groups, offsets, transactions", groupBrokerKeys},
		{"Security and quotas", securityKeys},
		{"Metrics and remote storage", otherKeys},
	}
}

// referenceHead has ~ where Markdown wants a backquote.
const referenceHead = `# Configuration reference

<!-- Generated from the table in internal/config. Do not edit. -->

Names, types, defaults and allowed values are those of Apache Kafka 4.4; keys that begin with ~moldau.~ are our own. A
key is set, in rising precedence, in the file given by ~--config~ (a Kafka server.properties), in the environment
(~MOLDAU_LOG_DIRS~ for ~log.dirs~, ~MOLDAU_FLUSH~ for ~moldau.flush~) and by ~--set key=value~. What is not read-only
can be altered while the broker runs, with Kafka's tools or ~moldau config set~, and then goes before all of these: first
what is set for the broker, then what is set for all brokers. A topic's own setting goes before the broker's.
~moldau config explain KEY~ prints what stands here.

Where the default differs from Kafka's on purpose, Kafka's stands below it. *No effect* marks keys that are accepted
and have nothing to act on in Moldau; *not built* marks keys that stop the start when they ask for something that does
not exist yet. Keys that Kafka does not document are left out.

`

// Reference gives docs/reference/configs.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(referenceHead, "~", "`"))
	b.WriteString("## Topics\n\nSet on a topic; unset values come from the broker keys named in the table.\n\n")
	writeKeys(&b, topicKeys, true)
	b.WriteString("## Brokers and controllers\n\n")
	for _, p := range brokerParts() {
		fmt.Fprintf(&b, "### %s\n\n", p.title)
		writeKeys(&b, p.keys, false)
	}
	b.WriteString("## Groups\n\nSet on a group; unset values come from the broker keys named in the table.\n\n")
	writeKeys(&b, groupKeys, true)
	b.WriteString("## Client metrics\n\nSet on a subscription.\n\n")
	writeKeys(&b, clientMetricsKeys, true)
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func writeKeys(b *strings.Builder, keys []Key, resource bool) {
	third := "Changes"
	if resource {
		third = "Unset: from"
	}
	fmt.Fprintf(b, "| Key | Default | Allowed | %s | What it does |\n|---|---|---|---|---|\n", third)
	for i := range keys {
		k := &keys[i]
		if k.Internal {
			continue
		}
		column := k.Update.String()
		if resource {
			column = k.synonymText()
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", k.Name, cell(k.referenceDefault()), cell(k.Allowed()), column,
			cell(k.referenceDoc()))
	}
	b.WriteString("\n")
}

func (k *Key) referenceDefault() string {
	text := k.defaultText()
	if k.KafkaValue != "" {
		text += "<br>Kafka: " + k.KafkaValue
	} else if k.Adapt != nil && k.Adapt(1) != k.Default {
		text += "<br>Kafka: " + k.Default
	}
	return text
}

func (k *Key) referenceDoc() string {
	doc := k.Doc
	if k.Standing != Honoured {
		doc += fmt.Sprintf(" *%s: %s.*", capital(k.Standing.String()), k.Reason)
	}
	return doc
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// cell keeps a text from ending its table cell.
func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }
