package quorum

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// Store is the directory of the metadata log: the log itself, its snapshots and the election state.
type Store struct {
	fs  vfs.FS
	dir string
	log *log.Log
	// snapshots are the whole ones in ascending order, the 0-0 checkpoint included.
	snapshots []snapshotFile
	damaged   []string   // snapshots that are not used, and why
	recovery  log.Report // what opening the log found
}

// openLog opens the metadata log in a log directory, or creates it.
func openLog(d *log.Dir, c Config, now time.Time) (*log.Log, log.Report, error) {
	tp := kafka.TopicPartition{Topic: kafka.MetadataTopic}
	config, options := c.logConfig(), log.Options{NoProducers: true, UseReserve: true}
	if _, err := d.FS().Stat(path.Join(d.Path(), LogDirName)); errors.Is(err, fs.ErrNotExist) {
		l, err := d.Create(tp, config, log.CreateOptions{Options: options, TopicID: kafka.MetadataTopicID}, now)
		if err == nil {
			// The log would see to its own name with its first flush, but a vote is written into the
			// directory before.
			err = d.FS().SyncDir(d.Path())
		}
		return l, log.Report{}, err
	}
	l, report, err := d.Open(tp, config, options, now)
	if err == nil && l.TopicID() != kafka.MetadataTopicID {
		err = l.SetTopicID(kafka.MetadataTopicID)
	}
	return l, report, err
}

// logConfig is the configuration of the metadata log: what is deleted, snapshots decide, not the log's own
// retention.
func (c Config) logConfig() *log.Config {
	c = c.withDefaults()
	out := log.DefaultConfig()
	out.SegmentBytes, out.SegmentMs = c.SegmentBytes, c.SegmentMs
	out.Delete, out.RetentionMs, out.RetentionBytes = false, -1, -1
	return &out
}

// readChunk is how much of the log is read at once.
const readChunk = 1 << 20

// openStore takes stock of the directory, removes what an interrupted run left and repairs what a crash may
// have left between two steps. It gives the voter history and the election state.
func openStore(d *log.Dir, c Config, now time.Time) (*Store, *VoterHistory, ElectionState, error) {
	l, report, err := openLog(d, c, now)
	if err != nil {
		return nil, nil, noElection, err
	}
	s := &Store{fs: d.FS(), dir: l.Path(), log: l, recovery: report}
	voters := NewVoterHistory(c.StaticVoters)
	fail := func(err error) (*Store, *VoterHistory, ElectionState, error) {
		return nil, nil, noElection, errors.Join(err, l.Close(false, now))
	}
	if err := s.loadSnapshots(); err != nil {
		return fail(err)
	}
	if err := s.alignWithLog(); err != nil {
		return fail(err)
	}
	if len(s.snapshots) > 0 {
		f := s.snapshots[0]
		content, err := readSnapshotHead(s.fs, s.dir, f.id)
		if err != nil {
			return fail(err)
		}
		voters.apply(content.control)
	}
	if err := s.scanLog(voters); err != nil {
		return fail(err)
	}
	election, err := readElectionState(s.fs, s.dir)
	if err != nil {
		return fail(err)
	}
	return s, voters, election, nil
}

// loadSnapshots lists the snapshots that are sound. The newest is read whole, because the image begins there;
// if it is damaged it is left alone and the one before is. Whether the node can do without it, alignWithLog
// finds out.
func (s *Store) loadSnapshots() error {
	all, err := listSnapshots(s.fs, s.dir)
	if err != nil {
		return err
	}
	for _, f := range slices.Backward(all) {
		var content snapshotContent
		if len(s.snapshots) == 0 {
			content, err = checkSnapshot(s.fs, path.Join(s.dir, snapshotName(f.id)), f.id)
		} else {
			content, err = readSnapshotHead(s.fs, s.dir, f.id)
		}
		if err != nil {
			s.damaged = append(s.damaged, err.Error())
			continue
		}
		f.lastContainedMs = content.lastContainedMs
		s.snapshots = slices.Insert(s.snapshots, 0, f)
	}
	return nil
}

