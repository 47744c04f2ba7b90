package cluster

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// show makes an answer one line, with what a cluster may choose freely replaced by names. Fields that are empty, zero ids
// and NONE are left out.
func (s *script) show(resp kmsg.Response, err error) string {
	if resp == nil && err != nil {
		return err.Error()
	}
	if err != nil {
		return "not to be read: " + err.Error()
	}
	encoded, err := json.Marshal(resp)
	if err != nil {
		return err.Error()
	}
	var v any
	d := json.NewDecoder(strings.NewReader(string(encoded)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return err.Error()
	}
	return line(s.mask("", v))
}

func line(v any) string {
	if v == nil {
		return "{}"
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// unsaid fields say nothing about behaviour or differ by machine.
var unsaid = []string{"UnknownTags", "ThrottleMillis", "Version", "Host", "ErrorMessage", "Rack", "FinalizedFeaturesEpoch",
	"LastUpdateTimestamp", "AuthorizedOperations"}

// progress are offsets of the metadata log and times, of which only the absence is told.
var progress = []string{"LastFetchTimestamp", "LastCaughtUpTimestamp", "BrokerEpoch"}

// later is by how much later epochs are later.
const later = 5

func (s *script) mask(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		return s.maskFields(v)
	case []any:
		return s.maskList(key, v)
	case json.Number:
		return s.maskNumber(key, v)
	case string:
		switch {
		case key == "RecordBatches":
			b, _ := base64.StdEncoding.DecodeString(v)
			return fmt.Sprintf("%d bytes", len(b))
		case v != "" && v == s.clusterID:
			return "the cluster"
		}
	}
	if v == "" || v == false {
		return nil
	}
	return v
}

func (s *script) maskFields(v map[string]any) any {
	out := map[string]any{}
	for k, e := range v {
		if slices.Contains(unsaid, k) || s.quorum && k == "LogStartOffset" {
			continue
		}
		if m := s.mask(k, e); m != nil {
			out[k] = m
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// maskList names ids, and sorts what has no order.
func (s *script) maskList(key string, v []any) any {
	if len(v) == 16 && (strings.Contains(key, "ID") || strings.Contains(key, "Dir")) {
		return s.maskID(v)
	}
	var out []any
	for _, e := range v {
		if isOwn(e) || isPlaced(e) {
			continue
		}
		if m := s.mask(key, e); m != nil {
			out = append(out, m)
		} else {
			out = append(out, "{}")
		}
	}
	if len(out) == 0 {
		return nil
	}
	if key != "Replicas" {
		slices.SortStableFunc(out, func(a, b any) int { return cmp.Compare(line(a), line(b)) })
	}
	return out
}

// isOwn tells settings that only Moldau has.
func isOwn(v any) bool {
	m, ok := v.(map[string]any)
	name, _ := m["Name"].(string)
	return ok && strings.HasPrefix(name, "moldau.")
}

// isPlaced tells internal topics, which the cluster places as it likes.
func isPlaced(v any) bool {
	m, ok := v.(map[string]any)
	name, _ := m["Topic"].(string)
	return ok && (name == "__consumer_offsets" || name == "__transaction_state")
}

func (s *script) maskID(v []any) any {
	var id [16]byte
	for i, e := range v {
		if n, ok := e.(json.Number); ok {
			b, _ := n.Int64()
			id[i] = byte(b)
		}
	}
	if id == ([16]byte{}) {
		return nil
	}
	if name, ok := s.names[id]; ok {
		return name
	}
	return "an id"
}

func (s *script) maskNumber(key string, v json.Number) any {
	n, err := v.Int64()
	if err != nil {
		return v
	}
	switch {
	case strings.HasSuffix(key, "ErrorCode"):
		if n == 0 {
			return nil
		}
		if e := kerr.TypedErrorForCode(int16(n)); e != nil {
			return e.Message
		}
	case key == "ControllerID" && n > 0:
		return "a node" // for clients any broker
	case key == "SessionID" && n > 0:
		return "a session"
	case key == "Port":
		return s.port(n)
	case slices.Contains(progress, key) && n >= 0:
		return "known"
	case s.quorum && (key == "HighWatermark" || key == "LogEndOffset" || key == "LogStartOffset") && n > 0:
		return "known"
	case s.quorum && (key == "LeaderEpoch" || key == "Epoch") && n == int64(s.epoch) && n > 0:
		return "the epoch"
	case s.quorum && key == "LeaderEpoch" && n == int64(s.epoch)+later:
		return "the later epoch"
	}
	return n
}

func (s *script) port(n int64) any {
	for id, p := range s.c.ports {
		switch n {
		case int64(p):
			return fmt.Sprint("node ", id)
		case int64(p + controllerStep):
			return fmt.Sprint("controller ", id)
		}
	}
	if n == 0 {
		return nil
	}
	return "a port"
}
