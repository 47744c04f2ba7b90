//go:build unix

package vfs

import (
	"errors"
	"os"
	"syscall"
)

// maxFree bounds the free space of file systems that claim more than fits.
const maxFree = 1 << 62

func isInterrupted(err error) bool { return errors.Is(err, syscall.EINTR) }

// syncDir makes the names in dir durable. A file system that cannot do that reports it; we do not hide it.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// freeBytes multiplies blocks by their size without overflow.
func freeBytes(blocks, blockSize uint64) int64 {
	if blockSize != 0 && blocks > maxFree/blockSize {
		return maxFree
	}
	return int64(blocks * blockSize)
}
