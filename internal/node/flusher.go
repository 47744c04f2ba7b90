package node

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"moldau/internal/cluster/replica"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

// flusher syncs the partitions of one log directory: group commit. While one round is on the disk the next gathers, so
// that under load a sync carries many appends and without load none waits. It alone syncs segments that are appended to.
type flusher struct {
	dir     *log.Dir
	host    replica.Host
	log     *slog.Logger
	now     func() time.Time
	observe func(partitions int, group bool, took time.Duration, failed int)
	// groupFrom is the number of partitions from which on one sync of the whole file system is tried; 0: never.
	groupFrom int
	// linger is how long a round gathers before it syncs (moldau.flush.linger.ms).
	linger time.Duration

	mu      sync.Mutex
	dirty   []*replica.Partition
	queued  map[*replica.Partition]struct{}
	absent  map[*replica.Partition]struct{} // of the last round, and not asked for again yet
	rounded int                             // partitions of the last round
	closed  bool
	wake    chan struct{}

	// Recent cost in nanoseconds of one group sync, and of one file's, as moving averages: the loop's own.
	groupCost, fileCost float64
	// hasty is how many rounds begin at once because waiting for those of the last was in vain, and how many the next
	// time: the loop's own.
	hasty, hastyNext int
}

func newFlusher(dir *log.Dir, host replica.Host, logger *slog.Logger, now func() time.Time, groupFrom int,
	observe func(int, bool, time.Duration, int)) *flusher {
	return &flusher{dir: dir, host: host, log: logger, now: now, observe: observe, groupFrom: groupFrom,
		queued: make(map[*replica.Partition]struct{}), absent: make(map[*replica.Partition]struct{}), wake: make(chan struct{}, 1)}
}

// starvedPause keeps a flusher that found no file descriptor from asking again and again until somebody closes one.
const starvedPause = 10 * time.Millisecond

// request asks for a partition's flush. It never blocks.
func (f *flusher) request(p *replica.Partition) {
	f.mu.Lock()
	if _, ok := f.queued[p]; ok || f.closed {
		f.mu.Unlock()
		return
	}
	f.queued[p] = struct{}{}
	delete(f.absent, p)
	f.dirty = append(f.dirty, p)
	f.mu.Unlock()
	f.poke()
}

func (f *flusher) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// run flushes until close; what was requested before is flushed still.
func (f *flusher) run() {
	for {
		<-f.wake
		f.gather()
		f.mu.Lock()
		round, closed := f.dirty, f.closed
		f.dirty = nil
		f.rounded = len(round)
		clear(f.absent)
		if f.groupFrom > 0 && len(round) >= f.groupFrom {
			f.absent, f.queued = f.queued, f.absent
		}
		clear(f.queued)
		f.mu.Unlock()
		f.flush(round)
		if closed {
			return
		}
	}
}

// gather gives the round a moment to fill. Clients that wait for one answer before they send the next request are all
// answered when a round ends; if the next began with the first of them to come back, two halves would take turns, and a
// group sync of half as many costs as much. So it waits until those of the last round are there again, at most half a
// sync's time; and where they do not come back so soon, it does so less and less often.
func (f *flusher) gather() {
	if f.linger > 0 {
		time.Sleep(f.linger)
		return
	}
	of, left := f.awaited()
	if left == 0 {
		return
	}
	if f.hasty > 0 {
		f.hasty--
		return
	}
	timer := time.NewTimer(min(time.Duration(f.groupCost/2), longestGather))
	defer timer.Stop()
	for left > 0 {
		select {
		case <-f.wake:
			_, left = f.awaited()
			continue
		case <-timer.C:
		}
		break
	}
	if left <= of/2 {
		f.hastyNext = 1
		return
	}
	f.hasty, f.hastyNext = f.hastyNext, min(max(2*f.hastyNext, 1), mostHaste)
}

const (
	longestGather = time.Millisecond
	mostHaste     = 64
)

// awaited tells of how many partitions the last round was, if it was worth a group sync, and how many are not there again.
func (f *flusher) awaited() (of, left int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0, 0
	}
	return f.rounded, len(f.absent)
}

func (f *flusher) flush(round []*replica.Partition) {
	tokens := make([]log.FlushToken, 0, len(round))
	owners := make([]*replica.Partition, 0, len(round))
	for _, p := range round {
		t := p.BeginFlush()
		if t.Empty() {
			t.Drop()
			continue
		}
		if t.Log().Dir() != f.dir { // moved since it asked: only that directory's sync says anything of it
			t.Drop()
			f.host.RequestFlush(p)
			continue
		}
		tokens, owners = append(tokens, t), append(owners, p)
	}
	if len(tokens) == 0 {
		return
	}
	start := f.now()
	errs, group := f.sync(tokens)
	failed := 0
	for _, err := range errs {
		if err != nil {
			failed++
		}
	}
	f.observe(len(tokens), group, f.now().Sub(start), failed)
	now := f.now()
	for i, p := range owners {
		e := p.Flushed(now, tokens[i], errs[i])
		e.Run(f.host)
	}
	if slices.ContainsFunc(errs, vfs.IsOutOfFiles) {
		time.Sleep(starvedPause)
	}
}

// sync makes the tokens durable, all at once when that is cheaper. An error of the group names nobody, so each is then
// synced on its own descriptor to learn whose it is.
func (f *flusher) sync(tokens []log.FlushToken) (errs []error, group bool) {
	errs = make([]error, len(tokens))
	var unclaimed error
	if f.groupPays(len(tokens)) {
		start := f.now()
		ok, err := log.SyncGroup(f.dir, tokens)
		unclaimed = err
		if ok && err == nil {
			f.groupCost = average(f.groupCost, float64(f.now().Sub(start)))
			return errs, true
		}
		if !ok {
			f.groupFrom = 0
		}
	}
	start := f.now()
	for i := range tokens {
		errs[i] = tokens[i].Sync()
	}
	f.fileCost = average(f.fileCost, float64(f.now().Sub(start))/float64(len(tokens)))
	if unclaimed != nil && !slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		f.log.Error("the file system reported an error that is none of this directory's files'", "dir", f.dir.Path(),
			"error", unclaimed)
	}
	return errs, false
}

// groupPays says whether n files should be synced with one call: when that was cheaper lately, and now and then to find
// out whether it is.
func (f *flusher) groupPays(n int) bool {
	if f.groupFrom == 0 || n < f.groupFrom {
		return false
	}
	if f.groupCost == 0 || f.fileCost == 0 {
		return true
	}
	f.groupCost *= 0.99 // an old bad experience fades
	return f.groupCost <= f.fileCost*float64(n)
}

func average(old, sample float64) float64 {
	if old == 0 {
		return sample
	}
	return old*0.8 + sample*0.2
}

func (f *flusher) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.poke()
}
