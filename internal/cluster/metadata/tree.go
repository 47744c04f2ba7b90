package metadata

import (
	"iter"

	"github.com/tidwall/btree"
)

// keys are the key types of trees. Keys made of several parts are packed into strings that sort as the parts do.
type keys interface{ ~int32 | ~string }

// treeDegree sets the size of a tree's nodes: up to 31 entries. Half of the library's default, it makes a change copy
// a third less, and a look-up costs the same.
const treeDegree = 16

// token stands for one running edit. What carries the token of an edit was made by it, so nobody else can see it yet
// and the edit may change it in place; everything else is copied first. The field keeps addresses distinct.
type token struct{ _ byte }

// tree is a sorted map that shares what did not change with the trees it was copied from. A copy is an assignment;
// only set and delete cost anything: a path of nodes for the first change of each path under a token.
type tree[K keys, V any] struct {
	m     *btree.Map[K, V]
	owner *token
}

func (t tree[K, V]) get(k K) (V, bool) {
	if t.m == nil {
		var none V
		return none, false
	}
	return t.m.Get(k)
}

func (t tree[K, V]) len() int {
	if t.m == nil {
		return 0
	}
	return t.m.Len()
}

// all goes through the tree in key order.
func (t tree[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if t.m != nil {
			t.m.Scan(yield)
		}
	}
}

// values goes through the values in key order.
func (t tree[K, V]) values() iter.Seq[V] {
	return func(yield func(V) bool) {
		if t.m != nil {
			t.m.Scan(func(_ K, v V) bool { return yield(v) })
		}
	}
}

func (t *tree[K, V]) set(by *token, k K, v V) {
	t.own(by)
	t.m.Set(k, v)
}

func (t *tree[K, V]) delete(by *token, k K) {
	if t.m != nil {
		t.own(by)
		t.m.Delete(k)
	}
}

// own makes the tree one that the edit may change. The library's Copy writes to the map it copies, which other
// goroutines may be copying too, so it works on a copy of the head.
func (t *tree[K, V]) own(by *token) {
	if t.owner == by {
		return
	}
	t.owner = by
	if t.m == nil {
		t.m = btree.NewMap[K, V](treeDegree)
		return
	}
	head := *t.m
	t.m = head.Copy()
}
