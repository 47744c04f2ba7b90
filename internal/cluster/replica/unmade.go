package replica

import (
	"slices"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/storage/vfs"
)

// noteUnmade remembers a replica that found no space, or no descriptor, to be made with. The caller holds no lock.
func (m *Manager) noteUnmade(p *Partition, err error) {
	if !(vfs.IsNoSpace(err) || vfs.IsOutOfFiles(err)) || p.Log() != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unmade = append(m.unmade, p)
}

// Unmade says that replicas wait for space; see Remake.
func (m *Manager) Unmade() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.unmade) > 0
}

// Remake tries again to make the replicas that a full disk kept from being made: they are offline until then, and no
// restart is needed once space has returned. It is not called concurrently with Apply.
func (m *Manager) Remake(now time.Time, image *metadata.Image, host Host) Applied {
	m.mu.Lock()
	unmade := m.unmade
	m.unmade = nil
	m.mu.Unlock()
	var out Applied
	for _, p := range unmade {
		if held, err := m.GetByID(p.topicID, p.tp.Partition); err != nil || held != p {
			continue // deleted meanwhile
		}
		t, ok := image.TopicByID(p.topicID)
		if !ok {
			continue
		}
		s, ok := t.Partition(p.tp.Partition)
		if !ok || !slices.Contains(s.Replicas, m.o.Self) {
			continue
		}
		m.drop(p)
		e := p.Remove()
		e.Run(host)
		m.ensure(now, image, t, p.tp.Partition, s, host, &out)
	}
	return out
}

// drop makes p unfindable.
func (m *Manager) drop(p *Partition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byID, partitionID{p.topicID, p.tp.Partition})
	if m.byName[p.tp] == p {
		delete(m.byName, p.tp)
	}
}
