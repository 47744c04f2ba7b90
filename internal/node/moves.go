package node

import (
	"errors"
	"slices"
	"sync"
	"time"

	"moldau/internal/cluster/replica"
	"moldau/internal/kafka"
	"moldau/internal/promise"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

// moves has replicas moved between this node's log directories (KIP-113), on a few goroutines
// (num.replica.alter.log.dirs.threads) that together read no faster than replica.alter.log.dirs.io.max.bytes.per.second.
type moves struct {
	n      *Node
	shards []*moveShard
	rate   throttle
}

// moveShard moves the replicas whose names fall to it, one at a time until that one waits.
type moveShard struct {
	m *moves

	mu     sync.Mutex
	inbox  []func()
	closed bool
	clean  bool
	wake   chan struct{}

	list []*moving // the loop's own, as is the next
	paid time.Time // nothing is copied before: what was is paid for then
}

// moving is a move with what its shard remembers of it.
type moving struct {
	*replica.Move
	resume time.Time // not before
	warned time.Time
}

const (
	moveBudget  = 1 << 20               // bytes of a step
	moveWaits   = 50 * time.Millisecond // for a compaction to end
	movePause   = time.Second           // after an error that may pass
	moveWarning = 10 * time.Second      // how often such an error is worth a line
)

func newMoves(n *Node) *moves {
	m := &moves{n: n}
	threads := n.config.Int("num.replica.alter.log.dirs.threads")
	if !n.config.IsSet("num.replica.alter.log.dirs.threads") {
		threads = len(n.dirs.online)
	}
	for range max(threads, 1) {
		s := &moveShard{m: m, wake: make(chan struct{}, 1)}
		m.shards = append(m.shards, s)
		n.loops.Go(s.run)
	}
	return m
}

func (m *moves) shard(tp kafka.TopicPartition) *moveShard {
	return m.shards[shardOf(tp, len(m.shards))]
}

// resume goes on with the moves of an earlier run.
func (m *moves) resume(all []*replica.Move) {
	for _, x := range all {
		tp := x.Partition().TopicPartition()
		m.n.log.Info("a replica is moved on to another log directory", "partition", tp.String(), "to", x.Target().Path())
		s := m.shard(tp)
		s.post(func() { s.list = append(s.list, &moving{Move: x}) })
	}
}

// changed has every move look at its replica again, which may have been deleted.
func (m *moves) changed() {
	for _, s := range m.shards {
		s.poke()
	}
}

// close ends the moves; copies stay for the next start. The loops end soon after.
func (m *moves) close(clean bool) {
	for _, s := range m.shards {
		s.mu.Lock()
		s.closed, s.clean = true, clean
		s.mu.Unlock()
		s.poke()
	}
}

func (s *moveShard) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// post hands do to the loop; false: the loop has ended.
func (s *moveShard) post(do func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.inbox = append(s.inbox, do)
	s.poke()
	return true
}

func (s *moveShard) take() (work []func(), closed, clean bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	work = s.inbox
	s.inbox = nil
	return work, s.closed, s.clean
}

func (s *moveShard) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		work, closed, clean := s.take()
		for _, do := range work {
			do()
		}
		if closed {
			s.leave(clean)
			return
		}
		pause, waits := s.step()
		if !waits && pause <= 0 {
			continue
		}
		var waited <-chan time.Time
		if pause > 0 {
			timer.Reset(pause)
			waited = timer.C
		}
		select {
		case <-s.wake:
		case <-waited:
		}
	}
}

// leave keeps the copies for the next start. After a crash they are left as they are.
func (s *moveShard) leave(clean bool) {
	if !clean {
		return
	}
	for _, x := range s.list {
		s.end(x, true)
	}
}

// step works on the first move that can go on. pause is when to call again, 0 at once; waits: not before something
// changes, or the pause is over.
func (s *moveShard) step() (pause time.Duration, waits bool) {
	n, now := s.m.n, s.m.n.o.Now()
	if wait := s.paid.Sub(now); wait > 0 {
		return wait, true
	}
	for i, x := range s.list {
		if wait := x.resume.Sub(now); wait > 0 {
			if pause == 0 || wait < pause {
				pause = wait
			}
			continue
		}
		if !n.manager.IsOnline(x.Target()) {
			s.end(x, true)
			s.list = slices.Delete(s.list, i, i+1)
			return 0, false
		}
		did, e, err := x.Step(now, moveBudget)
		e.Run(n)
		if s.settle(x, did, err) {
			s.list = slices.Delete(s.list, i, i+1)
		}
		rate := resolver(n.config, n.self, n.publisher.Image()).Broker("replica.alter.log.dirs.io.max.bytes.per.second").Int64()
		s.paid = now.Add(s.m.rate.take(now, int64(did.Copied), float64(rate)))
		return 0, false
	}
	return pause, true
}

