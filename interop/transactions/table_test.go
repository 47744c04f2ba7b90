package transactions

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/interop/broker"
	"moldau/interop/process"
)

// setups bring a transactional id into each state that lasts, by either protocol. @N is the id found at epoch N by a
// coordinator that has just been started.
var setups = []string{
	"init/4",
	"init/4 add/3",
	"init/4 add/5",
	"init/4 add/3 commit/3",
	"init/4 add/3 abort/3",
	"init/4 add/5 commit/5",
	"init/4 add/5 abort/5",
	"init/4 abort/5",
	"init/4 add/5 commit/3",
	"init/4 add/3 commit/5",
	"init/4 add/3 commit/3 init/4",
	"init/4 add/5 commit/5 init/4",
	"init/4 init/4 add/3",
	"init/4 add/3 init/4",
	"init/4 add/5 init/4",
	"init/4 @32765",
	"init/4 @32766",
	"init/4 add/3 @32765",
	"init/4 add/3 @32766",
	"init/4 add/5 @32765",
	"init/4 add/5 @32766",
	"init/4 add/3 commit/3 @32766",
	"init/4 add/5 commit/5 @32766",
	"init/4 add/5 abort/5 @32765",
	"init/4 @32766 add/5 commit/5",
	"init/4 @32766 abort/5",
}

// requests are what meets each of them.
func requests() []string {
	var out []string
	for v := range 6 {
		out = append(out, fmt.Sprintf("init/%d-none", v))
		if v >= 3 {
			out = append(out, fmt.Sprintf("init/%d", v), fmt.Sprintf("init/%d-prev", v), fmt.Sprintf("init/%d-next", v),
				fmt.Sprintf("init/%d-other", v))
		}
	}
	stamped := func(name string, versions ...int) {
		for _, v := range versions {
			for _, who := range []string{"", "-prev", "-next", "-other"} {
				out = append(out, fmt.Sprintf("%s/%d%s", name, v, who))
			}
		}
	}
	stamped("add", 0, 1, 2, 3, 4, 5)
	stamped("verify", 4, 5)
	stamped("offsets", 0, 1, 2, 3, 4)
	stamped("commit", 0, 1, 2, 3, 4, 5)
	stamped("abort", 0, 1, 2, 3, 4, 5)
	return out
}

// goldenDir is where the answers of Apache Kafka are, for the unit tests of the coordinator too.
const goldenDir = "../../internal/coordinator/txn/testdata"

// TestTable sends every request in every state, and compares answers and records with those of Apache Kafka.
func TestTable(t *testing.T) {
	n := broker.Start(t, "transaction.state.log.num.partitions=1", "offsets.topic.num.partitions=1")
	type row struct {
		p             *producer
		setup, before string
		request       string
		answer        string
	}
	c := dial(t, n.Addr, "table")
	createTopic(t, n, "t")
	findCoordinators(t, c)
	var rows []*row
	for _, setup := range setups {
		before, _, high := strings.Cut(setup, " @")
		for _, request := range requests() {
			x := &row{p: &producer{c: c, id: fmt.Sprintf("%d", len(rows)), timeoutMs: 60000, pid: -1, epoch: -1},
				setup: setup, before: before, request: request}
			for _, s := range strings.Fields(before) {
				x.p.do(t, s)
			}
			if !high {
				x.answer = x.p.do(t, request)
			}
			rows = append(rows, x)
		}
	}
	// The state of the others is what a coordinator reads that starts now.
	newest := records(t, n)
	epochs := map[string][]byte{}
	for _, x := range rows {
		if _, high, ok := strings.Cut(x.setup, " @"); ok {
			epoch, _, _ := strings.Cut(high, " ")
			r := newest[x.p.id]
			value := append([]byte(nil), r[len(r)-1]...)
			fmt.Sscan(epoch, &x.p.epoch)
			binary.BigEndian.PutUint16(value[10:], uint16(x.p.epoch))
			epochs[x.p.id] = value
		}
	}
	patch(t, n, epochs)
	n.Stop(t)
	n.Start(t)
	c = dial(t, n.Addr, "table")
	for _, x := range rows {
		if _, high, ok := strings.Cut(x.setup, " @"); ok {
			x.p.c = c
			_, then, _ := strings.Cut(high, " ")
			for _, s := range strings.Fields(then) {
				x.p.do(t, s)
			}
			x.answer = x.p.do(t, x.request)
		}
	}
	all := records(t, n)
	var b strings.Builder
	for _, x := range rows {
		fmt.Fprintf(&b, "%s | %s | %s |", x.setup, x.request, x.answer)
		for _, r := range all[x.p.id] {
			b.WriteString(" " + x.p.describe(r))
		}
		b.WriteString("\n")
	}
	golden(t, "table.txt", b.String())
}

