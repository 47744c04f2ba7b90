package cli

import (
	"fmt"
	"strconv"
	"time"
)

// parseMoment reads a point in time: RFC 3339, or milliseconds since the epoch.
func parseMoment(s string) (time.Time, error) {
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		return time.UnixMilli(ms), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: write 2006-01-02T15:04:05Z or milliseconds since 1970", s)
}

// parseSince reads a point in time, or how long before now it was: 90s, 15m, 2h, 7d.
func parseSince(s string, now time.Time) (time.Time, error) {
	if n := len(s) - 1; n > 0 && s[n] == 'd' {
		if days, err := strconv.ParseFloat(s[:n], 64); err == nil && days >= 0 {
			return now.Add(-time.Duration(days * 24 * float64(time.Hour))), nil
		}
	}
	if ago, err := time.ParseDuration(s); err == nil && ago >= 0 && s != "0" {
		return now.Add(-ago), nil
	}
	t, err := parseMoment(s)
	if err != nil {
		return t, fmt.Errorf("%q is no time: write 2006-01-02T15:04:05Z, milliseconds since 1970, or an age such as 15m or 7d", s)
	}
	return t, nil
}
