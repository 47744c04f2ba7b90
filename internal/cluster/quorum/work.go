package quorum

import (
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/vfs"
)

// Work is something that blocks on the disk: Run does it, without any lock, and Pump.Completed must hear of
// it. At most one item of each kind is in flight: an election state, a flush of the log, the completion of a
// downloaded snapshot.
type Work struct {
	kind  workKind
	run   func() error
	token log.FlushToken // of a flush
	// received is what a completed download has brought.
	received *receivedSnapshot
}

type workKind int8

const (
	workPersist workKind = iota
	workFlush
	workInstall
	workDelete
)

// String names the kind, for logs and the simulator.
func (w *Work) String() string {
	switch w.kind {
	case workPersist:
		return "write the election state"
	case workFlush:
		return "sync the log"
	case workInstall:
		return "complete a snapshot"
	case workDelete:
		return "delete old segments"
	}
	return "work"
}

// Run blocks until the disk has it.
func (w *Work) Run() error { return w.run() }

// Work takes an item that can be run now, before or beside the others that were taken; false: there is none.
func (p *Pump) Work() (*Work, bool) {
	if len(p.work) == 0 || p.err != nil {
		return nil, false
	}
	w := p.work[0]
	p.work = p.work[1:]
	if w.kind == workFlush {
		w.token = p.store.log.Dirty() // now, so that it covers what was appended since it was asked for
		w.run = w.token.Sync
	}
	return w, true
}

// persist asks for the held election state to be written. Nothing else happens until it is.
func (p *Pump) persist() {
	state := *p.held.Persist
	p.work = append(p.work, &Work{kind: workPersist, run: func() error {
		return writeElectionState(p.store.fs, p.store.dir, state)
	}})
}

// flush asks for everything to be synced that is appended by the time the item is taken. What is appended
// while it runs is for the next flush: under load one sync carries many proposals.
func (p *Pump) flush() {
	p.flushing = true
	p.work = append(p.work, &Work{kind: workFlush})
}

// deletePending lets the files of dropped segments go.
func (p *Pump) deletePending(now time.Time) {
	if p.deleting {
		return
	}
	p.deleting = true
	p.work = append(p.work, &Work{kind: workDelete, run: func() error {
		_, err := p.store.log.DeletePending(now)
		return err
	}})
}

// Completed hears that an item was run, and with what result. A failed sync is final: what the page cache
// holds after it is not known.
func (p *Pump) Completed(now time.Time, w *Work, err error) {
	switch w.kind {
	case workPersist:
		if err != nil && vfs.IsNoSpace(err) {
			p.retryAt = now.Add(p.config.RetryBackoff)
			return
		}
		p.fail(err)
		if p.err != nil {
			return
		}
		a := *p.held
		p.held = nil
		p.withdraw()
		p.carryOut(now, a)
		p.step(now, Ticked{})
	case workFlush:
		p.flushing = false
		p.fail(err)
		if p.err != nil {
			return
		}
		p.store.log.MarkDurable(w.token)
		p.step(now, Flushed{})
		p.settle()
	case workInstall:
		p.fail(err)
		if p.err == nil {
			p.install(now, w.received)
		}
	case workDelete:
		p.deleting = false
		if !vfs.IsNoSpace(err) {
			p.fail(err)
		}
	}
}

// withdraw takes back the messages that still wait for a sync: they speak for an epoch or a vote that is
// over.
func (p *Pump) withdraw() {
	for _, s := range p.synced {
		for _, m := range s.messages {
			p.queue = append(p.queue, Lost{Request: m.Request})
		}
	}
	p.synced = nil
}

// Close ends the replica and closes its log; after a Shutdown that was waited for, an orderly stop lets the
// next start trust the log without reading it. Work in flight must have been completed.
func (p *Pump) Close(now time.Time) error {
	p.work = nil
	p.dropReceiving()
	clean := p.err == nil
	p.fail(kafka.Errorf(kafka.BrokerNotAvailable, "closed"))
	return p.store.log.Close(clean, now)
}
