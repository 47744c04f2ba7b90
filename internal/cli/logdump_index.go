package cli

import (
	"encoding/binary"
	"path/filepath"
	"strconv"
	"strings"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// Sizes of index entries in bytes.
const (
	offsetEntryBytes = 8
	timeEntryBytes   = 12
	txnEntryBytes    = 34
)

// baseOf is the offset in the name of a segment's file.
func baseOf(name string) kafka.Offset {
	digits, _, _ := strings.Cut(filepath.Base(name), ".")
	n, _ := strconv.ParseInt(digits, 10, 64) // kind let only digits pass
	return kafka.Offset(n)
}

// indexEntry is an entry of an offset index (where: position in the file) or time index (where: time in ms).
type indexEntry struct {
	offset kafka.Offset
	where  int64
}

// offsetIndex prints an offset index and checks it against the segment beside it.
func (d *dump) offsetIndex(name string) error {
	c, err := d.offsetChecker(name)
	if err != nil {
		return err
	}
	for _, e := range c.entries {
		d.emit("entry", field{"offset", e.offset}, field{"position", e.where})
	}
	if log := d.segmentBeside(name); log != "" {
		return d.follow(log, c)
	}
	return nil
}

// offsetChecker holds an offset index against the batches of its segment: an entry names the last offset of a batch and
// where that begins.
type offsetChecker struct {
	*dump
	name    string
	entries []indexEntry
	at      int
}

func (d *dump) offsetChecker(name string) (*offsetChecker, error) {
	c := &offsetChecker{dump: d, name: filepath.Base(name)}
	base := baseOf(name)
	err := d.entries(name, offsetEntryBytes, func(i int, e []byte) bool {
		entry := indexEntry{base + kafka.Offset(binary.BigEndian.Uint32(e)), int64(binary.BigEndian.Uint32(e[4:]))}
		if i > 0 && (entry.offset <= c.entries[i-1].offset || entry.where <= c.entries[i-1].where) {
			d.damage("%s, entry %d: offset %d, position %d do not rise", c.name, i, entry.offset, entry.where)
		}
		c.entries = append(c.entries, entry)
		return true
	})
	return c, err
}

func (c *offsetChecker) batch(pos int64, b record.Batch) {
	for c.at < len(c.entries) && c.entries[c.at].where < pos {
		c.damage("%s, entry %d: no batch begins at position %d", c.name, c.at, c.entries[c.at].where)
		c.at++
	}
	if c.at < len(c.entries) && c.entries[c.at].where == pos {
		if e := c.entries[c.at]; e.offset != b.LastOffset() {
			c.damage("%s, entry %d: position %d is said to hold offset %d, it holds %d", c.name, c.at, pos, e.offset,
				b.LastOffset())
		}
		c.at++
	}
}

func (c *offsetChecker) end() {
	if c.at < len(c.entries) {
		c.damage("%s: %s beyond the last batch", c.name, entriesText(len(c.entries)-c.at))
	}
}

func entriesText(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return strconv.Itoa(n) + " entries"
}

// timeIndex prints a time index and checks it against the segment beside it.
func (d *dump) timeIndex(name string) error {
	c, err := d.timeChecker(name)
	if err != nil {
		return err
	}
	for _, e := range c.entries {
		d.emit("entry", field{"timestamp", e.where}, field{"time", momentText(e.where)}, field{"offset", e.offset})
	}
	if log := d.segmentBeside(name); log != "" {
		return d.follow(log, c)
	}
	return nil
}

// timeChecker holds a time index against the batches of its segment: an entry names the largest time so far and an
// offset in the batch that has it.
type timeChecker struct {
	*dump
	name    string
	entries []indexEntry
	at      int
}

func (d *dump) timeChecker(name string) (*timeChecker, error) {
	c := &timeChecker{dump: d, name: filepath.Base(name)}
	base := baseOf(name)
	err := d.entries(name, timeEntryBytes, func(i int, e []byte) bool {
		entry := indexEntry{base + kafka.Offset(binary.BigEndian.Uint32(e[8:])), int64(binary.BigEndian.Uint64(e))}
		if i > 0 && (entry.offset <= c.entries[i-1].offset || entry.where <= c.entries[i-1].where) {
			d.damage("%s, entry %d: time %d, offset %d do not rise", c.name, i, entry.where, entry.offset)
		}
		c.entries = append(c.entries, entry)
		return true
	})
	return c, err
}

func (c *timeChecker) batch(_ int64, b record.Batch) {
	for c.at < len(c.entries) && c.entries[c.at].offset <= b.LastOffset() {
		switch e := c.entries[c.at]; {
		case e.offset < b.BaseOffset():
			c.damage("%s, entry %d: no batch has offset %d", c.name, c.at, e.offset)
		case e.where != b.MaxTimestamp():
			c.damage("%s, entry %d: offset %d is said to have time %d, its batch has %d", c.name, c.at, e.offset, e.where,
				b.MaxTimestamp())
		}
		c.at++
	}
}

func (c *timeChecker) end() {
	if c.at < len(c.entries) {
		c.damage("%s: %s beyond the last batch", c.name, entriesText(len(c.entries)-c.at))
	}
}

// txnIndex prints the aborted transactions of a segment.
func (d *dump) txnIndex(name string) error {
	last := kafka.NoOffset
	return d.entries(name, txnEntryBytes, func(i int, e []byte) bool {
		if v := binary.BigEndian.Uint16(e); v != 0 {
			d.damage("entry %d: version %d is not known", i, v)
			return false
		}
		at := func(from int) int64 { return int64(binary.BigEndian.Uint64(e[from:])) }
		first, marker := kafka.Offset(at(10)), kafka.Offset(at(18))
		d.emit("aborted", field{"producerId", at(2)}, field{"firstOffset", first}, field{"lastOffset", marker},
			field{"lastStableOffset", at(26)})
		if first > marker || marker <= last {
			d.damage("entry %d: offsets %d to %d do not rise", i, first, marker)
		}
		last = marker
		return true
	})
}
