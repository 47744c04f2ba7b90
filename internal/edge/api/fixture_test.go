package api

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/replica"
	"moldau/internal/config"
	"moldau/internal/coordinator"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

var t0 = time.UnixMilli(1_700_000_000_000)

// fixture is a node without its network: partitions in memory, a hand-turned clock, and an image made of
// records.
type fixture struct {
	*Broker
	t    testing.TB
	fs   *vfs.Mem
	dir  *log.Dir
	conn *server.ConnInfo

	mu     sync.Mutex
	now    time.Time
	timers []*fixtureTimer
	image  *metadata.Image
	pid    kafka.ProducerID
	uuid   uint64
	// held, when true, keeps flushes back until flush is called.
	held    bool
	flushes []*replica.Partition
	failed  []error
	rows    map[int16]server.API
	poison  bool // scribble over requests when their handlers have returned
}

type fixtureTimer struct {
	at   time.Time
	f    func()
	done bool
}

// newFixture makes a broker with id 1. Settings are name, value pairs of server.properties.
func newFixture(t testing.TB, settings ...string) *fixture {
	t.Helper()
	f := &fixture{t: t, fs: vfs.NewMem(vfs.MemOptions{}), now: t0, image: metadata.New(), pid: 1000}
	meta := log.MetaProperties{ClusterID: "c", NodeID: 1, DirectoryID: kafka.UUID{0: 9, 15: 255}}
	if err := log.FormatDir(f.fs, "/data", meta); err != nil {
		t.Fatal(err)
	}
	var err error
	if f.dir, err = log.OpenDir(f.fs, "/data", meta); err != nil {
		t.Fatal(err)
	}
	f.Broker = &Broker{
		Self: 1, ClusterID: "c", Config: f.static(settings), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Now: f.clock, NewUUID: f.newUUID, Host: f, After: f.after,
		Image:      func() *metadata.Image { f.mu.Lock(); defer f.mu.Unlock(); return f.image },
		ProducerID: f.producerID,
		Verify:     func(replica.TxnCheck) *promise.Promise[error] { return promise.Done[error](kafka.TransactionAbortable) },
		Advertised: func(_ *server.ConnInfo, b *metadata.Broker) (string, int32, bool) {
			e, ok := b.Endpoint("PLAINTEXT")
			return e.Host, int32(e.Port), ok
		},
		LogDirs: func() []LogDir {
			return []LogDir{{Path: "/data", Dir: f.dir, TotalBytes: 1 << 40, UsableBytes: 1 << 39}}
		},
	}
	f.Partitions = replica.NewManager(replica.ManagerOptions{
		Self: 1, Dirs: []*log.Dir{f.dir}, Config: f.topicConfig, NewUUID: f.newUUID,
	})
	f.Transactions = coordinator.New(coordinator.Options{Topic: kafka.TransactionsTopic})
	f.conn = server.NewConnInfo("PLAINTEXT", server.BrokerListener, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9092},
		&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 50000})
	f.apply(&metadata.FeatureLevelRecord{Name: metadata.MetadataVersionFeature, Level: metadata.LatestMetadataVersion},
		broker(1, meta.DirectoryID), broker(2, kafka.UUID{0: 8, 15: 255}))
	return f
}

func broker(id kafka.NodeID, dir kafka.UUID) *metadata.RegisterBrokerRecord {
	return &metadata.RegisterBrokerRecord{BrokerID: id, IncarnationID: kafka.UUID{0: byte(id), 15: 200},
		BrokerEpoch: kafka.BrokerEpoch(100 + id), LogDirs: []kafka.UUID{dir},
		Endpoints: []metadata.Endpoint{{Name: "PLAINTEXT", Host: "host-" + string('0'+rune(id)), Port: 9092}}}
}

