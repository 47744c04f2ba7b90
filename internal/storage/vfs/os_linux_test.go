package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestKernelVersion(t *testing.T) {
	for _, tc := range []struct {
		release            string
		writeBack, journal bool
	}{
		{"4.19.0-27-amd64", false, false},
		{"5.7.19", false, false},
		{"5.8.0-rc1", true, false},
		{"5.10.0-28-amd64", true, false},
		{"5.15.167.4-microsoft-standard-WSL2", true, false},
		{"5.18", true, true},
		{"5.18-rc3", true, true},
		{"6.1.0", true, true},
		{"10.0.1", true, true},
		{"", false, false},
		{"six.one", false, false},
		{"5.x", false, false},
	} {
		k := parseKernel(tc.release)
		if k.reportsWriteBackErrors() != tc.writeBack || k.reportsJournalErrors() != tc.journal {
			t.Errorf("%q parsed as %v", tc.release, k)
		}
	}
}

func TestSyncAllOldKernel(t *testing.T) {
	for release, want := range map[string]bool{"5.4.0": false, "5.10.0": true, "6.1.0": true} {
		o := &osFS{}
		o.syncs.kernel = parseKernel(release)
		dir := t.TempDir()
		var st unix.Statfs_t
		must(t, unix.Statfs(dir, &st))
		if st.Type != unix.EXT4_SUPER_MAGIC && st.Type != unix.XFS_SUPER_MAGIC && st.Type != unix.TMPFS_MAGIC {
			t.Skipf("file system type %x", st.Type)
		}
		if got, err := o.SyncAll(dir); got != want || err != nil {
			t.Errorf("kernel %s: %v, %v", release, got, err)
		}
	}
}

// TestSyncAllUnsuitable: proc cannot be synced as a whole, and the answer must be no, not success.
func TestSyncAllUnsuitable(t *testing.T) {
	if _, err := os.Stat("/proc/self"); err != nil {
		t.Skip(err)
	}
	if ok, err := OS().SyncAll("/proc"); ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := OS().SyncAll(t.TempDir() + "/none"); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

// TestSyncHandles: one descriptor for the life of a directory, opened with its lock, because only an old descriptor is
// told of old errors.
func TestSyncHandles(t *testing.T) {
	o := &osFS{}
	dir := filepath.Join(t.TempDir(), "d")
	must(t, o.MkdirAll(dir))
	lock, err := o.Lock(dir + "/.lock")
	must(t, err)
	if ok, err := o.SyncAll(dir); !ok {
		t.Skip("not supported here", err)
	}
	first := o.syncs.byDir[dir]
	if ok, err := o.SyncAll(dir + "/"); !ok || err != nil || o.syncs.byDir[dir] != first || len(o.syncs.byDir) != 1 {
		t.Fatal("the descriptor was not kept", ok, err)
	}
	must(t, o.RemoveAll(dir))
	must(t, o.MkdirAll(dir))
	if ok, err := o.SyncAll(dir); !ok || err != nil || o.syncs.byDir[dir] == first {
		t.Fatal("the descriptor of a removed directory was kept", ok, err)
	}
	must(t, lock.Close())
	if len(o.syncs.byDir) != 0 {
		t.Fatal("the descriptor outlives the lock")
	}
}
