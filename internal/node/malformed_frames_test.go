package node

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

func bytesCase(name string, b []byte, want func(*suite, *wire) error) hostile {
	return hostile{name, func(*suite) []byte { return b }, want}
}

func framingCases() []hostile {
	metadata := raw(3, 1, 255, 255, 0, 0, 0, 0)
	split := func(b []byte, n int) []byte { return b[:n] }
	return []hostile{
		bytesCase("length 0", []byte{0, 0, 0, 0}, closed),
		bytesCase("length -1", []byte{255, 255, 255, 255}, closed),
		bytesCase("length -2^31", []byte{128, 0, 0, 0}, closed),
		bytesCase("length 2^31-1", []byte{127, 255, 255, 255}, closed),
		bytesCase("length one over the limit", binary.BigEndian.AppendUint32(nil, 100<<20+1), closed),
		bytesCase("length 1", []byte{0, 0, 0, 1, 0}, closed),
		bytesCase("length 7, less than any header", []byte{0, 0, 0, 7, 0, 3, 0, 1, 0, 0, 0}, closed),
		bytesCase("length 8, no client id", raw(3, 1), closed),
		bytesCase("unknown key", raw(1000, 0, 255, 255), closed),
		bytesCase("negative key", raw(-1, 0, 255, 255), closed),
		bytesCase("key of another listener", raw(52, 0, 255, 255), closed), // Vote
		bytesCase("key of an API that is not built", raw(72, 0, 255, 255), closed),
		bytesCase("metadata v99", raw(3, 99, 255, 255), closed),
		bytesCase("metadata v-1", raw(3, -1, 255, 255), closed),
		bytesCase("produce v2", raw(0, 2, 255, 255), closed),
		bytesCase("fetch v3", raw(1, 3, 255, 255), closed),
		bytesCase("http", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), closed),
		bytesCase("tls hello", []byte{22, 3, 1, 0, 100, 1, 0, 0, 96, 3, 3, 0, 0, 0, 0, 0}, closed),
		bytesCase("ssh", []byte("SSH-2.0-OpenSSH_9.0\r\n"), closed),
		bytesCase("proxy protocol", []byte("PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\n"), closed),
		bytesCase("redis", []byte("*1\r\n$4\r\nPING\r\n"), closed),
		{"ends in the length", func(*suite) []byte { return split(metadata, 3) }, hangsUp},
		{"ends in the header", func(*suite) []byte { return split(metadata, 9) }, hangsUp},
		{"ends in the body", func(*suite) []byte { return split(metadata, len(metadata)-1) }, hangsUp},
		{"ends in a large body", func(*suite) []byte {
			return append(binary.BigEndian.AppendUint32(nil, 50<<20), make([]byte, 100_000)...)[:90_000]
		}, hangsUp},
		bytesCase("a good request and a bad one", append(slices.Clone(metadata), 255, 255, 255, 255), thenClosed(1)),
		bytesCase("50 requests at once", bytes.Repeat(metadata, 50), answered(50)),
		bytesCase("500 requests at once", bytes.Repeat(metadata, 500), answered(500)),
		bytesCase("produce before ApiVersions", frame(produceRequest(9, "m", 0, 1, batchOf("a").bytes()), 1),
			answered(1)),
		{"byte by byte", func(*suite) []byte { return nil }, byteByByte},
		{"correlation ids reused and negative", correlations, correlationsAnswered},
	}
}

// hangsUp closes from the client's side.
func hangsUp(*suite, *wire) error { return nil }

// thenClosed wants n replies and then the end.
func thenClosed(n int) func(*suite, *wire) error {
	return func(s *suite, c *wire) error {
		for i := range n {
			if _, _, err := c.receive(); err != nil {
				return fmt.Errorf("reply %d: %w", i, err)
			}
		}
		return closed(s, c)
	}
}

func byteByByte(s *suite, c *wire) error {
	for _, b := range raw(3, 1, 255, 255, 0, 0, 0, 0) {
		if _, err := c.Write([]byte{b}); err != nil {
			return err
		}
	}
	return answered(1)(s, c)
}

var oddCorrelations = []int32{7, 7, 7, -1, -1 << 31, 1<<31 - 1, 0, 7}

func correlations(*suite) []byte {
	var out []byte
	for _, id := range oddCorrelations {
		b := raw(3, 1, 255, 255, 0, 0, 0, 0)
		binary.BigEndian.PutUint32(b[8:], uint32(id))
		out = append(out, b...)
	}
	return out
}

func correlationsAnswered(s *suite, c *wire) error {
	for _, want := range oddCorrelations {
		if id, _, err := c.receive(); err != nil || id != want {
			return fmt.Errorf("correlation id %d instead of %d, %v", id, want, err)
		}
	}
	return goesOn(s, c)
}

