package diff

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/interop/raw"
)

func isExpected(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, raw.ErrNoAnswer) }

// normalise makes an answer comparable: plain values with everything masked that a broker may choose freely.
func normalise(w *World, resp kmsg.Response, err error) any {
	switch {
	case errors.Is(err, io.EOF):
		return "connection closed"
	case err != nil:
		return err.Error()
	case resp == nil:
		return "none asked for"
	}
	raw, err := json.Marshal(resp)
	if err != nil {
		return err.Error()
	}
	var v any
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return err.Error()
	}
	out := mask(w, "", v)
	if m, ok := out.(map[string]any); ok && resp.Key() == describeQuorumKey {
		maskQuorum(m)
	}
	return out
}

const describeQuorumKey = 55

// maskQuorum removes how far the metadata log is and in which epoch.
func maskQuorum(m map[string]any) {
	for k, v := range m {
		if k == "HighWatermark" || k == "LeaderEpoch" {
			delete(m, k)
		}
		list, _ := v.([]any)
		for _, e := range list {
			if inner, ok := e.(map[string]any); ok {
				maskQuorum(inner)
			}
		}
	}
}

// dropped fields say nothing about behaviour or vary by machine.
var dropped = []string{"UnknownTags", "ThrottleMillis", "Version", "Port", "Host", "ClusterID", "Rack", "TotalBytes",
	"UsableBytes", "Dir", "LastUpdateTimestamp", "ErrorMessage", "FinalizedFeaturesEpoch",
	"LastFetchTimestamp", "LastCaughtUpTimestamp", "LogEndOffset", "Nodes", "DirectoryID",
	"ReplicaDirectoryID", "Documentation", "ClientHost"}

func mask(w *World, key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			if !slices.Contains(dropped, k) {
				out[k] = mask(w, k, e)
			}
		}
		return out
	case []any:
		if key == "TopicID" {
			return topicName(w, v)
		}
		out := make([]any, 0, len(v))
		for _, e := range v {
			if !isOwn(e) {
				out = append(out, mask(w, key, e))
			}
		}
		slices.SortStableFunc(out, func(a, b any) int { return cmp.Compare(compact(a), compact(b)) })
		return out
	case json.Number:
		return maskNumber(w, key, v)
	case string:
		if key == "RecordBatches" {
			return batches(w, v)
		}
		if name, ok := w.members[v]; ok {
			return name
		}
		if unmet.MatchString(v) {
			return "member not met"
		}
	}
	return v
}

// unmet are ids that brokers chose for members whose joins were never answered.
var unmet = regexp.MustCompile(`-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// isOwn tells settings that only Moldau has.
func isOwn(v any) bool {
	m, ok := v.(map[string]any)
	name, _ := m["Name"].(string)
	return ok && strings.HasPrefix(name, "moldau.")
}

func maskNumber(w *World, key string, v json.Number) any {
	n, err := v.Int64()
	if err != nil {
		return v
	}
	switch key {
	case "ErrorCode", "ConfigErrorCode":
		if e := kerr.TypedErrorForCode(int16(n)); e != nil {
			return e.Message
		}
		return "NONE"
	case "ProducerID":
		for i, p := range w.producers {
			if p.id == n {
				return "producer " + string(rune('A'+i%26))
			}
		}
	case "SessionID":
		if n != 0 {
			return "a session"
		}
	case "LastTimestamp":
		if n > 0 {
			return "a time"
		}
	}
	return n
}

// topicName replaces an id by the name of its topic; kmsg's ids are arrays of numbers.
func topicName(w *World, v []any) any {
	var id [16]byte
	for i, e := range v {
		if num, ok := e.(json.Number); ok && i < len(id) {
			n, _ := num.Int64()
			id[i] = byte(n)
		}
	}
	if name, ok := w.ids[id]; ok {
		return "id of " + name
	}
	if id == ([16]byte{}) {
		return "no id"
	}
	return "other id"
}

// batches lists what matters of each fetched batch.
func batches(w *World, encoded string) any {
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return err.Error()
	}
	out := []any{}
	be := binary.BigEndian
	for len(b) >= header {
		size := int(be.Uint32(b[atLength:])) + 12
		if size > len(b) {
			return append(out, "a cut batch")
		}
		out = append(out, map[string]any{"base": int64(be.Uint64(b)), "size": size, "epoch": int32(be.Uint32(b[12:])),
			"attributes": be.Uint16(b[atAttrs:]), "lastDelta": int32(be.Uint32(b[23:])), "max": int64(be.Uint64(b[35:])),
			"producer": maskNumber(w, "ProducerID", number(be.Uint64(b[43:]))), "sequence": int32(be.Uint32(b[53:])),
			"count": int32(be.Uint32(b[57:])), "records": string(b[header:size])})
		b = b[size:]
	}
	if len(b) > 0 {
		out = append(out, "a cut header")
	}
	return out
}

func number(n uint64) json.Number {
	b, _ := json.Marshal(int64(n))
	return json.Number(b)
}

func compact(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// unlike lists where two normalised answers differ, one line a place, at most limit.
func unlike(path string, kafka, moldau any, limit int) []string {
	if compact(kafka) == compact(moldau) || limit <= 0 {
		return nil
	}
	var out []string
	km, ok1 := kafka.(map[string]any)
	mm, ok2 := moldau.(map[string]any)
	if ok1 && ok2 {
		keys := slices.Sorted(maps.Keys(km))
		for k := range mm {
			if _, ok := km[k]; !ok {
				keys = append(keys, k)
			}
		}
		for _, k := range keys {
			out = append(out, unlike(path+"."+k, km[k], mm[k], limit-len(out))...)
		}
		return out
	}
	kl, ok1 := kafka.([]any)
	ml, ok2 := moldau.([]any)
	if ok1 && ok2 && len(kl) == len(ml) {
		for i := range kl {
			out = append(out, unlike(path+"["+strconv.Itoa(i)+"]", kl[i], ml[i], limit-len(out))...)
		}
		return out
	}
	return []string{path + ": Kafka " + cut(compact(kafka)) + ", Moldau " + cut(compact(moldau))}
}

func cut(s string) string {
	if len(s) > 400 {
		return s[:400] + "..."
	}
	return s
}
