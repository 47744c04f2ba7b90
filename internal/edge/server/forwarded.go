package server

import (
	"bytes"
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// Forwarded is a request that a broker has passed on for a client, inside an Envelope (KIP-590).
type Forwarded struct {
	Row           API
	Version       int16
	CorrelationID int32
	ClientID      string
	Body          kmsg.Request // owns its memory

	flexible bool
}

// Forwarded decodes the request in an Envelope: header and body, as the client sent them. What is no request that this
// node answers is kafka.UnsupportedVersion; an API that is not forwarded is kafka.InvalidRequest.
func (t *Table) Forwarded(data []byte) (*Forwarded, error) {
	if len(data) < 8 {
		return nil, kafka.Errorf(kafka.UnsupportedVersion, "the forwarded request has no header")
	}
	key, version := int16(binary.BigEndian.Uint16(data)), int16(binary.BigEndian.Uint16(data[2:]))
	r := t.byKey[key]
	if r == nil || version < r.Min || version > r.Max {
		return nil, kafka.Errorf(kafka.UnsupportedVersion, "API %d in version %d is not answered here", key, version)
	}
	data = bytes.Clone(data) // the Envelope's bytes end with its lease
	f := &Forwarded{Row: r.API, Version: version, Body: newRequest(&r.API), flexible: version >= r.flexible}
	h, ok := parseHeader(data, f.flexible, defaultTags)
	if !ok {
		return nil, kafka.Errorf(kafka.UnsupportedVersion, "the header of the forwarded request is malformed")
	}
	f.CorrelationID, f.ClientID = h.correlationID, string(h.clientID)
	heap, ok := r.schema.scan(data[h.length:], version, scanLimits{defaultArrayElements, defaultTags})
	f.Body.SetVersion(version)
	if !ok || heap > defaultDecodedBytes || f.Body.ReadFrom(data[h.length:]) != nil {
		return nil, kafka.Errorf(kafka.UnsupportedVersion, "the forwarded %s is malformed", kmsg.NameForKey(key))
	}
	if !r.Forward {
		return nil, kafka.Errorf(kafka.InvalidRequest, "%s is not forwarded", kmsg.NameForKey(key))
	}
	return f, nil
}

// Answer is the response as it travels back in the Envelope's: with the header that the client expects. It sets the
// version of resp.
func (f *Forwarded) Answer(resp kmsg.Response) []byte {
	resp.SetVersion(f.Version)
	b := binary.BigEndian.AppendUint32(nil, uint32(f.CorrelationID))
	if f.flexible {
		b = append(b, 0) // no tags
	}
	return resp.AppendTo(b)
}
