package vfs

import (
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// rule is one line of a Faulty script. Its counter is guarded by FaultFS.mu.
type rule struct {
	id       RuleID
	op       string
	glob     string
	from, to int64 // which matching calls, counted from 1, inclusive
	action   string
	err      error         // error, short: what the call answers
	bytes    int64         // short: how many bytes are done; flip: which byte is damaged
	latency  time.Duration // latency
	seen     int64         // matching calls so far
	hits     int64         // those in the range
}

// The actions of a rule.
const (
	actError   = "error"
	actShort   = "short"
	actLatency = "latency"
	actFlip    = "flip"
	actSkip    = "skip"
)

// Names of operations in rules. opAlloc stands for every call that needs space, opAny for all.
const (
	opAny     = "*"
	opAlloc   = "alloc"
	opOpen    = "open"
	opCreate  = "create"
	opClose   = "close"
	opRead    = "read"
	opWrite   = "write"
	opTrunc   = "truncate"
	opSync    = "sync"
	opModTime = "modtime"
	opRename  = "rename"
	opRemove  = "remove"
	opMkdir   = "mkdir"
	opReadDir = "readdir"
	opStat    = "stat"
	opSyncDir = "syncdir"
	opSyncAll = "syncall"
	opEvict   = "evict"
	opFree    = "free"
	opLock    = "lock"
)

// operations lists the names a rule may use and, for each, the actions beside error and latency that it knows.
func operations() map[string][]string {
	return map[string][]string{
		opAny: nil, opAlloc: nil, opOpen: nil, opCreate: nil, opClose: nil, opRename: nil, opRemove: nil,
		opMkdir: nil, opReadDir: nil, opStat: nil, opEvict: nil, opFree: nil, opLock: nil, opTrunc: nil,
		opModTime: nil,
		opRead:    {actShort, actFlip},
		opWrite:   {actShort},
		opSync:    {actSkip},
		opSyncDir: {actSkip},
		opSyncAll: {actSkip},
	}
}

// faultErrors are the errors a script can name.
func faultErrors() map[string]error {
	return map[string]error{
		"EIO": syscall.EIO, "ENOSPC": syscall.ENOSPC, "EDQUOT": syscall.EDQUOT, "EROFS": syscall.EROFS,
		"EACCES": syscall.EACCES, "EMFILE": syscall.EMFILE, "ENOENT": syscall.ENOENT, "EOF": io.EOF,
	}
}

// parseRules reads a script: rules on lines of their own or separated by semicolons, # starts a comment.
func parseRules(script string) ([]*rule, error) {
	var rules []*rule
	for number, line := range strings.Split(script, "\n") {
		line, _, _ = strings.Cut(line, "#")
		for part := range strings.SplitSeq(line, ";") {
			fields := strings.Fields(part)
			if len(fields) == 0 {
				continue
			}
			r, err := parseRule(fields)
			if err != nil {
				return nil, fmt.Errorf("fault script line %d: %q: %w", number+1, strings.TrimSpace(part), err)
			}
			rules = append(rules, r)
		}
	}
	return rules, nil
}

// parseRule reads one rule: OPERATION GLOB [RANGE] ACTION [ARGUMENTS], or enospc [GLOB [RANGE]].
func parseRule(fields []string) (*rule, error) {
	if fields[0] == "enospc" {
		return parseNoSpace(fields[1:])
	}
	if _, known := operations()[fields[0]]; !known {
		return nil, fmt.Errorf("unknown operation %q, want one of %s", fields[0], keysOf(operations()))
	}
	if len(fields) < 3 {
		return nil, fmt.Errorf("want OPERATION GLOB [RANGE] ACTION [ARGUMENTS]")
	}
	r := &rule{op: fields[0], glob: fields[1]}
	if err := checkGlob(r.glob); err != nil {
		return nil, err
	}
	rest, err := r.parseRange(fields[2:])
	if err != nil {
		return nil, err
	}
	if len(rest) == 0 {
		return nil, fmt.Errorf("no action")
	}
	return r, r.parseAction(rest[0], rest[1:])
}

func parseNoSpace(args []string) (*rule, error) {
	r := &rule{op: opAlloc, glob: "*", action: actError, err: syscall.ENOSPC}
	if len(args) > 0 {
		r.glob, args = args[0], args[1:]
	}
	if err := checkGlob(r.glob); err != nil {
		return nil, err
	}
	rest, err := r.parseRange(args)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("unexpected %q", rest[0])
	}
	return r, err
}

