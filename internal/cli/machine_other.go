//go:build !linux

package cli

// readMachine tells nothing: these facts are read on Linux only.
func readMachine() machineFacts { return machineFacts{} }

// fileSystem names no file system here.
func fileSystem(string) string { return "" }
