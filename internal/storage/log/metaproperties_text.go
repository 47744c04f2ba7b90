package log

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
)

// The text form of java.util.Properties, as far as identity files need it: Kafka reads and writes them with
// that class, so its escapes can appear in what we read, and must in what we write. The bytes are ISO-8859-1.

// parseJavaProperties reads key and value pairs; the last of several equal keys wins.
func parseJavaProperties(data []byte) (map[string]string, error) {
	out := make(map[string]string)
	lines := propertyLines{rest: data}
	for {
		line, ok := lines.next()
		if !ok {
			return out, nil
		}
		key, rest, err := cutPropertyKey(line)
		if err != nil {
			return nil, err
		}
		value, err := unescapeProperty(rest)
		if err != nil {
			return nil, err
		}
		out[key] = value
	}
}

// propertyLines cuts logical lines: natural lines without blank ones and comments, joined where one ends in
// an odd number of backslashes.
type propertyLines struct{ rest []byte }

func (p *propertyLines) next() (string, bool) {
	for len(p.rest) > 0 {
		line := p.natural()
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		for continues(line) {
			line = line[:len(line)-1]
			if len(p.rest) == 0 {
				break
			}
			line += p.natural()
		}
		return line, true
	}
	return "", false
}

// natural cuts one line off the input, without its leading blanks and its end, and makes it UTF-8.
func (p *propertyLines) natural() string {
	end := 0
	for end < len(p.rest) && p.rest[end] != '\n' && p.rest[end] != '\r' {
		end++
	}
	runes := make([]rune, end)
	for i, b := range p.rest[:end] {
		runes[i] = rune(b)
	}
	p.rest = p.rest[end:]
	if bytes.HasPrefix(p.rest, []byte("\r\n")) {
		p.rest = p.rest[1:]
	}
	p.rest = p.rest[min(1, len(p.rest)):]
	return strings.TrimLeft(string(runes), " \t\f")
}

func continues(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

// cutPropertyKey ends the key at the first '=', ':' or blank that is not escaped.
func cutPropertyKey(line string) (key, rest string, err error) {
	end := 0
	for end < len(line) && !strings.ContainsRune("=: \t\f", rune(line[end])) {
		if line[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(line))
	key, err = unescapeProperty(line[:end])
	rest = strings.TrimLeft(line[end:], " \t\f")
	if rest != "" && (rest[0] == '=' || rest[0] == ':') {
		rest = strings.TrimLeft(rest[1:], " \t\f")
	}
	return key, rest, err
}

func unescapeProperty(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var units []uint16
	for s != "" {
		r := []rune(s)[0]
		s = s[len(string(r)):]
		if r != '\\' || s == "" {
			units = utf16.AppendRune(units, r)
			continue
		}
		r = []rune(s)[0]
		s = s[len(string(r)):]
		switch r {
		case 't':
			r = '\t'
		case 'n':
			r = '\n'
		case 'r':
			r = '\r'
		case 'f':
			r = '\f'
		case 'u':
			if len(s) < 4 {
				return "", errors.New(`\u without four digits`)
			}
			unit, err := strconv.ParseUint(s[:4], 16, 16)
			if err != nil {
				return "", errors.New(`\u without four digits`)
			}
			units, s = append(units, uint16(unit)), s[4:]
			continue
		}
		units = utf16.AppendRune(units, r)
	}
	return string(utf16.Decode(units)), nil
}

// appendProperty writes one line with the escapes that class would use. Keys are ours and need none.
func appendProperty(dst []byte, key, value string) []byte {
	dst = append(dst, key...)
	dst = append(dst, '=')
	for i, unit := range utf16.Encode([]rune(value)) {
		switch {
		case unit == ' ' && i > 0:
			dst = append(dst, ' ')
		case unit == '\t':
			dst = append(dst, `\t`...)
		case unit == '\n':
			dst = append(dst, `\n`...)
		case unit == '\r':
			dst = append(dst, `\r`...)
		case unit == '\f':
			dst = append(dst, `\f`...)
		case unit < ' ' || unit > '~':
			dst = fmt.Appendf(dst, `\u%04X`, unit)
		case strings.ContainsRune(` \=:#!`, rune(unit)):
			dst = append(dst, '\\', byte(unit))
		default:
			dst = append(dst, byte(unit))
		}
	}
	return append(dst, '\n')
}
