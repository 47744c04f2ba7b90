package controller

import (
	"math/rand/v2"

	"moldau/internal/kafka"
)

// maxRecordsPerRequest bounds what one request may write, so that it fits into one batch, and how many things it
// may name, so that it cannot hold the controller up for long.
const maxRecordsPerRequest = 10_000

// checkSize refuses a request that names or would write too much.
func checkSize(n int) error {
	if n <= maxRecordsPerRequest {
		return nil
	}
	return kafka.Errorf(kafka.PolicyViolation, "the request is too large: it may write %d records, one for each topic, "+
		"partition and config", maxRecordsPerRequest)
}

// messageOf gives the message of an error for a response, nil for an error without one and for none.
func messageOf(err error) *string {
	if err == nil {
		return nil
	}
	if m := kafka.MessageOf(err); m != "" {
		return &m
	}
	return nil
}

func nodeIDs(in []int32) []kafka.NodeID {
	out := make([]kafka.NodeID, len(in))
	for i, id := range in {
		out[i] = kafka.NodeID(id)
	}
	return out
}

func rawIDs(in []kafka.NodeID) []int32 {
	out := make([]int32, len(in))
	for i, id := range in {
		out[i] = int32(id)
	}
	return out
}

// randomBytes reads from a random source. It never fails.
type randomBytes struct{ rnd *rand.Rand }

// Read fills b.
func (r randomBytes) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(r.rnd.Uint32())
	}
	return len(b), nil
}