func unsupported(s *suite, c *wire) error {
	_, b, err := c.receive()
	if err != nil {
		return err
	}
	resp := kmsg.NewPtrApiVersionsResponse() // version 0
	if err := resp.ReadFrom(b); err != nil {
		return err
	}
	if kafka.Code(resp.ErrorCode) != kafka.UnsupportedVersion || len(resp.ApiKeys) != 1 || resp.ApiKeys[0].ApiKey != 18 {
		return fmt.Errorf("%v with %v", kafka.Code(resp.ErrorCode), resp.ApiKeys)
	}
	return goesOn(s, c)
}

func headerCases() []hostile {
	tags := func(n int) []byte { // a tag section of n empty unknown tags
		b := binary.AppendUvarint(nil, uint64(n))
		for i := range n {
			b = append(binary.AppendUvarint(b, uint64(1000+i)), 0)
		}
		return b
	}
	// metadata builds Metadata v9 for all topics around a header's tag section.
	metadata := func(headerTags ...byte) []byte {
		return raw(3, 9, append(append([]byte{0, 1, 'x'}, headerTags...), 0, 0, 0, 0, 0)...)
	}
	return []hostile{
		bytesCase("client id length -2", raw(3, 1, 255, 254, 0, 0, 0, 0), answered(1)),
		bytesCase("client id length -2^15", raw(3, 1, 128, 0, 0, 0, 0, 0), answered(1)),
		bytesCase("client id longer than the frame", raw(3, 1, 0, 9, 'a'), closed),
		bytesCase("client id of 32767 bytes", raw(3, 1, append(
			append([]byte{127, 255}, make([]byte, 32767)...), 0, 0, 0, 0)...), answered(1)),
		bytesCase("client id not UTF-8", raw(3, 1, 0, 3, 255, 254, 0xc3, 0, 0, 0, 0), answered(1)),
		bytesCase("ApiVersions v99 without the tags of a newer header", raw(18, 99, 255, 255), closed),
		bytesCase("ApiVersions v99 with a flexible header", raw(18, 99, 0, 1, 'x', 0, 1, 1, 0), unsupported),
		bytesCase("ApiVersions v-1", raw(18, -1, 255, 255), unsupported),
		bytesCase("no tag section", raw(3, 9, 0, 1, 'x'), closed),
		bytesCase("unknown tags", metadata(tags(3)...), answered(1)),
		bytesCase("10,000 tags", metadata(tags(10_000)...), answered(1)),
		bytesCase("10,001 tags", metadata(tags(10_001)...), closed),
		bytesCase("2^32-1 tags", metadata(255, 255, 255, 255, 15), closed),
		bytesCase("tag longer than the frame", metadata(1, 5, 255, 255, 255, 255, 7), closed),
		bytesCase("tag count in ten bytes", metadata(0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1),
			closed),
		bytesCase("tag count in two bytes where one would do", metadata(0x80, 0), answered(1)),
		bytesCase("header of the old form before a flexible body", raw(3, 9, 0, 1, 'x', 255, 255, 255, 255),
			closed),
	}
}

// layoutCases are bodies that break their schema.
func layoutCases() []hostile {
	compact := func(key, version int16, body ...byte) []byte {
		return raw(key, version, append([]byte{255, 255, 0}, body...)...)
	}
	return []hostile{
		bytesCase("array of 2^31-1", raw(3, 1, 255, 255, 127, 255, 255, 255), closed),
		bytesCase("array of -2 where it may be null", raw(3, 1, 255, 255, 255, 255, 255, 254), answered(1)),
		bytesCase("array of -1 where it may not be null", raw(3, 0, 255, 255, 255, 255, 255, 255), closed),
		bytesCase("trailing bytes", raw(3, 1, 255, 255, 0, 0, 0, 0, 9, 9, 9), answered(1)),
		bytesCase("string of -1", raw(3, 1, 255, 255, 0, 0, 0, 1, 255, 255), closed),
		bytesCase("string of 32767", raw(3, 1, 255, 255, 0, 0, 0, 1, 127, 255, 'a'), closed),
		bytesCase("compact array of 2^32-1", compact(3, 9, 255, 255, 255, 255, 15), closed),
		bytesCase("compact array of 2^28", compact(3, 9, 128, 128, 128, 128, 1), closed),
		bytesCase("compact array in six bytes", compact(3, 9, 129, 128, 128, 128, 128, 0), closed),
		bytesCase("compact null array where it may not be: CreateTopics", compact(19, 5, 0, 0, 0, 39, 16, 0, 0), closed),
		bytesCase("compact null array where it may not be: Produce", compact(0, 9, 0, 0, 1, 0, 0, 39, 16, 0, 0), closed),
		bytesCase("compact null name", compact(3, 9, 2, 0, 0, 0, 0, 0, 0), closed),
		bytesCase("body tags 10,001", compact(3, 9,
			append([]byte{1, 0, 0, 0}, bytes.Repeat([]byte{200, 1}, 20)...)...), closed),
		bytesCase("1,000,001 elements", raw(3, 1,
			append([]byte{255, 255, 0, 0x0f, 0x42, 0x41}, make([]byte, 2*1_000_001)...)...), closed),
		bytesCase("name not UTF-8", compact(3, 9, 2, 4, 255, 254, 0xc3, 0, 0, 0, 0, 0),
			metadataCodes(9, kafka.InvalidTopicException)),
		bytesCase("name with a zero byte", compact(3, 9, 2, 4, 'a', 0, 'b', 0, 0, 0, 0, 0),
			metadataCodes(9, kafka.InvalidTopicException)),
		bytesCase("known tag of the wrong size", compact(0, 9, 0, 0, 1, 0, 0, 39, 16, 1, 1, 0, 5, 1), either),
		bytesCase("fetch v17 with a replica state tag cut short", compact(1, 17, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 255, 255, 255, 255, 1, 1, 1, 1, 1, 2, 0, 0), closed),
	}
}

