//go:build !linux

package server

import "net"

func newTransport(nc net.Conn, m *meter) transport { return &copyTransport{nc, m} }