func (f *fixture) static(settings []string) *config.Static {
	f.t.Helper()
	if len(settings) == 0 {
		return config.Defaults()
	}
	set := map[string]string{}
	for kv := range slices.Chunk(settings, 2) {
		set[kv[0]] = kv[1]
	}
	s, err := config.Load([]config.Layer{config.MapLayer("test", set)}, config.Options{})
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// apply puts records into the image and makes the partitions follow it.
func (f *fixture) apply(rs ...metadata.Record) {
	f.t.Helper()
	f.mu.Lock()
	next, diff, err := f.image.Apply(rs)
	if err != nil {
		f.mu.Unlock()
		f.t.Fatal(err)
	}
	next = next.WithPosition(f.image.Offset()+kafka.Offset(len(rs)), 1, f.now.UnixMilli())
	f.mu.Unlock()
	done := f.Partitions.Apply(f.clock(), next, diff, true, f)
	for _, x := range done.Failed {
		f.t.Fatalf("%s: %v", x.Partition, x.Err)
	}
	f.mu.Lock()
	f.image = next
	f.mu.Unlock()
}

// topicID derives a topic's id from its name.
func topicID(name string) kafka.UUID {
	var id kafka.UUID
	copy(id[:], name)
	id[15] = 201
	return id
}

// create makes a topic that this node leads. Settings are name, value pairs.
func (f *fixture) create(name string, partitions int32, settings ...string) kafka.UUID {
	f.t.Helper()
	id := topicID(name)
	f.createAs(name, id, partitions, settings...)
	return id
}

func (f *fixture) createAs(name string, id kafka.UUID, partitions int32, settings ...string) {
	f.t.Helper()
	rs := []metadata.Record{&metadata.TopicRecord{Name: name, TopicID: id}}
	for kv := range slices.Chunk(settings, 2) {
		rs = append(rs, &metadata.ConfigRecord{
			ResourceType: metadata.TopicResource, ResourceName: name, Name: kv[0], Value: &kv[1]})
	}
	for i := range partitions {
		rs = append(rs, &metadata.PartitionRecord{PartitionID: i, TopicID: id, Replicas: []kafka.NodeID{1},
			ISR: []kafka.NodeID{1}, Leader: 1, Directories: []kafka.UUID{kafka.DirectoryUnassigned}})
	}
	f.apply(rs...)
}

// remove deletes a topic.
func (f *fixture) remove(id kafka.UUID) {
	f.t.Helper()
	f.apply(&metadata.RemoveTopicRecord{TopicID: id})
}

// createElsewhere makes a topic that node 2 leads.
func (f *fixture) createElsewhere(name string) kafka.UUID {
	id := topicID(name)
	f.apply(&metadata.TopicRecord{Name: name, TopicID: id},
		&metadata.PartitionRecord{TopicID: id, Replicas: []kafka.NodeID{2}, ISR: []kafka.NodeID{2}, Leader: 2, LeaderEpoch: 5,
			Directories: []kafka.UUID{kafka.DirectoryUnassigned}})
	return id
}

func (f *fixture) topicConfig(image *metadata.Image, topic string) *log.Config {
	s := f.Resolver(image).Topic(topic)
	c := log.DefaultConfig()
	c.SegmentBytes, c.Delete, c.Compact = s.SegmentBytes, s.DeleteOld, s.Compact
	c.FlushAsync, c.MaxMessageBytes = !s.AckOnFlush, int32(s.MaxMessageBytes)
	c.MinInsyncReplicas, c.LogAppendTime = int32(s.MinInSyncReplicas), s.LogAppendTime
	c.TimestampBeforeMs, c.TimestampAfterMs = s.TimestampBeforeMaxMs, s.TimestampAfterMaxMs
	c.KeepCodec, c.Codec = s.Compression == config.KeepCodec, record.Codec(max(s.Compression, 0))
	for _, entry := range s.LeaderThrottled {
		if c.LeaderThrottled == nil {
			c.LeaderThrottled = &log.Throttled{}
		}
		var partition, broker int32
		if _, err := fmt.Sscanf(entry, "%d:%d", &partition, &broker); err == nil && broker == 1 {
			c.LeaderThrottled.Partitions = append(c.LeaderThrottled.Partitions, partition)
		}
		c.LeaderThrottled.All = entry == "*"
	}
	c.GzipLevel, c.LZ4Level, c.ZstdLevel = s.GzipLevel, s.Lz4Level, s.ZstdLevel
	return &c
}

func (f *fixture) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fixture) newUUID() kafka.UUID {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uuid++
	return kafka.UUID{0: byte(f.uuid >> 8), 1: byte(f.uuid), 3: byte(f.uuid), 7: byte(f.uuid), 15: 77}
}

func (f *fixture) producerID() *promise.Promise[ProducerIDReply] {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pid++
	return promise.Done(ProducerIDReply{ID: f.pid})
}

func (f *fixture) after(d time.Duration, fn func()) func() {
	f.mu.Lock()
	defer f.mu.Unlock()
	timer := &fixtureTimer{at: f.now.Add(d), f: fn}
	f.timers = append(f.timers, timer)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		timer.done = true
	}
}

