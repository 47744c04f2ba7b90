package cli

import (
	"errors"
	"fmt"
	"strings"
)

// keyValue is one key=value of a flag.
type keyValue struct{ key, value string }

// keyValues reads key=value flags; flag names them in the message.
func keyValues(flag string, given []string) ([]keyValue, error) {
	var out []keyValue
	for _, g := range given {
		k, v, ok := strings.Cut(g, "=")
		if k = strings.TrimSpace(k); !ok || k == "" {
			return nil, fmt.Errorf("%s %q: write key=value", flag, g)
		}
		out = append(out, keyValue{k, v})
	}
	return out, nil
}

// count gives a number with its noun: 1 partition, 2 partitions.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// problems gathers what went wrong with several things, a line each.
type problems struct{ errs []error }

func (p *problems) add(what string, err error) {
	if err != nil {
		p.errs = append(p.errs, fmt.Errorf("%s: %w", what, err))
	}
}

func (p *problems) err() error { return errors.Join(p.errs...) }
