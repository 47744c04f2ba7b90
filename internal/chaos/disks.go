//go:build unix

package chaos

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const metadataDir = "__cluster_metadata-0"

// replica is what one node holds of a partition: whole batches one after the other, as the segments hold them.
type replica struct {
	node       int
	start, end int64
	active     int64 // where the newest segment begins
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

// Marks gives the high watermark of every partition, that of the metadata log too, by the names of their directories.
func (c *Cluster) Marks(ctx context.Context) (map[string]int64, error) {
	marks := map[string]int64{}
	err := c.admin(func(cl *kgo.Client, a *kadm.Client) error {
		q, err := c.quorum(ctx, cl)
		if err != nil {
			return err
		}
		marks[metadataDir] = q.HighWatermark
		topics, err := a.ListTopicsWithInternal(ctx)
		if err != nil {
			return err
		}
		ends, err := a.ListEndOffsets(ctx, topics.Names()...)
		if err = cmp.Or(err, ends.Error()); err != nil {
			return err
		}
		ends.Each(func(o kadm.ListedOffset) { marks[fmt.Sprint(o.Topic, "-", o.Partition)] = o.Offset })
		return nil
	})
	return marks, err
}

// CompareReplicas compares the files of all stopped nodes: below a partition's high watermark every replica must hold the
// same bytes.
func (c *Cluster) CompareReplicas(marks map[string]int64) (Compared, error) {
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

func readReplica(n *Node, name string) (replica, error) {
	segments, err := filepath.Glob(filepath.Join(n.Data, name, "*.log"))
	if err != nil || len(segments) == 0 {
		return replica{}, fmt.Errorf("node %d has no replica of %s (%v)", n.ID, name, err)
	}
	slices.Sort(segments)
	out := replica{node: n.ID, start: -1}
	newest := strings.TrimSuffix(filepath.Base(segments[len(segments)-1]), ".log")
	if out.active, err = strconv.ParseInt(newest, 10, 64); err != nil {
		return replica{}, err
	}
	for _, s := range segments {
		raw, err := os.ReadFile(s)
		if err != nil {
			return replica{}, err
		}
		for len(raw) > 0 {
			size := 0
			if len(raw) >= 61 {
				size = int(binary.BigEndian.Uint32(raw[8:])) + 12
			}
			if size < 61 || size > len(raw) {
				return out.ended(), nil // a piece of a batch, which the mark must not reach
			}
			b := stored{base: int64(binary.BigEndian.Uint64(raw)), bytes: raw[:size]}
			b.last = b.base + int64(binary.BigEndian.Uint32(raw[23:]))
			if out.start < 0 {
				out.start = b.base
			}
			out.batches, out.end, raw = append(out.batches, b), b.last+1, raw[size:]
		}
	}
	return out.ended(), nil
}

func (r replica) ended() replica {
	r.start = max(r.start, 0)
	return r
}

// compacted are topics that each node compacts for itself, all but the newest segment.
var compacted = regexp.MustCompile(`^__(consumer_offsets|transaction_state)-`)

// compare compares the replicas of a partition with the first one, from where all begin to the high watermark.
func (out *Compared) compare(name string, all []replica, mark int64) error {
	from := int64(0)
	for _, r := range all {
		from = max(from, r.start)
		if compacted.MatchString(name) {
			from = max(from, r.active)
		}
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
