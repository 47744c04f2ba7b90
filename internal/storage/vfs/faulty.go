package vfs

import (
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// FaultFS wraps a file system and makes calls fail, fall short, wait or lie, as a script says. One rule a line:
//
//	OPERATION GLOB [RANGE] ACTION [ARGUMENTS]
//	enospc [GLOB [RANGE]]                       # short for: alloc GLOB RANGE error ENOSPC
//
//	sync *.log 3 error EIO                      # the third sync of any .log file
//	write topic-0/*.log 2- short 100 ENOSPC     # from the second write on, 100 bytes and then a full disk
//	read * 1-4 latency 10ms
//	read *.log 7 flip 61                        # bit 0 of byte 61 of the seventh read is wrong
//	syncdir * skip                              # the disk lies
//
// Operations: open (every), create (an open that may create), close, read, write, truncate, sync, modtime, rename,
// remove (also whole trees), mkdir, readdir, stat, syncdir, syncall, evict, free, lock, alloc (create, write, mkdir, a
// truncate that extends, and free, which then answers 0), * (any).
//
// GLOB is matched against the last components of the name (of either name of a rename; of the name a file was opened
// by), against all of it if it starts with a slash. RANGE counts the calls that the rule matches from 1: N, N-, N-M.
// Actions: error NAME; latency DURATION; short BYTES [NAME] (read: then EOF unless named; write: io.ErrShortWrite);
// flip BYTE; skip (a sync that does nothing and succeeds). Of several rules that hit, the latencies add up and the
// first other one decides; all of them count.
//
// Over a Mem, a sync that fails leaves the pages clean and not durable, as a kernel does. A syncall that fails does so
// because of somebody else's file: it is done first. Mem.FailWriteback makes one fail because of our own.
type FaultFS struct {
	inner FS

	mu    sync.Mutex
	rules []*rule
	next  RuleID
	sleep func(time.Duration)
}

// RuleID names a rule in force.
type RuleID int

// Faulty wraps inner with the rules of script, which may be empty. Latency sleeps for real until SetSleep.
func Faulty(inner FS, script string) (*FaultFS, error) {
	f := &FaultFS{inner: inner, sleep: time.Sleep}
	if _, err := f.Add(script); err != nil {
		return nil, err
	}
	return f, nil
}

// SetSleep replaces what latency rules wait with. It is called without locks held.
func (f *FaultFS) SetSleep(sleep func(time.Duration)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sleep = sleep
}

// Add puts the rules of script behind those in force. On an error, which tells the line, nothing is added.
func (f *FaultFS) Add(script string) ([]RuleID, error) {
	rules, err := parseRules(script)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := make([]RuleID, len(rules))
	for i, r := range rules {
		f.next++
		r.id, ids[i] = f.next, f.next
	}
	f.rules = append(f.rules, rules...)
	return ids, nil
}

// Drop ends rules; unknown ones are ignored.
func (f *FaultFS) Drop(ids ...RuleID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = slices.DeleteFunc(f.rules, func(r *rule) bool { return slices.Contains(ids, r.id) })
}

// Clear ends all rules.
func (f *FaultFS) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// Hits says how often a rule has struck, so that a test can tell a fault survived from a fault that never was. 0 for
// a rule that is gone.
func (f *FaultFS) Hits(id RuleID) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if r.id == id {
			return r.hits
		}
	}
	return 0
}

// call is what rules are matched against.
type call struct {
	op                 string
	names              []string
	creates, allocates bool
}

// verdict is what the rules say about a call; the zero value lets it pass.
type verdict struct {
	action string
	err    error
	bytes  int64
}

// judge asks the rules and waits out the latency.
func (f *FaultFS) judge(c call) verdict {
	f.mu.Lock()
	var v verdict
	var wait time.Duration
	for _, r := range f.rules {
		switch {
		case !r.matches(c):
		case r.action == actLatency:
			wait += r.latency
		case v.action == "":
			v = verdict{action: r.action, err: r.err, bytes: r.bytes}
		}
	}
	sleep := f.sleep
	f.mu.Unlock()
	if wait > 0 {
		sleep(wait)
	}
	return v
}

// fails judges a call that can only fail or pass.
func (f *FaultFS) fails(op string, names ...string) error {
	return wrap(op, names[0], f.judge(call{op: op, names: names}).err)
}

// Open implements FS.
func (f *FaultFS) Open(name string, flag int) (File, error) {
	creates := flag&os.O_CREATE != 0
	v := f.judge(call{op: opOpen, names: []string{name}, creates: creates, allocates: creates})
	if v.err != nil {
		return nil, wrap(opOpen, name, v.err)
	}
	file, err := f.inner.Open(name, flag)
	if err != nil {
		return nil, err
	}
	return &faultFile{File: file, fs: f, name: name}, nil
}

// Rename implements FS.
func (f *FaultFS) Rename(from, to string) error {
	if err := f.fails(opRename, from, to); err != nil {
		return err
	}
	return f.inner.Rename(from, to)
}

func (f *FaultFS) removeWith(remove func(string) error, name string) error {
	if err := f.fails(opRemove, name); err != nil {
		return err
	}
	return remove(name)
}

// Remove implements FS.
func (f *FaultFS) Remove(name string) error { return f.removeWith(f.inner.Remove, name) }

// RemoveAll implements FS.
func (f *FaultFS) RemoveAll(name string) error { return f.removeWith(f.inner.RemoveAll, name) }

