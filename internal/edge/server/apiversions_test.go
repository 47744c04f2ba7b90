package server

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

func TestApiVersions(t *testing.T) {
	h := newHarness(t)
	rows := []API{
		{Key: 0, Min: 3, Max: 13, Listener: BrokerListener, Handle: answerProduce},
		{Key: 52, Min: 0, Max: 2, Listener: ControllerListener, Handle: answerProduce},
	}
	table, err := NewTable(VersionInfo{
		Features: func() Features {
			return Features{
				Supported: []FeatureRange{{"group.version", 0, 1}, {"metadata.version", 7, 33}},
				Finalized: []FinalizedFeature{{"metadata.version", 33}}, Epoch: 77,
			}
		},
		ClusterID: func() string { return "cluster" },
		NodeID:    func() kafka.NodeID { return 1 },
	}, rows...)
	if err != nil {
		t.Fatal(err)
	}
	h.opt.Table = table
	c := h.startMemory().memory()
	ask := func(version int16, f func(r *kmsg.ApiVersionsRequest)) *kmsg.ApiVersionsResponse {
		r := kmsg.NewPtrApiVersionsRequest()
		r.Version, r.ClientSoftwareName, r.ClientSoftwareVersion = version, "me", "1.0"
		if f != nil {
			f(r)
		}
		return c.ask(r).(*kmsg.ApiVersionsResponse)
	}
	for v := range int16(6) {
		resp := ask(v, nil)
		if resp.ErrorCode != 0 || len(resp.ApiKeys) != 2 || !isRange(resp.ApiKeys[0], 0, 0, 13) || !isRange(resp.ApiKeys[1], 18, 0, 5) {
			t.Fatalf("v%d: %+v", v, resp)
		}
		supported, finalized := 0, 0
		if v == 3 {
			supported, finalized = 1, 1 // without what starts at 0 (KAFKA-17011)
		} else if v > 3 {
			supported, finalized = 2, 1
		}
		if len(resp.SupportedFeatures) != supported || len(resp.FinalizedFeatures) != finalized {
			t.Fatalf("v%d: %+v", v, resp)
		}
	}
	for _, name := range []string{"", "-a", "a-", "a b", "a_b", "ä", ".", "a."} {
		if resp := ask(3, func(r *kmsg.ApiVersionsRequest) { r.ClientSoftwareName = name }); resp.ErrorCode != 42 || len(resp.ApiKeys) != 0 {
			t.Errorf("name %q: %+v", name, resp)
		}
	}
	for _, name := range []string{"a", "9", "a-b.c", "a--b", strings.Repeat("x", 300)} {
		if resp := ask(3, func(r *kmsg.ApiVersionsRequest) { r.ClientSoftwareVersion = name }); resp.ErrorCode != 0 {
			t.Errorf("version %q: %+v", name, resp)
		}
	}
	for _, tc := range []struct {
		cluster *string
		node    int32
		want    int16
	}{
		{nil, -1, 0},
		{kmsg.StringPtr("cluster"), 1, 0},
		{kmsg.StringPtr("other"), 1, 129},
		{kmsg.StringPtr("cluster"), 2, 129},
		{kmsg.StringPtr("cluster"), -2, 129},
		{kmsg.StringPtr(""), 1, 129},
		{kmsg.StringPtr("cluster"), -1, 42},
		{nil, 1, 42},
	} {
		resp := ask(5, func(r *kmsg.ApiVersionsRequest) { r.ClusterID, r.NodeID = tc.cluster, tc.node })
		if resp.ErrorCode != tc.want {
			t.Errorf("%v %d: %+v", tc.cluster, tc.node, resp)
		}
	}
}

func isRange(k kmsg.ApiVersionsResponseApiKey, key, low, high int16) bool {
	return k.ApiKey == key && k.MinVersion == low && k.MaxVersion == high
}

func TestTableIsChecked(t *testing.T) {
	ok := API{Key: 3, Max: 13, Listener: BrokerListener, Handle: answerMetadata}
	for what, rows := range map[string][]API{
		"twice":       {ok, ok},
		"no handler":  {{Key: 3, Max: 13, Listener: BrokerListener}},
		"no listener": {{Key: 3, Max: 13, Handle: answerMetadata}},
		"versions":    {{Key: 3, Max: 14, Listener: BrokerListener, Handle: answerMetadata}},
		"unknown key": {{Key: 500, Listener: BrokerListener, Handle: answerMetadata}},
		"reversed":    {{Key: 3, Min: 5, Max: 4, Listener: BrokerListener, Handle: answerMetadata}},
	} {
		if _, err := NewTable(VersionInfo{}, rows...); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	table, err := NewTable(VersionInfo{}, ok)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for a := range table.Rows() {
		if n++; a.Key != 3 && a.Key != 18 {
			t.Errorf("row %d", a.Key)
		}
	}
	if n != 2 {
		t.Fatalf("%d rows", n)
	}
}
