package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"moldau/internal/cluster/metadata"
)

// kinds lists the types of records, with the level of a feature.
func kinds(records []metadata.Record) []string {
	var out []string
	for _, r := range records {
		out = append(out, strings.TrimSuffix(r.Type().String(), "_RECORD"))
	}
	return out
}

func level(name string, level int16) metadata.Record {
	return &metadata.FeatureLevelRecord{Name: name, Level: level}
}

func TestActivation(t *testing.T) {
	begin := &metadata.BeginTransactionRecord{Name: new("Bootstrap records")}
	for _, tt := range []struct {
		name      string
		log       []metadata.Record // before the term
		bootstrap []metadata.Record
		want      []string
		atomic    bool
	}{
		{"founding", nil, founded(), []string{"BEGIN_TRANSACTION", "FEATURE_LEVEL", "FEATURE_LEVEL", "FEATURE_LEVEL",
			"FEATURE_LEVEL", "CONFIG", "END_TRANSACTION"}, false},
		{"founding without a checkpoint", nil, nil, []string{"BEGIN_TRANSACTION", "FEATURE_LEVEL", "END_TRANSACTION"}, false},
		{"founding without eligible leader replicas", nil, []metadata.Record{level("metadata.version", 25)},
			[]string{"BEGIN_TRANSACTION", "FEATURE_LEVEL", "END_TRANSACTION"}, false},
		{"before metadata transactions", nil, []metadata.Record{level("metadata.version", 12)}, []string{"FEATURE_LEVEL"}, true},
		{"a founding that was cut off", []metadata.Record{begin, level("metadata.version", 33)}, founded(),
			[]string{"ABORT_TRANSACTION", "BEGIN_TRANSACTION", "FEATURE_LEVEL", "FEATURE_LEVEL", "FEATURE_LEVEL",
				"FEATURE_LEVEL", "CONFIG", "END_TRANSACTION"}, false},
		{"an open transaction later", []metadata.Record{level("metadata.version", 33), begin}, founded(),
			[]string{"ABORT_TRANSACTION"}, false},
		{"nothing to do", founded(), founded(), nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			image, _, err := metadata.New().Apply(tt.log)
			if err != nil {
				t.Fatal(err)
			}
			settings := SettingsFrom(static(t))
			r := Activate(time.UnixMilli(0), State{Image: image, Liveness: NewLiveness(), Settings: settings}, tt.bootstrap)
			if diff := cmp.Diff(tt.want, kinds(r.Records)); diff != "" || r.Atomic != tt.atomic {
				t.Fatalf("atomic %v, -want +got:\n%s", r.Atomic, diff)
			}
			after, _, err := image.Apply(r.Records)
			if err != nil {
				t.Fatal(err)
			}
			if _, open := after.Transaction(); open || after.MetadataVersion() == 0 {
				t.Fatalf("open %v, metadata.version %d", open, after.MetadataVersion())
			}
		})
	}
}

// TestSettings reads what depends on whether a key was set.
func TestSettings(t *testing.T) {
	if s := SettingsFrom(static(t)); s.BrokerSession != 3*time.Second || s.MaxIdle != 500*time.Millisecond ||
		s.PreferredElection != 300*time.Second || s.UncleanElection != 300*time.Second || s.DefaultPartitions != 1 {
		t.Errorf("%+v", s)
	}
	s := SettingsFrom(static(t, "broker.session.timeout.ms=9000", "metadata.max.idle.interval.ms=0",
		"auto.leader.rebalance.enable=false", "num.partitions=7"))
	if s.BrokerSession != 9*time.Second || s.MaxIdle != 0 || s.PreferredElection != 0 || s.DefaultPartitions != 7 {
		t.Errorf("%+v", s)
	}
	w := newWorld(t, founded(), "metadata.max.idle.interval.ms=0", "auto.leader.rebalance.enable=false")
	w.tick(time.Hour)
	if len(w.written) != 0 {
		t.Errorf("records though there is nothing to do: %v", kinds(w.written))
	}
}
