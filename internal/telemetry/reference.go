package telemetry

import (
	"fmt"
	"strings"
)

// referenceHead has ~ where Markdown wants a backquote.
const referenceHead = `# Metrics reference

<!-- Generated from the table in internal/telemetry. Do not edit. -->

Served in Prometheus' text format at ~/metrics~ of ~moldau.admin.listener~. The last column names the MBean of Apache
Kafka that says the same, for those who move a dashboard. ~go_*~ and ~process_*~ of the Prometheus client library are
served too. A metric appears when its part of the node has started.

`

// tableHead begins the table of a section.
const tableHead = "| Metric | Kind | Labels | What it says | In Apache Kafka |\n|---|---|---|---|---|\n"

// Reference gives docs/reference/metrics.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(referenceHead, "~", "`"))
	for _, s := range table {
		fmt.Fprintf(&b, "## %s\n\n%s", s.title, tableHead)
		for _, r := range s.rows {
			kafkaName := ""
			if r.Kafka != "" {
				kafkaName = "`" + r.Kafka + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.Name, r.Kind, strings.Join(r.Labels, ", "), r.Help,
				kafkaName)
		}
		b.WriteString("\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// Rows lists the table.
func Rows() []Row {
	var out []Row
	for _, s := range table {
		out = append(out, s.rows...)
	}
	return out
}
