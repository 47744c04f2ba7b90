package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// jsonRecord is a record as a line of JSON. Bytes that are not UTF-8 stand in the field whose name ends in Base64. What
// consume writes produce reads.
type jsonRecord struct {
	Topic       string          `json:"topic,omitempty"`
	Partition   *int32          `json:"partition,omitempty"`
	Offset      *int64          `json:"offset,omitempty"`
	Timestamp   json.RawMessage `json:"timestamp,omitempty"` // ms since the epoch; in also RFC 3339
	Key         json.RawMessage `json:"key,omitempty"`
	KeyBase64   *string         `json:"keyBase64,omitempty"`
	Value       json.RawMessage `json:"value,omitempty"`
	ValueBase64 *string         `json:"valueBase64,omitempty"`
	Headers     []jsonHeader    `json:"headers,omitempty"`
}

// jsonHeader is a header of a jsonRecord.
type jsonHeader struct {
	Key         string          `json:"key"`
	Value       json.RawMessage `json:"value,omitempty"`
	ValueBase64 *string         `json:"valueBase64,omitempty"`
}

// appendJSON writes a record that was read as one line.
func appendJSON(dst []byte, r *kgo.Record) ([]byte, error) {
	j := jsonRecord{Topic: r.Topic, Partition: &r.Partition, Offset: &r.Offset,
		Timestamp: fmt.Appendf(nil, "%d", r.Timestamp.UnixMilli())}
	j.Key, j.KeyBase64 = toJSON(r.Key)
	j.Value, j.ValueBase64 = toJSON(r.Value)
	for _, h := range r.Headers {
		v, b64 := toJSON(h.Value)
		j.Headers = append(j.Headers, jsonHeader{h.Key, v, b64})
	}
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(j); err != nil {
		return dst, err
	}
	return append(dst, line.Bytes()...), nil
}

// toJSON gives bytes as a JSON string, or as base64, or as null.
func toJSON(b []byte) (json.RawMessage, *string) {
	if b == nil {
		return json.RawMessage("null"), nil
	}
	if !utf8.Valid(b) {
		s := base64.StdEncoding.EncodeToString(b)
		return nil, &s
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(string(b)) // a string always encodes
	return bytes.TrimRight(text.Bytes(), "\n"), nil
}

// parseJSON reads a line. Topic and offset in it do not count; partition does for the manual partitioner.
func parseJSON(line []byte) (*kgo.Record, error) {
	var j jsonRecord
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&j); err != nil {
		return nil, fmt.Errorf("not a record in JSON: %w", err)
	}
	if d.More() {
		return nil, errors.New("more than one record on a line")
	}
	r := &kgo.Record{}
	var err error
	if r.Key, err = fromJSON("key", j.Key, j.KeyBase64); err != nil {
		return nil, err
	}
	if r.Value, err = fromJSON("value", j.Value, j.ValueBase64); err != nil {
		return nil, err
	}
	for _, h := range j.Headers {
		v, err := fromJSON("header "+h.Key, h.Value, h.ValueBase64)
		if err != nil {
			return nil, err
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: v})
	}
	if j.Partition != nil {
		r.Partition = *j.Partition
	}
	if len(j.Timestamp) > 0 && !bytes.Equal(j.Timestamp, []byte("null")) {
		if r.Timestamp, err = parseMoment(string(bytes.Trim(j.Timestamp, `"`))); err != nil {
			return nil, fmt.Errorf("timestamp: %w", err)
		}
	}
	return r, nil
}

// fromJSON gives the bytes of a field: those of a string, or the JSON text of anything else.
func fromJSON(name string, v json.RawMessage, b64 *string) ([]byte, error) {
	if b64 != nil {
		b, err := base64.StdEncoding.DecodeString(*b64)
		if err != nil {
			return nil, fmt.Errorf("%s is not base64: %w", name, err)
		}
		return b, nil
	}
	if len(v) == 0 || bytes.Equal(v, []byte("null")) {
		return nil, nil
	}
	if v[0] != '"' {
		return v, nil
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return []byte(s), nil
}
