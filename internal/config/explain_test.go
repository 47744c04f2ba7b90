package config

import (
	"strings"
	"testing"

	"moldau/internal/kafka"
)

func TestExplain(t *testing.T) {
	keys, err := Find("retention.ms")
	if err != nil || len(keys) != 1 || keys[0].Scope != Topic {
		t.Fatal(keys, err)
	}
	text := ""
	for _, f := range keys[0].Facts() {
		text += f.Label + ": " + f.Text + "\n"
	}
	want := `key: retention.ms (topic)
does: Age above which segments are deleted (ms); -1 means no limit by age.
type: long
default: 604800000 (7 d)
allowed: a whole number (64 bit), at least -1
changes: at any time
unset: the value comes from log.retention.ms, log.retention.minutes (minutes), log.retention.hours (hours), then from the default
`
	if text != want {
		t.Errorf("got\n%s", text)
	}
	s := mustLoad(t, "num.partitions=3")
	k, _ := Lookup(Broker, "num.partitions")
	facts := s.Facts(k)
	if last := facts[len(facts)-1]; last != (Fact{"set", "3 at --set"}) {
		t.Error(last)
	}
	if both, _ := Find("min.insync.replicas"); len(both) != 2 {
		t.Errorf("min.insync.replicas is a topic's and a broker's: %d", len(both))
	}
	if l, err := Find("listener.name.plaintext.max.connections"); err != nil || l[0].Name != "max.connections" {
		t.Error(l, err)
	}
	_, err = Find("retention.mss")
	if kafka.CodeOf(err) != kafka.InvalidConfig || !strings.Contains(kafka.MessageOf(err),
		"did you mean retention.ms") {
		t.Error(err)
	}
}

func TestReferenceHasEveryKey(t *testing.T) {
	text := Reference()
	for _, scope := range []Scope{Topic, Broker, Group, ClientMetrics} {
		for _, k := range Keys(scope) {
			if has := strings.Contains(text, "| `"+k.Name+"` |"); has == k.Internal {
				t.Errorf("%s %s is not in the reference", scope, k.Name)
			}
		}
	}
}
