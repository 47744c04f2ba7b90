package api

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/storage/record"
)

func TestProduceThenFetchInEveryVersion(t *testing.T) {
	f := newFixture(t)
	f.create("orders", 2)
	var want []string
	for v := int16(3); v <= 13; v++ {
		for _, acks := range []int16{1, -1} {
			req := produceRequest(v, "orders", 0, acks, batchOf(t, record.Options{}, "a", "b"))
			p := ask[*kmsg.ProduceResponse](f, req).Topics[0].Partitions[0]
			if p.ErrorCode != 0 || p.BaseOffset != int64(len(want)) || p.LogAppendTime != -1 {
				t.Fatalf("version %d: %+v", v, p)
			}
			want = append(want, "a", "b")
		}
	}
	for v := int16(4); v <= 18; v++ {
		resp := ask[*kmsg.FetchResponse](f, fetchRequest(v, "orders", 0, 0))
		p := resp.Topics[0].Partitions[0]
		if got := valuesIn(t, p.RecordBatches); p.ErrorCode != 0 || !slices.Equal(got, want) {
			t.Fatalf("version %d: %+v, %d values", v, p, len(got))
		}
	}
}
