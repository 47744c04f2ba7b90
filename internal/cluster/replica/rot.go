package replica

import (
	"errors"
	"slices"
	"sync"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
)

// suspicion notices a replica that asks for the same place twice after a full answer, which one does that found the bytes
// broken. Only then is what is read checked, so the hot path never is.
type suspicion struct {
	mu     sync.Mutex
	seen   []readFrom              // the last place of each replica
	rotten func(from kafka.Offset) // set by the Manager
}

type readFrom struct {
	reader kafka.NodeID
	offset kafka.Offset
}

// maxSuspects is how many replicas are remembered. More of one partition are told apart less well.
const maxSuspects = 8

func (s *suspicion) suspect(r ReadSpec, size int) bool {
	if size == 0 || r.Replica == kafka.NoNode {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.seen {
		if s.seen[i].reader == r.Replica {
			again := s.seen[i].offset == r.Offset
			s.seen[i].offset = r.Offset
			return again
		}
	}
	if len(s.seen) == maxSuspects {
		s.seen = slices.Delete(s.seen, 0, 1)
	}
	s.seen = append(s.seen, readFrom{r.Replica, r.Offset})
	return false
}

// verify reads what is about to be sent and reports the first batch whose checksum is wrong.
func (s *suspicion) verify(from kafka.Offset, x *log.Extents) {
	b, err := x.ReadAll()
	if err != nil || s.rotten == nil {
		return
	}
	if at, bad := firstDamaged(from, b); bad {
		s.rotten(at)
	}
}

// failed reports a place whose batch has no header that could be read.
func (s *suspicion) failed(from kafka.Offset, err error) {
	if s.rotten != nil && errors.Is(err, kafka.CorruptMessage) {
		s.rotten(from)
	}
}

// firstDamaged finds the first damaged batch of what was read from an offset on; at is where the batch before it ends,
// because its own header may lie. The last batch may be cut, but not the first, which a read gives whole.
func firstDamaged(from kafka.Offset, b []byte) (at kafka.Offset, bad bool) {
	at = from
	for whole := len(b); len(b) > 0; {
		size, magic, err := record.EntrySize(b)
		if err == record.ErrTruncated || err == nil && size > len(b) {
			return at, len(b) == whole
		}
		if err != nil {
			return at, true
		}
		entry := b[:size]
		b = b[size:]
		if magic < record.Magic {
			if checkLegacy(entry) != nil {
				return at, true
			}
			continue
		}
		batch := record.Batch(entry)
		if batch.CheckCRC() != nil {
			return at, true
		}
		at = max(at, batch.LastOffset()+1)
	}
	return at, false
}

// Rotten tells that the batch at an offset, or behind it, is damaged where it is stored. It is looked at again, since what
// was read may have been cut off meanwhile; false says that it is well, or known to be damaged. From now on the replica is no good as long as others
// are: Manager.RotReport gives what to tell the controller. It is cut at the damage, and copied anew from there on, once
// the image shows that nobody counts on it any more.
func (p *Partition) Rotten(from kafka.Offset) bool {
	if !p.damagedAt(from) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rotten != kafka.NoOffset && p.rotten <= from {
		return false
	}
	p.rotten = from
	return true
}

func (p *Partition) damagedAt(from kafka.Offset) bool {
	s := p.published.Load()
	if s.view == nil || from < s.view.Start || from >= s.view.End {
		return false
	}
	x, err := s.view.Read(from, s.view.End, 1, true)
	if err != nil {
		return errors.Is(err, kafka.CorruptMessage)
	}
	defer x.Release()
	b, err := x.ReadAll()
	if err != nil {
		return false
	}
	_, bad := firstDamaged(from, b)
	return bad
}

// damage says what is wrong with the replica: lost records that it has not fetched again yet, rot that is still in it.
func (p *Partition) damage() (lost, rotten bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost, p.rotten != kafka.NoOffset
}

// cutRot cuts a damaged replica that was given up: neither in the in-sync set nor eligible to lead, so that nothing that is
// committed depends on it. The caller holds p.mu.
func (p *Partition) cutRot(s *metadata.Partition, e *Effects) {
	if p.rotten == kafka.NoOffset || p.role != Follower || s.Directory(p.self) != kafka.DirectoryLost ||
		slices.Contains(s.ISR, p.self) || slices.Contains(s.ELR, p.self) {
		return
	}
	start := p.log.View().Start
	if err := p.log.TruncateTo(max(p.rotten, start)); err != nil {
		// The damage keeps the place from being found.
		if err := p.log.TruncateFullyAndStartAt(start); err != nil {
			p.judge(err, e)
			return
		}
	}
	p.rotten, p.lost = kafka.NoOffset, true
	p.highWatermark = min(p.highWatermark, p.log.View().End)
}

// RotReport is what to tell the controller of a replica with a damaged batch: that it is lost, as long as a broker that is
// in service has a whole one in sync. false: nothing, it serves what it has.
func (m *Manager) RotReport(image *metadata.Image, p *Partition) (DirReport, bool) {
	s, ok := image.Partition(p.tp)
	if _, rotten := p.damage(); !ok || !rotten || !othersServe(image, s, m.o.Self) || s.Directory(m.o.Self) == kafka.DirectoryLost {
		return DirReport{}, false
	}
	return DirReport{TopicID: p.topicID, Partition: p.tp.Partition, Directory: kafka.DirectoryLost}, true
}

// othersServe says whether another broker could lead at once.
func othersServe(image *metadata.Image, s *metadata.Partition, self kafka.NodeID) bool {
	return slices.ContainsFunc(s.ISR, func(id kafka.NodeID) bool {
		b, ok := image.Broker(id)
		return id != self && ok && b.Active() && b.DirectoryOnline(s.Directory(id))
	})
}