// advance turns the clock and runs what is due.
func (f *fixture) advance(d time.Duration) {
	f.mu.Lock()
	f.now = f.now.Add(d)
	f.mu.Unlock()
	for {
		f.mu.Lock()
		i := slices.IndexFunc(f.timers, func(x *fixtureTimer) bool { return x.done || !x.at.After(f.now) })
		if i < 0 {
			f.mu.Unlock()
			return
		}
		timer := f.timers[i]
		f.timers = slices.Delete(f.timers, i, i+1)
		run := !timer.done
		timer.done = true
		f.mu.Unlock()
		if run {
			timer.f()
		}
	}
}

// RequestFlush implements replica.Host: the fixture syncs at once unless held.
func (f *fixture) RequestFlush(p *replica.Partition) {
	f.mu.Lock()
	if f.held {
		f.flushes = append(f.flushes, p)
		f.mu.Unlock()
		return
	}
	f.mu.Unlock()
	f.sync(p)
}

func (f *fixture) sync(p *replica.Partition) {
	token := p.BeginFlush()
	if token.Empty() {
		token.Drop()
		return
	}
	e := p.Flushed(f.clock(), token, token.Sync())
	e.Run(f)
}

// hold keeps flushes back.
func (f *fixture) hold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = true
}

// flush syncs what was held back, and everything at once from now on.
func (f *fixture) flush() {
	f.mu.Lock()
	round := f.flushes
	f.flushes, f.held = nil, false
	f.mu.Unlock()
	for _, p := range round {
		f.sync(p)
	}
}

// Verify implements replica.Host.
func (f *fixture) Verify(p *replica.Partition, c replica.TxnCheck) {
	f.Broker.Verify(c).OnDone(func(err error) {
		e := p.Verified(f.clock(), c, err)
		e.Run(f)
	})
}

// ProposeISR implements replica.Host.
func (f *fixture) ProposeISR(*replica.Partition, replica.ISRProposal) {}

// DirFailed implements replica.Host.
func (f *fixture) DirFailed(d *log.Dir, err error) {
	f.mu.Lock()
	f.failed = append(f.failed, err)
	f.mu.Unlock()
	f.Partitions.DirFailed(d, f)
}

// DirFull implements replica.Host.
func (f *fixture) DirFull(*log.Dir) {}

func (f *fixture) LogBroken(*replica.Partition, error) {}

// call makes a Call for a request of this version.
func (f *fixture) call(req kmsg.Request) *server.Call {
	return &server.Call{Conn: f.conn, Key: req.Key(), Version: req.GetVersion(), ClientID: "test", Now: f.clock()}
}

// start sends a request through its wire form to the handler of its row.
func (f *fixture) start(req kmsg.Request) (*server.Call, *promise.Promise[server.Reply]) {
	return f.startAs("test", req)
}

func (f *fixture) startAs(client string, req kmsg.Request) (*server.Call, *promise.Promise[server.Reply]) {
	f.t.Helper()
	row := f.row(req.Key())
	if v := req.GetVersion(); v < row.Min || v > row.Max {
		f.t.Fatalf("%s version %d is not served", kmsg.NameForKey(req.Key()), v)
	}
	wire := req.AppendTo(nil)
	decoded := kmsg.RequestForKey(req.Key())
	decoded.SetVersion(req.GetVersion())
	if err := decoded.(kmsg.UnsafeReadFrom).UnsafeReadFrom(wire); err != nil {
		f.t.Fatal(err)
	}
	c := f.call(req)
	c.ClientID = client
	p := row.Handle(c, decoded)
	if p == nil {
		f.t.Fatal("the handler gave no promise")
	}
	if f.poison {
		for i := range wire { // the handler says that it has released the request
			wire[i] = 0xdb
		}
	}
	return c, p
}

func (f *fixture) row(key int16) server.API {
	f.mu.Lock()
	rows := f.rows
	f.mu.Unlock()
	if rows == nil {
		rows = map[int16]server.API{}
		for _, r := range f.Rows() {
			rows[r.Key] = r
		}
		f.mu.Lock()
		f.rows = rows
		f.mu.Unlock()
	}
	r, ok := rows[key]
	if !ok {
		f.t.Fatalf("%s has no row", kmsg.NameForKey(key))
	}
	return r
}