// settle judges a step and says whether the move has ended.
func (s *moveShard) settle(x *moving, did replica.MoveStep, err error) (ended bool) {
	n, tp := s.m.n, x.Partition().TopicPartition()
	if did.Done {
		n.log.Info("a replica was moved to another log directory", "partition", tp.String(), "to", x.Target().Path())
		s.moved(x)
	}
	if at, ok := errors.AsType[*replica.MoveError](err); ok {
		if vfs.IsDiskFailure(err) || errors.Is(err, log.ErrSyncFailed) {
			n.DirFailed(at.Dir, err)
		}
	}
	if errors.Is(err, kafka.CorruptMessage) {
		n.rotten(tp, x.At())
	}
	switch {
	case did.Done:
		return true
	case errors.Is(err, replica.ErrMoveEnded):
		s.end(x, false)
		return true
	case errors.Is(err, replica.ErrMoveOffline), !n.manager.IsOnline(x.Target()):
		n.log.Warn("a move to another log directory is given up until the next start", "partition", tp.String(),
			"to", x.Target().Path(), "error", err)
		s.end(x, true)
		return true
	case did.Waits:
		x.resume = n.o.Now().Add(moveWaits)
	case err != nil:
		x.resume = n.o.Now().Add(movePause)
		if now := n.o.Now(); now.Sub(x.warned) >= moveWarning {
			x.warned = now
			n.log.Warn("a replica cannot be moved to another log directory for now", "partition", tp.String(),
				"to", x.Target().Path(), "error", err)
		}
	}
	return false
}

// moved tells everybody where a replica is from now on.
func (s *moveShard) moved(x *moving) {
	n, p := s.m.n, x.Partition()
	n.replication.moved(p)
	if report, ok := n.manager.Where(n.publisher.Image(), p); ok {
		n.reportDirectories([]replica.DirReport{report})
	}
}

// end gives a move up.
func (s *moveShard) end(x *moving, keep bool) {
	if err := x.End(s.m.n.o.Now(), keep); err != nil {
		s.m.n.log.Error("the copy of a replica that was being moved cannot be put away",
			"partition", x.Partition().TopicPartition().String(), "dir", x.Target().Path(), "error", err)
		s.m.n.judge(x.Target(), err)
	}
}

// alter moves a replica to the directory at path, or takes a move back by naming where the replica lies; see
// api.Broker.AlterLogDir.
func (m *moves) alter(tp kafka.TopicPartition, path string) *promise.Promise[error] {
	out := &promise.Promise[error]{}
	s := m.shard(tp)
	if !s.post(func() { out.Set(s.alter(tp, path)) }) {
		return promise.Done[error](kafka.NotLeaderOrFollower)
	}
	return out
}

func (s *moveShard) alter(tp kafka.TopicPartition, path string) error {
	n := s.m.n
	if !log.FutureNameFits(tp) {
		return kafka.Errorf(kafka.InvalidTopicException, "the name of %s is too long for a copy's directory", tp)
	}
	to, err := n.onlineDir(path)
	if err != nil {
		return err
	}
	p, err := n.manager.Get(tp)
	_, known := n.publisher.Image().Partition(tp)
	switch {
	case err != nil && !known:
		return err
	case n.isCordoned(to):
		return kafka.Errorf(kafka.InvalidReplicaAssignment, "log directory %s takes nothing new (cordoned.log.dirs)", path)
	case err != nil:
		n.manager.Want(tp, to)
		return kafka.Errorf(kafka.ReplicaNotAvailable, "this broker has no replica of %s yet", tp)
	case p.Log() == nil || p.Role() == replica.Offline:
		return kafka.Errorf(kafka.KafkaStorageError, "%s is offline", tp)
	}
	i := slices.IndexFunc(s.list, func(x *moving) bool { return x.Partition() == p })
	if i >= 0 && s.list[i].Target() == to {
		return nil
	}
	if i >= 0 {
		s.end(s.list[i], false)
		s.list = slices.Delete(s.list, i, i+1)
	}
	if p.Log().Dir() == to {
		return nil
	}
	x, err := n.manager.StartMove(n.o.Now(), p, to)
	if err != nil {
		n.judge(to, err)
		return err
	}
	n.log.Info("a replica is being moved to another log directory", "partition", tp.String(), "to", path)
	s.list = append(s.list, &moving{Move: x})
	return nil
}

// onlineDir finds a log directory by its path as configured.
func (n *Node) onlineDir(path string) (*log.Dir, error) {
	for _, d := range n.logDirs() {
		switch {
		case d.Path != path:
		case d.Dir == nil || d.Err != nil:
			return nil, kafka.Errorf(kafka.KafkaStorageError, "log directory %s is offline", path)
		default:
			return d.Dir, nil
		}
	}
	return nil, kafka.Errorf(kafka.LogDirNotFound, "%s is none of this broker's log.dirs", path)
}
