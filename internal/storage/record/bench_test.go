package record

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// benchBatch is a plain batch of about size bytes with records of recordSize bytes, half of which compress.
func benchBatch(size, recordSize int) Batch {
	r := rand.New(rand.NewPCG(1, 2))
	b := NewBuilder(Options{SizeHint: size})
	value := make([]byte, recordSize-20)
	for b.Size()+recordSize <= size {
		for i := range len(value) / 2 {
			value[i] = byte(r.Uint32())
		}
		b.Append(now.UnixMilli(), []byte("key-1234"), value, nil)
	}
	out, err := b.Build()
	if err != nil {
		panic(err)
	}
	return out
}

func benchCompressed(c Codec) Batch {
	plain := benchBatch(256<<10, 1<<10)
	out, err := plain.Validate(Checks{TargetCodec: c, Now: now, BeforeMaxMs: 1 << 40, AfterMaxMs: 1 << 40})
	if err != nil {
		panic(err)
	}
	return out.Batch
}

func clientChecks() Checks {
	return Checks{ProduceVersion: 9, Now: now, BeforeMaxMs: 1<<63 - 1, AfterMaxMs: 3_600_000, TargetCodec: KeepCodec,
		MaxBatchBytes: 1 << 20}
}

func BenchmarkCRC(b *testing.B) {
	batch := benchBatch(256<<10, 1<<10)
	b.SetBytes(int64(len(batch)))
	for b.Loop() {
		if batch.CheckCRC() != nil {
			b.Fatal("crc")
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	for _, size := range []int{100, 1 << 10} {
		batch := benchBatch(256<<10, size)
		b.Run(map[int]string{100: "100B", 1 << 10: "1KiB"}[size], func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(batch)))
			for b.Loop() {
				if _, err := batch.Validate(clientChecks()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, c := range allCodecs()[1:] {
		batch := benchCompressed(c)
		b.Run(codecNames[c], func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(256 << 10)
			for b.Loop() {
				if _, err := batch.Validate(clientChecks()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkValidateLogAppendTime(b *testing.B) {
	batch := benchBatch(256<<10, 1<<10)
	c := clientChecks()
	c.LogAppendTime = true
	b.ReportAllocs()
	b.SetBytes(int64(len(batch)))
	for b.Loop() {
		batch.SetCreateTime(1)
		if _, err := batch.Validate(c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRecompress(b *testing.B) {
	plain := benchBatch(256<<10, 1<<10)
	for _, c := range allCodecs()[1:] {
		checks := clientChecks()
		checks.TargetCodec = c
		b.Run(codecNames[c], func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(plain)))
			for b.Loop() {
				if _, err := plain.Validate(checks); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRecords(b *testing.B) {
	for _, c := range allCodecs() {
		batch := benchCompressed(c)
		b.Run(codecNames[c], func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(256 << 10)
			for b.Loop() {
				for _, err := range batch.Records(Limits{}) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	value := bytes.Repeat([]byte("v"), 1000)
	for b.Loop() {
		w := NewBuilder(Options{SizeHint: 64 << 10})
		for range 60 {
			w.Append(1, []byte("key"), value, nil)
		}
		if _, err := w.Build(); err != nil {
			b.Fatal(err)
		}
	}
}
