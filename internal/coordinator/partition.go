package coordinator

import (
	"math"
	"unicode/utf16"
)

// partitionOf gives the partition of an id as Kafka does: the absolute value of Java's String.hashCode, in which the
// smallest integer counts as 0, modulo the number of partitions.
func partitionOf(id string, partitions int) int32 {
	h := javaHash(id)
	switch {
	case h == math.MinInt32:
		h = 0
	case h < 0:
		h = -h
	}
	return h % int32(partitions)
}

// javaHash is String.hashCode: 31 times the hash so far plus the next UTF-16 unit, wrapping.
func javaHash(s string) int32 {
	var h int32
	for _, r := range s {
		if r >= 0x10000 {
			high, low := utf16.EncodeRune(r)
			h = 31*(31*h+high) + low
			continue
		}
		h = 31*h + r
	}
	return h
}
