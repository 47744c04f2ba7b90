package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// follower is told of every batch of a segment, in order, and then of the end. Indexes are checked so.
type follower interface {
	batch(pos int64, b record.Batch)
	end()
}

// segment prints a segment and checks it with the indexes beside it.
func (d *dump) segment(name string) error {
	stem := strings.TrimSuffix(name, ".log")
	var followers []follower
	if offsets, err := d.offsetChecker(stem + ".index"); err == nil {
		followers = append(followers, offsets)
	} else if !missing(err) {
		return err
	}
	if times, err := d.timeChecker(stem + ".timeindex"); err == nil {
		followers = append(followers, times)
	} else if !missing(err) {
		return err
	}
	return d.walk(name, isMetadata(name), followers...)
}

// metadataSnapshot prints a snapshot of the metadata log.
func (d *dump) metadataSnapshot(name string) error { return d.walk(name, true) }

func isMetadata(name string) bool {
	path, err := filepath.Abs(name)
	return err == nil && strings.HasPrefix(filepath.Base(filepath.Dir(path)), "__cluster_metadata-")
}

// walker goes through the batches of one file.
type walker struct {
	*dump
	in        *bufio.Reader
	pos, size int64
	metadata  bool
	silent    bool // only tell the followers
	next      kafka.Offset
	epoch     kafka.LeaderEpoch
	followers []follower
}

// walk prints the batches of a file.
func (d *dump) walk(name string, isMetadata bool, followers ...follower) error {
	return d.walkBatches(name, walker{dump: d, metadata: isMetadata, followers: followers})
}

// follow reads the batches of a segment for followers only.
func (d *dump) follow(name string, followers ...follower) error {
	return d.walkBatches(name, walker{dump: d, silent: true, followers: followers})
}

func (d *dump) walkBatches(name string, w walker) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	w.in, w.size, w.epoch = bufio.NewReaderSize(f, 1<<20), info.Size(), kafka.NoEpoch
	if base, err := strconv.ParseInt(strings.SplitN(filepath.Base(name), ".", 2)[0], 10, 64); err == nil {
		w.next = kafka.Offset(base)
	}
	for w.pos < w.size && d.ctx.Err() == nil {
		more, err := w.step()
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	for _, f := range w.followers {
		f.end()
	}
	return nil
}

// step reads one batch; false says that what follows cannot be read.
func (w *walker) step() (bool, error) {
	left := w.size - w.pos
	prefix, err := w.in.Peek(int(min(left, record.PrefixSize)))
	if err != nil {
		return false, err
	}
	size, _, err := record.EntrySize(prefix)
	switch {
	case errors.Is(err, record.ErrTruncated), err == nil && int64(size) > left:
		w.tail("position %d: %d bytes are no whole batch (a write that was cut off?)", w.pos, left)
		return false, nil
	case err != nil:
		w.tail("position %d: no batch begins here; the other %d bytes cannot be read", w.pos, left)
		return false, nil
	}
	buf := make([]byte, size)
	if _, err := io.ReadFull(w.in, buf); err != nil {
		return false, err
	}
	b, _, err := record.Split(buf)
	switch {
	case errors.Is(err, record.ErrLegacy):
		w.legacy(buf)
	case err != nil:
		w.tail("position %d: no batch begins here; the other %d bytes cannot be read", w.pos, left)
		return false, nil
	default:
		w.batch(b)
	}
	w.pos += int64(size)
	return true, nil
}

func (w *walker) tail(format string, args ...any) {
	if !w.silent {
		w.damage(format, args...)
	}
}

