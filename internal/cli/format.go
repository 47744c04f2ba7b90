package cli

import (
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
)

// parseFormat compiles a --format; null is printed for a null key or value.
func parseFormat(format, null string) (func([]byte, *kgo.Record) ([]byte, error), error) {
	fields := map[byte]func([]byte, *kgo.Record) []byte{
		'v': func(b []byte, r *kgo.Record) []byte { return appendOrNull(b, r.Value, null) },
		'k': func(b []byte, r *kgo.Record) []byte { return appendOrNull(b, r.Key, null) },
		't': func(b []byte, r *kgo.Record) []byte { return append(b, r.Topic...) },
		'p': func(b []byte, r *kgo.Record) []byte { return strconv.AppendInt(b, int64(r.Partition), 10) },
		'o': func(b []byte, r *kgo.Record) []byte { return strconv.AppendInt(b, r.Offset, 10) },
		'T': func(b []byte, r *kgo.Record) []byte { return strconv.AppendInt(b, r.Timestamp.UnixMilli(), 10) },
		'D': func(b []byte, r *kgo.Record) []byte {
			return r.Timestamp.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z07:00")
		},
		'h': func(b []byte, r *kgo.Record) []byte {
			for i, h := range r.Headers {
				if i > 0 {
					b = append(b, ',')
				}
				b = append(append(append(b, h.Key...), '='), h.Value...)
			}
			return b
		},
	}
	var steps []func([]byte, *kgo.Record) []byte
	literal := func(text string) {
		steps = append(steps, func(b []byte, _ *kgo.Record) []byte { return append(b, text...) })
	}
	for i := 0; i < len(format); i++ {
		begin := i
		for i < len(format) && format[i] != '%' {
			i++
		}
		if i > begin {
			literal(unescape(format[begin:i]))
		}
		if i == len(format) {
			break
		}
		if i++; i == len(format) {
			return nil, fmt.Errorf("--format ends in %%; write %%%% for the sign itself")
		}
		if format[i] == '%' {
			literal("%")
			continue
		}
		field, ok := fields[format[i]]
		if !ok {
			return nil, fmt.Errorf("--format has no %%%c; there are %%v %%k %%t %%p %%o %%T %%D %%h and %%%%", format[i])
		}
		steps = append(steps, field)
	}
	return func(b []byte, r *kgo.Record) ([]byte, error) {
		for _, step := range steps {
			b = step(b, r)
		}
		return b, nil
	}, nil
}

func appendOrNull(b, field []byte, null string) []byte {
	if field == nil {
		return append(b, null...)
	}
	return append(b, field...)
}
