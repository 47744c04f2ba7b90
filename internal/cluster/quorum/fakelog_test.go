package quorum

import (
	"slices"

	"moldau/internal/kafka"
)

// fakeLog answers the core's questions from a list of epochs.
type fakeLog struct {
	start, end kafka.Offset
	durable    kafka.Offset
	epochs     []OffsetAndEpoch // Offset: where the epoch begins
	snapshots  []OffsetAndEpoch
}

func (l *fakeLog) Start() kafka.Offset         { return l.start }
func (l *fakeLog) End() kafka.Offset           { return l.end }
func (l *fakeLog) Durable() kafka.Offset       { return l.durable }
func (l *fakeLog) Snapshots() []OffsetAndEpoch { return slices.Clone(l.snapshots) }

func (l *fakeLog) LastEpoch() kafka.LeaderEpoch {
	if n := len(l.epochs); n > 0 {
		return l.epochs[n-1].Epoch
	}
	if n := len(l.snapshots); n > 0 {
		return l.snapshots[n-1].Epoch
	}
	return 0
}

func (l *fakeLog) EndOffsetFor(epoch kafka.LeaderEpoch) OffsetAndEpoch {
	if len(l.epochs) == 0 || epoch > l.LastEpoch() {
		return OffsetAndEpoch{l.end, l.LastEpoch()}
	}
	end, found := l.end, kafka.LeaderEpoch(-1)
	for _, e := range slices.Backward(l.epochs) {
		if e.Epoch <= epoch {
			found = e.Epoch
			break
		}
		end = e.Offset
	}
	if found < 0 {
		found, end = epoch, l.epochs[0].Offset
	}
	return OffsetAndEpoch{end, found}
}

func (l *fakeLog) append(n int, epoch kafka.LeaderEpoch) {
	if epoch > l.LastEpoch() || len(l.epochs) == 0 {
		l.epochs = append(l.epochs, OffsetAndEpoch{l.end, epoch})
	}
	l.end += kafka.Offset(n)
}

func (l *fakeLog) truncate(end kafka.Offset) {
	l.epochs = slices.DeleteFunc(l.epochs, func(e OffsetAndEpoch) bool { return e.Offset >= end })
	l.end, l.durable = end, min(l.durable, end)
}
