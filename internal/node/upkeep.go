package node

import (
	"sync"
	"time"

	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
)

// upkeep is what has to be done from time to time: retention and deletion, checkpoints, expiry of producer ids, flush.ms,
// free space, closing idle files, scrubbing, and compaction (cleaner.go).
type upkeep struct {
	n       *Node
	stopped chan struct{}
	once    sync.Once
	lag     *groupLag
	txns    *txnSurvey
	full    *fullDirs
	// By which data and producer ids are too old: one each, because each belongs to a loop.
	retention, expiry retentionClock
}

func newUpkeep(n *Node) *upkeep {
	u := &upkeep{n: n, stopped: make(chan struct{}), lag: newGroupLag(n), txns: newTxnSurvey(n), full: newFullDirs(n)}
	u.retention.now(n.o.Now(), n.log)
	u.expiry.now(n.o.Now(), n.log)
	return u
}

// start begins the loops; stop ends them.
func (u *upkeep) start(loops *sync.WaitGroup) {
	ms := func(key string) time.Duration { return time.Duration(u.n.config.Int64(key)) * time.Millisecond }
	every := func(d, first time.Duration, f func()) {
		loops.Go(func() { u.repeat(d, first, f) })
	}
	check := ms("log.retention.check.interval.ms")
	every(check, min(check, ms("log.initial.task.delay.ms")), u.retain)
	every(ms("log.flush.offset.checkpoint.interval.ms"), ms("log.flush.offset.checkpoint.interval.ms"), u.checkpoint)
	every(ms("replica.high.watermark.checkpoint.interval.ms"), ms("replica.high.watermark.checkpoint.interval.ms"), u.checkpoint)
	every(time.Second, time.Second, u.space)
	every(time.Second, time.Second, u.tick)
	every(ms("moldau.log.idle.close.ms")/2, ms("moldau.log.idle.close.ms"), u.closeIdle)
	every(ms("producer.id.expiration.check.interval.ms"), ms("producer.id.expiration.check.interval.ms"), u.expire)
	every(5*time.Second, time.Second, u.survey)
	every(5*time.Second, 5*time.Second, u.deletePending)
	if u.lag.max > 0 {
		every(groupLagEvery, groupLagEvery, u.lag.compute)
	}
	every(txnSurveyEvery, txnSurveyEvery, func() { u.txns.compute(u.n.o.Now()) })
	for _, d := range u.n.dirs.online {
		loops.Go(func() { u.scrub(d) })
	}
	if u.n.config.Bool("log.cleaner.enable") {
		loops.Go(func() { newCleaner(u.n).supervise(u, loops) })
	}
}

// repeat calls f every d, for the first time after first, until stop.
func (u *upkeep) repeat(d, first time.Duration, f func()) {
	timer := time.NewTimer(max(first, time.Millisecond))
	defer timer.Stop()
	for {
		select {
		case <-u.stopped:
			return
		case <-timer.C:
		}
		f()
		timer.Reset(max(d, time.Millisecond))
	}
}

// sleep waits, or until stop.
func (u *upkeep) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-u.stopped:
	case <-timer.C:
	}
}

func (u *upkeep) stop() { u.once.Do(func() { close(u.stopped) }) }

func (u *upkeep) stopping() bool {
	select {
	case <-u.stopped:
		return true
	default:
		return false
	}
}

// partitions goes over the replicas until the node stops.
func (u *upkeep) partitions(f func(p *replica.Partition)) {
	for _, p := range u.n.manager.All() {
		if u.stopping() {
			return
		}
		f(p)
	}
}

func (u *upkeep) retain() {
	now := u.retention.now(u.n.o.Now(), u.n.log)
	u.partitions(func(p *replica.Partition) {
		done, e, err := p.Retain(now)
		e.Run(u.n)
		if err != nil {
			u.n.log.Error("retention failed", "partition", p.TopicPartition().String(), "error", err)
		}
		u.n.metrics.retained(done)
	})
	u.deletePending()
}

