package group

import (
	"encoding/binary"
	"math/bits"
)

// xxh3 is the 64 bit XXH3 hash with seed 0, as its specification has it (github.com/Cyan4973/xxHash, doc/xxhash_spec.md).
// It is here because the records of consumer groups hold such hashes, and nothing else needs it.
func xxh3(b []byte) uint64 {
	switch n := len(b); {
	case n <= 16:
		return xxh3Short(b)
	case n <= 128:
		return xxh3Middle(b)
	case n <= 240:
		return xxh3Larger(b)
	default:
		return xxh3Long(b)
	}
}

const (
	prime32a = 0x9E3779B1
	prime32b = 0x85EBCA77
	prime32c = 0xC2B2AE3D
	prime64a = 0x9E3779B185EBCA87
	prime64b = 0xC2B2AE3D27D4EB4F
	prime64c = 0x165667B19E3779F9
	prime64d = 0x85EBCA77C2B2AE63
	prime64e = 0x27D4EB2F165667C5
	primeMix = 0x165667919E3779F9
	primeRot = 0x9FB21C651E98DF25
)

// xxh3Secret is the default secret.
const xxh3Secret = "\xb8\xfe\x6c\x39\x23\xa4\x4b\xbe\x7c\x01\x81\x2c\xf7\x21\xad\x1c\xde\xd4\x6d\xe9\x83\x90\x97\xdb" +
	"\x72\x40\xa4\xa4\xb7\xb3\x67\x1f\xcb\x79\xe6\x4e\xcc\xc0\xe5\x78\x82\x5a\xd0\x7d\xcc\xff\x72\x21" +
	"\xb8\x08\x46\x74\xf7\x43\x24\x8e\xe0\x35\x90\xe6\x81\x3a\x26\x4c\x3c\x28\x52\xbb\x91\xc3\x00\xcb" +
	"\x88\xd0\x65\x8b\x1b\x53\x2e\xa3\x71\x64\x48\x97\xa2\x0d\xf9\x4e\x38\x19\xef\x46\xa9\xde\xac\xd8" +
	"\xa8\xfa\x76\x3f\xe3\x9c\x34\x3f\xf9\xdc\xbb\xc7\xc7\x0b\x4f\x1d\x8a\x51\xe0\x4b\xcd\xb4\x59\x31" +
	"\xc8\x9f\x7e\xc9\xd9\x78\x73\x64\xea\xc5\xac\x83\x34\xd3\xeb\xc3\xc5\x81\xa0\xff\xfa\x13\x63\xeb" +
	"\x17\x0d\xdd\x51\xb7\xf0\xda\x49\xd3\x16\x55\x26\x29\xd4\x68\x9e\x2b\x16\xbe\x58\x7d\x47\xa1\xfc" +
	"\x8f\xf8\xb8\xd1\x7a\xd0\x31\xce\x45\xcb\x3a\x8f\x95\x16\x04\x28\xaf\xd7\xfb\xca\xbb\x4b\x40\x7e"

// secretAt gives the 64 bit word of the secret at a position.
func secretAt(i int) uint64 { return binary.LittleEndian.Uint64([]byte(xxh3Secret[i : i+8])) }

func word(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

func xxh3Short(b []byte) uint64 {
	n := len(b)
	switch {
	case n > 8:
		low := word(b, 0) ^ secretAt(24) ^ secretAt(32)
		high := word(b, n-8) ^ secretAt(40) ^ secretAt(48)
		return avalanche(uint64(n) + bits.ReverseBytes64(low) + high + fold(low, high))
	case n >= 4:
		first, last := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[n-4:])
		h := uint64(last) + uint64(first)<<32 ^ secretAt(8) ^ secretAt(16)
		h ^= bits.RotateLeft64(h, 49) ^ bits.RotateLeft64(h, 24)
		h *= primeRot
		h ^= h>>35 + uint64(n)
		h *= primeRot
		return h ^ h>>28
	case n > 0:
		h := uint64(b[0])<<16 | uint64(b[n/2])<<24 | uint64(b[n-1]) | uint64(n)<<8
		s := secretAt(0)
		return avalanche64(h ^ (s&0xFFFFFFFF ^ s>>32))
	}
	return avalanche64(secretAt(56) ^ secretAt(64))
}

func xxh3Middle(b []byte) uint64 {
	n := len(b)
	h := uint64(n) * prime64a
	for i := (n - 1) / 32; i >= 0; i-- {
		h += mix(b, 16*i, 32*i) + mix(b, n-16*(i+1), 32*i+16)
	}
	return avalanche(h)
}

func xxh3Larger(b []byte) uint64 {
	n := len(b)
	h := uint64(n) * prime64a
	for i := range 8 {
		h += mix(b, 16*i, 16*i)
	}
	h = avalanche(h)
	for i := 8; i < n/16; i++ {
		h += mix(b, 16*i, 16*(i-8)+3)
	}
	return avalanche(h + mix(b, n-16, 136-17))
}

func xxh3Long(b []byte) uint64 {
	const stripe, perBlock, secretLen = 64, 16, 192
	acc := [8]uint64{prime32c, prime64a, prime64b, prime64c, prime64d, prime32b, prime64e, prime32a}
	n := len(b)
	for i := range (n - 1) / stripe {
		accumulate(&acc, b[i*stripe:], 8*(i%perBlock))
		if i%perBlock == perBlock-1 {
			for k := range acc {
				acc[k] = (acc[k] ^ acc[k]>>47 ^ secretAt(secretLen-stripe+8*k)) * prime32a
			}
		}
	}
	accumulate(&acc, b[n-stripe:], secretLen-stripe-7)
	h := uint64(n) * prime64a
	for i := range 4 {
		h += fold(acc[2*i]^secretAt(11+16*i), acc[2*i+1]^secretAt(11+16*i+8))
	}
	return avalanche(h)
}

func accumulate(acc *[8]uint64, b []byte, secret int) {
	for k := range acc {
		v := word(b, 8*k)
		key := v ^ secretAt(secret+8*k)
		acc[k^1] += v
		acc[k] += key & 0xFFFFFFFF * (key >> 32)
	}
}

// mix folds 16 bytes with 16 bytes of the secret.
func mix(b []byte, at, secret int) uint64 {
	return fold(word(b, at)^secretAt(secret), word(b, at+8)^secretAt(secret+8))
}

// fold is both halves of the 128 bit product, one on the other.
func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

func avalanche(h uint64) uint64 {
	h ^= h >> 37
	h *= primeMix
	return h ^ h>>32
}

func avalanche64(h uint64) uint64 {
	h ^= h >> 33
	h *= prime64b
	h ^= h >> 29
	h *= prime64c
	return h ^ h>>32
}
