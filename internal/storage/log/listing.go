package log

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

// listing is what a partition's directory holds.
type listing struct {
	bases            []kafka.Offset // of the .log files, rising
	indexes          []indexFiles   // beside bases
	snapshots        []kafka.Offset // rising
	metadata, epochs bool
}

// indexFiles says which indexes a segment has.
type indexFiles struct{ offsets, times, txns bool }

func (f *listing) at(base kafka.Offset) (indexFiles, bool) {
	i, ok := slices.BinarySearch(f.bases, base)
	if !ok {
		return indexFiles{}, false
	}
	return f.indexes[i], true
}

// readDir lists the partition's directory after tidying up: what a deletion, a compaction or a move left half done is
// finished or undone, and files that belong to no segment go.
func (x *Loader) readDir() (listing, error) {
	dir := x.log.Path()
	entries, err := x.dir.fs.ReadDir(dir)
	if err != nil {
		return listing{}, err
	}
	var temporary, swaps []string
	for _, e := range entries {
		switch {
		case e.IsDir:
		case strings.HasSuffix(e.Name, deletedSuffix), strings.HasSuffix(e.Name, cleanedSuffix),
			strings.HasSuffix(e.Name, temporarySuffix):
			temporary = append(temporary, e.Name)
		case strings.HasSuffix(e.Name, swapSuffix):
			swaps = append(swaps, e.Name)
		}
	}
	if len(swaps) > 0 {
		if err := finishSwaps(x.dir.fs, dir, swaps, smallestCleaned(temporary)); err != nil {
			return listing{}, err
		}
	}
	for _, name := range temporary {
		if err := x.dir.fs.Remove(path.Join(dir, name)); err != nil {
			return listing{}, err
		}
	}
	if len(swaps) > 0 {
		if entries, err = x.dir.fs.ReadDir(dir); err != nil {
			return listing{}, err
		}
	}
	return x.sortFiles(entries)
}

// sortFiles makes the listing. Entries come in name order, in which a segment's .index precedes its .log.
func (x *Loader) sortFiles(entries []vfs.DirEntry) (listing, error) {
	var f listing
	for _, e := range entries {
		f.metadata = f.metadata || e.Name == PartitionMetadataFile
		f.epochs = f.epochs || e.Name == EpochsFile
		if base, suffix, ok := parseSegmentName(e.Name); ok && suffix == dataSuffix && !e.IsDir {
			f.bases = append(f.bases, base)
		}
		if offset, ok := parseSnapshotName(e.Name); ok && !e.IsDir {
			f.snapshots = append(f.snapshots, offset)
		}
	}
	f.indexes = make([]indexFiles, len(f.bases))
	for _, e := range entries {
		base, suffix, ok := parseSegmentName(e.Name)
		if !ok || e.IsDir {
			continue
		}
		i, hasLog := slices.BinarySearch(f.bases, base)
		isIndex := suffix == offsetIndexSuffix || suffix == timeIndexSuffix || suffix == TxnIndexSuffix
		switch {
		case isIndex && !hasLog:
			if err := x.dir.fs.Remove(path.Join(x.log.Path(), e.Name)); err != nil {
				return f, err
			}
		case suffix == offsetIndexSuffix:
			f.indexes[i].offsets = true
		case suffix == timeIndexSuffix:
			f.indexes[i].times = true
		case suffix == TxnIndexSuffix:
			f.indexes[i].txns = true
		}
	}
	return f, nil
}

// smallestCleaned gives the lowest base of an unfinished cleaning, or the highest offset when there is none.
func smallestCleaned(names []string) kafka.Offset {
	smallest := kafka.Offset(1<<63 - 1)
	for _, name := range names {
		if live, ok := strings.CutSuffix(name, cleanedSuffix); ok {
			if base, _, ok := parseSegmentName(live); ok {
				smallest = min(smallest, base)
			}
		}
	}
	return smallest
}

// finishSwaps completes a cleaning that a crash interrupted: the cleaner renames complete segments to .swap before it
// touches the live ones, so they win over what they replace. A .swap at or above an unfinished .cleaned belongs to a
// split that did not get that far and is dropped. That the live ones are gone is durable before a .swap gets a live name:
// without the ending nothing tells any more what it replaces.
func finishSwaps(fsys vfs.FS, dir string, swaps []string, cleaned kafka.Offset) error {
	var keep []string
	var covered []replaced
	for _, name := range swaps {
		base, suffix, ok := parseSegmentName(strings.TrimSuffix(name, swapSuffix))
		if !ok || base >= cleaned {
			if err := fsys.Remove(path.Join(dir, name)); err != nil {
				return err
			}
			continue
		}
		keep = append(keep, name)
		if suffix == dataSuffix {
			next, err := nextOffset(fsys, path.Join(dir, name), base)
			if err != nil {
				return err
			}
			covered = append(covered, replaced{low: base, high: max(next, base+1)}) // it may be empty
		}
	}
	if len(keep) == 0 {
		return fsys.SyncDir(dir)
	}
	if err := removeReplaced(fsys, dir, covered, keep); err != nil {
		return err
	}
	if err := fsys.SyncDir(dir); err != nil {
		return err
	}
	for _, name := range keep {
		live := strings.TrimSuffix(name, swapSuffix)
		if err := fsys.Rename(path.Join(dir, name), path.Join(dir, live)); err != nil {
			return err
		}
	}
	return fsys.SyncDir(dir)
}

// replaced are the bases of live segments that a .swap stands for: low <= base < high.
type replaced struct{ low, high kafka.Offset }

// removeReplaced deletes what belongs to replaced segments: their files, and producer snapshots, which may know of open
// transactions whose markers are gone. Of the first one, which has the name of the new segment, a file without a .swap
// beside it is the new segment's already: the cleaner always makes all of them.
func removeReplaced(fsys vfs.FS, dir string, covered []replaced, swaps []string) error {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		base, suffix, ok := parseSegmentName(e.Name)
		if !ok || !slices.Contains(segmentSuffixes[:], suffix) ||
			!slices.ContainsFunc(covered, func(r replaced) bool { return base >= r.low && base < r.high }) {
			continue
		}
		isFirst := slices.ContainsFunc(covered, func(r replaced) bool { return base == r.low })
		if isFirst && suffix != snapshotSuffix && !slices.Contains(swaps, e.Name+swapSuffix) {
			continue
		}
		if err := fsys.Remove(path.Join(dir, e.Name)); err != nil {
			return err
		}
	}
	return nil
}

// nextOffset walks a segment file and gives the offset after its last batch.
func nextOffset(fsys vfs.FS, name string, base kafka.Offset) (kafka.Offset, error) {
	f, err := fsys.Open(name, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	h := headers{file: f, end: size, block: new(block)}
	next := base
	for {
		x, err := h.next()
		if errors.Is(err, io.EOF) || errors.Is(err, errBadBatch) {
			return next, nil
		}
		if err != nil {
			return 0, err
		}
		next = x.last + 1
	}
}

// isGone says that a file is not there.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
