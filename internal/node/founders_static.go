package node

import (
	"cmp"
	"errors"
	"io/fs"
	"net"
	"path"
	"slices"

	"moldau/internal/cluster/quorum"
	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

// lateFile marks, in the metadata directory, a voter of the settings that was founded when the quorum was there already: its
// disk may be new in the place of one that was lost. It stays until the replica knows enough to vote (quorum.Config.Late).
const lateFile = "moldau.late"

func markLate(fsys vfs.FS, dir string) error {
	return log.AtomicWrite(fsys, path.Join(dir, lateFile), []byte("0\n"))
}

func isLate(fsys vfs.FS, dir string) (bool, error) {
	_, err := fsys.Stat(path.Join(dir, lateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// forgetLate takes the mark away. A failure costs nothing but another wait at the next start.
func forgetLate(fsys vfs.FS, dir string) error {
	if err := fsys.Remove(path.Join(dir, lateFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fsys.SyncDir(dir)
}

// fromVoters takes controller.quorum.voters. A node without controller role is none of them.
func (f *founders) fromVoters() {
	voters := slices.SortedFunc(slices.Values(f.n.self.Voters), func(a, b config.Voter) int { return cmp.Compare(a.ID, b.ID) })
	for i, v := range voters {
		f.entries = append(f.entries, config.Endpoint{Host: v.Host, Port: v.Port})
		if f.n.self.IsController && v.ID == f.n.self.ID {
			f.own = i
		}
	}
	f.static, f.verdict = true, f.judgeStatic
	if f.own < 0 {
		f.verdict = f.judgeJoining
	}
}

// fromBootstrap takes controller.quorum.bootstrap.servers. The controllers that are listed there found a cluster together
// if there is none; others join one.
func (f *founders) fromBootstrap() error {
	for _, s := range f.n.self.Bootstrap {
		host, port, err := config.ParseHostPort(s)
		if err != nil {
			return err
		}
		f.entries = append(f.entries, config.Endpoint{Host: host, Port: port})
	}
	slices.SortFunc(f.entries, func(a, b config.Endpoint) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port))
	})
	f.entries = slices.Compact(f.entries)
	f.verdict = f.judgeJoining
	if f.n.self.IsController {
		if f.own = f.ownBootstrap(); f.own >= 0 {
			f.verdict = f.judge
		}
	}
	return nil
}

// ownBootstrap finds the entry by which this node's controller is reached. One that listens everywhere, or on the loopback
// only, is meant by any name of this machine.
func (f *founders) ownBootstrap() int {
	mine := f.n.controllerEndpoints()[0]
	i := slices.IndexFunc(f.entries, func(e config.Endpoint) bool { return e.Host == mine.Host && e.Port == int(mine.Port) })
	if i >= 0 {
		return i
	}
	bound := f.n.self.Controller[0].Host
	ip := net.ParseIP(bound)
	if bound != "" && bound != "localhost" && (ip == nil || !ip.IsUnspecified() && !ip.IsLoopback()) {
		return -1
	}
	return slices.IndexFunc(f.entries, func(e config.Endpoint) bool {
		return e.Port == int(mine.Port) && config.LocalHost(e.Host)
	})
}

// judgeJoining lets a node that founds nothing into the cluster of the first one that has one.
func (f *founders) judgeJoining(seen []*sighting) (founded, bool) {
	for _, s := range seen {
		if s != nil && !s.isNew {
			return founded{id: f.n.self.ID, cluster: s.cluster}, true
		}
	}
	return founded{}, false
}

// judgeStatic is judge for voters that the settings name. Their set says nothing of directories, so a voter that has lost
// its disk looks like one that is new. It is new for certain when so many of the others are that no majority can have been
// without all of them, or when one that has begun knows it, by its directory, from when it was new itself. Else it is late:
// it joins, and votes only when it can have nothing to forget.
func (f *founders) judgeStatic(seen []*sighting) (founded, bool) {
	n := len(f.entries)
	out := founded{id: f.n.self.ID, together: map[kafka.NodeID]kafka.UUID{f.n.self.ID: f.directory}}
	fresh, late := 0, ""
	for i, s := range seen {
		switch {
		case i == f.own || s == nil:
		case s.isNew:
			if s.cluster == f.listHash() && len(s.voters) == 1 {
				fresh++
				out.together[s.voters[0].Key.ID] = s.voters[0].Key.Directory
			}
		case slices.ContainsFunc(s.voters, func(v quorum.Voter) bool { return v.Key.Directory == f.directory }):
			out.cluster = s.cluster
			return out, true
		case s.fresh:
			fresh++
			out.cluster = s.cluster
		default:
			late = s.cluster
		}
	}
	switch {
	case late != "":
		return founded{id: f.n.self.ID, cluster: late, late: true}, true
	case fresh < min(n-n/2, n-1):
		return founded{}, false
	}
	if out.cluster == "" {
		id, err := newClusterID(f.n.self.Voters)
		if err != nil {
			return founded{}, false
		}
		out.cluster = id
	}
	return out, true
}
