//go:build !windows

package vfs

func isPlatformNoSpace(error) bool { return false }
