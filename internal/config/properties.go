package config

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Entry is one key and value of a file, with the line (from 1) on which it begins.
type Entry struct {
	Key   string
	Value string
	Line  int
}

// maxPropertiesBytes bounds a file: far above any real one.
const maxPropertiesBytes = 16 << 20

// ParseProperties reads a Java properties file: comments begin with # or !, a line that ends in an odd number of
// backslashes goes on in the next, key and value are parted by =, : or blanks, and \t \n \r \f \uXXXX and
// backslash-anything are escapes. Blanks at the end of a value belong to it. Text is UTF-8; bytes that are not are
// read as ISO-8859-1, as Java reads all of them. Entries come in file order, repeated keys included. Errors name
// file and line.
func ParseProperties(r io.Reader, filename string) ([]Entry, error) {
	raw, err := io.ReadAll(io.LimitReader(bufio.NewReader(r), maxPropertiesBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filename, err)
	}
	if len(raw) > maxPropertiesBytes {
		return nil, fmt.Errorf("%s: larger than %d bytes", filename, maxPropertiesBytes)
	}
	p := propertiesReader{text: decodeText(raw), line: 1}
	var out []Entry
	for {
		logical, line, ok := p.next()
		if !ok {
			return out, nil
		}
		key, value, err := splitProperty(logical)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", filename, line, err)
		}
		out = append(out, Entry{Key: key, Value: value, Line: line})
	}
}

func decodeText(raw []byte) string {
	if utf8.Valid(raw) {
		return strings.TrimPrefix(string(raw), "\ufeff")
	}
	runes := make([]rune, len(raw))
	for i, b := range raw {
		runes[i] = rune(b)
	}
	return string(runes)
}

// propertiesReader cuts a text into logical lines.
type propertiesReader struct {
	text string
	line int // number of the natural line at the start of text
}

// natural takes one natural line, without its end.
func (p *propertiesReader) natural() (string, bool) {
	if p.text == "" {
		return "", false
	}
	i := strings.IndexAny(p.text, "\r\n")
	if i < 0 {
		line := p.text
		p.text = ""
		p.line++
		return line, true
	}
	line, rest := p.text[:i], p.text[i+1:]
	if p.text[i] == '\r' {
		rest = strings.TrimPrefix(rest, "\n")
	}
	p.text = rest
	p.line++
	return line, true
}

// next takes one logical line that is neither empty nor a comment, and the number of its first natural line.
func (p *propertiesReader) next() (string, int, bool) {
	for {
		first := p.line
		line, ok := p.natural()
		if !ok {
			return "", 0, false
		}
		line = strings.TrimLeft(line, " \t\f")
		if line == "" || line == `\` || line[0] == '#' || line[0] == '!' {
			continue
		}
		var logical strings.Builder
		for continues(line) {
			logical.WriteString(line[:len(line)-1])
			if line, ok = p.natural(); !ok {
				line = ""
			}
			line = strings.TrimLeft(line, " \t\f")
		}
		logical.WriteString(line)
		return logical.String(), first, true
	}
}

// continues says whether a natural line ends in an odd number of backslashes.
func continues(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

// splitProperty parts a logical line into key and value.
func splitProperty(s string) (key, value string, err error) {
	end, escaped := len(s), false
	for i := 0; i < len(s); i++ {
		if !escaped && strings.IndexByte("=: \t\f", s[i]) >= 0 {
			end = i
			break
		}
		escaped = s[i] == '\\' && !escaped
	}
	rest := strings.TrimLeft(s[end:], " \t\f")
	if rest != "" && (rest[0] == '=' || rest[0] == ':') {
		rest = strings.TrimLeft(rest[1:], " \t\f")
	}
	if key, err = unescape(s[:end]); err != nil {
		return "", "", err
	}
	value, err = unescape(rest)
	return key, value, err
}

func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var out []uint16
	units := utf16.Encode([]rune(s))
	for i := 0; i < len(units); i++ {
		if units[i] != '\\' {
			out = append(out, units[i])
			continue
		}
		i++
		if i == len(units) {
			break
		}
		switch units[i] {
		case 't':
			out = append(out, '\t')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 'f':
			out = append(out, '\f')
		case 'u':
			if i+4 >= len(units) {
				return "", fmt.Errorf(`\u needs four hexadecimal digits`)
			}
			n, err := strconv.ParseUint(string(utf16.Decode(units[i+1:i+5])), 16, 16)
			if err != nil {
				return "", fmt.Errorf(`\u needs four hexadecimal digits`)
			}
			out = append(out, uint16(n))
			i += 4
		default:
			out = append(out, units[i])
		}
	}
	return string(utf16.Decode(out)), nil
}
