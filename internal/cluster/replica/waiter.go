package replica

import "moldau/internal/kafka"

// AppendWaiter waits for the acknowledgement of one append. The caller owns it and embeds it in its own request, so that
// waiting allocates nothing; from Append on it belongs to the partition until Done is called, exactly once, with no lock
// held. It may be used again after that.
type AppendWaiter struct {
	// Done is told that Result is complete.
	Done   func(*AppendWaiter)
	Result AppendResult
	// Resumed, when set, lets the append be held for a transaction coordinator. It is told, once and under no lock, that
	// this is over: with an error nothing was appended and Done is not called; without one Done is called too, before or
	// after. The batch's bytes are not needed any more.
	Resumed func(w *AppendWaiter, err error)

	required kafka.Offset
	next     *AppendWaiter
	waits    bool
	holder   *verification // while it is held
	refusal  error         // for Resumed
}

// AppendResult is the outcome of an append.
type AppendResult struct {
	Err             error
	First           kafka.Offset // offset of the first record, or of the original's when it was a duplicate
	LogAppendTimeMs int64        // -1 under CreateTime
	LogStart        kafka.Offset
	Duplicate       bool // it was in the log already, and nothing was written
}

// waitQueue is a list of waiters by rising required offset.
type waitQueue struct{ head, tail *AppendWaiter }

// push keeps the order. An append's offset is the largest so far; only the answer to a resent batch looks further back.
func (q *waitQueue) push(w *AppendWaiter) {
	w.next, w.waits = nil, true
	switch {
	case q.tail == nil:
		q.head, q.tail = w, w
	case q.tail.required <= w.required:
		q.tail.next, q.tail = w, w
	case q.head.required > w.required:
		w.next, q.head = q.head, w
	default:
		at := q.head
		for at.next.required <= w.required {
			at = at.next
		}
		w.next, at.next = at.next, w
	}
}

func (q *waitQueue) pop() {
	w := q.head
	if q.head = w.next; q.head == nil {
		q.tail = nil
	}
}

// remove takes w out of the queue and reports whether it was in it.
func (q *waitQueue) remove(w *AppendWaiter) bool {
	var before *AppendWaiter
	for at := q.head; at != nil; before, at = at, at.next {
		if at != w {
			continue
		}
		if before == nil {
			q.head = w.next
		} else {
			before.next = w.next
		}
		if q.tail == w {
			q.tail = before
		}
		w.next = nil
		return true
	}
	return false
}
