package server

import "sync"

// canceler is a list of callbacks that run once. The zero value is ready.
type canceler struct {
	mu    sync.Mutex
	fired bool
	fs    []func()
}

func (c *canceler) add(f func()) {
	c.mu.Lock()
	fired := c.fired
	if !fired {
		c.fs = append(c.fs, f)
	}
	c.mu.Unlock()
	if fired {
		f()
	}
}

func (c *canceler) fire() {
	c.mu.Lock()
	fs := c.fs
	c.fired, c.fs = true, nil
	c.mu.Unlock()
	for _, f := range fs {
		f()
	}
}