// alignWithLog makes log and snapshots fit: a snapshot beyond the log's end replaces the log (a download was
// cut short after it was complete), snapshots below the log's start go, and a log that does not begin at 0
// begins at a snapshot.
func (s *Store) alignWithLog() error {
	v := s.log.View()
	if latest, ok := s.latest(); ok && latest.id.Compare(OffsetAndEpoch{Offset: v.End, Epoch: lastEpoch(v)}) > 0 {
		if err := s.log.TruncateFullyAndStartAt(latest.id.Offset); err != nil {
			return err
		}
		v = s.log.View()
	}
	if v.Start == 0 {
		return nil
	}
	for len(s.snapshots) > 0 && s.snapshots[0].id.Offset < v.Start {
		if err := s.removeOldest(); err != nil {
			return err
		}
	}
	if len(s.snapshots) == 0 {
		return fmt.Errorf("%s begins at offset %d and has no sound snapshot at or above it%s", s.dir, v.Start,
			s.damagedText())
	}
	return s.log.AdvanceStart(s.snapshots[0].id.Offset)
}

func (s *Store) damagedText() string {
	if len(s.damaged) == 0 {
		return ""
	}
	return fmt.Sprintf(" (damaged: %s)", s.damaged)
}

// scanLog reads the whole log: every batch is checked, and control records are told to the voter history. The
// offsets of this log are dense. After a crash, batches behind a gap are ones whose predecessors never
// reached the disk: they were never acknowledged and go.
func (s *Store) scanLog(voters *VoterHistory) error {
	v := s.log.View()
	for at := v.Start; at < v.End; {
		batches, err := s.read(at, v.End, readChunk)
		if errors.Is(err, errGap) && !s.recovery.Clean {
			return s.log.TruncateTo(at)
		}
		if err != nil {
			return err
		}
		for _, b := range batches {
			if b.IsControl() {
				records, err := controlRecords(b)
				if err != nil {
					return fmt.Errorf("%s: %w", s.dir, err)
				}
				voters.apply(records)
			}
			at = b.NextOffset()
		}
	}
	return nil
}

// errGap says that the log goes on, but not with the offset that comes next.
var errGap = fmt.Errorf("offsets are missing: %w", kafka.CorruptMessage)

// read gives the whole batches from one that contains an offset up to limit, at least one, about maxBytes.
// They are the caller's.
func (s *Store) read(from, limit kafka.Offset, maxBytes int) ([]record.Batch, error) {
	raw, err := s.readBytes(from, limit, maxBytes)
	if err != nil {
		return nil, err
	}
	var out []record.Batch
	next := from
	for len(raw) > 0 {
		b, rest, err := record.Split(raw)
		if errors.Is(err, record.ErrTruncated) && len(out) > 0 {
			break
		}
		if err == nil {
			err = checkBatch(b)
		}
		if err != nil {
			return nil, fmt.Errorf("%s at or after offset %d: %w", s.dir, from, err)
		}
		if b.BaseOffset() > next || len(out) > 0 && b.BaseOffset() != next {
			break
		}
		out = append(out, b)
		raw, next = rest, b.NextOffset()
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s at offset %d: %w", s.dir, from, errGap)
	}
	return out, nil
}

func (s *Store) readBytes(from, limit kafka.Offset, maxBytes int) ([]byte, error) {
	extents, err := s.log.View().Read(from, limit, maxBytes, true)
	if err != nil {
		return nil, err
	}
	defer extents.Release()
	return extents.ReadAll()
}

// The core's questions about the log.

// Start is the log's start offset.
func (s *Store) Start() kafka.Offset { return s.log.View().Start }

// End is the log's end offset.
func (s *Store) End() kafka.Offset { return s.log.View().End }

// Durable is the end of what is on the disk.
func (s *Store) Durable() kafka.Offset { return s.log.Durable() }

