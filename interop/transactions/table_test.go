package transactions

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

type row struct {
	p              *producer
	setup, request string
	answer         string
}

// recording tells that Apache Kafka's answers are to be kept instead of compared with.
func recording() bool { return os.Getenv("TRANSACTIONS_RECORD") != "" }

// TestTable sends every request in every state, and compares answers and records with those of Apache Kafka. The unit tests
// of the coordinator go through the whole table; over the wire a part of it has to do.
func TestTable(t *testing.T) {
	n := broker.Start(t, "transaction.state.log.num.partitions=1", "offsets.topic.num.partitions=1")
	c := dial(t, n.Addr, "table")
	createTopic(t, n, "t")
	findCoordinators(t, c)
	var rows []*row
	for _, setup := range setups {
		before, _, high := strings.Cut(setup, " @")
		for i, request := range requests() {
			if !recording() && i%7 != len(setup)%7 {
				continue
			}
			x := &row{p: &producer{c: c, id: fmt.Sprintf("%d", len(rows)), timeoutMs: 60000, pid: -1, epoch: -1},
				setup: setup, request: request}
			for _, s := range strings.Fields(before) {
				x.p.do(t, s)
			}
			if !high {
				x.answer = x.p.do(t, request)
			}
			rows = append(rows, x)
		}
	}
	c = raiseEpochs(t, n, rows)
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
	if recording() {
		record(t, "table.txt", format(rows, all))
		return
	}
	want := readTable(t)
	for _, x := range rows {
		got := x.answer + " |" + x.describeAll(all[x.p.id])
		if w := want[x.setup+" | "+x.request]; w != got && !deliberate(x.request, w, got) {
			t.Errorf("%s, then %s:\nKafka %s\ngot   %s", x.setup, x.request, w, got)
		}
	}
}

// raiseEpochs has the coordinator start anew on a log in which the epochs of some are high.
func raiseEpochs(t *testing.T, n *process.Node, rows []*row) *conn {
	t.Helper()
	newest, values := records(t, n), map[string][]byte{}
	for _, x := range rows {
		if _, high, ok := strings.Cut(x.setup, " @"); ok {
			epoch, _, _ := strings.Cut(high, " ")
			values[x.p.id] = x.p.raise(newest[x.p.id], epoch)
		}
	}
	patch(t, n, values)
	n.Stop(t)
	n.Start(t)
	return dial(t, n.Addr, "table")
}

// raise gives the newest record with another epoch, which the producer takes over.
func (p *producer) raise(records [][]byte, epoch string) []byte {
	value := append([]byte(nil), records[len(records)-1]...)
	_, _ = fmt.Sscan(epoch, &p.epoch)
	binary.BigEndian.PutUint16(value[10:], uint16(p.epoch))
	return value
}

func (x *row) describeAll(records [][]byte) string {
	out := ""
	for _, r := range records {
		out += " " + x.p.describe(r)
	}
	return out
}

// format writes the table: a line for each setup with its records, and below it the requests, answers and the records that
// followed.
func format(rows []*row, all map[string][][]byte) string {
	var b strings.Builder
	for len(rows) > 0 {
		n := slices.IndexFunc(rows, func(x *row) bool { return x.setup != rows[0].setup })
		if n < 0 {
			n = len(rows)
		}
		b.WriteString(formatSetup(rows[:n], all))
		rows = rows[n:]
	}
	return b.String()
}

func formatSetup(rows []*row, all map[string][][]byte) string {
	var b strings.Builder
	common := all[rows[0].p.id]
	for _, x := range rows {
		n := 0
		for r := all[x.p.id]; n < min(len(common), len(r)) && x.p.describe(r[n]) == rows[0].p.describe(common[n]); n++ {
		}
		common = common[:n]
	}
	fmt.Fprintf(&b, "%s:%s\n", rows[0].setup, rows[0].describeAll(common))
	for _, x := range rows {
		fmt.Fprintf(&b, "  %s = %s", x.request, x.answer)
		if after := all[x.p.id][len(common):]; len(after) > 0 {
			fmt.Fprintf(&b, " |%s", x.describeAll(after))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// readTable gives the answers and all records by setup and request.
func readTable(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(goldenDir, "table.txt"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	setup, base := "", ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if a, b, ok := strings.Cut(line, ": "); ok {
			setup, base = a, b
			continue
		}
		request, want, _ := strings.Cut(line, " = ")
		answer, after, _ := strings.Cut(want, " | ")
		out[setup+" | "+request] = answer + " | " + strings.TrimSpace(base+" "+after)
	}
	return out
}

// deliberate tells where Apache Kafka is not followed; internal/coordinator/txn says why.
func deliberate(request, want, got string) bool {
	return strings.HasPrefix(want, "UNKNOWN_SERVER_ERROR") ||
		strings.HasSuffix(request, "/5-prev") && strings.HasPrefix(got, "PRODUCER_FENCED ")
}

// record keeps what Apache Kafka gave.
func record(t *testing.T, name, got string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(os.Getenv("TRANSACTIONS_RECORD"), name), []byte(got), 0o644); err != nil {
		t.Fatal(err)
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
