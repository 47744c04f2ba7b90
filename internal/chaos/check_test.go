//go:build unix

package chaos

import (
	"strings"
	"testing"
)

// TestCheckFinds: every kind of wrong is found in a history that has just that.
func TestCheckFinds(t *testing.T) {
	type run struct {
		h              *History
		all, committed []Record
	}
	// begun makes a history of three records: 0 and 1 of a plain writer, 0 of a committed transaction.
	begun := func() (*run, *writer, *writer) {
		r := &run{h: NewHistory()}
		plain, txn := r.h.add("p", once), r.h.add("t", together)
		r.h.begin(txn)
		for i, w := range []*writer{plain, plain, txn} {
			n, value := r.h.send(w, Plain, 0)
			r.h.told(w, n, confirmed, int64(i))
			r.all = append(r.all, Record{int64(i), string(value)})
		}
		r.h.decided(txn, confirmed)
		r.committed = append(r.committed, r.all...)
		return r, plain, txn
	}
	for want, change := range map[string]func(r *run, plain, txn *writer){
		"": func(*run, *writer, *writer) {},
		"p/1 was acknowledged at plain-0@1 and is lost": func(r *run, _, _ *writer) {
			r.all, r.committed = r.all[:1], r.committed[:1]
		},
		"p/0 is there 2 times": func(r *run, _, _ *writer) {
			r.committed = append(r.committed, Record{3, r.all[0].Value})
			r.all = r.committed
		},
		"p/0 comes after p/1": func(r *run, _, _ *writer) {
			r.all[0].Value, r.all[1].Value = r.all[1].Value, r.all[0].Value
			r.committed = r.all
		},
		"p/1 was acknowledged at plain-0@1 and lies at plain-0@5": func(r *run, _, _ *writer) {
			r.all[1].Offset = 5
			r.committed = r.all
		},
		"was committed, and 0 of its 1 records": func(r *run, _, _ *writer) { r.committed = r.committed[:2] },
		"was not committed, and 1 of its 1":     func(r *run, _, txn *writer) { r.h.decided(txn, denied) },
		"is torn: 1 of its 2": func(r *run, _, txn *writer) {
			r.h.send(txn, Plain, 0)
			r.h.decided(txn, unknown)
		},
		"holds what nobody wrote": func(r *run, _, _ *writer) {
			r.committed = append(r.committed, Record{3, "q/0/"})
			r.all = r.committed
		},
		"a reader was given x at plain-0@7, which is lost": func(r *run, _, _ *writer) {
			r.h.saw("reader", place{Plain, 0, 7}, "x")
		},
		"a reader was given x at plain-0@0, where p/0 is now": func(r *run, _, _ *writer) {
			r.h.saw("reader", place{Plain, 0, 0}, "x")
		},
		"where another read p/0 before": func(r *run, _, _ *writer) {
			r.h.saw("reader", place{Plain, 0, 0}, r.all[0].Value)
			r.h.saw("reader", place{Plain, 0, 0}, "x")
		},
	} {
		r, plain, txn := begun()
		change(r, plain, txn)
		got := r.h.Check(Contents{Plain: {0: r.all}}, Contents{Plain: {0: r.committed}})
		if want == "" && len(got) > 0 {
			t.Errorf("a right history is judged wrong: %q", got)
		}
		if !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("judged %q, want %q", got, want)
		}
	}
}
