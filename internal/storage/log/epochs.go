package log

import (
	"cmp"
	"slices"

	"moldau/internal/kafka"
)

// EpochEntry says that the leader of an epoch began to write at Start.
type EpochEntry struct {
	Epoch kafka.LeaderEpoch
	Start kafka.Offset
}

// Epochs is the history of a partition's leaders, oldest first: both fields of its entries rise strictly. It
// is how two replicas find out where their logs part (KIP-101, KIP-279, KIP-320).
//
// Values are immutable: every change gives a new value that shares no memory anybody could write to, so a
// view or a flush may keep one without a lock. The nil value is a log without epochs.
type Epochs []EpochEntry

// Latest gives the newest entry; false when there is none.
func (e Epochs) Latest() (EpochEntry, bool) {
	if len(e) == 0 {
		return EpochEntry{Epoch: kafka.NoEpoch, Start: kafka.NoOffset}, false
	}
	return e[len(e)-1], true
}

// Assign records that epoch began at start, and says whether that changed anything. A known newest epoch is
// no change; otherwise entries that the new one contradicts (same or newer epoch, same or later start) are
// dropped first, so an epoch in which nothing was written leaves no trace. Negative values never change
// anything.
func (e Epochs) Assign(epoch kafka.LeaderEpoch, start kafka.Offset) (Epochs, bool) {
	if epoch < 0 || start < 0 {
		return e, false
	}
	if last, ok := e.Latest(); ok && last.Epoch == epoch && last.Start <= start {
		return e, false
	}
	keep := len(e)
	for keep > 0 && (e[keep-1].Epoch >= epoch || e[keep-1].Start >= start) {
		keep--
	}
	out := make(Epochs, keep, keep+1)
	copy(out, e)
	return append(out, EpochEntry{Epoch: epoch, Start: start}), true
}

// EndFor answers where the given epoch ends in a log that ends at logEnd, and which epoch that answer is
// about:
//   - the newest epoch ends at logEnd;
//   - an epoch above the newest, or NoEpoch, is not known: (NoEpoch, NoOffset);
//   - any other ends where the next higher epoch starts, and the answer names the newest epoch not above the asked one,
//     so that the asker can look for its own end of that epoch and ask again (KIP-279);
//   - an epoch below the first answers with itself and the first start.
func (e Epochs) EndFor(epoch kafka.LeaderEpoch, logEnd kafka.Offset) (kafka.LeaderEpoch, kafka.Offset) {
	last, ok := e.Latest()
	if !ok || epoch < 0 || epoch > last.Epoch {
		return kafka.NoEpoch, kafka.NoOffset
	}
	if epoch == last.Epoch {
		return epoch, logEnd
	}
	higher := e.firstAbove(epoch)
	if higher == 0 {
		return epoch, e[0].Start
	}
	return e[higher-1].Epoch, e[higher].Start
}

// firstAbove gives the index of the first entry with a higher epoch, len(e) when there is none.
func (e Epochs) firstAbove(epoch kafka.LeaderEpoch) int {
	i, found := slices.BinarySearchFunc(e, epoch, func(x EpochEntry, t kafka.LeaderEpoch) int {
		return cmp.Compare(x.Epoch, t)
	})
	if found {
		i++
	}
	return i
}

// At gives the epoch in which the record at offset was written; NoEpoch for offsets before the first entry.
func (e Epochs) At(offset kafka.Offset) kafka.LeaderEpoch {
	i := e.firstStartingAfter(offset)
	if i == 0 {
		return kafka.NoEpoch
	}
	return e[i-1].Epoch
}

// firstStartingAfter gives the index of the first entry with Start > offset, len(e) when there is none.
func (e Epochs) firstStartingAfter(offset kafka.Offset) int {
	i, found := slices.BinarySearchFunc(e, offset, func(x EpochEntry, t kafka.Offset) int {
		return cmp.Compare(x.Start, t)
	})
	if found {
		i++
	}
	return i
}

// StartOf gives where an epoch begins; false when no entry of that epoch exists.
func (e Epochs) StartOf(epoch kafka.LeaderEpoch) (kafka.Offset, bool) {
	i := e.firstAbove(epoch) - 1
	if i < 0 || e[i].Epoch != epoch {
		return kafka.NoOffset, false
	}
	return e[i].Start, true
}

// TruncateEnd gives the history of the log cut to end at end: entries that start at or after it are gone.
func (e Epochs) TruncateEnd(end kafka.Offset) Epochs {
	keep := len(e)
	for keep > 0 && e[keep-1].Start >= end {
		keep--
	}
	if keep == 0 {
		return nil
	}
	return e[:keep:keep]
}

// TruncateStart gives the history of the log that begins at start: older entries are gone, and the one that
// covers start begins there now. A log emptied from its front keeps its newest epoch that way.
func (e Epochs) TruncateStart(start kafka.Offset) Epochs {
	i := e.firstStartingAfter(start) - 1
	if i < 0 || (i == 0 && e[0].Start == start) {
		return e
	}
	out := slices.Clone(e[i:])
	out[0].Start = start
	return out
}