// metadataCodes reads a Metadata answer.
func metadataCodes(version int16, want ...kafka.Code) func(*suite, *wire) error {
	return func(s *suite, c *wire) error {
		r := kmsg.NewPtrMetadataRequest()
		r.Version = version
		resp, err := c.read(r, 1)
		if err != nil {
			return err
		}
		var got []int16
		for _, t := range resp.(*kmsg.MetadataResponse).Topics {
			got = append(got, t.ErrorCode)
		}
		if err := codes(want...)(got); err != nil {
			return err
		}
		return goesOn(s, c)
	}
}

// apis are the APIs that the node lists, with their newest versions that the encoder knows, in the order of their keys.
func (s *suite) apis() []kmsg.Request {
	s.t.Helper()
	resp, err := s.good.ask(kmsg.NewPtrApiVersionsRequest())
	if err != nil {
		s.t.Fatal(err)
	}
	var out []kmsg.Request
	for _, k := range resp.(*kmsg.ApiVersionsResponse).ApiKeys {
		r := kmsg.RequestForKey(k.ApiKey)
		if r == nil {
			s.t.Fatalf("no request for the key %d", k.ApiKey)
		}
		r.SetVersion(min(k.MaxVersion, r.MaxVersion()))
		out = append(out, r)
	}
	if len(out) < 20 {
		s.t.Fatalf("only %d APIs", len(out))
	}
	slices.SortFunc(out, func(a, b kmsg.Request) int { return int(a.Key()) - int(b.Key()) })
	return out
}

// everyAPICases break each API in the same few ways.
func everyAPICases(s *suite) []hostile {
	var out []hostile
	for _, r := range s.apis() {
		whole := frame(r, 1)
		name := kmsg.NameForKey(r.Key())
		const headerEnd = 4 + 8 + 2 + len("tester")
		cut := headerEnd + s.random.IntN(len(whole)-headerEnd)
		out = append(out, bytesCase(name+" cut short", resized(whole[:cut]), closed))
		if r.Key() != 18 {
			out = append(out, bytesCase(name+" in a version too new", raw(r.Key(), r.MaxVersion()+20, 255, 255, 0, 0), closed))
		}
		garbage := make([]byte, 40)
		for i := range garbage {
			garbage[i] = byte(s.random.Uint32())
		}
		// A length of no sense begins the body: no API begins with eight bytes that may all be 255 but those below.
		out = append(out, bytesCase(name+" with garbage", raw(r.Key(), r.GetVersion(),
			append([]byte{255, 255, 0}, garbage...)...), either))
	}
	return out
}

// resized corrects the length of a frame that was cut or has grown.
func resized(b []byte) []byte {
	b = slices.Clone(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// mutationCases change bytes of requests that are good in themselves. None of them makes anything that stays but records:
// a changed count of partitions would be obeyed.
func mutationCases(s *suite) []hostile {
	seeds := []kmsg.Request{
		produceRequest(9, "m", 0, 1, batchOf("a", "b").bytes()), fetchRequest(12, "m", 0, 0), listOffsets("m", 0),
		metadataOf("m", "m-compact"), deleteTopics("no-such"), describeConfigs("m"),
		deleteRecords("m", 0), offsetForEpoch("m", 0),
	}
	count := 100
	if long() {
		count = 20_000
	}
	var out []hostile
	for i := range count {
		b := frame(seeds[i%len(seeds)], 1)
		for range 1 + s.random.IntN(3) {
			b[4+8+s.random.IntN(len(b)-12)] = byte(s.random.Uint32())
		}
		switch s.random.IntN(4) {
		case 0:
			b = resized(b[:13+s.random.IntN(len(b)-13)])
		case 1:
			b = resized(append(b, make([]byte, s.random.IntN(20))...))
		}
		out = append(out, bytesCase(fmt.Sprintf("mutation %d", i), b, either))
	}
	return out
}
