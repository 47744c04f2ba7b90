package powercut

import (
	"os"
	"path/filepath"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestCut: through the kernel, what was synced is there after a cut and what was not is not; names count apart from data.
func TestCut(t *testing.T) {
	needFUSE(t)
	d, dir := NewDisk(), t.TempDir()
	unmount, err := d.Mount(dir)
	must(t, err)
	write := func(name, text string, sync bool) {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		must(t, err)
		_, err = f.WriteString(text)
		must(t, err)
		if sync {
			must(t, f.Sync())
		}
		must(t, f.Close())
	}
	syncDir := func(name string) {
		t.Helper()
		f, err := os.Open(filepath.Join(dir, name))
		must(t, err)
		must(t, f.Sync())
		must(t, f.Close())
	}
	must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	write("sub/whole", "synced", true)
	write("sub/tail", "synced", true)
	write("sub/tail", " and not", false)
	write("sub/replaced", "old", true)
	write("sub/removed", "still here", true)
	syncDir("sub")
	syncDir(".")
	write("nameless", "data without a name", true)
	write("sub/new", "new", true)
	must(t, os.Rename(filepath.Join(dir, "sub/new"), filepath.Join(dir, "sub/replaced")))
	must(t, os.Remove(filepath.Join(dir, "sub/removed")))
	must(t, os.Truncate(filepath.Join(dir, "sub/whole"), 3))

	after := d.Cut(nil)
	if err := os.WriteFile(filepath.Join(dir, "late"), nil, 0o644); err == nil {
		t.Error("a disk without power takes a file")
	}
	must(t, unmount())
	unmount, err = after.Mount(dir)
	must(t, err)
	for name, want := range map[string]string{"sub/whole": "synced", "sub/tail": "synced", "sub/replaced": "old",
		"sub/removed": "still here"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != want {
			t.Errorf("%s holds %q, want %q (%v)", name, got, want, err)
		}
	}
	for _, name := range []string{"nameless", "sub/new", "late"} {
		if _, err := os.Stat(filepath.Join(dir, name)); !os.IsNotExist(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, unmount())
}
