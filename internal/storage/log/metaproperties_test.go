package log

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/storage/vfs"
)

func uuid(t testing.TB, s string) kafka.UUID {
	t.Helper()
	id, err := kafka.ParseUUID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// realMetaProperties is what Apache Kafka 4.4.0's format command wrote.
const realMetaProperties = "#\n#Mon Nov 30 15:21:30 UTC 2026\nnode.id=1\ndirectory.id=PjUR7C2xhIS-gc1FxLE0Vg\nversion=1\n" +
	"cluster.id=MoldauPeerClusterId000\n"

func TestMetaPropertiesParse(t *testing.T) {
	dir := uuid(t, "PjUR7C2xhIS-gc1FxLE0Vg")
	bad := MetaProperties{Version: -1}
	for _, c := range []struct {
		text string
		want MetaProperties
	}{
		{realMetaProperties, MetaProperties{"MoldauPeerClusterId000", 1, dir, 1}},
		{"version=1\ncluster.id=c\nnode.id=0\n", MetaProperties{"c", 0, kafka.UUID{}, 1}},
		{"version=1\ncluster.id=c\nnode.id=2147483647\nother=x", MetaProperties{"c", 2147483647, kafka.UUID{}, 1}},
		{"version=0\nbroker.id=4\ncluster.id=c\n", MetaProperties{"c", 4, kafka.UUID{}, 0}},
		{"broker.id=4\n", MetaProperties{"", 4, kafka.UUID{}, 0}},
		{"version=0\nnode.id=4\n", MetaProperties{"", kafka.NoNode, kafka.UUID{}, 0}},
		{"", MetaProperties{"", kafka.NoNode, kafka.UUID{}, 0}},
		{"version=2\ncluster.id=c\nnode.id=1\n", bad},
		{"version=one\n", bad},
		{"version=1\nnode.id=1\n", bad},
		{"version=1\ncluster.id=c\n", bad},
		{"version=1\ncluster.id=c\nbroker.id=1\n", bad},
		{"version=1\ncluster.id=c\nnode.id=-1\n", bad},
		{"version=1\ncluster.id=c\nnode.id=2147483648\n", bad},
		{"version=1\ncluster.id=c\nnode.id=1\ndirectory.id=short\n", bad},
		{"version=1\ncluster.id=c\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAA\n", bad},
		{"version=1\ncluster.id=c\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAYw\n", bad},
		{"version=1\ncluster.id=\\u12\nnode.id=1\n", bad},
	} {
		got, err := parseMetaProperties([]byte(c.text))
		if (err != nil) != (c.want == bad) || err == nil && got != c.want {
			t.Errorf("%q: %+v %v, want %+v", c.text, got, err, c.want)
		}
	}
}

func TestMetaPropertiesFile(t *testing.T) {
	fsys, dir := vfs.OS(), t.TempDir()
	if _, err := ReadMetaProperties(fsys, dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	for _, m := range []MetaProperties{
		{"MoldauPeerClusterId000", 1, uuid(t, "PjUR7C2xhIS-gc1FxLE0Vg"), 1},
		{`  od#d!=: \id` + "\t\n\r\fé😀 ", 0, kafka.UUID{}, 1},
	} {
		if err := WriteMetaProperties(fsys, dir, m); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadMetaProperties(fsys, dir); err != nil || got != m {
			t.Errorf("read %+v %v, wrote %+v", got, err, m)
		}
	}
	want := "cluster.id=MoldauPeerClusterId000\ndirectory.id=PjUR7C2xhIS-gc1FxLE0Vg\nnode.id=1\nversion=1\n"
	if got := string(formatMetaProperties(MetaProperties{"MoldauPeerClusterId000", 1, uuid(t, "PjUR7C2xhIS-gc1FxLE0Vg"), 0})); got != want {
		t.Errorf("bytes %q", got)
	}
	for _, m := range []MetaProperties{{NodeID: 1}, {ClusterID: "c", NodeID: -1}} {
		if err := WriteMetaProperties(fsys, dir, m); err == nil {
			t.Errorf("%+v was written", m)
		}
	}
	if err := AtomicWrite(fsys, path.Join(dir, MetaPropertiesFile), []byte("version=9\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadMetaProperties(fsys, dir); !isFormatError(err) {
		t.Errorf("version 9: %v", err)
	}
}

// TestJavaProperties follows the documentation of java.util.Properties.load.
func TestJavaProperties(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"Truth = Beauty\n Truth2:Beauty\nTruth3   :Beauty":  {"Truth": "Beauty", "Truth2": "Beauty", "Truth3": "Beauty"},
		"fruits  apple, banana, \\\n   pear, \\\n  mango\n": {"fruits": "apple, banana, pear, mango"},
		"cheeses\n":                            {"cheeses": ""},
		"# c\n  ! d\n\n \t\na=1\r\nb=2\rc=3":   {"a": "1", "b": "2", "c": "3"},
		"a=1\na=2\n":                           {"a": "2"},
		`\:\==1` + "\n" + `k\ ey=v`:            {":=": "1", "k ey": "v"},
		`a=\u0041\t\z\\` + "\n":                {"a": "A\tz\\"},
		"a=b\\\\\nc=d\n":                       {"a": `b\`, "c": "d"},
		"a=b\\":                                {"a": "b"},
		"a=b\\\r\n  c\n":                       {"a": "bc"},
		"a==b\n":                               {"a": "=b"},
		"a = = b \n":                           {"a": "= b "},
		"\xe9=\xe8\n":                          {"é": "è"},
		`a=\ud83d\ude00`:                       {"a": "😀"},
		`a\`:                                   {"a": ""},
		"=x\n":                                 {"": "x"},
		"a=1\\\n# not a comment, it continues": {"a": "1# not a comment, it continues"},
	} {
		got, err := parseJavaProperties([]byte(text))
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: %q %v, want %q", text, got, err, want)
		}
	}
	for _, bad := range []string{`a=\u00`, `a=\u00zz`, `\u1=`, `a=\u+123`} {
		if got, err := parseJavaProperties([]byte(bad)); err == nil {
			t.Errorf("%q was read as %q", bad, got)
		}
	}
}

func FuzzMetaProperties(f *testing.F) {
	f.Add([]byte(realMetaProperties), "cluster")
	f.Fuzz(func(t *testing.T, data []byte, cluster string) {
		if m, err := parseMetaProperties(data); err == nil && m.Version == 1 {
			if again, err := parseMetaProperties(formatMetaProperties(m)); err != nil || again != m {
				t.Fatalf("%+v became %+v %v", m, again, err)
			}
		}
		line := appendProperty(nil, "k", cluster)
		got, err := parseJavaProperties(line)
		if want := string([]rune(cluster)); err != nil || got["k"] != want || len(got) != 1 {
			t.Fatalf("%q became %q %v", want, got, err)
		}
	})
}
