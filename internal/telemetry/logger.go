package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// LogOptions say how a node logs.
type LogOptions struct {
	Level  slog.Leveler // nil: info. A *slog.LevelVar may be changed later
	JSON   bool         // one JSON object a line; else key=value
	Source bool         // file and line of the call
	// Registry counts the messages; nil: nobody does.
	Registry *Registry
}

// NewLogger makes the logger of a node. Durations are written as Go writes them, times with milliseconds.
func NewLogger(w io.Writer, o LogOptions) *slog.Logger {
	if o.Level == nil {
		o.Level = slog.LevelInfo
	}
	opts := &slog.HandlerOptions{Level: o.Level, AddSource: o.Source, ReplaceAttr: shorten}
	var h slog.Handler = slog.NewTextHandler(w, opts)
	if o.JSON {
		h = slog.NewJSONHandler(w, opts)
	}
	if o.Registry == nil {
		return slog.New(h)
	}
	return CountMessages(slog.New(h), o.Registry)
}

// CountMessages makes a logger that counts what it passes on, unless it is one already.
func CountMessages(l *slog.Logger, r *Registry) *slog.Logger {
	if _, ok := l.Handler().(counting); ok {
		return l
	}
	var levels [4]Counter
	for i, level := range []string{"debug", "info", "warn", "error"} {
		levels[i] = r.Counter("moldau_log_messages_total", level)
	}
	return slog.New(counting{l.Handler(), &levels})
}

// ParseLevel reads debug, info, warn or error.
func ParseLevel(s string) (slog.Level, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(strings.TrimSpace(s))); err != nil {
		return 0, fmt.Errorf("%q is no level; allowed: debug, info, warn, error", s)
	}
	return l, nil
}

// shorten writes the time with milliseconds and durations as text.
func shorten(groups []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindTime:
		if len(groups) == 0 && a.Key == slog.TimeKey {
			a.Value = slog.StringValue(a.Value.Time().Format("2006-01-02T15:04:05.000Z07:00"))
		}
	case slog.KindDuration:
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// counting counts the messages of a handler by level.
type counting struct {
	slog.Handler
	levels *[4]Counter
}

// Handle counts and passes on.
func (c counting) Handle(ctx context.Context, r slog.Record) error {
	i := 0
	switch {
	case r.Level >= slog.LevelError:
		i = 3
	case r.Level >= slog.LevelWarn:
		i = 2
	case r.Level >= slog.LevelInfo:
		i = 1
	}
	c.levels[i].Inc()
	return c.Handler.Handle(ctx, r)
}

// WithAttrs keeps counting.
func (c counting) WithAttrs(attrs []slog.Attr) slog.Handler {
	return counting{c.Handler.WithAttrs(attrs), c.levels}
}

// WithGroup keeps counting.
func (c counting) WithGroup(name string) slog.Handler {
	return counting{c.Handler.WithGroup(name), c.levels}
}
