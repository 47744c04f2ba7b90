//go:build !linux

package server

import "net"

// setBacklog changes nothing: the system's limit stands.
func setBacklog(net.Listener, int) error { return nil }
