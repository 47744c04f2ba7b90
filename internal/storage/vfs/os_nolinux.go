//go:build !linux

package vfs

import "os"

func syncFile(f *os.File) error { return f.Sync() }

// evict does nothing: there is no portable way to drop the cached pages of one file.
func evict(string) error { return nil }

// syncHandles is empty: only Linux syncs a whole file system and reports its errors.
type syncHandles struct{}

func (*syncHandles) syncAll(string) (bool, error) { return false, nil }
func (*syncHandles) watch(string)                 {}
func (*syncHandles) forget(string)                {}
