package javatools

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"moldau/interop/kafka"
	"moldau/interop/process"
)

// complaint is what kafka-dump-log prints about a file it does not like; it ends with 0 all the same.
var complaint = regexp.MustCompile(`(?i)mismatch|isvalid: false|not found in|non-consecutive|exception|` +
	`found timestamp|invalid bytes|error|corrupt|unknown record`)

// Dump has Apache Kafka's own tool read every file below the log directory of a stopped node.
func Dump(t *testing.T, n *process.Node) {
	var data, meta []string
	err := filepath.WalkDir(n.LogDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains([]string{".log", ".index", ".timeindex", ".txnindex", ".snapshot",
			".checkpoint"}, filepath.Ext(path)) {
			return err
		}
		if strings.Contains(path, "__cluster_metadata") {
			meta = append(meta, path)
		} else {
			data = append(data, path)
		}
		return nil
	})
	if err != nil || len(data) == 0 || len(meta) == 0 {
		t.Fatalf("files: %v, %d data, %d metadata", err, len(data), len(meta))
	}
	out := dump(t, data, "--deep-iteration", "--skip-record-metadata", "--print-data-log", "--max-bytes", "200000")
	contains(t, out, `compresscodec: zstd`, `isvalid: true`, `producerId: \d+`)
	dump(t, data, "--deep-iteration")
	out = dump(t, data, "--index-sanity-check")
	contains(t, out, `passed sanity check`)
	out = dump(t, meta, "--cluster-metadata-decoder", "--deep-iteration")
	contains(t, out, `"type":"TOPIC_RECORD"`, `"type":"PARTITION_RECORD"`, `"type":"REGISTER_BROKER_RECORD"`,
		`"type":"CONFIG_RECORD"`, `"type":"FEATURE_LEVEL_RECORD"`, `KRaftVersion`, `KRaftVoters`, `LeaderChange`)
	dump(t, meta, "--index-sanity-check")
}

func dump(t *testing.T, files []string, args ...string) string {
	t.Helper()
	out := kafka.Tool(t, "dump-log", append([]string{"--files", strings.Join(files, ",")}, args...)...)
	n := 0
	for line := range strings.Lines(out) {
		if complaint.MatchString(line) && n < 10 {
			t.Errorf("kafka-dump-log %q says %s", args, line)
			n++
		}
	}
	return out
}
