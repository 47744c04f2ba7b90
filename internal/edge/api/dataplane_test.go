package api

import (
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/storage/record"
)

// wireClient speaks to a server over one connection, requests pipelined.
type wireClient struct {
	t    *testing.T
	conn net.Conn
	id   int32
}

func (c *wireClient) send(req kmsg.Request) {
	c.t.Helper()
	c.id++
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID("test"))
	if _, err := c.conn.Write(f.AppendRequest(nil, req, c.id)); err != nil {
		c.t.Error(err)
	}
}

func (c *wireClient) receive(req kmsg.Request) kmsg.Response {
	var size [4]byte
	if _, err := io.ReadFull(c.conn, size[:]); err != nil {
		c.t.Error(err)
		return req.ResponseKind()
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.conn, b); err != nil {
		c.t.Error(err)
		return req.ResponseKind()
	}
	b = b[4:]
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() {
		b = b[1:]
	}
	if err := resp.ReadFrom(b); err != nil {
		c.t.Error(err)
	}
	return resp
}

// serve puts a real server in front of the fixture's handlers.
func serve(t *testing.T, f *fixture) func() *wireClient {
	t.Helper()
	f.Now = time.Now
	f.After = func(d time.Duration, fn func()) func() {
		timer := time.AfterFunc(d, fn)
		return func() { timer.Stop() }
	}
	info := server.VersionInfo{ClusterID: func() string { return "c" }, NodeID: func() kafka.NodeID { return 1 },
		Features: func() server.Features { return server.Features{} }}
	var rows []server.API
	for _, r := range f.Rows() {
		if k := r.Key; k == int16(kmsg.Produce) || k == int16(kmsg.Fetch) {
			rows = append(rows, r)
		}
	}
	table, err := server.NewTable(info, rows...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Options{Table: table, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Budget: server.NewBudget(server.BudgetOptions{RequestBytes: 8 << 20})})
	if err != nil {
		t.Fatal(err)
	}
	net := server.NewMemoryListener("localhost:9092")
	l, err := s.Listen(server.ListenerOptions{Name: "PLAINTEXT", Net: net})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return func() *wireClient {
		conn, err := net.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return &wireClient{t: t, conn: conn}
	}
}

// TestThroughTheServer pipelines produces over a real server, whose buffers are scribbled over when a lease ends (under
// the race detector), and reads them back.
func TestThroughTheServer(t *testing.T) {
	const requests, clients = 200, 3
	f := newFixture(t)
	f.create("busy", clients)
	dial := serve(t, f)
	var wg sync.WaitGroup
	for n := range int32(clients) {
		wg.Go(func() {
			c := dial()
			var sent []kmsg.Request
			for i := range requests {
				sent = append(sent, produceRequest([]int16{3, 9, 13}[i%3], "busy", n, -1,
					batchOf(t, record.Options{}, fmt.Sprint(i))))
			}
			go func() {
				for _, r := range sent {
					c.send(r)
				}
			}()
			for i, r := range sent {
				x := c.receive(r).(*kmsg.ProduceResponse).Topics[0]
				if p := x.Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != int64(i) || p.Partition != n ||
					i%3 < 2 && x.Topic != "busy" {
					t.Errorf("client %d, request %d: %+v", n, i, x)
				}
			}
		})
	}
	wg.Wait()
	c := dial()
	for n := range int32(clients) {
		req := fetchRequest(13, "busy", n, 0)
		c.send(req)
		var want []string
		for i := range requests {
			want = append(want, fmt.Sprint(i))
		}
		p := c.receive(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if got := valuesIn(t, p.RecordBatches); !slices.Equal(got, want) {
			t.Errorf("partition %d: %d records", n, len(got))
		}
	}
}

// TestAbsurdRequestsHangUp: more partitions than a cluster could have are not even looked at.
func TestAbsurdRequestsHangUp(t *testing.T) {
	f := newFixture(t)
	produce := produceRequest(9, "a", 0, -1, nil)
	produce.Topics[0].Partitions = make([]kmsg.ProduceRequestTopicPartition, strayPartitions+1)
	fetch := fetchRequest(12, "a", 0, 0)
	fetch.Topics[0].Partitions = make([]kmsg.FetchRequestTopicPartition, strayPartitions+1)
	for _, req := range []kmsg.Request{produce, fetch} {
		_, p := f.start(req)
		if r := f.reply(p); !r.None || !r.Close {
			t.Errorf("%s: %+v", kmsg.NameForKey(req.Key()), r)
		}
	}
}