// deletePending moves the deletion of dropped segments and directories on.
func (u *upkeep) deletePending() {
	now := u.n.o.Now()
	u.partitions(func(p *replica.Partition) {
		l := p.Log()
		if l == nil || p.Role() == replica.Offline {
			return
		}
		if _, err := l.DeletePending(now); err != nil {
			u.n.log.Error("segments could not be deleted", "partition", p.TopicPartition().String(), "error", err)
			u.n.judge(l.Dir(), err)
		}
	})
	for _, d := range u.n.manager.OnlineDirs() {
		if _, err := d.DeletePending(now); err != nil {
			u.n.log.Error("directories could not be deleted", "dir", d.Path(), "error", err)
			u.n.judge(d, err)
		}
	}
}

func (u *upkeep) checkpoint() {
	for _, d := range u.n.manager.OnlineDirs() {
		if err := d.Checkpoint(u.n.manager.HighWatermarks(d)); err != nil {
			u.n.log.Error("checkpoints could not be written", "dir", d.Path(), "error", err)
			u.n.judge(d, err)
		}
	}
}

func (u *upkeep) space() {
	anyFull := false
	for _, d := range u.n.manager.OnlineDirs() {
		full, err := u.n.checkSpace(d)
		if err != nil {
			u.n.log.Warn("free space cannot be determined", "dir", d.Path(), "error", err)
			continue
		}
		anyFull = anyFull || full
		u.full.looked(u.n.o.Now(), d, full)
		free, _ := d.FS().Free(d.Path())
		u.n.metrics.space(d, free, full)
	}
	if !anyFull && u.n.manager.Unmade() {
		u.n.publisher.remake()
	}
}

func (u *upkeep) tick() {
	lag := time.Duration(u.n.config.Int64("replica.lag.time.max.ms")) * time.Millisecond
	now := u.n.o.Now()
	u.partitions(func(p *replica.Partition) {
		e := p.Tick(now, lag)
		e.Run(u.n)
	})
}

func (u *upkeep) closeIdle() {
	u.partitions(func(p *replica.Partition) {
		_, e := p.CloseIdle()
		e.Run(u.n)
	})
}

func (u *upkeep) expire() {
	now := u.expiry.now(u.n.o.Now(), u.n.log)
	u.partitions(func(p *replica.Partition) { u.n.metrics.logs.ProducerIDsExpired.Add(p.ExpireProducers(now)) })
}

// survey adds up what all partitions are and hold, for metrics.
func (u *upkeep) survey() {
	s := &survey{dirs: map[*log.Dir]*dirSurvey{}}
	u.partitions(s.add)
	u.n.metrics.surveyed(s)
	u.n.metrics.balance(u.n.publisher.Image())
}

// scrubStep is how much one step of the scrubber reads at most.
const scrubStep = 1 << 20

// scrub re-reads the closed segments of a directory, slowly, to find damage before a reader does.
func (u *upkeep) scrub(d *log.Dir) {
	rate := u.n.config.Int64("moldau.scrub.bytes.per.second")
	if rate == 0 {
		return
	}
	pause := time.Duration(u.n.config.Int64("moldau.scrub.interval.ms")) * time.Millisecond
	u.repeat(pause, pause, func() { u.scrubPass(d, rate) })
}

// scrubPass goes over all logs of a directory once.
func (u *upkeep) scrubPass(d *log.Dir, rate int64) {
	parts := u.n.manager.All()
	for i, p := range parts {
		if u.stopping() {
			return
		}
		u.n.metrics.scrubbing(d, i, len(parts))
		if l := p.Log(); l != nil && l.Dir() == d && p.Role() != replica.Offline {
			u.scrubLog(d, p.TopicPartition(), l, rate)
		}
	}
	u.n.metrics.scrubbedAll(d)
}

func (u *upkeep) scrubLog(d *log.Dir, tp kafka.TopicPartition, l *log.Log, rate int64) {
	s := l.Scrub()
	defer s.Close()
	for known := 0; !u.stopping(); {
		n, done, err := s.Step(scrubStep)
		u.n.metrics.scrubbed(d, n, len(s.Bad())-known)
		for _, bad := range s.Bad()[known:] {
			u.n.log.Error("a closed segment is damaged", "partition", tp.String(), "segment", bad.Base,
				"offset", bad.Offset, "position", bad.Pos, "reason", bad.Reason)
			u.n.rotten(tp, bad.Offset)
		}
		known = len(s.Bad())
		if err != nil {
			u.n.log.Error("a closed segment cannot be read", "partition", tp.String(), "error", err)
			return
		}
		if done {
			return
		}
		u.sleep(time.Duration(int64(time.Second) * n / rate))
	}
}