// reply gives the value of a promise that must be set.
func (f *fixture) reply(p *promise.Promise[server.Reply]) server.Reply {
	f.t.Helper()
	r, ok := p.Get()
	if !ok {
		f.t.Fatal("there is no answer yet")
	}
	return r
}

// body gives the response of a reply after a trip over the wire, and releases the reply.
func (f *fixture) body(req kmsg.Request, r server.Reply) kmsg.Response {
	f.t.Helper()
	wire := wireOf(f.t, req.GetVersion(), r)
	if r.Release != nil {
		r.Release()
	}
	out := req.ResponseKind()
	out.SetVersion(req.GetVersion())
	if err := out.ReadFrom(wire); err != nil {
		f.t.Fatalf("%s version %d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	if again := out.AppendTo(nil); string(again) != string(wire) {
		f.t.Fatalf("%s version %d: the answer is not what kmsg writes:\n%x\n%x", kmsg.NameForKey(req.Key()),
			req.GetVersion(), wire, again)
	}
	return out
}

// wireOf gives the bytes of a reply's body.
func wireOf(t testing.TB, version int16, r server.Reply) []byte {
	t.Helper()
	if r.None {
		t.Fatal("nothing is answered")
	}
	if r.Body != nil {
		r.Body.SetVersion(version)
		return r.Body.AppendTo(nil)
	}
	var out []byte
	for _, s := range r.Segments {
		out = append(out, s.Bytes...)
		if s.Extents == nil {
			continue
		}
		left := s.Extents.Size()
		for file, r := range s.Extents.Parts() {
			b := make([]byte, r.Len)
			if got, err := file.ReadAt(b, r.Pos); got != r.Len {
				t.Fatalf("read %d of %d bytes: %v", got, r.Len, err)
			}
			left -= r.Len
			out = append(out, b...)
		}
		if left != 0 {
			t.Fatalf("extents differ from their size by %d", left)
		}
	}
	return out
}

// ask sends a request whose answer must be there at once.
func ask[R kmsg.Response](f *fixture, req kmsg.Request) R {
	f.t.Helper()
	_, p := f.start(req)
	return f.body(req, f.reply(p)).(R)
}

// batchOf makes one batch of records with the given values and rising times.
func batchOf(t testing.TB, o record.Options, values ...string) record.Batch {
	t.Helper()
	b := record.NewBuilder(o)
	for i, v := range values {
		b.Append(t0.UnixMilli()+int64(i), []byte("k"), []byte(v), nil)
	}
	out, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func produceRequest(version int16, topic string, partition int32, acks int16, records []byte) *kmsg.ProduceRequest {
	r := kmsg.NewPtrProduceRequest()
	r.Version, r.Acks, r.TimeoutMillis = version, acks, 5000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = topic, topicID(topic)
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

// produce appends one batch, which must succeed.
func (f *fixture) produce(topic string, partition int32, values ...string) int64 {
	f.t.Helper()
	req := produceRequest(9, topic, partition, -1, batchOf(f.t, record.Options{}, values...))
	p := ask[*kmsg.ProduceResponse](f, req).Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		f.t.Fatalf("produce: %v", kafka.Code(p.ErrorCode))
	}
	return p.BaseOffset
}

func fetchRequest(version int16, topic string, partition int32, offset int64) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.Version, r.MaxWaitMillis, r.MinBytes, r.MaxBytes, r.SessionEpoch = version, 200, 1, 1<<20, -1
	r.Topics = append(r.Topics, fetchTopic(topic, fetchPartition(partition, offset)))
	return r
}

func fetchTopic(topic string, partitions ...kmsg.FetchRequestTopicPartition) kmsg.FetchRequestTopic {
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID, t.Partitions = topic, topicID(topic), partitions
	return t
}

func fetchPartition(partition int32, offset int64) kmsg.FetchRequestTopicPartition {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 1<<20
	return p
}

// valuesIn lists the values of the records in fetched bytes; a cut last batch is left out.
func valuesIn(t testing.TB, b []byte) []string {
	t.Helper()
	var out []string
	for len(b) > 0 {
		batch, rest, err := record.Split(b)
		if err != nil {
			break
		}
		if err := batch.CheckCRC(); err != nil {
			t.Fatal(err)
		}
		for r, err := range batch.Records(record.Limits{}) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, string(r.Value))
		}
		b = rest
	}
	return out
}
