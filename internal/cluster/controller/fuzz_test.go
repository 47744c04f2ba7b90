package controller

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// handled lists the APIs that Handle knows.
func handled() []int16 {
	var out []int16
	for key := range int16(100) {
		if Handles(key) {
			out = append(out, key)
		}
	}
	return out
}

// TestEveryVersion asks every API in every version, with nothing filled in: there is a reply that encodes in that version.
func TestEveryVersion(t *testing.T) {
	for _, key := range handled() {
		r := kmsg.RequestForKey(key)
		for v := int16(0); v <= r.MaxVersion(); v++ {
			w := newWorld(t, founded())
			w.up(1)
			body := kmsg.RequestForKey(key)
			body.SetVersion(v)
			reply := w.do(body)
			back := body.ResponseKind()
			back.SetVersion(v)
			if err := back.ReadFrom(reply.AppendTo(nil)); err != nil {
				t.Errorf("%s v%d: %v", kmsg.NameForKey(key), v, err)
			}
		}
	}
	w := newWorld(t, founded())
	for key := range int16(100) {
		body := kmsg.RequestForKey(key)
		if body == nil || Handles(key) {
			continue
		}
		if r := Handle(w.now, w.state(), Request{Body: body}, w.rnd); r.Reply != nil || r.Records != nil {
			t.Errorf("%s is answered", kmsg.NameForKey(key))
		}
	}
}

// FuzzHandle sends any decodable request: nothing panics, and what is decided applies.
func FuzzHandle(f *testing.F) {
	keys := handled()
	seed := newWorld(f, founded())
	seed.up(1, 2)
	seed.create("a", []int32{1, 2})
	for i, key := range keys {
		body := kmsg.RequestForKey(key)
		for v := int16(0); v <= body.MaxVersion(); v++ {
			body.SetVersion(v)
			f.Add(byte(i), v, body.AppendTo(nil))
		}
	}
	f.Add(byte(0), int16(7), seed.registration(1, 3, -1).AppendTo(nil))
	s := &script{world: seed, names: map[string]string{}}
	for _, x := range []struct {
		cmd  string
		line string
	}{
		{"create", "b assign=0:1,2/1:2,1 retention.ms=5"}, {"delete", "a"}, {"grow", "a count=3 assign=1,2/2,1"},
		{"elect", "a-0"}, {"features", "group.version level=0 type=2"}, {"alter-configs", "2:a retention.ms=5"},
		{"replace-configs", "4: log.retention.ms=5"}, {"alter-partition", "a-0 isr=1:9"}, {"assign-dirs", "a-0 dir=lost"},
	} {
		body := s.request(x.cmd, words{}, []string{x.line})
		for i, key := range keys {
			if key == body.Key() {
				f.Add(byte(i), body.GetVersion(), body.AppendTo(nil))
			}
		}
	}
	f.Fuzz(func(t *testing.T, which byte, version int16, raw []byte) {
		body := kmsg.RequestForKey(keys[int(which)%len(keys)])
		if version < 0 || version > body.MaxVersion() {
			return
		}
		body.SetVersion(version)
		if len(raw) > 1<<16 || body.ReadFrom(raw) != nil {
			return
		}
		state := seed.state()
		state.Liveness = cloneLiveness(seed.liveness)
		start := time.Now()
		r := Handle(seed.now, state, Request{Body: body}, rand.New(rand.NewPCG(1, 2)))
		if took := time.Since(start); took > 5*time.Second {
			t.Fatalf("it took %v", took)
		}
		if r.Reply == nil {
			t.Fatal("no reply")
		}
		if _, _, err := state.Image.Apply(r.Records); err != nil {
			t.Fatal(err)
		}
		r.Reply.AppendTo(nil)
	})
}
