package metadata

import (
	"slices"
	"testing"

	"moldau/internal/kafka"
)

func TestMetadataVersionNames(t *testing.T) {
	for i, v := range metadataVersions {
		if v.level != MinMetadataVersion+int16(i) {
			t.Fatalf("row %d has level %d", i, v.level)
		}
		name, ok := MetadataVersionName(v.level)
		level, parsed := ParseMetadataVersion(name)
		if !ok || !parsed || level != v.level {
			t.Errorf("level %d is %q, which is level %d", v.level, name, level)
		}
	}
	for _, test := range []struct {
		text string
		want int16
	}{{"4.4-IV2", 33}, {"33", 33}, {"7", 7}, {"3.3", 7}, {"3.5", 11}, {"4.0", 25}, {"4.4", 33}} {
		if got, ok := ParseMetadataVersion(test.text); !ok || got != test.want {
			t.Errorf("%q is %d, want %d", test.text, got, test.want)
		}
	}
	for _, bad := range []string{"", "6", "34", "4", "4.4-IV3", "5.0", "-IV0"} {
		if got, ok := ParseMetadataVersion(bad); ok {
			t.Errorf("%q is %d", bad, got)
		}
	}
	if _, ok := MetadataVersionName(34); ok {
		t.Error("level 34 has a name")
	}
}

func TestMetadataFormatChanged(t *testing.T) {
	for _, test := range []struct {
		a, b int16
		want bool
	}{{33, 32, true}, {33, 33, false}, {31, 30, false}, {31, 29, true}, {29, 31, true}, {29, 24, false}, {23, 22, true}} {
		if got := MetadataFormatChanged(test.a, test.b); got != test.want {
			t.Errorf("from %d to %d: %v", test.a, test.b, got)
		}
	}
}

func TestFeatureTable(t *testing.T) {
	all := Features()
	if !slices.IsSortedFunc(all, func(a, b Feature) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	}) || len(all) != 7 {
		t.Fatal("the table is not sorted")
	}
	for _, f := range all {
		got, ok := LookupFeature(f.Name)
		if !ok || got.Name != f.Name || got.Max < got.Min {
			t.Errorf("%s: %+v", f.Name, got)
		}
	}
	if _, ok := LookupFeature("x"); ok {
		t.Error("x is a feature")
	}
	for _, test := range []struct {
		name       string
		mv, before int16 // level before mv
		at         int16 // level at mv
	}{
		{TransactionVersionFeature, 24, 0, 2}, {GroupVersionFeature, 22, 0, 1}, {ElrVersionFeature, 26, 0, 1},
		{ShareVersionFeature, 28, 0, 1}, {ShareVersionFeature, 31, 1, 2}, {StreamsVersionFeature, 29, 0, 1},
		{MetadataVersionFeature, 20, 19, 20}, {KRaftVersionFeature, 33, 0, 0},
	} {
		f, _ := LookupFeature(test.name)
		if f.DefaultLevel(test.mv-1) != test.before || f.DefaultLevel(test.mv) != test.at {
			t.Errorf("%s at %d: %d, at %d: %d", test.name, test.mv-1, f.DefaultLevel(test.mv-1), test.mv,
				f.DefaultLevel(test.mv))
		}
	}
}

// TestVersionTables writes the levels down a second time, as where each version begins.
func TestVersionTables(t *testing.T) {
	check := func(what string, got func(mv int16) int16, begins ...[2]int16) {
		for mv := MinMetadataVersion; mv <= LatestMetadataVersion; mv++ {
			var want int16
			for _, b := range begins {
				if mv >= b[0] {
					want = b[1]
				}
			}
			if got(mv) != want {
				t.Errorf("%s at %d: %d, want %d", what, mv, got(mv), want)
			}
		}
	}
	version := func(r Record) func(int16) int16 { return func(mv int16) int16 { return VersionFor(r, mv) } }
	check("RegisterBroker", version(&RegisterBrokerRecord{}), [2]int16{7, 1}, [2]int16{8, 2}, [2]int16{17, 3},
		[2]int16{30, 4})
	check("Partition", version(&PartitionRecord{}), [2]int16{7, 0}, [2]int16{17, 1}, [2]int16{23, 2})
	check("PartitionChange", version(&PartitionChangeRecord{}), [2]int16{7, 0}, [2]int16{17, 1}, [2]int16{23, 2})
	check("Topic", version(&TopicRecord{}), [2]int16{7, 0})
	check("Fetch", ReplicaFetchVersion, [2]int16{7, 13}, [2]int16{9, 14}, [2]int16{10, 15}, [2]int16{19, 16},
		[2]int16{21, 17}, [2]int16{27, 18})
	check("ListOffsets", ReplicaListOffsetsVersion, [2]int16{7, 7}, [2]int16{9, 8}, [2]int16{21, 9}, [2]int16{25, 10},
		[2]int16{29, 11})
}

func TestRegistrationChangeVersion(t *testing.T) {
	r := &BrokerRegistrationChangeRecord{Fenced: Fence}
	for version, set := range []func(){
		func() {},
		func() { r.InControlledShutdown = true },
		func() { r.LogDirs = []kafka.UUID{dir} },
		func() { r.CordonedLogDirs = []kafka.UUID{} },
	} {
		set()
		if got := VersionFor(r, MinMetadataVersion); got != int16(version) {
			t.Errorf("%+v: version %d, want %d", r, got, version)
		}
	}
}
