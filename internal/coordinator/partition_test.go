package coordinator

import (
	"strings"
	"testing"
)

// What Apache Kafka 4.4 computes.
func TestPartitionOf(t *testing.T) {
	for _, c := range []struct {
		id        string
		hash      int32
		of50, of7 int32
	}{
		{"", 0, 0, 0},
		{"a", 97, 47, 6},
		{"g1", 3242, 42, 1},
		{"console-consumer-12345", 158455506, 6, 6},
		{"orders", -1008770331, 31, 2},
		{"polygenelubricants", -2147483648, 0, 0},
		{"Ünïcode-группа", -513733443, 43, 6},
		{"😀 emoji", -1572615351, 1, 6},
		{"pmorrisonZZZ", 1957369823, 23, 3},
		{strings.Repeat("x", 300), -1757771264, 14, 4},
	} {
		if got := javaHash(c.id); got != c.hash {
			t.Errorf("%.20q hashes to %d, want %d", c.id, got, c.hash)
		}
		if a, b := partitionOf(c.id, 50), partitionOf(c.id, 7); a != c.of50 || b != c.of7 {
			t.Errorf("%.20q is in %d of 50 and %d of 7, want %d and %d", c.id, a, b, c.of50, c.of7)
		}
	}
}
