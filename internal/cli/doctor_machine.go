package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"moldau/internal/storage/vfs"
)

const (
	// oldestClock is a time before which no clock can be right.
	oldestClock = 2025
	// filesWanted is what a broker with a few thousand connections and partitions needs.
	filesWanted = 16384
	syncProbes  = 16
	// slowSync is the time of one sync from which on acknowledgements are slow.
	slowSync = 20 * time.Millisecond
)

// machineFacts are what the operating system tells. A zero value is a fact that is not told here.
type machineFacts struct {
	openFiles   uint64 // that a process may have; 0: not known
	clockKnown  bool
	clockSynced bool
	kernel      string // release of Linux
	syncfsTells bool   // syncfs reports failed writes (Linux 5.8)
}

// logDir looks at one data directory.
func (d *doctor) logDir(dir string, reserveBytes int64) {
	at, err := existing(dir)
	if err != nil {
		d.add(stateFail, "data", err.Error(), "choose another directory with --data-dir")
		return
	}
	took, err := probeSync(at)
	if err != nil {
		d.add(stateFail, "data", fmt.Sprintf("%s cannot be written: %s", at, plain(err)),
			"give this user the directory or choose another with --data-dir")
		return
	}
	kind := fileSystem(at)
	where := dir
	if kind != "" {
		where += " (" + kind + ")"
	}
	switch {
	case kind == "tmpfs" || kind == "ramfs":
		d.add(stateWarn, "data", where+" is in memory: a restart of the machine takes every record",
			"choose a directory on a disk with --data-dir")
	case kind == "nfs" || kind == "cifs" || kind == "fuse":
		d.add(stateWarn, "data", where+" is on the network or in user space, where a sync may promise too much",
			"choose a directory on a local disk with --data-dir")
	case kind == "overlay":
		d.add(stateWarn, "data", where+" is a container's own layer: it goes with the container",
			"mount a volume and point --data-dir at it")
	default:
		d.add(stateOK, "data", where+" can be written", "")
	}
	if took > slowSync {
		d.add(stateWarn, "sync", fmt.Sprintf("a sync in %s takes %s, and every acknowledgement waits for one", dir,
			took.Round(100*time.Microsecond)), "use a faster disk, or moldau.flush=async where records may be lost")
	} else {
		d.add(stateOK, "sync", fmt.Sprintf("a sync in %s takes %s", dir, took.Round(10*time.Microsecond)), "")
	}
	free, err := vfs.OS().Free(at)
	switch {
	case err != nil:
		d.add(stateWarn, "space", fmt.Sprintf("the free space of %s is not known: %s", dir, plain(err)), "")
	case free < reserveBytes:
		d.add(stateFail, "space", fmt.Sprintf("%s has %s free, less than the reserve of %s: nothing can be produced", dir,
			sizeText(free), sizeText(reserveBytes)), "make room, or lower moldau.disk.reserve.bytes")
	case free < 10*reserveBytes:
		d.add(stateWarn, "space", fmt.Sprintf("%s has %s free, of which %s are kept in reserve", dir, sizeText(free),
			sizeText(reserveBytes)), "make room or lower retention (log.retention.bytes)")
	default:
		d.add(stateOK, "space", fmt.Sprintf("%s has %s free, reserve %s", dir, sizeText(free), sizeText(reserveBytes)), "")
	}
}

// existing gives dir, or of a directory that is yet to be made the nearest one above that exists.
func existing(dir string) (string, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for {
		info, err := os.Stat(path)
		switch {
		case err == nil && info.IsDir():
			return path, nil
		case err == nil:
			return "", fmt.Errorf("%s is no directory", path)
		case !errors.Is(err, fs.ErrNotExist) || filepath.Dir(path) == path:
			return "", plain(err)
		}
		path = filepath.Dir(path)
	}
}

// probeSync writes and syncs a small file a few times, removes it, and gives the median time of a sync.
func probeSync(dir string) (_ time.Duration, err error) {
	f, err := os.CreateTemp(dir, ".moldau-doctor-*")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	var times []time.Duration
	block := make([]byte, 4096)
	for range syncProbes {
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		begun := time.Now()
		if err := f.Sync(); err != nil {
			return 0, err
		}
		times = append(times, time.Since(begun))
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// machine looks at the limits, the clock and the kernel.
func (d *doctor) machine() {
	facts := readMachine()
	wanted := uint64(filesWanted)
	switch {
	case facts.openFiles == 0:
	case facts.openFiles < wanted:
		d.add(stateWarn, "files", fmt.Sprintf("a process may open %d files, fewer than the %d of a busy broker",
			facts.openFiles, wanted), "raise the limit: ulimit -n, or LimitNOFILE of the service")
	default:
		d.add(stateOK, "files", fmt.Sprintf("a process may open %d files", facts.openFiles), "")
	}
	now := time.Now()
	switch {
	case now.Year() < oldestClock:
		d.add(stateFail, "clock", "it says "+now.Format(time.RFC3339)+", which cannot be",
			"set the clock: timestamps and retention follow it")
	case facts.clockKnown && !facts.clockSynced:
		d.add(stateWarn, "clock", now.Format(time.RFC3339)+", not kept by a time service",
			"run chrony or another NTP client: timestamps and retention follow the clock")
	default:
		d.add(stateOK, "clock", now.Format(time.RFC3339), "")
	}
	switch {
	case facts.kernel == "":
	case facts.syncfsTells:
		d.add(stateOK, "kernel", "Linux "+facts.kernel+": one sync can serve many partitions", "")
	default:
		d.add(stateWarn, "kernel", "Linux "+facts.kernel+" does not report failed writes to syncfs, so that each file is "+
			"synced by itself", "with many busy partitions use Linux 5.8 or later")
	}
}

// inContainer guesses whether this runs in a container.
func inContainer() bool {
	for _, name := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(name); err == nil {
			return true
		}
	}
	return os.Getenv("KUBERNETES_SERVICE_HOST") != ""
}
