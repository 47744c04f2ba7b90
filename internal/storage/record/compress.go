package record

import (
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"moldau/internal/kafka"
)

// Levels of Kafka's compression.<codec>.level settings (KIP-390). Zero means the codec's default everywhere
// here.
const (
	gzipMaxLevel     = 9
	lz4DefaultLevel  = 9 // Kafka's default means its fast compressor, not the ninth level
	lz4MaxLevel      = 9 // Kafka allows up to 17; the library knows 9
	zstdDefaultLevel = 3

	// zstdWindow is the window of what we write: batches are rarely larger.
	zstdWindow = 1 << 20
)

// encoderPools keeps the encoders of each codec between uses, by level.
type encoderPools struct {
	gzip   [gzipMaxLevel + 3]sync.Pool // levels -2 to 9
	snappy sync.Pool
	lz4    [lz4MaxLevel + 1]sync.Pool
	zstd   [int(zstd.SpeedBestCompression) + 1]sync.Pool
}

var encoders encoderPools

// compressor writes a compressed stream. It goes back to its pool by release, after Close or not.
type compressor struct {
	io.WriteCloser
	release func()
}

// compressTo starts a stream of codec c into dst. c must not be Uncompressed.
func compressTo(dst io.Writer, c Codec, level int) (compressor, error) {
	switch c {
	case Gzip:
		return encoders.gzipTo(dst, level)
	case Snappy:
		return encoders.snappyTo(dst), nil
	case LZ4:
		return encoders.lz4To(dst, level)
	case Zstd:
		return encoders.zstdTo(dst, level)
	}
	return compressor{}, kafka.UnsupportedCompressionType
}

func (p *encoderPools) gzipTo(dst io.Writer, level int) (compressor, error) {
	if level == 0 {
		level = gzip.DefaultCompression
	}
	level = min(max(level, gzip.HuffmanOnly), gzipMaxLevel)
	pool := &p.gzip[level-gzip.HuffmanOnly]
	w, _ := pool.Get().(*gzip.Writer)
	if w == nil {
		var err error
		if w, err = gzip.NewWriterLevel(dst, level); err != nil {
			return compressor{}, err
		}
	}
	w.Reset(dst)
	return compressor{w, func() { w.Reset(io.Discard); pool.Put(w) }}, nil
}

func (p *encoderPools) snappyTo(dst io.Writer) compressor {
	w, _ := p.snappy.Get().(*xerialWriter)
	if w == nil {
		w = &xerialWriter{block: make([]byte, 0, xerialBlockSize)}
	}
	w.reset(dst)
	return compressor{w, func() { w.reset(nil); p.snappy.Put(w) }}
}

// lz4Levels are the library's names of the levels; index 0 is its fast compressor.
func lz4Levels() [lz4MaxLevel + 1]lz4.CompressionLevel {
	return [...]lz4.CompressionLevel{lz4.Fast, lz4.Level1, lz4.Level2, lz4.Level3, lz4.Level4, lz4.Level5,
		lz4.Level6, lz4.Level7, lz4.Level8, lz4.Level9}
}

func (p *encoderPools) lz4To(dst io.Writer, level int) (compressor, error) {
	if level == lz4DefaultLevel {
		level = 0
	}
	level = min(max(level, 0), lz4MaxLevel)
	pool := &p.lz4[level]
	w, _ := pool.Get().(*lz4.Writer)
	if w == nil {
		w = lz4.NewWriter(dst)
		// As Kafka's Java client writes it.
		if err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false),
			lz4.CompressionLevelOption(lz4Levels()[level]), lz4.ConcurrencyOption(1)); err != nil {
			return compressor{}, err
		}
	}
	w.Reset(dst)
	return compressor{w, func() { w.Reset(io.Discard); pool.Put(w) }}, nil
}

func (p *encoderPools) zstdTo(dst io.Writer, level int) (compressor, error) {
	if level == 0 {
		level = zstdDefaultLevel
	}
	speed := zstd.EncoderLevelFromZstd(level)
	pool := &p.zstd[speed]
	w, _ := pool.Get().(*zstd.Encoder)
	if w == nil {
		var err error
		// With a concurrency of one the encoder starts no goroutine, so that it may simply be dropped.
		w, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(speed),
			zstd.WithEncoderCRC(false), zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return compressor{}, err
		}
	}
	w.Reset(dst)
	return compressor{w, func() { w.Reset(nil); pool.Put(w) }}, nil
}

// sink collects a new batch up to a size. What goes beyond is dropped and remembered.
type sink struct {
	b    []byte
	max  int
	full bool
}

// Write implements io.Writer.
func (s *sink) Write(p []byte) (int, error) {
	if s.full || len(p) > s.max-len(s.b) {
		s.full = true
		return 0, kafka.MessageTooLarge
	}
	s.b = append(s.b, p...)
	return len(p), nil
}
