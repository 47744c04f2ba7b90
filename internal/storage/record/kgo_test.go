package record

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// catcher is just enough of a broker to make a franz-go producer send its batches, which it keeps.
type catcher struct{ batches chan []byte }

func (c *catcher) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go c.serve(server)
	return client, nil
}

func (c *catcher) serve(conn net.Conn) {
	defer conn.Close()
	for {
		var size [4]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(conn, frame); err != nil {
			return
		}
		reply, err := c.answer(frame)
		if err != nil {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(reply))), reply...)); err != nil {
			return
		}
	}
}

func (c *catcher) answer(frame []byte) ([]byte, error) {
	req := kmsg.RequestForKey(int16(binary.BigEndian.Uint16(frame)))
	req.SetVersion(int16(binary.BigEndian.Uint16(frame[2:])))
	body := frame[10+max(int16(binary.BigEndian.Uint16(frame[8:])), 0):]
	if req.IsFlexible() {
		body = body[1:]
	}
	if err := req.ReadFrom(body); err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	switch req := req.(type) {
	case *kmsg.ApiVersionsRequest:
		resp := resp.(*kmsg.ApiVersionsResponse)
		for _, k := range [][3]int16{{0, 3, 9}, {3, 4, 9}, {18, 0, 3}, {22, 0, 4}} {
			resp.ApiKeys = append(resp.ApiKeys,
				kmsg.ApiVersionsResponseApiKey{ApiKey: k[0], MinVersion: k[1], MaxVersion: k[2]})
		}
	case *kmsg.MetadataRequest:
		resp := resp.(*kmsg.MetadataResponse)
		resp.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: "x", Port: 1}}
		resp.Topics = []kmsg.MetadataResponseTopic{{Topic: kmsg.StringPtr("t"),
			Partitions: []kmsg.MetadataResponseTopicPartition{{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}}}}}
	case *kmsg.InitProducerIDRequest:
		resp.(*kmsg.InitProducerIDResponse).ProducerID = 77
	case *kmsg.ProduceRequest:
		c.batches <- bytes.Clone(req.Topics[0].Partitions[0].Records)
		resp := resp.(*kmsg.ProduceResponse)
		resp.Topics = []kmsg.ProduceResponseTopic{{Topic: "t", Partitions: []kmsg.ProduceResponseTopicPartition{{}}}}
	default:
		return nil, fmt.Errorf("unexpected %T", req)
	}
	out := frame[4:8:8]
	if resp.IsFlexible() && resp.Key() != 18 {
		out = append(out, 0)
	}
	return resp.AppendTo(out), nil
}

// What franz-go produces, in every codec, passes validation unchanged and reads as what was produced.
func TestFranzProduced(t *testing.T) {
	records := func() []*kgo.Record {
		var rs []*kgo.Record
		for i := range 50 {
			rs = append(rs, &kgo.Record{Topic: "t", Key: fmt.Appendf(nil, "key-%d", i),
				Timestamp: now.Add(time.Duration(i) * time.Millisecond),
				Value:     []byte(strings.Repeat("value ", i*50)),
				Headers:   []kgo.RecordHeader{{Key: "a", Value: []byte("b")}, {Key: "null"}}[:i%3]})
		}
		rs[7].Key, rs[8].Value = nil, nil
		return rs
	}
	for i, c := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(),
		kgo.Lz4Compression(), kgo.ZstdCompression()} {
		codec := allCodecs()[i]
		catch := &catcher{make(chan []byte, 10)}
		client, err := kgo.NewClient(kgo.SeedBrokers("x:1"), kgo.Dialer(catch.dial), kgo.ProducerBatchCompression(c),
			kgo.ProducerLinger(50*time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		if err := client.ProduceSync(ctx, records()...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		client.Close()
		b, err := SplitProduced(<-catch.batches, 9)
		if err != nil {
			t.Fatal(err)
		}
		before := bytes.Clone(b)
		got, err := b.Validate(clientChecks())
		if err != nil || got.Rewritten || !bytes.Equal(before, b) {
			t.Fatalf("%s: changed %v: %v", codecNames[codec], !bytes.Equal(before, b), err)
		}
		if b.Codec() != codec || got.Count != 50 || got.OffsetOfMax != 49 || b.ProducerID() != 77 || b.BaseSequence() != 0 {
			t.Errorf("%s: %+v, header %x", codecNames[codec], got, b[:HeaderSize])
		}
		sameAsFranz(t, codecNames[codec], collect(t, b), records())
	}
}

func sameAsFranz(t *testing.T, name string, got []collected, want []*kgo.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d records, want %d", name, len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		ok := bytes.Equal(g.Key, w.Key) && bytes.Equal(g.Value, w.Value) && (g.Key == nil) == (w.Key == nil) &&
			(g.Value == nil) == (w.Value == nil) && g.Timestamp == w.Timestamp.UnixMilli() &&
			len(g.Headers) == len(w.Headers)
		for j := range min(len(g.Headers), len(w.Headers)) {
			ok = ok && g.Headers[j].Key == w.Headers[j].Key && bytes.Equal(g.Headers[j].Value, w.Headers[j].Value)
		}
		if !ok {
			t.Fatalf("%s: record %d is %+v, want %+v", name, i, g, w)
		}
	}
}

// What is built or recompressed here, franz-go's consumer reads.
func TestFranzConsumes(t *testing.T) {
	check := func(name string, b Batch) {
		t.Helper()
		fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: "t", KeepControlRecords: true},
			&kmsg.FetchResponseTopicPartition{RecordBatches: b}, kgo.DefaultDecompressor(), nil)
		if fp.Err != nil || kafka.Offset(next) != b.NextOffset() {
			t.Fatalf("%s: next %d: %v", name, next, fp.Err)
		}
		sameAsFranz(t, name, collect(t, b), fp.Records)
		for i, r := range collect(t, b) {
			if int64(r.Offset) != fp.Records[i].Offset {
				t.Errorf("%s: record %d at %d", name, i, fp.Records[i].Offset)
			}
		}
	}
	for _, c := range allCodecs() {
		for _, level := range []int{0, 1, 9, 22} {
			o := Options{BaseOffset: 17, Codec: c, Level: level, Producer: &Producer{1, 2, 3}}
			check(codecNames[c], build(t, o, sample()))
			in := build(t, Options{}, sample())
			checks := clientChecks()
			checks.TargetCodec, checks.Level = c, level
			out, err := in.Validate(checks)
			if err != nil {
				t.Fatal(err)
			}
			check(codecNames[c]+" recompressed", out.Batch)
		}
	}
	marker, err := MarkerBatch(1, 2, EndTxnMarker{Commit: true, CoordinatorEpoch: 3}, 5)
	if err != nil {
		t.Fatal(err)
	}
	check("marker", marker)
}
