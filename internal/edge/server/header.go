package server

import (
	"encoding/binary"
)

// header is a request header, versions 1 and 2. Its client id aliases the frame; nil is null.
type header struct {
	correlationID int32
	clientID      []byte
	length        int // of the header itself
}

// parseHeader reads the header of a frame of at least prefix-4 bytes. Version 2, with tags, begins exactly at
// an API's first flexible version; the client id keeps its two-byte length in both (KIP-482). A negative
// length is null, whatever it is, as in Kafka.
func parseHeader(frame []byte, flexible bool, maxTags int) (header, bool) {
	h := header{correlationID: int32(binary.BigEndian.Uint32(frame[4:]))}
	w := walker{src: frame[8:], compact: true, limits: scanLimits{tags: maxTags}}
	if n := w.shortLength(false); n >= 0 {
		id := w.src
		if w.skip(n); !w.bad {
			h.clientID = id[:n]
		}
	}
	if flexible && !w.bad {
		w.tags(nil)
	}
	h.length = len(frame) - len(w.src)
	return h, !w.bad
}