// golden compares with what Apache Kafka gave, or records it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if dir := os.Getenv("TRANSACTIONS_RECORD"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(filepath.Join(goldenDir, name))
	if err != nil {
		t.Fatal(err)
	}
	a, b := strings.Split(string(want), "\n"), strings.Split(got, "\n")
	wrong := 0
	for i := range max(len(a), len(b)) {
		x, y := "", ""
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			wrong++
			if wrong <= 20 {
				t.Errorf("line %d:\nKafka %s\ngot   %s", i+1, x, y)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d lines differ", wrong)
	}
}

func createTopic(t testing.TB, n *process.Node, topic string) {
	t.Helper()
	cl := client(t, n)
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(context.Background(), 4, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
}

// findCoordinators has the internal topics created, as clients do.
func findCoordinators(t testing.TB, c *conn) {
	t.Helper()
	for kind := range int8(2) {
		for i := 0; ; i++ {
			r := kmsg.NewPtrFindCoordinatorRequest()
			r.Version, r.CoordinatorKey, r.CoordinatorType = 3, "g", kind
			code := c.send(t, r).(*kmsg.FindCoordinatorResponse).ErrorCode
			if code == 0 {
				break
			}
			if i > 1000 {
				t.Fatal("no coordinator", code)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func client(t testing.TB, n *process.Node, o ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(o, kgo.SeedBrokers(n.Addr))...)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// records reads __transaction_state: the values of each id, in order.
func records(t testing.TB, n *process.Node) map[string][][]byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	cl := client(t, n, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"__transaction_state": {0: kgo.NewOffset().AtStart()}}))
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, "__transaction_state")
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup("__transaction_state", 0)
	out := map[string][][]byte{}
	for next := int64(0); next < end.Offset; {
		f := cl.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatal(err)
		}
		f.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			out[string(r.Key[4:])] = append(out[string(r.Key[4:])], r.Value)
		})
	}
	return out
}

// patch writes states of transactional ids, as a coordinator would.
func patch(t testing.TB, n *process.Node, values map[string][]byte) {
	t.Helper()
	cl := client(t, n, kgo.ClientID("__admin_client"), kgo.DisableIdempotentWrite(), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer cl.Close()
	for id, v := range values {
		key := binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(len(id)))
		cl.Produce(context.Background(), &kgo.Record{Topic: "__transaction_state", Key: append(key, id...), Value: v},
			func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
	}
	if err := cl.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
}

var states = []string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"}

// describe shows what a record says but for its times: State/producer/epoch, then *partitions >next <previous vN.
func (p *producer) describe(v []byte) string {
	if len(v) < 17 || binary.BigEndian.Uint16(v) != 1 {
		return hex.EncodeToString(v)
	}
	pid, epoch, state := int64(binary.BigEndian.Uint64(v[2:])), int16(binary.BigEndian.Uint16(v[10:])), v[16]
	out := fmt.Sprintf("%s/%s/%d", states[state], p.name(pid), epoch)
	rest := v[17:]
	topics, n := binary.Uvarint(rest)
	rest = rest[n:]
	partitions := 0
	for i := uint64(1); i < topics; i++ {
		size, n := binary.Uvarint(rest)
		rest = rest[n+int(size)-1:]
		count, n := binary.Uvarint(rest)
		partitions += int(count) - 1
		rest = rest[n+4*(int(count)-1)+1:]
	}
	if topics > 0 {
		out += fmt.Sprint("*", partitions)
	}
	if int64(binary.BigEndian.Uint64(rest[8:])) < 0 {
		out += "-" // no start
	}
	rest = rest[16:]
	tags := int(rest[0])
	rest = rest[1:]
	for range tags {
		tag, size := rest[0], int(rest[1])
		switch body := rest[2 : 2+size]; tag {
		case 0:
			out += "<" + p.name(int64(binary.BigEndian.Uint64(body)))
		case 1:
			out += ">" + p.name(int64(binary.BigEndian.Uint64(body)))
		case 2:
			out += fmt.Sprint("v", binary.BigEndian.Uint16(body))
		case 3:
			out += fmt.Sprint("/", int16(binary.BigEndian.Uint16(body)))
		}
		rest = rest[2+size:]
	}
	return out
}