func checkGlob(glob string) error {
	if _, err := path.Match(glob, ""); err != nil {
		return fmt.Errorf("bad glob %q", glob)
	}
	return nil
}

// parseRange reads N, N- or N-M if fields start with one, and gives the rest. Without a range every call counts.
func (r *rule) parseRange(fields []string) ([]string, error) {
	r.from, r.to = 1, math.MaxInt64
	if len(fields) == 0 || fields[0][0] < '0' || fields[0][0] > '9' {
		return fields, nil
	}
	first, last, open := strings.Cut(fields[0], "-")
	from, err := strconv.ParseInt(first, 10, 64)
	to := from
	if err == nil && open {
		to = math.MaxInt64
		if last != "" {
			to, err = strconv.ParseInt(last, 10, 64)
		}
	}
	if err != nil || from < 1 || to < from {
		return nil, fmt.Errorf("bad range %q, want N, N- or N-M counted from 1", fields[0])
	}
	r.from, r.to = from, to
	return fields[1:], nil
}

func (r *rule) parseAction(action string, args []string) (err error) {
	r.action = action
	if action != actError && action != actLatency && !slices.Contains(operations()[r.op], action) {
		all := append([]string{actError, actLatency}, operations()[r.op]...)
		return fmt.Errorf("unknown action %q for %s, want one of %s", action, r.op, strings.Join(all, ", "))
	}
	want, most := 1, 1
	switch action {
	case actSkip:
		want, most = 0, 0
	case actShort:
		most = 2
	}
	if len(args) < want || len(args) > most {
		return fmt.Errorf("%s takes %d to %d arguments, not %d", action, want, most, len(args))
	}
	switch action {
	case actError:
		r.err, err = parseError(args[0])
	case actLatency:
		r.latency, err = time.ParseDuration(args[0])
		if err == nil && r.latency < 0 {
			err = fmt.Errorf("negative latency %s", args[0])
		}
	case actFlip, actShort:
		err = r.parseBytes(args)
	}
	return err
}

func (r *rule) parseBytes(args []string) error {
	bytes, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil || bytes < 0 {
		return fmt.Errorf("bad number of bytes %q", args[0])
	}
	r.bytes = bytes
	switch {
	case len(args) == 2:
		r.err, err = parseError(args[1])
		return err
	case r.op == opRead:
		r.err = io.EOF // as of a file that ends there
	default:
		r.err = io.ErrShortWrite
	}
	return nil
}

func parseError(name string) (error, error) {
	if err := faultErrors()[name]; err != nil {
		return err, nil
	}
	return nil, fmt.Errorf("unknown error %q, want one of %s", name, keysOf(faultErrors()))
}

func keysOf[V any](m map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}

// matches counts a call if the rule is about it, and says whether it falls into the range.
func (r *rule) matches(c call) bool {
	if r.op != opAny && r.op != c.op && !(r.op == opCreate && c.creates) && !(r.op == opAlloc && c.allocates) {
		return false
	}
	if !slices.ContainsFunc(c.names, func(name string) bool { return matchName(r.glob, name) }) {
		return false
	}
	r.seen++
	if r.seen < r.from || r.seen > r.to {
		return false
	}
	r.hits++
	return true
}

// matchName matches a glob of path.Match against the whole name if it starts with a slash, else against as many of the
// last components of name as it has itself. "*" alone matches everything.
func matchName(glob, name string) bool {
	if glob == "*" {
		return true
	}
	name = path.Clean(strings.ReplaceAll(name, `\`, "/"))
	if !strings.HasPrefix(glob, "/") {
		parts := strings.Split(name, "/")
		name = strings.Join(parts[max(0, len(parts)-1-strings.Count(glob, "/")):], "/")
	}
	ok, err := path.Match(glob, name)
	return err == nil && ok
}