func (w *walker) batch(b record.Batch) {
	for _, f := range w.followers {
		f.batch(w.pos, b)
	}
	if w.silent {
		return
	}
	fields := []field{
		{"position", w.pos}, {"size", b.Size()}, {"baseOffset", b.BaseOffset()}, {"lastOffset", b.LastOffset()},
		{"count", b.Count()}, {"leaderEpoch", b.LeaderEpoch()}, {"codec", codecWord(b.Codec())},
		{"timeType", timeType(b)}, {"maxTimestamp", b.MaxTimestamp()},
	}
	if b.HasProducer() {
		fields = append(fields, field{"producerId", b.ProducerID()}, field{"producerEpoch", b.ProducerEpoch()},
			field{"baseSequence", b.BaseSequence()}, field{"lastSequence", b.LastSequence()})
	}
	if b.IsTransactional() {
		fields = append(fields, field{"transactional", true})
	}
	if b.IsControl() {
		fields = append(fields, field{"control", true})
	}
	if b.HasDeleteHorizon() {
		fields = append(fields, field{"deleteHorizon", b.BaseTimestamp()})
	}
	w.emit("batch", append(fields, field{"crc", fmt.Sprintf("%08x", b.CRC())})...)
	w.judge(b)
}

// codecWord names a codec as compression.type does.
func codecWord(c record.Codec) string {
	words := []string{"none", "gzip", "snappy", "lz4", "zstd"}
	if c < 0 || int(c) >= len(words) {
		return fmt.Sprintf("unknown %d", c)
	}
	return words[c]
}

func timeType(b record.Batch) string {
	if b.IsLogAppendTime() {
		return "LogAppendTime"
	}
	return "CreateTime"
}

// judge checks a batch against its own rules and those before it.
func (w *walker) judge(b record.Batch) {
	if err := b.CheckCRC(); err != nil {
		w.damage("position %d: checksum does not match; the records are not to be trusted", w.pos)
		return
	}
	if b.BaseOffset() < w.next {
		w.damage("position %d: offset %d follows, but %d or higher must", w.pos, b.BaseOffset(), w.next)
	}
	w.next = b.NextOffset()
	if b.LeaderEpoch() < w.epoch {
		w.damage("position %d: leader epoch %d follows %d", w.pos, b.LeaderEpoch(), w.epoch)
	}
	w.epoch = b.LeaderEpoch()
	for r, err := range b.Records(record.Limits{}) {
		if err != nil {
			w.damage("position %d: %v", w.pos, err)
			return
		}
		w.record(b, r)
	}
}

func (w *walker) record(b record.Batch, r record.Record) {
	switch {
	case b.IsControl():
		w.emit("control", append([]field{{"offset", r.Offset}}, controlFields(r)...)...)
	case w.metadata:
		m, version, err := metadata.DecodeVersioned(r.Value)
		if err != nil {
			w.damage("offset %d: not a metadata record that is known here: %v", r.Offset, err)
			return
		}
		w.emit("metadata", field{"offset", r.Offset}, field{"record", json.RawMessage(metadata.Dump(m, version))})
	case w.records:
		fields := []field{{"offset", r.Offset}, {"timestamp", r.Timestamp}, {"key", r.Key}, {"value", r.Value}}
		if r.Headers.Len() > 0 {
			var headers []jsonHeader
			for h := range r.Headers.All() {
				v, b64 := toJSON(h.Value)
				headers = append(headers, jsonHeader{h.Key, v, b64})
			}
			text, _ := json.Marshal(headers) // texts and JSON always encode
			fields = append(fields, field{"headers", string(text)})
			if w.json {
				fields[len(fields)-1].value = json.RawMessage(text)
			}
		}
		w.emit("record", fields...)
	}
}

// legacy prints an entry of the formats before v2, of which only the envelope is read.
func (w *walker) legacy(buf []byte) {
	l, _, err := record.SplitLegacy(buf)
	if w.silent {
		return
	}
	if err != nil {
		w.damage("position %d: %v", w.pos, err)
		return
	}
	w.emit("message", field{"position", w.pos}, field{"size", len(l)}, field{"lastOffset", l.LastOffset()},
		field{"magic", l.Magic()}, field{"codec", codecWord(l.Codec())})
	if err := l.CheckCRC(); err != nil {
		w.damage("position %d: checksum does not match", w.pos)
	}
	w.next = l.LastOffset() + 1
}

// momentText gives ms since the epoch for a person.
func momentText(ms int64) string {
	if ms < 0 {
		return "none"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}