// MkdirAll implements FS.
func (f *FaultFS) MkdirAll(dir string) error {
	if v := f.judge(call{op: opMkdir, names: []string{dir}, allocates: true}); v.err != nil {
		return wrap(opMkdir, dir, v.err)
	}
	return f.inner.MkdirAll(dir)
}

// ReadDir implements FS.
func (f *FaultFS) ReadDir(dir string) ([]DirEntry, error) {
	if err := f.fails(opReadDir, dir); err != nil {
		return nil, err
	}
	return f.inner.ReadDir(dir)
}

// Stat implements FS.
func (f *FaultFS) Stat(name string) (Info, error) {
	if err := f.fails(opStat, name); err != nil {
		return Info{}, err
	}
	return f.inner.Stat(name)
}

// SyncDir implements FS.
func (f *FaultFS) SyncDir(dir string) error {
	v := f.judge(call{op: opSyncDir, names: []string{dir}})
	if v.action != "" {
		return wrap(opSyncDir, dir, v.err)
	}
	return f.inner.SyncDir(dir)
}

// SyncAll implements FS.
func (f *FaultFS) SyncAll(dir string) (bool, error) {
	v := f.judge(call{op: opSyncAll, names: []string{dir}})
	if v.action == actSkip {
		return true, nil
	}
	done, err := f.inner.SyncAll(dir)
	if err == nil && v.err != nil {
		return true, wrap(opSyncAll, dir, v.err)
	}
	return done, err
}

// Evict implements FS.
func (f *FaultFS) Evict(name string) error {
	if err := f.fails(opEvict, name); err != nil {
		return err
	}
	return f.inner.Evict(name)
}

// Total implements FS. No rule applies to it.
func (f *FaultFS) Total(dir string) (int64, error) { return f.inner.Total(dir) }

// Free implements FS.
func (f *FaultFS) Free(dir string) (int64, error) {
	v := f.judge(call{op: opFree, names: []string{dir}, allocates: true})
	switch {
	case IsNoSpace(v.err):
		return 0, nil
	case v.err != nil:
		return 0, wrap(opFree, dir, v.err)
	}
	return f.inner.Free(dir)
}

// Lock implements FS.
func (f *FaultFS) Lock(name string) (io.Closer, error) {
	if err := f.fails(opLock, name); err != nil {
		return nil, err
	}
	return f.inner.Lock(name)
}

// faultFile is an open file under rules.
type faultFile struct {
	File
	fs   *FaultFS
	name string
}

func (f *faultFile) call(op string) call { return call{op: op, names: []string{f.name}} }

func (f *faultFile) ReadAt(p []byte, off int64) (int, error) {
	v := f.fs.judge(f.call(opRead))
	switch v.action {
	case actError:
		return 0, wrap(opRead, f.name, v.err)
	case actShort:
		if v.bytes < int64(len(p)) {
			n, err := f.File.ReadAt(p[:v.bytes], off)
			if err == nil {
				err = v.err
			}
			return n, err
		}
	}
	n, err := f.File.ReadAt(p, off)
	if v.action == actFlip && n > 0 {
		p[v.bytes%int64(n)] ^= 1
	}
	return n, err
}

func (f *faultFile) Write(p []byte) (int, error) { return f.write(p, f.File.Write) }

func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	return f.write(p, func(p []byte) (int, error) { return f.File.WriteAt(p, off) })
}

func (f *faultFile) write(p []byte, write func([]byte) (int, error)) (int, error) {
	c := f.call(opWrite)
	c.allocates = true
	v := f.fs.judge(c)
	switch {
	case v.action == actError:
		return 0, wrap(opWrite, f.name, v.err)
	case v.action == actShort && v.bytes < int64(len(p)):
		n, err := write(p[:v.bytes])
		if err == nil {
			err = wrap(opWrite, f.name, v.err)
		}
		return n, err
	}
	return write(p)
}

func (f *faultFile) Truncate(size int64) error {
	c := f.call(opTrunc)
	if now, err := f.File.Size(); err == nil && size > now {
		c.allocates = true
	}
	if v := f.fs.judge(c); v.err != nil {
		return wrap(opTrunc, f.name, v.err)
	}
	return f.File.Truncate(size)
}

// syncFailer is a file that can behave as after a failed sync.
type syncFailer interface{ failSync() error }

func (f *faultFile) Sync() error {
	v := f.fs.judge(f.call(opSync))
	switch v.action {
	case "":
		return f.File.Sync()
	case actError:
		if inner, ok := f.File.(syncFailer); ok {
			if err := inner.failSync(); err != nil {
				return wrap(opSync, f.name, err)
			}
		}
	}
	return wrap(opSync, f.name, v.err)
}

func (f *faultFile) SetModTime(t time.Time) error {
	if err := f.fs.fails(opModTime, f.name); err != nil {
		return err
	}
	return f.File.SetModTime(t)
}

// Close closes the file in any case.
func (f *faultFile) Close() error {
	err := f.File.Close()
	if fault := f.fs.fails(opClose, f.name); err == nil && fault != nil {
		return fault
	}
	return err
}

// Sendable says no while a rule is about reads: a sendfile would go past it.
func (f *faultFile) Sendable() (uintptr, bool) {
	if f.fs.watchesReads(f.name) {
		return 0, false
	}
	return f.File.Sendable()
}

func (f *FaultFS) watchesReads(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.rules, func(r *rule) bool {
		return (r.op == opRead || r.op == opAny) && matchName(r.glob, name)
	})
}

// failSync passes the failure on when wrappers are stacked.
func (f *faultFile) failSync() error {
	if inner, ok := f.File.(syncFailer); ok {
		return inner.failSync()
	}
	return nil
}
