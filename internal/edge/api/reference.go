package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/config"
	"moldau/internal/edge/server"
)

// referenceHead has ~ where Markdown wants a backquote.
const referenceHead = `# API reference

<!-- Generated from the table in internal/edge/api. Do not edit. -->

The requests of the Kafka protocol that a node answers, with the versions it accepts. What is not listed is not
advertised, and a request for it closes the connection. *Forwarded* requests may be sent to any broker: it passes them to
the active controller. The last column says what a caller must be allowed to do once an authorizer is configured; until
then everything is allowed.

ApiVersions advertises Produce from version 0 on, though versions 0 to 2 are refused: librdkafka chooses compression
codecs by that minimum (KAFKA-18659).

`

// Reference gives docs/reference/apis.md.
func Reference() (string, error) {
	table, err := server.NewTable(server.VersionInfo{}, (&Broker{Config: config.Defaults()}).Rows()...)
	if err != nil {
		return "", err
	}
	return referenceOf(slices.Collect(table.Rows())), nil
}

func referenceOf(rows []server.API) string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(referenceHead, "~", "`"))
	b.WriteString("| Key | API | Versions | Listener | Forwarded | Needs |\n|---:|---|---|---|---|---|\n")
	for _, r := range rows {
		forwarded, needs := "", r.Access
		if r.Forward {
			forwarded = "yes"
		}
		if needs == "" {
			needs = nothing.needs
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s |\n", r.Key, apiName(r.Key), versionRange(r), listenerNames(r.Listener),
			forwarded, needs)
	}
	return b.String()
}

// apiName is Kafka's name of an API.
func apiName(key int16) string {
	return strings.ReplaceAll(kmsg.NameForKey(key), "ProducerID", "ProducerId")
}

func versionRange(r server.API) string {
	if r.Min == r.Max {
		return fmt.Sprint(r.Min)
	}
	return fmt.Sprintf("%d-%d", r.Min, r.Max)
}

func listenerNames(k server.ListenerKind) string {
	switch k {
	case server.BrokerListener:
		return "broker"
	case server.ControllerListener:
		return "controller"
	}
	return "broker, controller"
}
