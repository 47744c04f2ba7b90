package config

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Setting is a value somebody gave and where.
type Setting struct {
	Value string // as written
	Where string // server.properties:12, environment MOLDAU_LOG_DIRS, --set
}

// Layer is one source of settings. Later layers go before earlier ones.
type Layer struct {
	entries  []layerEntry
	warnings []string
}

type layerEntry struct {
	key string
	Setting
}

// FileLayer reads a server.properties file. The error names file and line.
func FileLayer(filename string, r io.Reader) (Layer, error) {
	entries, err := ParseProperties(r, filename)
	if err != nil {
		return Layer{}, err
	}
	var l Layer
	lines := map[string]int{}
	for _, e := range entries {
		if before, twice := lines[e.Key]; twice {
			l.warnings = append(l.warnings, fmt.Sprintf("%s:%d: %s replaces the value of line %d",
				filename, e.Line, e.Key, before))
		}
		lines[e.Key] = e.Line
		l.entries = append(l.entries, layerEntry{e.Key, Setting{e.Value, fmt.Sprintf("%s:%d", filename, e.Line)}})
	}
	return l, nil
}

// MapLayer takes settings of a program that embeds a broker; where names it in messages.
func MapLayer(where string, settings map[string]string) Layer {
	var l Layer
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		l.entries = append(l.entries, layerEntry{k, Setting{settings[k], where}})
	}
	return l
}

// SetLayer reads the arguments of --set, key=value each.
func SetLayer(args []string) (Layer, error) {
	var l Layer
	for _, a := range args {
		key, value, ok := strings.Cut(a, "=")
		if key = trim(key); !ok || key == "" {
			return Layer{}, fmt.Errorf("--set %s: write key=value", a)
		}
		l.entries = append(l.entries, layerEntry{key, Setting{value, "--set"}})
	}
	return l, nil
}

// envPrefix begins every environment variable that is a setting.
const envPrefix = "MOLDAU_"

// envName gives the variable of a key without prefix: log.dirs is LOG_DIRS.
func envName(key string) string { return strings.ToUpper(strings.ReplaceAll(key, ".", "_")) }

// EnvName gives the environment variable that sets a broker key: MOLDAU_LOG_DIRS for log.dirs, MOLDAU_FLUSH for
// moldau.flush.
func EnvName(key string) string { return envPrefix + envName(strings.TrimPrefix(key, "moldau.")) }

// EnvLayer reads the environment (KEY=value each, as os.Environ gives it). Variables named in reserved (whole
// names) belong to somebody else. So do those that container orchestrators set for a service called moldau.
func EnvLayer(environ []string, reserved ...string) Layer {
	var l Layer
	for _, e := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(e, "=")
		short, ok := strings.CutPrefix(name, envPrefix)
		if !ok || slices.Contains(reserved, name) || isServiceLink(short) {
			continue
		}
		key, ok := envKey(short)
		if !ok {
			l.warnings = append(l.warnings, unknownVariable(name, short))
			continue
		}
		l.entries = append(l.entries, layerEntry{key, Setting{value, "environment " + name}})
	}
	return l
}

func isServiceLink(short string) bool {
	return short == "PORT" || strings.HasPrefix(short, "PORT_") || strings.HasPrefix(short, "SERVICE_HOST") ||
		strings.HasPrefix(short, "SERVICE_PORT")
}

// envKey finds the key of a variable. Keys of one listener are written LISTENER_NAME_<LISTENER>_<KEY>.
func envKey(short string) (string, bool) {
	if k, ok := schema().env[short]; ok {
		return k.Name, true
	}
	rest, ok := strings.CutPrefix(short, "LISTENER_NAME_")
	if !ok {
		return "", false
	}
	for i, c := range rest {
		if c != '_' || i == 0 {
			continue
		}
		if k, ok := schema().env[rest[i+1:]]; ok {
			return "listener.name." + strings.ToLower(rest[:i]) + "." + k.Name, true
		}
	}
	return "", false
}

func unknownVariable(name, short string) string {
	msg := "environment " + name + ": no such key"
	if near := Nearest(Broker, strings.ToLower(strings.ReplaceAll(short, "_", "."))); near != "" {
		msg += "; did you mean " + EnvName(near) + "?"
	}
	return msg
}
