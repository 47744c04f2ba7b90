package node

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"
	"time"

	"moldau/internal/cluster/quorum"
	"moldau/internal/config"
	"moldau/internal/edge/api"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

// controllerListener names the endpoint under which a node's controller stands in the voter set.
const controllerListener = "CONTROLLER"

// dirs are a node's log directories, opened.
type dirs struct {
	all      []api.LogDir
	online   []*log.Dir
	metadata *log.Dir
	cluster  string
}

// openDirs opens the configured log directories, after founding the node where it has not been. A directory that cannot be opened is offline; the metadata directory
// must open.
func openDirs(fsys vfs.FS, n config.Node, found func() (log.MetaProperties, error), reserve int64, now time.Time) (*dirs, error) {
	meta, err := existing(fsys, n)
	if errors.Is(err, fs.ErrNotExist) {
		meta, err = found()
	}
	if err != nil {
		return nil, err
	}
	out := &dirs{cluster: meta.ClusterID}
	for _, p := range n.LogDirs {
		d, err := openDir(fsys, p, log.MetaProperties{ClusterID: meta.ClusterID, NodeID: n.ID})
		if err != nil && (p == n.MetadataDir || errors.Is(err, vfs.ErrLocked)) {
			out.close(now, unclean, log.NoBrokerEpoch)
			return nil, fmt.Errorf("log directory %s: %w", p, err)
		}
		out.all = append(out.all, api.LogDir{Path: p, Dir: d, Err: err})
		if d == nil {
			continue
		}
		d.SetReserve(reserve)
		out.online = append(out.online, d)
		if p == n.MetadataDir {
			out.metadata = d
		}
	}
	if out.metadata == nil {
		d, err := openDir(fsys, n.MetadataDir, log.MetaProperties{ClusterID: meta.ClusterID, NodeID: n.ID})
		if err != nil {
			out.close(now, unclean, log.NoBrokerEpoch)
			return nil, fmt.Errorf("metadata directory %s: %w", n.MetadataDir, err)
		}
		out.metadata = d
	}
	return out, nil
}

// existing reads the identity of a node that was founded before, from its metadata directory.
func existing(fsys vfs.FS, n config.Node) (log.MetaProperties, error) {
	return log.ReadMetaProperties(fsys, n.MetadataDir)
}

// openDir opens one directory, formatting it with a new directory id when the node is older than it.
func openDir(fsys vfs.FS, p string, want log.MetaProperties) (*log.Dir, error) {
	d, err := log.OpenDir(fsys, p, want)
	if !errors.Is(err, fs.ErrNotExist) {
		return d, err
	}
	id, err := kafka.NewUUID(rand.Reader)
	if err != nil {
		return nil, err
	}
	if err := log.FormatDir(fsys, p, log.MetaProperties{ClusterID: want.ClusterID, NodeID: want.NodeID, DirectoryID: id}); err != nil {
		return nil, err
	}
	return log.OpenDir(fsys, p, want)
}

