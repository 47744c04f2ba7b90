package log

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

// TestReadersBesideWriter reads through views while the owner appends, rolls, cuts, retains, flushes and idles. Run it
// with -race: it proves that views need no lock.
func TestReadersBesideWriter(t *testing.T) {
	c := smallConfig()
	c.RetentionBytes = 8000
	r := newRig(t, vfs.NewMem(vfs.MemOptions{}), c)
	var stop atomic.Bool
	var cuts atomic.Int64 // odd while the log is being cut
	var readers sync.WaitGroup
	for i := range 3 {
		readers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 9))
			for !stop.Load() {
				readSomewhere(t, r.log, rnd, &cuts)
			}
		})
	}
	rnd := rand.New(rand.NewPCG(5, 5))
	epoch := kafka.LeaderEpoch(0)
	for i := range 3000 {
		r.append(buildBatch(t, record.Options{}, 1+i%3, epoch0.UnixMilli()+int64(i), 20+i%60), leader(epoch))
		var err error
		switch rnd.IntN(40) {
		case 0:
			cuts.Add(1)
			err = r.log.TruncateTo(r.log.View().End - 3)
			cuts.Add(1)
			epoch++
		case 1:
			_, err = r.log.Retain(r.log.View().End, epoch0)
		case 2:
			_, err = r.log.DeletePending(epoch0.Add(time.Duration(i) * time.Minute))
		case 3:
			_, err = r.log.Idle()
		case 4, 5:
			r.flush()
		case 6:
			err = r.log.Roll(epoch0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	readers.Wait()
}

// readSomewhere reads from a random offset; whatever it gets must be whole batches that belong there. After a cut other
// batches may stand where the view knew those of the offset: readers below the high watermark never meet that, replicas
// find out by the epoch.
func readSomewhere(t *testing.T, l *Log, rnd *rand.Rand, cuts *atomic.Int64) {
	before := cuts.Load()
	v := l.View()
	if v.End == v.Start {
		return
	}
	from := v.Start + kafka.Offset(rnd.Int64N(int64(v.End-v.Start)))
	e, err := v.Read(from, v.End, 1+rnd.IntN(3000), true)
	if errors.Is(err, kafka.OffsetOutOfRange) || errors.Is(err, kafka.NotLeaderOrFollower) {
		return // deleted or cut meanwhile
	}
	if err != nil {
		t.Errorf("read %d: %v", from, err)
		return
	}
	defer e.Release()
	b, err := e.ReadAll()
	if cuts.Load() != before || before%2 == 1 {
		return
	} else if err != nil {
		t.Errorf("read %d: %v", from, err)
		return
	}
	for len(b) > 0 {
		first, rest, err := record.Split(b)
		if err != nil {
			break
		}
		if err := first.CheckCRC(); err != nil {
			t.Errorf("read %d: %v", from, err)
			return
		}
		if first.NextOffset() <= from {
			t.Errorf("read %d gives offsets %d to %d", from, first.BaseOffset(), first.LastOffset())
			return
		}
		from, b = first.NextOffset(), rest
	}
	if rnd.IntN(10) == 0 {
		if _, _, err := v.OffsetForTime(epoch0.UnixMilli()+int64(rnd.IntN(4000)), record.Limits{}); err != nil {
			if code := kafka.CodeOf(err); code != kafka.OffsetOutOfRange && code != kafka.NotLeaderOrFollower {
				t.Errorf("offset for time: %v", err)
			}
		}
	}
}

// TestTokens checks what a token covers that is older than a cut, or than appends after it.
func TestTokens(t *testing.T) {
	r := newRig(t, vfs.NewMem(vfs.MemOptions{}), smallConfig())
	add := func(n int) {
		for range n {
			r.append(dataBatch(t, 1, epoch0.UnixMilli(), 30), leader(0))
		}
	}
	add(10)
	early := r.log.Dirty()
	add(10)
	if err := early.Sync(); err != nil {
		t.Fatal(err)
	}
	r.log.MarkDurable(early)
	if got := r.log.Durable(); got != 10 {
		t.Fatalf("durable %d", got)
	}
	before := r.log.Dirty()
	if err := r.log.TruncateTo(6); err != nil {
		t.Fatal(err)
	}
	if got := r.log.Durable(); got != 6 {
		t.Fatalf("durable %d after a cut to 6", got)
	}
	add(30)
	if err := before.Sync(); err != nil {
		t.Fatal(err)
	}
	r.log.MarkDurable(before)
	if got := r.log.Durable(); got != 6 {
		t.Fatalf("durable %d by a token older than the cut", got)
	}
	r.flush()
	if got := r.log.Durable(); got != 36 {
		t.Fatalf("durable %d", got)
	}
	if token := r.log.Dirty(); !token.Empty() {
		t.Fatalf("%d files owed by a clean log", token.Files())
	}
	var zero FlushToken
	if !zero.Empty() || zero.Log() != nil || zero.Sync() != nil {
		t.Fatal("zero token")
	}
	zero.Drop()
	for range 2 * keptCuts { // more cuts than are remembered
		add(2)
		if err := r.log.TruncateTo(r.log.View().End - 1); err != nil {
			t.Fatal(err)
		}
	}
	late := r.log.Dirty()
	if err := r.log.TruncateTo(5); err != nil {
		t.Fatal(err)
	}
	add(5)
	if err := late.Sync(); err != nil {
		t.Fatal(err)
	}
	r.log.MarkDurable(late)
	if got := r.log.Durable(); got != 5 {
		t.Fatalf("durable %d", got)
	}
}

// TestIdleAfterRecovery: rebuilt indexes are open until a flush; that moves the recovery point, and then nothing is open.
func TestIdleAfterRecovery(t *testing.T) {
	counting := &countingFS{FS: vfs.NewMem(vfs.MemOptions{})}
	r := newRig(t, counting, smallConfig())
	for range 60 {
		r.append(dataBatch(t, 1, epoch0.UnixMilli(), 100), leader(0))
	}
	r.log.Close(false, epoch0)
	r.dir.Close(false, 0)
	r.reopen()
	if got := r.log.RecoveryPoint(); got != 0 {
		t.Fatalf("recovery point %d before any flush", got)
	}
	pending, err := r.log.Idle()
	if err != nil || !pending || counting.open.Load() == 0 {
		t.Fatalf("pending %v, %d files open, %v", pending, counting.open.Load(), err)
	}
	r.flush()
	if pending, err := r.log.Idle(); err != nil || pending || counting.open.Load() != 0 {
		t.Fatalf("pending %v, %d files open, %v", pending, counting.open.Load(), err)
	}
	if got := r.log.RecoveryPoint(); got != r.log.View().last().base || got == 0 {
		t.Fatalf("recovery point %d", got)
	}
}

// TestFailedSync: after a failed sync nothing more is called durable and nothing is appended, though the next sync
// succeeds.
func TestFailedSync(t *testing.T) {
	faulty, err := vfs.Faulty(vfs.NewMem(vfs.MemOptions{}), "")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, faulty, smallConfig())
	r.append(dataBatch(t, 1, epoch0.UnixMilli(), 30), leader(0))
	r.flush()
	r.append(dataBatch(t, 1, epoch0.UnixMilli(), 30), leader(0))
	if _, err := faulty.Add("sync *.log 1 error EIO"); err != nil {
		t.Fatal(err)
	}
	token := r.log.Dirty()
	if err := token.Sync(); !errors.Is(err, syscall.EIO) || kafka.CodeOf(err) != kafka.KafkaStorageError {
		t.Fatalf("sync: %v", err)
	}
	again := r.log.Dirty()
	if err := again.Sync(); err != nil {
		t.Fatal(err)
	}
	r.log.MarkDurable(again)
	if got := r.log.Durable(); got != 1 {
		t.Fatalf("durable %d after a failed sync", got)
	}
	if _, err := r.log.Append(dataBatch(t, 1, epoch0.UnixMilli(), 30), leader(0), epoch0); kafka.CodeOf(err) != kafka.KafkaStorageError {
		t.Fatalf("append: %v", err)
	}
}

// TestEpochFileFollowsAcknowledgement: an epoch without records is not written; one with records is, with the flush that
// acknowledges them.
func TestEpochFileFollowsAcknowledgement(t *testing.T) {
	r := newRig(t, vfs.NewMem(vfs.MemOptions{}), smallConfig())
	onDisk := func() Epochs {
		t.Helper()
		e, err := ReadEpochs(r.fs, r.log.Path())
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	r.log.AssignEpoch(3)
	r.flush()
	if got := onDisk(); len(got) != 0 {
		t.Fatalf("epochs %v before any record", got)
	}
	if token := r.log.Dirty(); !token.Empty() {
		t.Fatalf("%d files owed", token.Files())
	}
	r.append(dataBatch(t, 2, epoch0.UnixMilli(), 30), leader(3))
	r.log.AssignEpoch(5)
	r.flush()
	if got := onDisk(); len(got) != 1 || got[0] != (EpochEntry{3, 0}) {
		t.Fatalf("epochs %v", got)
	}
	r.append(dataBatch(t, 2, epoch0.UnixMilli(), 30), leader(5))
	r.flush()
	if got := onDisk(); len(got) != 2 || got[1] != (EpochEntry{5, 2}) {
		t.Fatalf("epochs %v", got)
	}
	if _, err := r.log.Append(dataBatch(t, 1, epoch0.UnixMilli(), 30), leader(4), epoch0); kafka.CodeOf(err) != kafka.FencedLeaderEpoch {
		t.Fatalf("append in an older epoch: %v", err)
	}
	if epoch, end := r.log.EndOffsetFor(4); epoch != 3 || end != 2 {
		t.Fatalf("end of epoch 4: %d %d", epoch, end)
	}
	if epoch, end := r.log.EndOffsetFor(5); epoch != 5 || end != 4 {
		t.Fatalf("end of epoch 5: %d %d", epoch, end)
	}
}

// TestAppendRefuses lists what Append does not take, and that nothing of it is left.
func TestAppendRefuses(t *testing.T) {
	c := smallConfig()
	r := newRig(t, vfs.NewMem(vfs.MemOptions{}), c)
	r.append(dataBatch(t, 3, epoch0.UnixMilli(), 30), leader(2))
	good := dataBatch(t, 1, epoch0.UnixMilli(), 30)
	idempotent := buildBatch(t, record.Options{Producer: &record.Producer{ID: 1}}, 1, epoch0.UnixMilli(), 10)
	cut := bytes.Clone(good)[:len(good)-1]
	old := buildBatch(t, record.Options{BaseOffset: 2, LeaderEpoch: 2}, 1, epoch0.UnixMilli(), 10)
	stale := buildBatch(t, record.Options{BaseOffset: 3, LeaderEpoch: 1}, 1, epoch0.UnixMilli(), 10)
	huge := dataBatch(t, 30, epoch0.UnixMilli(), 100)
	client := leader(2)
	client.Producer.Origin = FromClient
	tests := []struct {
		name  string
		bytes []byte
		stamp Stamp
		want  kafka.Code
	}{
		{"cut", cut, leader(2), kafka.CorruptMessage},
		{"garbage", bytes.Repeat([]byte{7}, 100), leader(2), kafka.CorruptMessage},
		{"good and garbage", append(bytes.Clone(good), 1, 2, 3), leader(2), kafka.CorruptMessage},
		{"below the log end", old, Stamp{}, kafka.OffsetOutOfRange},
		{"older epoch", stale, Stamp{}, kafka.FencedLeaderEpoch},
		{"larger than a segment", huge, leader(2), kafka.RecordListTooLarge},
		{"two of producers", append(bytes.Clone(idempotent), idempotent...), client, kafka.InvalidRequest},
		{"nothing", nil, leader(2), kafka.None},
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			_, err := r.log.Append(bytes.Clone(x.bytes), x.stamp, epoch0)
			if kafka.CodeOf(err) != x.want {
				t.Fatalf("%v, want %v", err, x.want)
			}
			if v := r.log.View(); v.End != 3 {
				t.Fatalf("log ends at %d", v.End)
			}
			if err := checkSegments(r.log); err != nil {
				t.Fatal(err)
			}
		})
	}
	if got := r.append(huge2(t), Stamp{}); got.Last != 3+29 {
		t.Fatalf("a replicated batch above segment.bytes: %+v", got)
	}
}

