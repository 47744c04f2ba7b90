package vfs

import "testing"

func TestTotalIsAtLeastFree(t *testing.T) {
	mem := NewMem(MemOptions{Capacity: 1 << 20})
	if err := mem.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		fs  FS
		dir string
	}{"os": {OS(), t.TempDir()}, "mem": {mem, "/d"}} {
		total, err := c.fs.Total(c.dir)
		if err != nil || total <= 0 {
			t.Fatalf("%s: total %d, %v", name, total, err)
		}
		if free, err := c.fs.Free(c.dir); err != nil || free > total {
			t.Fatalf("%s: free %d of %d, %v", name, free, total, err)
		}
		if _, err := c.fs.Total(c.dir + "/none"); err == nil {
			t.Fatalf("%s: a missing directory has a size", name)
		}
	}
	if total, _ := mem.Total("/d"); total != 1<<20 {
		t.Fatalf("mem: total %d", total)
	}
}
