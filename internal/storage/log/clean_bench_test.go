//go:build unix

package log

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// BenchmarkClean compacts a log in which each key stands five times: MB/s of dirty log, and the processor time of a GB.
func BenchmarkClean(b *testing.B) {
	for _, codec := range []record.Codec{record.Uncompressed, record.LZ4} {
		for _, size := range []int{100, 1000} {
			b.Run(fmt.Sprintf("codec %d, values of %d", codec, size), func(b *testing.B) { benchmarkClean(b, codec, size) })
		}
	}
}

func benchmarkClean(b *testing.B, codec record.Codec, size int) {
	const total = 64 << 20
	c := DefaultConfig()
	c.Compact, c.Delete, c.SegmentBytes, c.FileDeleteDelayMs = true, false, 16<<20, 0
	d := formatAndOpen(b, vfs.OS(), b.TempDir()+"/data")
	records := total / (size + 20)
	dirty := int64(0)
	var used, cpu time.Duration
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		l, err := d.Create(tp("bench", int32(i)), &c, CreateOptions{}, epoch0)
		must(b, err)
		fillForBench(b, l, codec, size, records)
		x, err := l.Clean(must2(b)(l.Dirt(l.View().End, epoch0)), l.View().End, epoch0,
			CleanOptions{Hash: seededHash(), KeyBytes: 128 << 20, KeyLoad: 0.9, BufferBytes: 512 << 10})
		must(b, err)
		b.StartTimer()
		began, spent := time.Now(), processorTime()
		for done := false; !done; {
			_, done, err = x.Step(256 << 10)
			must(b, err)
		}
		used += time.Since(began)
		cpu += processorTime() - spent
		b.StopTimer()
		dirty += x.Progress().BytesBefore
		l.Close(false, epoch0)
		must(b, vfs.OS().RemoveAll(l.Path()))
		b.StartTimer()
	}
	b.SetBytes(dirty / int64(max(b.N, 1)))
	b.ReportMetric(cpu.Seconds()/(float64(dirty)/1e9), "cpu-s/GB")
	b.ReportMetric(used.Seconds()/(float64(dirty)/1e9), "s/GB")
	d.Close(false, 0)
}

func fillForBench(b *testing.B, l *Log, codec record.Codec, size, records int) {
	rnd, value := rand.New(rand.NewPCG(1, 1)), make([]byte, size)
	for i := range value {
		value[i] = byte('a' + rnd.IntN(16))
	}
	for n := 0; n < records; {
		x := record.NewBuilder(record.Options{Codec: codec})
		for range 100 {
			copy(value, fmt.Appendf(nil, "%08d", rnd.IntN(1e8)))
			x.Append(epoch0.UnixMilli(), fmt.Appendf(nil, "customer-%08d", rnd.IntN(records/5)), value, nil)
			n++
		}
		batch, err := x.Build()
		must(b, err)
		_, err = l.Append(batch, leader(0), epoch0)
		must(b, err)
	}
	must(b, l.Roll(epoch0))
	t := l.Dirty()
	must(b, t.Sync())
	l.MarkDurable(t)
}

func must2(b *testing.B) func(Dirt, error) Dirt {
	return func(d Dirt, err error) Dirt {
		must(b, err)
		return d
	}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