func huge2(t *testing.T) record.Batch {
	return buildBatch(t, record.Options{BaseOffset: 3, LeaderEpoch: 2}, 30, epoch0.UnixMilli(), 100)
}

// TestScrub finds a flipped bit in a closed segment and nothing else.
func TestScrub(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	r := newRig(t, mem, smallConfig())
	for range 60 {
		r.append(dataBatch(t, 1, epoch0.UnixMilli(), 100), leader(0))
	}
	r.flush()
	scrub := func(budget int64) ([]BadRange, int64) {
		t.Helper()
		x, total, steps := r.log.Scrub(), int64(0), 0
		for {
			n, done, err := x.Step(budget)
			if err != nil {
				t.Fatal(err)
			}
			total, steps = total+n, steps+1
			if done {
				break
			}
		}
		if budget < 500 && steps < 5 {
			t.Fatalf("%d steps", steps)
		}
		return x.Bad(), total
	}
	v := r.log.View()
	for _, budget := range []int64{1, 300, 1 << 20} {
		bad, total := scrub(budget)
		if len(bad) != 0 || total < v.sealed {
			t.Fatalf("%+v after %d bytes of %d", bad, total, v.sealed)
		}
	}
	s := v.segments[2]
	h, err := s.acquire(dataFile)
	if err != nil {
		t.Fatal(err)
	}
	defer h.release()
	second := int64(len(dataBatch(t, 1, epoch0.UnixMilli(), 100)))
	if err := writeFull(h.file, []byte{0xff}, second+80); err != nil {
		t.Fatal(err)
	}
	for _, budget := range []int64{1, 300, 1 << 20} {
		bad, _ := scrub(budget)
		if len(bad) != 1 || bad[0].Base != s.base || bad[0].Pos != second || bad[0].Offset != s.base+1 {
			t.Fatalf("%+v, want the batch at %d of segment %d", bad, second, s.base)
		}
	}
}

