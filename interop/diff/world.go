package diff

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/interop/raw"
)

// clientID is the client id of all requests.
const clientID = "diff"

// World is what one broker has chosen so far, by the names the steps know it by.
type World struct {
	topics    map[string][16]byte // by topic name; a deleted topic keeps its entry
	ids       map[[16]byte]string
	producers []producer        // by order of their InitProducerId
	members   map[string]string // names of the member ids that the broker chose
	settle    time.Duration
}

type producer struct {
	id    int64
	epoch int16
}

// Step is one request; Build makes it for one broker.
type Step struct {
	Name    string
	Build   func(w *World) kmsg.Request
	Changes bool // metadata changes: wait until the broker has applied it
}

// Answer of one step: its normalised text.
type Answer struct {
	Step string `json:"step"`
	Text any    `json:"answer"`
}

// Run sends steps to the broker at addr. settle is how long the broker needs to apply a change of the metadata that it has
// acknowledged: Apache Kafka answers first.
func Run(addr string, steps []Step, settle time.Duration) ([]Answer, error) {
	w := &World{topics: map[string][16]byte{}, ids: map[[16]byte]string{}, settle: settle}
	c := raw.New(addr, clientID)
	defer c.Close()
	var out []Answer
	for i, s := range steps {
		resp, err := w.do(c, s)
		if err != nil && resp == nil && !isExpected(err) {
			return out, fmt.Errorf("step %d %s: %w", i, s.Name, err)
		}
		out = append(out, Answer{Step: fmt.Sprintf("%04d %s", i, s.Name), Text: normalise(w, resp, err)})
	}
	return out, nil
}

// do sends a step, again while the broker says that it is still getting ready for such requests.
func (w *World) do(c *raw.Conn, s Step) (kmsg.Response, error) {
	for try := 0; ; try++ {
		resp, err := c.Send(s.Build(w))
		if r, ok := resp.(*kmsg.InitProducerIDResponse); ok && err == nil && try < 100 && isTransient(r.ErrorCode) {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		w.learn(resp)
		if s.Changes {
			time.Sleep(w.settle)
		}
		return resp, err
	}
}

// isTransient: Kafka fetches its first block of producer ids only when asked for one.
func isTransient(code int16) bool { return code == 14 || code == 15 || code == 51 || code == 7 }

func (w *World) learn(resp kmsg.Response) {
	switch r := resp.(type) {
	case *kmsg.CreateTopicsResponse:
		for _, t := range r.Topics {
			if t.ErrorCode == 0 && t.TopicID != ([16]byte{}) {
				w.topic(t.Topic, t.TopicID)
			}
		}
	case *kmsg.MetadataResponse:
		for _, t := range r.Topics {
			if t.ErrorCode == 0 && t.Topic != nil && t.TopicID != ([16]byte{}) {
				w.topic(*t.Topic, t.TopicID)
			}
		}
	case *kmsg.InitProducerIDResponse:
		if r.ErrorCode == 0 {
			w.producers = append(w.producers, producer{r.ProducerID, r.ProducerEpoch})
		}
	}
}

func (w *World) topic(name string, id [16]byte) {
	w.topics[name], w.ids[id] = id, name
}

// id of a topic by name; one that nobody has for an unknown name.
func (w *World) id(name string) [16]byte {
	if id, ok := w.topics[name]; ok {
		return id
	}
	return [16]byte{15: 77, 6: 0x40}
}

// gen draws the choices of the steps.
type gen struct {
	*rand.Rand
	made int // topics created so far
	pids int // producer ids asked for so far
	seqs map[string]int32
}

func pick[T any](g *gen, of ...T) T { return of[g.IntN(len(of))] }

// often returns usual, and one of the others every seventh time.
func often[T any](g *gen, usual T, others ...T) T {
	if len(others) > 0 && g.IntN(7) == 0 {
		return pick(g, others...)
	}
	return usual
}

// version sets a version between lo and hi.
func (g *gen) version(req kmsg.Request, lo, hi int16) kmsg.Request {
	req.SetVersion(lo + int16(g.IntN(int(hi-lo)+1)))
	return req
}

// name of a topic: mostly one that was created.
func (g *gen) topic() string {
	if g.made == 0 || g.IntN(12) == 0 {
		return pick(g, "missing", "bad/name", "")
	}
	return fmt.Sprintf("t%d", g.IntN(g.made))
}

func (g *gen) partition() int32 { return often(g, int32(g.IntN(2)), -1, 5, 1<<30) }
