package moldautest

import (
	"context"
	"net"
	"sync"

	"moldau/internal/edge/vnet"
)

// fronts are ports of this machine that lead to the nodes of a cluster. They stay open while a node does not run, so that
// nobody else takes them; who connects then is turned away.
type fronts struct {
	network *vnet.Network
	ctx     context.Context
	cancel  context.CancelFunc
	all     []net.Listener
	work    sync.WaitGroup
}

func newFronts(n *vnet.Network) *fronts {
	ctx, cancel := context.WithCancel(context.Background())
	return &fronts{network: n, ctx: ctx, cancel: cancel}
}

// open opens a port and gives its address, under which the node listens in the virtual network.
func (f *fronts) open() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	f.all = append(f.all, l)
	address := l.Addr().String()
	f.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.work.Go(func() {
				if f.network.Hand(f.ctx, address, c) != nil {
					_ = c.Close()
				}
			})
		}
	})
	return address, nil
}

func (f *fronts) close() {
	f.cancel()
	for _, l := range f.all {
		_ = l.Close()
	}
	f.work.Wait()
}
