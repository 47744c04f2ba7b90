package server

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Table holds the rows of the server. It is immutable once built.
type Table struct {
	rows  []API // by key
	byKey map[int16]*row
	// keys is what ApiVersions lists, by listener kind; shared by all responses, never written.
	keys map[ListenerKind][]kmsg.ApiVersionsResponseApiKey
}

// row is an API with what is derived from it once.
type row struct {
	API
	flexible int16 // first version with header v2; Max+1 if none
	schema   *schema
}

// NewTable checks the rows and adds the one of ApiVersions, which answers from the rows themselves and v.
func NewTable(v VersionInfo, rows ...API) (*Table, error) {
	t := &Table{byKey: make(map[int16]*row), keys: make(map[ListenerKind][]kmsg.ApiVersionsResponseApiKey)}
	t.rows = append(slices.Clone(rows), v.row(t))
	slices.SortFunc(t.rows, func(a, b API) int { return cmp.Compare(a.Key, b.Key) })
	for i := range t.rows {
		a := t.rows[i]
		r, err := derive(a)
		if err != nil {
			return nil, err
		}
		if t.byKey[a.Key] != nil {
			return nil, fmt.Errorf("server: API key %d has two rows", a.Key)
		}
		t.byKey[a.Key] = r
	}
	for _, kind := range []ListenerKind{BrokerListener, ControllerListener} {
		t.keys[kind] = t.list(kind)
	}
	return t, nil
}

func derive(a API) (*row, error) {
	req := newRequest(&a)
	switch {
	case req == nil:
		return nil, fmt.Errorf("server: API key %d is unknown", a.Key)
	case a.Handle == nil:
		return nil, fmt.Errorf("server: API %s has no handler", kmsg.NameForKey(a.Key))
	case a.Min < 0 || a.Max < a.Min || a.Max > req.MaxVersion():
		return nil, fmt.Errorf("server: API %s has versions %d to %d, the codec knows 0 to %d",
			kmsg.NameForKey(a.Key), a.Min, a.Max, req.MaxVersion())
	case a.Listener == 0:
		return nil, fmt.Errorf("server: API %s is on no listener", kmsg.NameForKey(a.Key))
	}
	r := &row{API: a, flexible: firstFlexible(req), schema: schemaFor(a.Key)}
	if r.schema == nil {
		return nil, fmt.Errorf("server: API %s has no schema; run go generate", kmsg.NameForKey(a.Key))
	}
	return r, nil
}

func firstFlexible(req kmsg.Request) int16 {
	for v := int16(0); v <= req.MaxVersion(); v++ {
		if req.SetVersion(v); req.IsFlexible() {
			return v
		}
	}
	return req.MaxVersion() + 1
}

func newRequest(a *API) kmsg.Request {
	if a.New != nil {
		return a.New()
	}
	return kmsg.RequestForKey(a.Key)
}

// Rows lists the APIs in key order.
func (t *Table) Rows() iter.Seq[API] { return slices.Values(t.rows) }

// list is the ApiVersions answer of one kind of listener. Produce is advertised from version 0, though
// versions below its row's are refused: librdkafka chooses codecs by that minimum (KAFKA-18659).
func (t *Table) list(kind ListenerKind) []kmsg.ApiVersionsResponseApiKey {
	var out []kmsg.ApiVersionsResponseApiKey
	for _, a := range t.rows {
		if a.Listener&kind == 0 {
			continue
		}
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = a.Key, a.Min, a.Max
		if a.Key == int16(kmsg.Produce) {
			k.MinVersion = 0
		}
		out = append(out, k)
	}
	return out
}
