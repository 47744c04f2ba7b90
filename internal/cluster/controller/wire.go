package controller

import (
	"math/rand/v2"

	"moldau/internal/kafka"
)

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