// TestLogAppendTime reports the broker's time for the batch, and that of the original for a duplicate.
func TestLogAppendTime(t *testing.T) {
	r := newRig(t, vfs.NewMem(vfs.MemOptions{}), smallConfig())
	b := buildBatch(t, record.Options{LogAppendTime: true, AppendTimeMs: 123456}, 2, 5, 10)
	if got := r.append(b, leader(0)); got.LogAppendTimeMs != 123456 {
		t.Fatalf("%+v", got)
	}
	if got := r.append(dataBatch(t, 1, 77, 10), leader(0)); got.LogAppendTimeMs != -1 {
		t.Fatalf("%+v", got)
	}
}

// TestOldFormats: messages of formats 0 and 1 that came with an upgraded log are found, served and recovered as they are.
func TestOldFormats(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	r := newRig(t, mem, smallConfig())
	var all []byte
	for i := range 40 {
		all = append(all, oldMessage(kafka.Offset(i), int8(i%2), epoch0.UnixMilli()+int64(i), 50)...)
	}
	r.append(all, Stamp{})
	r.append(dataBatch(t, 1, epoch0.UnixMilli()+100, 30), leader(1))
	check := func() {
		t.Helper()
		v := r.log.View()
		e, err := v.Read(0, 40, 1<<20, true)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Release()
		if b, err := e.ReadAll(); err != nil || !bytes.Equal(b, all) {
			t.Fatalf("%d bytes, want %d: %v", len(b), len(all), err)
		}
		at, found, err := v.OffsetForTime(epoch0.UnixMilli()+20, record.Limits{})
		if err != nil || !found || at.Offset != 21 {
			t.Fatalf("offset for time: %+v %v %v", at, found, err)
		}
		if v.End != 41 || len(v.Epochs()) != 1 || v.Epochs()[0] != (EpochEntry{1, 40}) {
			t.Fatalf("end %d, epochs %v", v.End, v.Epochs())
		}
	}
	check()
	r.flush()
	r.log.Close(false, epoch0)
	r.dir.Close(false, 0)
	if report := r.reopen(); report.CutBytes != 0 {
		t.Fatalf("%+v", report)
	}
	check()
}

// oldMessage builds a message of format 0 or 1.
func oldMessage(offset kafka.Offset, magic int8, ts int64, size int) []byte {
	body := []byte{byte(magic), 0}
	if magic == 1 {
		body = binary.BigEndian.AppendUint64(body, uint64(ts))
	}
	body = binary.BigEndian.AppendUint32(body, 0xffffffff) // no key
	body = binary.BigEndian.AppendUint32(body, uint32(size))
	body = append(body, bytes.Repeat([]byte{'v'}, size)...)
	b := binary.BigEndian.AppendUint64(nil, uint64(offset))
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)+4))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(body))
	return append(b, body...)
}
