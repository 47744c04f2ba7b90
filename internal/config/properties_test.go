package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The expectations are what Java's Properties.load makes of the same text.
func TestParseProperties(t *testing.T) {
	for _, c := range []struct {
		text string
		want []Entry
	}{
		{"", nil},
		{"a=b", []Entry{{"a", "b", 1}}},
		{"# c\n! d\n\n  \t\n a = b \n", []Entry{{"a", "b ", 5}}},
		{"a:b\nc d\ne\t=\tf\ng", []Entry{{"a", "b", 1}, {"c", "d", 2}, {"e", "f", 3}, {"g", "", 4}}},
		{"a==b\na:=b", []Entry{{"a", "=b", 1}, {"a", "=b", 2}}},
		{"a=1,\\\n   2,\\\r\n\t3\nb=4", []Entry{{"a", "1,2,3", 1}, {"b", "4", 4}}},
		{"a=b\\\\\nc=d", []Entry{{"a", `b\`, 1}, {"c", "d", 2}}},
		{"a=b\\\n# no comment", []Entry{{"a", "b# no comment", 1}}},
		{"# comment \\\na=b", []Entry{{"a", "b", 2}}},
		{"a\\ b\\=c=d", []Entry{{"a b=c", "d", 1}}},
		{`a=\t\n\r\f\q\u00e9\u0041`, []Entry{{"a", "\t\n\r\fqéA", 1}}},
		{`a=\ud83d\ude00`, []Entry{{"a", "😀", 1}}},
		{"a=b\rc=d\r\ne=f", []Entry{{"a", "b", 1}, {"c", "d", 2}, {"e", "f", 3}}},
		{"a=b\\", []Entry{{"a", "b", 1}}},
		{"a=\\\n\nb=c", []Entry{{"a", "", 1}, {"b", "c", 3}}},
		{"\ufeffa=é", []Entry{{"a", "é", 1}}},
		{"a=\xe9", []Entry{{"a", "é", 1}}},
	} {
		got, err := ParseProperties(strings.NewReader(c.text), "f")
		if err != nil || !cmp.Equal(got, c.want) {
			t.Errorf("%q: %v\n%s", c.text, err, cmp.Diff(c.want, got))
		}
	}
}

func TestParsePropertiesNamesTheLine(t *testing.T) {
	for _, bad := range []string{`b=\u00`, `b=\u00zz`, `\uxxxx=1`} {
		_, err := ParseProperties(strings.NewReader("a=1\n\n"+bad), "server.properties")
		if err == nil || !strings.HasPrefix(err.Error(), "server.properties:3: ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := ParseProperties(strings.NewReader(strings.Repeat("#", maxPropertiesBytes+1)), "f"); err == nil {
		t.Error("a file without end is read whole")
	}
}

// FuzzParseProperties writes key and value with every escape needed and reads them back, and feeds the raw text
// too.
func FuzzParseProperties(f *testing.F) {
	f.Add("log.dirs", "/a, /b")
	f.Add(" :=#!\\", "\t \n\\u00")
	f.Add("é😀", "\x00\xff")
	f.Fuzz(func(t *testing.T, key, value string) {
		if entries, err := ParseProperties(strings.NewReader(key+value), "f"); err == nil {
			for i, e := range entries {
				if e.Line < 1 || i > 0 && e.Line <= entries[i-1].Line {
					t.Errorf("lines do not rise: %v", entries)
				}
			}
		}
		key, value = strings.ToValidUTF8(key, "?"), strings.ToValidUTF8(value, "?")
		entries, err := ParseProperties(strings.NewReader("x=y\n"+escape(key)+"="+escape(value)+"\n"), "f")
		if err != nil || len(entries) != 2 || entries[1] != (Entry{key, value, 2}) {
			t.Errorf("%q=%q: %v %v", key, value, entries, err)
		}
	})
}

// escape writes every character that is no letter or digit as backslash and number.
func escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
