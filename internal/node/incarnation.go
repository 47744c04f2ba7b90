package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

// incarnationFile says, in the metadata directory, that everything this incarnation acknowledges is on the disk.
const incarnationFile = "moldau.incarnation"

// incarnation is the memory of an incarnation beyond a crash. While the file exists, all that the incarnation it names
// has acknowledged is durable, so that the next one may claim after a crash that nothing was lost (it sends that
// incarnation's broker epoch, and the controller leaves it in its in-sync sets). It goes, durably, before that stops
// being true: with the first topic that acknowledges before the disk has it, or a log directory that fails.
type incarnation struct {
	fs   vfs.FS
	dir  string
	fail func(error) // ends the node: its word cannot be taken back
	mu   sync.Mutex
	gone bool
}

type incarnationContent struct {
	Version     int    `json:"version"`
	Incarnation string `json:"incarnation"`
	// Previous is the incarnation before, when nothing of it was lost. It is the one that the cluster knows until the
	// new one has registered: a crash in between must not make it look as if it had lost something.
	Previous    string   `json:"previous,omitempty"`
	Directories []string `json:"directories"`
}

// readIncarnation gives the incarnations that the last ones vouched for, the newest first; none when they left nothing, or
// cannot vouch.
func readIncarnation(fsys vfs.FS, dir string, dirs []kafka.UUID) ([]kafka.UUID, error) {
	raw, err := readSmall(fsys, path.Join(dir, incarnationFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var c incarnationContent
	if json.Unmarshal(raw, &c) != nil || c.Version != 0 || !slices.Equal(c.Directories, texts(dirs)) {
		return nil, nil // torn, foreign or of other disks: it vouches for nothing
	}
	var out []kafka.UUID
	for _, text := range []string{c.Incarnation, c.Previous} {
		if id, err := kafka.ParseUUID(text); err == nil && !id.IsZero() {
			out = append(out, id)
		}
	}
	return out, nil
}

// readSmall reads a small file of the node's own whole; one that is too large for that is none of ours, and empty.
func readSmall(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size > 1<<20 {
		return nil, err
	}
	raw := make([]byte, size)
	if _, err := f.ReadAt(raw, 0); err != nil {
		return nil, nil // shorter than it was: torn
	}
	return raw, nil
}

func texts(dirs []kafka.UUID) []string {
	out := make([]string, 0, len(dirs))
	for _, d := range dirs {
		out = append(out, d.String())
	}
	return out
}

// write vouches for an incarnation, and for the one before unless it is zero, durably, unless it was already forgotten.
func (m *incarnation) write(id, previous kafka.UUID, dirs []kafka.UUID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return nil
	}
	c := incarnationContent{Incarnation: id.String(), Directories: texts(dirs)}
	if !previous.IsZero() {
		c.Previous = previous.String()
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return log.AtomicWrite(m.fs, path.Join(m.dir, incarnationFile), append(raw, '\n'))
}

// forget takes the word back, durably. It is cheap to call again. When it fails the metadata directory has failed, and
// the node must end before it acknowledges anything that the mark would vouch for wrongly.
func (m *incarnation) forget() {
	if err := m.remove(); err != nil {
		m.fail(fmt.Errorf("%s cannot be removed: %w", incarnationFile, err))
	}
}

func (m *incarnation) remove() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return nil
	}
	m.gone = true
	err := m.fs.Remove(path.Join(m.dir, incarnationFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, m.fs.SyncDir(m.dir))
}

// lineage is what the metadata log says about how old this node's disk is. A disk that was restored from a copy has a
// metadata log that ends long before its broker was last heard of, and must not vouch for anything. Nothing of the kind
// can be told by the only voter, whose own log is all there is.
type lineage struct {
	mu       sync.Mutex
	localEnd kafka.Offset // end of the metadata log when the node started
	localMs  int64        // time of the last batch before it
	epoch    kafka.LeaderEpoch
	epochMs  int64 // time of the last batch of the same quorum epoch, wherever it came from
	fenced   kafka.UUID
	fencedMs int64 // when the controller fenced that incarnation
}

// batch notes a batch of the metadata log, in order; last is its last offset.
func (l *lineage) batch(last kafka.Offset, epoch kafka.LeaderEpoch, ms int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last < l.localEnd {
		l.localMs, l.epoch = ms, epoch
	}
	if epoch == l.epoch {
		l.epochMs = ms
	}
}

// snapshot notes a snapshot of everything below end. One that goes beyond what this node had came from the leader: all
// that is known of what lies between is that it is not younger than the snapshot.
func (l *lineage) snapshot(end kafka.Offset, epoch kafka.LeaderEpoch, ms int64) {
	if end <= l.localEnd {
		l.batch(end-1, epoch, ms)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epochMs = max(l.epochMs, ms)
}

// image notes what a batch did to this node's broker.
func (l *lineage) image(before, after *metadata.Image, self kafka.NodeID, ms int64) {
	was, ok := before.Broker(self)
	is, still := after.Broker(self)
	if !ok || !still || was == is || was.Fenced || !is.Fenced || was.Incarnation != is.Incarnation {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fenced, l.fencedMs = is.Incarnation, ms
}

// stale says whether the local metadata ended more than two session timeouts before incarnation was fenced, or, if it
// never was, before the end of the quorum epoch in which it ends.
func (l *lineage) stale(incarnation kafka.UUID, session time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	lived := l.epochMs
	if l.fenced == incarnation {
		lived = l.fencedMs
	}
	return lived-l.localMs > 2*session.Milliseconds()
}

// claim is what previous judges by.
type claim struct {
	vouched []kafka.UUID                      // the incarnations whose acknowledgements were all durable
	image   *metadata.Image                   // what the metadata log holds before registering
	stale   func(incarnation kafka.UUID) bool // whether this disk is older than that incarnation's end
}

// previousEpoch is the broker epoch to claim when registering, and whose it was: that of the last run when it stopped in
// order, or when all it acknowledged is durable; -1 otherwise.
func previousEpoch(d *dirs, self kafka.NodeID, c claim) (kafka.BrokerEpoch, kafka.UUID) {
	clean := kafka.BrokerEpoch(-1)
	for i, x := range d.online {
		epoch, ok := x.CleanShutdown()
		if !ok || (i > 0 && epoch != clean) {
			clean = -1
			break
		}
		clean = epoch
	}
	b, registered := c.image.Broker(self)
	if clean >= 0 && len(d.online) == len(d.all) {
		if registered && b.Epoch == clean {
			return clean, b.Incarnation
		}
		return clean, kafka.UUID{}
	}
	if registered && slices.Contains(c.vouched, b.Incarnation) && !c.stale(b.Incarnation) {
		return b.Epoch, b.Incarnation
	}
	return -1, kafka.UUID{}
}
