// Package record is Kafka's record batch, format v2, as a view over bytes: cutting, checking, reading,
// building, compressing and rewriting batches without copying what need not be copied. Of the formats before
// v2 it knows only the envelope, so that old logs can be scanned and passed on.
//
// It owns the byte layout of a batch, the codecs with their limits, and the rules a producer's batch must
// meet. It never opens a file, never reads a clock, starts no goroutine and holds no state between calls:
// encoders and decoders come from pools whose entries are reset before use. Everything here may be called
// from any goroutine, but a Batch is plain memory: whoever stamps or validates one (Validate may rewrite its
// header) must own it.
//
// A Batch aliases the bytes it was cut from; whoever keeps it longer than that buffer lives must copy it.
// Keys, values and headers of a Record alias the batch, or a window that the next record overwrites: see
// Batch.Records.
//
// Start reading at batch.go (the view), then split.go (cutting), validate.go (what a producer may send),
// walk.go (one pass over the records) and builder.go. Each codec's guard against hostile input stands in its
// own file.
package record
