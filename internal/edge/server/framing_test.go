package server

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// frameOf puts the length before a body.
func frameOf(b ...byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// framingCase is something no client should send. Where reply is not 0 an answer of that many bytes must
// come, else the connection must end for the reason why.
type framingCase struct {
	name  string
	bytes []byte
	reply int
	why   CloseReason
}

func framingCases() []framingCase {
	tags := []byte{0, 3, 0, 9, 0, 0, 0, 1, 255, 255, 0 /* header tags */, 1, 1, 1, 1}
	manyTags := append(appendUvarint(bytes.Clone(tags), 10_001), make([]byte, 20_002)...)
	return []framingCase{
		{"length 0", []byte{0, 0, 0, 0}, 0, ClosedMalformed},
		{"length -1", []byte{255, 255, 255, 255}, 0, ClosedMalformed},
		{"length 2^31-1", []byte{127, 255, 255, 255}, 0, ClosedTooLarge},
		{"length one over the limit", []byte{6, 64, 0, 1}, 0, ClosedTooLarge},
		{"length 7", []byte{0, 0, 0, 7, 0, 3, 0, 1, 0, 0, 0}, 0, ClosedMalformed},
		{"header without client id", frameOf(0, 3, 0, 1, 0, 0, 0, 1), 0, ClosedMalformed},
		{"unknown key", frameOf(3, 232, 0, 0, 0, 0, 0, 1, 255, 255), 0, ClosedUnsupported},
		{"negative key", frameOf(255, 255, 0, 0, 0, 0, 0, 1, 255, 255), 0, ClosedUnsupported},
		{"known key without row", frameOf(0, 4, 0, 0, 0, 0, 0, 1, 255, 255), 0, ClosedUnsupported},
		{"metadata v99", frameOf(0, 3, 0, 99, 0, 0, 0, 1, 255, 255), 0, ClosedUnsupported},
		{"metadata v-1", frameOf(0, 3, 255, 255, 0, 0, 0, 1, 255, 255), 0, ClosedUnsupported},
		{"produce v2", frameOf(0, 0, 0, 2, 0, 0, 0, 1, 255, 255), 0, ClosedUnsupported},
		{"fetch v3", frameOf(0, 1, 0, 3, 0, 0, 0, 1, 255, 255), 0, ClosedUnsupported},
		{"metadata v1 array 2^31-1", frameOf(0, 3, 0, 1, 0, 0, 0, 1, 255, 255, 127, 255, 255, 255), 0, ClosedMalformed},
		{"metadata v1 array -2", frameOf(0, 3, 0, 1, 0, 0, 0, 1, 255, 255, 255, 255, 255, 254), 16, 0},
		{"metadata v0 null array", frameOf(0, 3, 0, 0, 0, 0, 0, 1, 255, 255, 255, 255, 255, 255), 0, ClosedMalformed},
		{"metadata v1 trailing bytes", frameOf(0, 3, 0, 1, 0, 0, 0, 1, 255, 255, 0, 0, 0, 0, 9, 9, 9), 16, 0},
		{"metadata v1 without a body", frameOf(0, 3, 0, 1, 0, 0, 0, 1, 255, 255), 0, ClosedMalformed},
		{"client id length -2", frameOf(0, 3, 0, 1, 0, 0, 0, 1, 255, 254, 0, 0, 0, 0), 16, 0},
		{"client id longer than the frame", frameOf(0, 3, 0, 1, 0, 0, 0, 1, 0, 200, 0, 0, 0, 0), 0, ClosedMalformed},
		{"header v1 where v2 is due", frameOf(0, 3, 0, 9, 0, 0, 0, 1, 255, 255, 255, 255, 255), 0, ClosedMalformed},
		{"header tag longer than the frame", frameOf(0, 3, 0, 9, 0, 0, 0, 1, 255, 255, 1, 0, 100, 0, 0, 0, 0), 0, ClosedMalformed},
		{"unknown header tag", frameOf(0, 3, 0, 9, 0, 0, 0, 1, 255, 255, 1, 7, 2, 8, 8, 1, 1, 1, 1, 0), 21, 0},
		{"unknown body tag", frameOf(append(bytes.Clone(tags), 1, 99, 1, 5)...), 21, 0},
		{"10,001 tags", frameOf(manyTags...), 0, ClosedMalformed},
		{"overlong varint", frameOf(append(bytes.Clone(tags), 0x81, 0x80, 0x80, 0x80, 0x80, 0)...), 0, ClosedMalformed},
		{"http", []byte("GET / HTTP/1.1\r\n\r\n"), 0, ClosedTooLarge},
		{"tls hello", []byte{22, 3, 1, 0, 100, 1, 0, 0, 96, 3, 3, 0, 0, 0, 0, 0}, 0, ClosedTooLarge},
		{"apiversions v99", frameOf(0, 18, 0, 99, 0, 0, 0, 1, 255, 255, 0), 16, 0},
		{"apiversions v-1", frameOf(0, 18, 255, 255, 0, 0, 0, 1, 255, 255), 16, 0},
		{"apiversions v99 with a broken header", frameOf(0, 18, 0, 99, 0, 0, 0, 1, 0, 77), 0, ClosedMalformed},
	}
}

// TestFraming sends what no client should. In all cases another connection goes on.
func TestFraming(t *testing.T) {
	for _, tc := range framingCases() {
		for _, kind := range []string{"tcp", "memory"} {
			t.Run(tc.name+"/"+kind, func(t *testing.T) {
				h, seen := newHarness(t), &reasons{}
				h.opt.Observer = seen
				h.start()
				witness, c := h.tcp(), h.memory()
				if kind == "tcp" {
					witness, c = c, h.tcp()
				}
				witness.works()
				if _, err := c.Write(tc.bytes); err != nil {
					t.Fatal(err)
				}
				_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
				if tc.reply > 0 {
					if id, b := c.recv(); id != 1 || len(b)+4 != tc.reply {
						t.Fatalf("reply %d of %d bytes, want %d", id, len(b)+4, tc.reply)
					}
					c.works()
				} else {
					c.closed()
					c.Close()
					eventually(t, "the reason", func() bool { return seen.last() == tc.why.String() })
				}
				witness.works()
				h.uncharged()
			})
		}
	}
}

func TestApiVersionsFallback(t *testing.T) {
	c := newHarness(t).start().tcp()
	if _, err := c.Write(frameOf(0, 18, 0, 99, 0, 0, 0, 7, 255, 255, 0)); err != nil {
		t.Fatal(err)
	}
	id, b := c.recv()
	resp := kmsg.NewPtrApiVersionsResponse()
	if err := resp.ReadFrom(b); err != nil {
		t.Fatal(err)
	}
	if id != 7 || resp.ErrorCode != 35 || len(resp.ApiKeys) != 1 || resp.ApiKeys[0].ApiKey != 18 || resp.ApiKeys[0].MaxVersion != 5 {
		t.Fatalf("got %+v", resp)
	}
	c.works()
}

// TestPiecemeal sends requests byte by byte and several at once.
func TestPiecemeal(t *testing.T) {
	c := newHarness(t).start().tcp()
	r := metadata(9, "a", "b")
	for _, b := range c.frame(r) {
		if _, err := c.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if resp := c.answer(r).(*kmsg.MetadataResponse); len(resp.Topics) != 2 {
		t.Fatalf("got %+v", resp)
	}
	var all []byte
	for range 50 {
		all = append(all, c.frame(metadata(12, "x"))...)
		all = append(all, c.frame(produce("t", make([]byte, 3000)))...)
	}
	if _, err := c.Write(all); err != nil {
		t.Fatal(err)
	}
	for i := range int32(100) {
		if id, _ := c.recv(); id != i+2 {
			t.Fatalf("reply %d, want %d", id, i+2)
		}
	}
}

// TestMalformedAfterGood checks that what was asked properly before is still answered.
func TestMalformedAfterGood(t *testing.T) {
	p := newParker()
	h := newHarness(t)
	h.produce = p.handle
	c := h.start().tcp()
	c.send(produce("t", nil))
	if _, err := c.Write([]byte{255, 255, 255, 255, 1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	p.wait(0).Set(produced())
	if id, _ := c.recv(); id != 1 {
		t.Fatalf("reply %d", id)
	}
	c.closed()
}

func TestHeader(t *testing.T) {
	for _, tc := range []struct {
		name     string
		flexible bool
		bytes    []byte
		id       string
		length   int
		ok       bool
	}{
		{"v1", false, []byte{0, 3, 0, 1, 0, 0, 0, 9, 0, 2, 'a', 'b', 7}, "ab", 12, true},
		{"v1 null", false, []byte{0, 3, 0, 1, 0, 0, 0, 9, 255, 255, 7}, "", 10, true},
		{"v2", true, []byte{0, 3, 0, 9, 0, 0, 0, 9, 0, 1, 'a', 0, 7}, "a", 12, true},
		{"v2 tag", true, []byte{0, 3, 0, 9, 0, 0, 0, 9, 0, 0, 1, 5, 2, 1, 1, 7}, "", 15, true},
		{"v2 no tags", true, []byte{0, 3, 0, 9, 0, 0, 0, 9, 0, 0}, "", 0, false},
		{"v2 too many tags", true, []byte{0, 3, 0, 9, 0, 0, 0, 9, 0, 0, 3, 1, 0, 2, 0, 3, 0}, "", 0, false},
	} {
		h, ok := parseHeader(tc.bytes, tc.flexible, 2)
		if ok != tc.ok || ok && (string(h.clientID) != tc.id || h.length != tc.length || h.correlationID != 9) {
			t.Errorf("%s: %+v, %v", tc.name, h, ok)
		}
	}
}

func FuzzHeader(f *testing.F) {
	f.Add([]byte{0, 3, 0, 9, 0, 0, 0, 9, 0, 0, 1, 5, 2, 1, 1, 7}, true)
	f.Fuzz(func(t *testing.T, b []byte, flexible bool) {
		if len(b) < prefix-4 {
			return
		}
		if h, ok := parseHeader(b, flexible, 100); ok && (h.length > len(b) || h.length < 10) {
			t.Fatalf("length %d of %d", h.length, len(b))
		}
	})
}

// FuzzConnection lets bytes loose on a server. Nothing may panic, hang, or stay charged.
func FuzzConnection(f *testing.F) {
	c := client{}
	f.Add(c.frame(metadata(9, "a")), 3)
	f.Add(c.frame(produce("t", make([]byte, 100))), 50)
	f.Add(frameOf(0, 18, 0, 99, 0, 0, 0, 1, 255, 255, 0), 1)
	f.Add(append(c.frame(metadata(1)), 0, 0, 0, 0), 6)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		h := newHarness(t)
		h.opt.MaxFrameBytes = 1 << 20
		h.startMemory()
		c := h.memory()
		if cut > 0 && cut < len(b) {
			_, _ = c.Write(b[:cut])
			b = b[cut:]
		}
		_, _ = c.Write(b)
		_ = c.Conn.(*memoryConn).CloseWrite()
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		for {
			if _, _, err := c.tryRecv(); err != nil {
				break
			}
		}
		c.Close()
		h.memory().works()
		h.uncharged()
	})
}