// LastEpoch is the epoch of the last batch, or of the snapshot that an empty log stands on.
func (s *Store) LastEpoch() kafka.LeaderEpoch {
	v := s.log.View()
	if latest, ok := s.latest(); ok && latest.id.Offset == v.End && v.Start == v.End {
		return latest.id.Epoch
	}
	return lastEpoch(v)
}

// lastEpoch is the epoch of the last batch of a view, 0 if there is none. An epoch assigned at the log's end
// has no batch yet and does not count.
func lastEpoch(v *log.View) kafka.LeaderEpoch {
	epochs := v.Epochs()
	for i := len(epochs) - 1; i >= 0; i-- {
		if epochs[i].Start < v.End {
			return epochs[i].Epoch
		}
	}
	return 0
}

// EndOffsetFor answers where an epoch ends here.
func (s *Store) EndOffsetFor(epoch kafka.LeaderEpoch) OffsetAndEpoch {
	e, end := s.log.EndOffsetFor(epoch)
	if e < 0 || end < 0 {
		return OffsetAndEpoch{Offset: s.End(), Epoch: s.LastEpoch()}
	}
	return OffsetAndEpoch{Offset: end, Epoch: e}
}

// Snapshots lists the snapshots without the 0-0 checkpoint.
func (s *Store) Snapshots() []OffsetAndEpoch {
	out := make([]OffsetAndEpoch, 0, len(s.snapshots))
	for _, f := range s.snapshots {
		if f.id != bootstrapID {
			out = append(out, f.id)
		}
	}
	return out
}

func (s *Store) latest() (snapshotFile, bool) {
	if len(s.snapshots) == 0 {
		return snapshotFile{}, false
	}
	f := s.snapshots[len(s.snapshots)-1]
	return f, f.id != bootstrapID
}

// addSnapshot takes a finished snapshot into service.
func (s *Store) addSnapshot(f snapshotFile) {
	s.snapshots = slices.DeleteFunc(s.snapshots, func(g snapshotFile) bool { return g.id == f.id })
	s.snapshots = append(s.snapshots, f)
	slices.SortFunc(s.snapshots, func(a, b snapshotFile) int { return a.id.Compare(b.id) })
}

func (s *Store) removeOldest() error {
	err := s.fs.Remove(path.Join(s.dir, snapshotName(s.snapshots[0].id)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.snapshots = slices.Delete(s.snapshots, 0, 1)
	return nil
}

// sweep lets go of the segments below the log's start. Their files go by the log's DeletePending.
func (s *Store) sweep(committed kafka.Offset, now time.Time) error {
	_, err := s.log.Retain(committed, now)
	return err
}

// trim lets go of what is old: while log and snapshots are larger than retention allows, or the oldest
// snapshot is older, the log moves its start to the next snapshot. Two snapshots are needed for a step, so
// the newest always stays, and with it everything a replica needs. It reports the new start.
func (s *Store) trim(now time.Time, c Config) (kafka.Offset, error) {
	for len(s.snapshots) >= 2 && (s.snapshots[0].id.Offset < s.Start() || s.excessive(now, c)) {
		if err := s.log.AdvanceStart(s.snapshots[1].id.Offset); err != nil {
			return s.Start(), err
		}
		if err := s.removeOldest(); err != nil {
			// On some systems a file that is being read cannot go. It is below the start now and goes the
			// next time.
			return s.Start(), nil
		}
	}
	if c.RetentionBytes >= 0 && s.log.View().Size() > c.RetentionBytes && s.log.View().Segments() == 1 {
		// A segment can only go whole: without this a log smaller than one segment would never shrink.
		return s.Start(), s.log.Roll(now)
	}
	return s.Start(), nil
}

func (s *Store) excessive(now time.Time, c Config) bool {
	size := s.log.View().Size()
	for _, f := range s.snapshots {
		size += f.size
	}
	if c.RetentionBytes >= 0 && size > c.RetentionBytes {
		return true
	}
	return c.Retention >= 0 && now.UnixMilli()-s.snapshots[0].lastContainedMs > c.Retention.Milliseconds()
}
