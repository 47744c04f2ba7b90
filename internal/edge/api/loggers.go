package api

import (
	"context"
	"log/slog"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/config"
	"moldau/internal/kafka"
)

// rootLogger is the one logger a broker has: everything is logged through it.
const rootLogger = "root"

// logLevel is one of the levels of Kafka's loggers and ours nearest to it.
type logLevel struct {
	name  string
	level slog.Level
}

// logLevels lists the levels from the gravest to the most talkative.
var logLevels = []logLevel{
	{"FATAL", slog.LevelError + 4}, {"ERROR", slog.LevelError}, {"WARN", slog.LevelWarn}, {"INFO", slog.LevelInfo},
	{"DEBUG", slog.LevelDebug}, {"TRACE", slog.LevelDebug - 4},
}

// levelName gives Kafka's name of the level that is logged: the most talkative one that comes through.
func (b *Broker) levelName() string {
	for _, x := range slices.Backward(logLevels) {
		if b.Log.Enabled(context.Background(), x.level) {
			return x.name
		}
	}
	return logLevels[0].name
}

// alterLoggers judges the changes to this broker's loggers and makes them, all or none. Nothing is stored: levels last
// until the broker stops.
func (b *Broker) alterLoggers(changes []kmsg.IncrementalAlterConfigsRequestResourceConfig, validateOnly bool) error {
	seen := map[string]bool{}
	var next *slog.Level
	for _, c := range changes {
		if seen[c.Name] {
			return kafka.Errorf(kafka.InvalidRequest, "%s is named twice", c.Name)
		}
		seen[c.Name] = true
		l, err := judgeLogger(c)
		if err != nil {
			return err
		}
		next = &l
	}
	switch {
	case next == nil:
		return nil
	case b.LogLevel == nil:
		return kafka.Errorf(kafka.InvalidConfig, "the log level of this broker is fixed by the program it runs in")
	case !validateOnly:
		b.LogLevel.Set(*next)
	}
	return nil
}

func judgeLogger(c kmsg.IncrementalAlterConfigsRequestResourceConfig) (slog.Level, error) {
	switch {
	case config.Op(c.Op) != config.Set && config.Op(c.Op) != config.Delete:
		return 0, kafka.Errorf(kafka.InvalidRequest, "%s: a level is set; nothing can be appended or subtracted", c.Name)
	case c.Name != rootLogger:
		return 0, kafka.Errorf(kafka.InvalidConfig, "there is no logger %s; the only one is %s", c.Name, rootLogger)
	case config.Op(c.Op) == config.Delete:
		return 0, kafka.Errorf(kafka.InvalidRequest, "the level of the logger %s cannot be removed", rootLogger)
	case c.Value == nil:
		return 0, kafka.Errorf(kafka.InvalidRequest, "%s: a level is needed", c.Name)
	}
	i := slices.IndexFunc(logLevels, func(x logLevel) bool { return x.name == *c.Value })
	if i < 0 {
		return 0, kafka.Errorf(kafka.InvalidConfig, "%q is no level; allowed: FATAL, ERROR, WARN, INFO, DEBUG, TRACE",
			*c.Value)
	}
	return logLevels[i].level, nil
}

// describeLoggers lists this broker's loggers and their levels.
func (b *Broker) describeLoggers(names []string) []config.Described {
	if names != nil && !slices.Contains(names, rootLogger) {
		return nil
	}
	value := b.levelName()
	return []config.Described{{Name: rootLogger, Value: &value, Source: config.FromLogger, ReadOnly: b.LogLevel == nil}}
}
