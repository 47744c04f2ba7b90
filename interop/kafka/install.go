// Package kafka provides Apache Kafka itself: it fetches its jars with Maven into the user's cache directory (once),
// runs its command line tools, and starts single real nodes, which serve the suites as the oracle. It is not used by
// the product. Start reading at Libs and Tool.
//
// Environment: KAFKA_VERSION picks a release (default DefaultVersion), CONNECT_VERSION one of Connect; KAFKA_LIBS and
// CONNECT_LIBS name directories that have the jars already.
package kafka

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"moldau/interop/need"
)

// DefaultVersion is the release the suites are written against.
const DefaultVersion = "4.4.0"

// connectVersion is the release of Connect. Its file connectors come later than the rest and fit only workers of their
// own release.
const connectVersion = "4.3.1"

//go:embed pom.xml
var pom []byte

//go:embed connect.pom.xml
var connectPom []byte

//go:embed log4j2.properties
var log4j []byte

// Version of Apache Kafka in use.
func Version() string {
	if v := os.Getenv("KAFKA_VERSION"); v != "" {
		return v
	}
	return DefaultVersion
}

// Libs returns the directory with the jars, fetching them if they are not there yet. It skips the test (fails it in
// CI) when Java or Maven is missing.
func Libs(t testing.TB) string {
	t.Helper()
	need.Tool(t, "java")
	dir, err := libs()
	if err != nil {
		need.Missing(t, "Apache Kafka %s: %v", Version(), err)
	}
	return dir
}

// libs keeps its result: a test process fetches at most once.
var libs = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv("KAFKA_LIBS"); dir != "" {
		return dir, nil
	}
	home, err := Home()
	if err != nil {
		return "", err
	}
	return fetch(home, pom, Version())
})

// ConnectLibs is Libs for Kafka Connect, which is of a release of its own.
func ConnectLibs(t testing.TB) string {
	t.Helper()
	need.Tool(t, "java")
	dir, err := connectLibs()
	if err != nil {
		need.Missing(t, "Kafka Connect: %v", err)
	}
	return dir
}

var connectLibs = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv("CONNECT_LIBS"); dir != "" {
		return dir, nil
	}
	version := connectVersion
	if v := os.Getenv("CONNECT_VERSION"); v != "" {
		version = v
	}
	home, err := cacheDir("connect-" + version)
	if err != nil {
		return "", err
	}
	return fetch(home, connectPom, version)
})

// fetch brings the jars that pom lists into a directory in home, once, and returns it.
func fetch(home string, pom []byte, version string) (string, error) {
	dir := filepath.Join(home, "libs")
	if _, err := os.Stat(filepath.Join(dir, ".complete")); err == nil {
		return dir, nil
	}
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(home, "pom.xml"), pom, 0o644); err != nil {
		return "", err
	}
	cmd := exec.Command(mvn, "-q", "-B", "dependency:copy-dependencies", "-Dkafka.version="+version,
		"-DoutputDirectory="+dir, "-DincludeScope=runtime")
	cmd.Dir = home
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mvn: %w\n%s", err, out)
	}
	return dir, os.WriteFile(filepath.Join(dir, ".complete"), nil, 0o644)
}

// Home is the cache directory of this release; it exists when Home returns without error.
func Home() (string, error) { return cacheDir("kafka-" + Version()) }

func cacheDir(name string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "moldau-interop", name)
	return dir, os.MkdirAll(dir, 0o755)
}

// log4jFile writes the logging configuration next to the jars' cache and returns its path.
func log4jFile() (string, error) {
	home, err := Home()
	if err != nil {
		return "", err
	}
	path := filepath.Join(home, "log4j2.properties")
	return path, os.WriteFile(path, log4j, 0o644)
}
