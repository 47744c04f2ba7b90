package node

import (
	"errors"

	"moldau/internal/cluster/replica"
	"moldau/internal/storage/log"
)

// closeLogs brings every log into the state in which the next start trusts it: complete indexes, a producer snapshot, all
// of it synced, directory by directory with as few syncs as possible.
func (n *Node) closeLogs() []error {
	var errs []error
	byDir := map[*log.Dir][]*replica.Partition{}
	for _, p := range n.manager.All() {
		if l := p.Log(); l != nil && p.Role() != replica.Offline {
			byDir[l.Dir()] = append(byDir[l.Dir()], p)
		}
	}
	for _, d := range n.manager.OnlineDirs() {
		parts := byDir[d]
		for _, p := range parts {
			if err := p.PrepareClose(n.o.Now()); err != nil {
				errs = append(errs, err)
			}
		}
		n.flushers[d].flush(parts)
		for _, p := range parts {
			if p.Role() == replica.Offline {
				errs = append(errs, errors.New("log directory "+d.Path()+" failed while closing"))
				break
			}
		}
		if len(errs) == 0 {
			if err := d.Checkpoint(n.manager.HighWatermarks(d)); err != nil {
				errs = append(errs, err)
			}
		}
		for _, p := range parts {
			clean, e := p.Close(n.o.Now())
			e.Run(n)
			if !clean && len(errs) == 0 {
				errs = append(errs, errors.New(p.TopicPartition().String()+" was written to while closing"))
			}
		}
	}
	return errs
}

// closeFiles closes what is still open, as it is.
func (n *Node) closeFiles() {
	for _, p := range n.manager.All() {
		_, e := p.Close(n.o.Now())
		e.Run(n)
	}
}
