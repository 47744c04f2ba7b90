package log

import (
	"sync/atomic"

	"moldau/internal/storage/vfs"
)

// countingFS counts open files and reads, to find leaks and to see what a start touches.
type countingFS struct {
	vfs.FS
	open  atomic.Int64
	opens atomic.Int64
	names bool // SyncAll makes names durable
}

func (c *countingFS) Open(name string, flag int) (vfs.File, error) {
	f, err := c.FS.Open(name, flag)
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	c.opens.Add(1)
	return &countedFile{File: f, fs: c}, nil
}

// SyncAllNames says what is true of syncfs on the file systems that tests run on.
func (c *countingFS) SyncAllNames() bool { return c.names }

type countedFile struct {
	vfs.File
	fs     *countingFS
	closed bool
}

func (f *countedFile) Close() error {
	if !f.closed {
		f.closed = true
		f.fs.open.Add(-1)
	}
	return f.File.Close()
}
