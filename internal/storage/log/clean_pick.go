package log

import (
	"math"
	"time"

	"moldau/internal/kafka"
)

// Dirt says how much of a compacted log waits for compaction.
type Dirt struct {
	// From is the first offset that compaction has not been through, and End where what may be compacted now ends: the
	// start of a segment.
	From, End kafka.Offset
	// CleanBytes lie before From, DirtyBytes between From and End.
	CleanBytes, DirtyBytes int64
	// Overdue: the oldest record not compacted is older than max.compaction.lag.ms.
	Overdue bool
}

// Ratio is the share of what is not compacted in what would be read, 0 when there is nothing to do.
func (d Dirt) Ratio() float64 {
	if d.DirtyBytes == 0 {
		return 0
	}
	return float64(d.DirtyBytes) / float64(d.CleanBytes+d.DirtyBytes)
}

// Due says whether the log should be compacted now: the ratio exceeds min.cleanable.dirty.ratio, or time is up.
func (d Dirt) Due(c *Config) bool {
	return d.DirtyBytes > 0 && (d.Overdue || d.Ratio() > c.MinCleanableDirty)
}

// Before orders logs by who is compacted first: those whose time is up, then the dirtiest.
func (d Dirt) Before(other Dirt) bool {
	if d.Overdue != other.Overdue {
		return d.Overdue
	}
	return d.Ratio() > other.Ratio()
}

// Dirt looks at what could be compacted. lastStable is the first offset that must not be touched because a transaction
// is open there or replicas may not have it yet. Also left alone are the last segment, what is not durable with all that
// belongs to it (the recovery point: a crash must never make recovery cut at the holes that compaction leaves), and
// whatever follows a record younger than min.compaction.lag.ms.
//
// Errors are the disk's. It may be called without the owner's lock.
func (l *Log) Dirt(lastStable kafka.Offset, now time.Time) (Dirt, error) {
	v, c := l.View(), l.Config()
	d := Dirt{From: l.dir.firstDirty(v)}
	if !c.Compact || len(v.segments) < 2 || v.endOf(len(v.segments)-2) <= d.From {
		return d, nil
	}
	d.End = d.From
	bound := min(lastStable, l.RecoveryPoint(), v.Durable)
	b := l.dir.block()
	defer l.dir.putBlock(b)
	for i := range v.segments[:len(v.segments)-1] {
		if v.endOf(i) <= d.From {
			d.CleanBytes += v.sizeOf(i)
			continue
		}
		if v.endOf(i) > bound {
			break
		}
		if c.MinCompactionLagMs > 0 {
			newest, err := v.ageTimestamp(i, b)
			if err != nil {
				return d, v.dirtError(err)
			}
			if newest > now.UnixMilli()-c.MinCompactionLagMs {
				break
			}
		}
		d.DirtyBytes += v.sizeOf(i)
		d.End = v.endOf(i)
	}
	if d.DirtyBytes == 0 || c.MaxCompactionLagMs == math.MaxInt64 {
		return d, nil
	}
	var err error
	d.Overdue, err = v.overdue(d, now.UnixMilli()-c.MaxCompactionLagMs, b)
	return d, v.dirtError(err)
}

// dirtError: a log that changes meanwhile is looked at again the next time.
func (v *View) dirtError(err error) error {
	if err == nil || isChanged(err) && v.log.View() != v {
		return nil
	}
	return storageError("look for what to compact", err)
}

// overdue says whether a segment of d begins with a batch older than limit (ms).
func (v *View) overdue(d Dirt, limit int64, b *block) (bool, error) {
	for i := v.find(d.From); i < len(v.segments) && v.segments[i].base < d.End; i++ {
		if v.sizeOf(i) == 0 {
			continue
		}
		data, err := v.segments[i].acquire(dataFile)
		if err != nil {
			return false, err
		}
		h := headers{file: data.file, end: v.sizeOf(i), block: b}
		x, err := h.next()
		data.release()
		if err != nil {
			return false, err
		}
		if x.maxTimestamp >= 0 && x.maxTimestamp < limit {
			return true, nil
		}
	}
	return false, nil
}
