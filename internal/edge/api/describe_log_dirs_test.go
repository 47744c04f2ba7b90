package api

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

func TestDescribeLogDirs(t *testing.T) {
	f := newFixture(t)
	f.create("ad", 2)
	f.create("other", 1)
	f.produce("ad", 0, "x")
	broken := LogDir{Path: "/broken", Err: errors.New("gone"), TotalBytes: 5, UsableBytes: 5}
	ours := f.LogDirs()[0]
	f.LogDirs = func() []LogDir { return []LogDir{ours, broken} }
	for v := int16(1); v <= 5; v++ {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		req.Version = v
		for _, c := range []struct {
			topics []kmsg.DescribeLogDirsRequestTopic
			want   map[string]int
		}{
			{nil, map[string]int{"ad": 2, "other": 1}},
			{[]kmsg.DescribeLogDirsRequestTopic{}, map[string]int{}},
			{[]kmsg.DescribeLogDirsRequestTopic{{Topic: "ad", Partitions: []int32{0, 9}}}, map[string]int{"ad": 1}},
		} {
			req.Topics = c.topics
			r := ask[*kmsg.DescribeLogDirsResponse](f, req)
			if len(r.Dirs) != 2 || r.ErrorCode != 0 {
				t.Fatalf("%+v", r)
			}
			d, b := r.Dirs[0], r.Dirs[1]
			if d.Dir != "/data" || d.ErrorCode != 0 || len(d.Topics) != len(c.want) || d.IsCordoned {
				t.Fatalf("version %d: %+v", v, d)
			}
			for _, x := range d.Topics {
				if len(x.Partitions) != c.want[x.Topic] {
					t.Fatalf("version %d: %+v", v, x)
				}
				if p := x.Partitions[0]; x.Topic == "ad" && (p.Size == 0 || p.OffsetLag != 0 || p.IsFuture || p.Partition != 0) {
					t.Fatalf("version %d: %+v", v, p)
				}
			}
			if kafka.Code(b.ErrorCode) != kafka.KafkaStorageError || len(b.Topics) != 0 {
				t.Fatalf("version %d: %+v", v, b)
			}
			if total := d.TotalBytes; v >= 4 && (total != 1<<40 || d.UsableBytes != 1<<39 || b.TotalBytes != -1) {
				t.Fatalf("version %d: %+v", v, d)
			}
		}
	}
}
