//go:build unix

package chaos

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	metadataDir    = "__cluster_metadata-0"
	checkpointFile = "replication-offset-checkpoint"
)

// replica is what one node holds of a partition: whole batches one after the other, as the segments hold them.
type replica struct {
	node       int
	start, end int64
	batches    []stored
}

type stored struct {
	base, last int64
	bytes      []byte
}

// Compared counts what CompareReplicas compared.
type Compared struct {
	Partitions, Batches int
	Bytes               int64
}

// CompareReplicas compares the files of all stopped nodes: below a partition's high watermark every replica must hold the
// same bytes. committed is the high watermark of the metadata log.
func (c *Cluster) CompareReplicas(committed int64) (Compared, error) {
	marks := map[string]int64{metadataDir: committed}
	for _, n := range c.Nodes {
		if err := highWatermarks(n.Data, marks); err != nil {
			return Compared{}, err
		}
	}
	var out Compared
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(marks)) {
		var all []replica
		for _, n := range c.Nodes {
			r, err := readReplica(n, name)
			if err != nil {
				wrong = append(wrong, err)
				continue
			}
			all = append(all, r)
		}
		out.Partitions++
		if len(all) == len(c.Nodes) {
			wrong = append(wrong, out.compare(name, all, marks[name]))
		}
	}
	return out, errors.Join(wrong...)
}

// highWatermarks adds the highest mark that a node has of each partition.
func highWatermarks(dir string, marks map[string]int64) error {
	raw, err := os.ReadFile(filepath.Join(dir, checkpointFile))
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	for _, line := range lines[min(2, len(lines)):] {
		f := strings.Fields(line)
		if len(f) != 3 {
			return fmt.Errorf("%s: %q", checkpointFile, line)
		}
		at, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil {
			return err
		}
		name := f[0] + "-" + f[1]
		marks[name] = max(marks[name], at)
	}
	return nil
}

func readReplica(n *Node, name string) (replica, error) {
	segments, err := filepath.Glob(filepath.Join(n.Data, name, "*.log"))
	if err != nil || len(segments) == 0 {
		return replica{}, fmt.Errorf("node %d has no replica of %s (%v)", n.ID, name, err)
	}
	slices.Sort(segments)
	out := replica{node: n.ID, start: -1}
	for _, s := range segments {
		raw, err := os.ReadFile(s)
		if err != nil {
			return replica{}, err
		}
		for len(raw) > 0 {
			if len(raw) < 61 || binary.BigEndian.Uint32(raw[8:]) == 0 {
				return replica{}, fmt.Errorf("node %d: %s ends with a piece of a batch", n.ID, s)
			}
			size := int(binary.BigEndian.Uint32(raw[8:])) + 12
			if size > len(raw) {
				return replica{}, fmt.Errorf("node %d: %s ends with a piece of a batch", n.ID, s)
			}
			b := stored{base: int64(binary.BigEndian.Uint64(raw)), bytes: raw[:size]}
			b.last = b.base + int64(binary.BigEndian.Uint32(raw[23:]))
			if out.start < 0 {
				out.start = b.base
			}
			out.batches, out.end, raw = append(out.batches, b), b.last+1, raw[size:]
		}
	}
	out.start = max(out.start, 0)
	return out, nil
}

// compare compares the replicas of a partition with the first one, from where all begin to the high watermark.
func (out *Compared) compare(name string, all []replica, mark int64) error {
	from := int64(0)
	for _, r := range all {
		from = max(from, r.start)
		if r.end < mark {
			return fmt.Errorf("%s: node %d holds the log to %d only, its high watermark is %d", name, r.node, r.end, mark)
		}
	}
	part := func(r replica) []stored {
		return slices.DeleteFunc(slices.Clone(r.batches), func(b stored) bool { return b.base < from || b.base >= mark })
	}
	first := part(all[0])
	out.Batches += len(first)
	for _, b := range first {
		out.Bytes += int64(len(b.bytes))
	}
	for _, r := range all[1:] {
		other := part(r)
		if len(other) != len(first) {
			return fmt.Errorf("%s: node %d has %d batches below %d, node %d has %d", name, all[0].node, len(first), mark, r.node,
				len(other))
		}
		for i := range first {
			if !bytes.Equal(first[i].bytes, other[i].bytes) {
				return fmt.Errorf("%s: the batches at %d of node %d and at %d of node %d differ", name, first[i].base, all[0].node,
					other[i].base, r.node)
			}
		}
	}
	return nil
}
