package promise

import (
	"context"
	"sync"
)

// Promise is a value that is set exactly once. The zero value is ready to use. It is safe for concurrent use; the
// callback registered with OnDone runs on the goroutine that calls Set, or at once when the value is already there,
// and must not block.
type Promise[T any] struct {
	mu    sync.Mutex
	set   bool
	value T
	then  []func(T)
	done  chan struct{}
}

// Done returns a promise that already holds v.
func Done[T any](v T) *Promise[T] { return &Promise[T]{set: true, value: v} }

// Set stores the value, runs the callbacks and reports true; later calls change nothing and report false. The caller
// must hold no lock that a callback could want.
func (p *Promise[T]) Set(v T) bool {
	p.mu.Lock()
	if p.set {
		p.mu.Unlock()
		return false
	}
	p.set, p.value = true, v
	then, done := p.then, p.done
	p.then = nil
	p.mu.Unlock()
	if done != nil {
		close(done)
	}
	for _, f := range then {
		f(v)
	}
	return true
}

// OnDone calls f with the value once it is set.
func (p *Promise[T]) OnDone(f func(T)) {
	p.mu.Lock()
	if !p.set {
		p.then = append(p.then, f)
		p.mu.Unlock()
		return
	}
	v := p.value
	p.mu.Unlock()
	f(v)
}

// Get reports the value and whether it is set, without waiting.
func (p *Promise[T]) Get() (T, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.value, p.set
}

// Wait blocks until the value is set or ctx ends. For drivers only, never for cores.
func (p *Promise[T]) Wait(ctx context.Context) (T, error) {
	p.mu.Lock()
	if p.set {
		defer p.mu.Unlock()
		return p.value, nil
	}
	if p.done == nil {
		p.done = make(chan struct{})
	}
	done := p.done
	p.mu.Unlock()
	select {
	case <-done:
		v, _ := p.Get()
		return v, nil
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}

// Map returns a promise of f applied to p's value.
func Map[T, U any](p *Promise[T], f func(T) U) *Promise[U] {
	out := &Promise[U]{}
	p.OnDone(func(v T) { out.Set(f(v)) })
	return out
}
