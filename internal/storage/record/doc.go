// Package record is Kafka's record batch, format v2, as a view over bytes: reading, checking, building, compressing and
// rewriting batches without copying what need not be copied.
//
// It never opens a file, reads no clock and holds no state between calls (decoders and encoders are pooled). A Batch
// aliases its bytes; whoever keeps one longer than the buffer lives must copy it. Start reading at batch.go.
package record
