package group

import "testing"

// The vectors are those of the reference implementation (seed 0) on its own test buffer.
func TestXXH3(t *testing.T) {
	for _, c := range []struct {
		n    int
		want uint64
	}{
		{0, 0x2D06800538D394C2}, {1, 0xC44BDFF4074EECDB}, {6, 0x27B56A84CD2D7325}, {12, 0xA713DAF0DFBB77E7},
		{24, 0xA3FE70BF9D3510EB}, {48, 0x397DA259ECBA1F11}, {80, 0xBCDEFBBB2C47C90A}, {195, 0xCD94217EE362EC3A},
		{403, 0xCDEB804D65C6DEA4}, {512, 0x617E49599013CB6B}, {2048, 0xDD59E2C3A5F038E0}, {2240, 0x6E73A90539CF2948},
		{2367, 0xCB37AEB9E5D361ED},
	} {
		b := make([]byte, c.n)
		gen := uint64(0x9E3779B1)
		for i := range b {
			b[i] = byte(gen >> 56)
			gen *= 0x9E3779B185EBCA8D
		}
		if got := xxh3(b); got != c.want {
			t.Errorf("%d bytes: %016X, not %016X", c.n, got, c.want)
		}
	}
}