// discardUnfounded removes the metadata log of a founding that did not get as far as meta.properties.
func discardUnfounded(fsys vfs.FS, dir string) error {
	entries, err := fsys.ReadDir(path.Join(dir, quorum.LogDirName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(entries, func(e vfs.DirEntry) bool { return path.Ext(e.Name) == ".log" }) {
		return fmt.Errorf("%s holds a metadata log but no meta.properties; restore it or remove the directory",
			path.Join(dir, quorum.LogDirName))
	}
	return fsys.RemoveAll(path.Join(dir, quorum.LogDirName))
}

// controllerEndpoints is where others reach this node's controller: as advertised, else as the voters' list says, else where
// it listens. A lone node opens no controller listener; it still has an entry, because a voter without an endpoint is none.
func (n *Node) controllerEndpoints() []quorum.Endpoint {
	var out []quorum.Endpoint
	for i, e := range n.self.Controller {
		at := quorum.Endpoint{Name: e.Listener, Host: e.Host, Port: uint16(e.Port)}
		if a, ok := endpointOf(n.self.Advertised, e.Listener); ok {
			at.Host, at.Port = a.Host, uint16(a.Port)
		} else if v := slices.IndexFunc(n.self.Voters, func(v config.Voter) bool { return v.ID == n.self.ID }); v >= 0 && i == 0 {
			at.Host, at.Port = n.self.Voters[v].Host, uint16(n.self.Voters[v].Port)
		}
		if at.Host == "" || at.Host == "0.0.0.0" || at.Host == "::" {
			at.Host = hostname()
		}
		out = append(out, at)
	}
	if len(out) > 0 {
		return out
	}
	host, port := "localhost", 10092
	if len(n.self.Listeners) > 0 {
		port = min(n.self.Listeners[0].Port+1000, 65535)
		if h := n.self.Listeners[0].Host; h != "" {
			host = h
		}
	}
	return []quorum.Endpoint{{Name: n.quorumListener(), Host: host, Port: uint16(port)}}
}

func endpointOf(list []config.Endpoint, listener string) (config.Endpoint, bool) {
	i := slices.IndexFunc(list, func(e config.Endpoint) bool { return e.Listener == listener })
	if i < 0 {
		return config.Endpoint{}, false
	}
	return list[i], true
}

// loadLogs opens every partition of the directories, a few at a time: after an orderly stop that reads names only,
// otherwise it recovers. Each log is handed to adopt, from several goroutines.
func (n *Node) loadLogs(adopt func(*log.Log) error, stop func() bool) error {
	type job struct {
		dir  *log.Dir
		part log.PartitionDir
	}
	jobs := make(chan job)
	var workers sync.WaitGroup
	var mu sync.Mutex
	var failures []error
	failed := func(err error) {
		mu.Lock()
		failures = append(failures, err)
		mu.Unlock()
	}
	threads := n.config.Int("num.recovery.threads.per.data.dir") * len(n.dirs.online)
	for range max(1, threads) {
		workers.Go(func() {
			for j := range jobs {
				l, err := n.loadLog(j.dir, j.part, stop)
				if err == nil {
					err = adopt(l)
				}
				if err != nil {
					failed(err)
				}
			}
		})
	}
	for _, d := range n.dirs.online {
		parts, err := d.Partitions()
		if err != nil {
			n.DirFailed(d, err)
			failed(err)
			continue
		}
		var live []log.PartitionDir
		for _, p := range parts {
			switch {
			case p.Partition.Topic == kafka.MetadataTopic:
			case p.State == log.Deleted:
				d.ScheduleDeletion(p, n.o.Now())
			case p.State == log.Live || p.State == log.Future:
				live = append(live, p)
			}
		}
		if _, clean := d.CleanShutdown(); !clean {
			n.metrics.recovering(d, len(live))
		}
		for _, p := range live {
			jobs <- job{d, p}
		}
	}
	close(jobs)
	workers.Wait()
	return errors.Join(failures...)
}

func (n *Node) loadLog(d *log.Dir, p log.PartitionDir, stop func() bool) (*log.Log, error) {
	c := log.DefaultConfig()
	x := d.Load(p, &c, log.Options{}, n.o.Now())
	for !stop() {
		done, err := x.Step()
		if done || err != nil {
			n.metrics.recovered(d, x.Report())
		}
		if err != nil {
			return nil, n.cannotOpen(d, p, err)
		}
		if !done {
			continue
		}
		r := x.Report()
		if r.CutBytes > 0 {
			n.log.Warn("recovery cut a damaged or unfinished end off a log", "partition", p.Name, "bytes", r.CutBytes,
				"belowHighWatermark", r.BelowHighWatermark)
		}
		if p.State == log.Live && (r.BelowHighWatermark || r.BelowRecoveryPoint) {
			n.log.Error("a partition lost records that it once had on the disk", "partition", p.Name)
			n.manager.Lost(p.Partition)
		}
		return x.Log(), nil
	}
	return nil, errStopped
}

// cannotOpen judges a partition's directory that cannot be opened. A copy in the making is put aside: the replica that it
// is of is whole.
func (n *Node) cannotOpen(d *log.Dir, p log.PartitionDir, err error) error {
	n.log.Error("a partition cannot be opened", "partition", p.Name, "error", err)
	n.judge(d, err)
	if p.State != log.Future {
		n.manager.Broken(p.Partition)
	} else if !vfs.IsDiskFailure(err) {
		err = errors.Join(err, d.RenameStray(p, newUUID()))
	}
	return err
}

func unclean(*log.Dir) bool { return false }

// close closes the directories, with the logs that are still open. Those that clean names are marked as closed in order.
func (d *dirs) close(now time.Time, clean func(*log.Dir) bool, epoch kafka.BrokerEpoch) error {
	var errs []error
	closed := map[*log.Dir]bool{}
	for _, x := range append([]*log.Dir{d.metadata}, d.online...) {
		if x == nil || closed[x] {
			continue
		}
		closed[x] = true
		orderly := clean(x)
		for _, l := range x.Logs() {
			errs = append(errs, l.Close(false, now))
		}
		errs = append(errs, x.Close(orderly, epoch))
	}
	return errors.Join(errs...)
}
