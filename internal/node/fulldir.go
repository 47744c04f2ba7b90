package node

import (
	"time"

	"moldau/internal/cluster/replica"
	"moldau/internal/storage/log"
)

// fullPatience is how long a directory may be full before its replicas are given up to others.
const fullPatience = 10 * time.Second

// fullDirs gives the replicas of a directory that has been full for a while up to others in sync, so that leadership moves
// to where records can be written, and takes them back when space has returned and they have caught up. It belongs to one
// goroutine.
type fullDirs struct {
	n     *Node
	since map[*log.Dir]time.Time
}

func newFullDirs(n *Node) *fullDirs { return &fullDirs{n: n, since: map[*log.Dir]time.Time{}} }

// looked is told, every second or so, whether a directory is full.
func (f *fullDirs) looked(now time.Time, d *log.Dir, full bool) {
	began, known := f.since[d]
	switch {
	case full && !known:
		f.since[d] = now
	case full && now.Sub(began) >= fullPatience:
		f.giveUp(d)
	case !full && known:
		delete(f.since, d)
		for _, p := range f.n.manager.All() {
			if l := p.Log(); l != nil && l.Dir() == d {
				f.n.manager.Keep(f.n.publisher.Image(), p)
			}
		}
		f.n.replication.again(d)
	}
}

// giveUp reports the replicas of a directory as lost that others in service could lead at once.
func (f *fullDirs) giveUp(d *log.Dir) {
	image := f.n.publisher.Image()
	var reports []replica.DirReport
	for _, p := range f.n.manager.All() {
		if l := p.Log(); l != nil && l.Dir() == d {
			if report, ok := f.n.manager.GiveUp(image, p); ok {
				reports = append(reports, report)
			}
		}
	}
	if len(reports) > 0 {
		f.n.log.Warn("a log directory stays full: its replicas are given up to others that are in sync, until space returns",
			"dir", d.Path(), "replicas", len(reports))
		f.n.reportDirectories(reports)
	}
}
