package replica

import (
	"testing"
	"time"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
	"moldau/internal/storage/log"
	"moldau/internal/storage/record"
	"moldau/internal/storage/vfs"
)

var (
	t0     = time.UnixMilli(1_700_000_000_000)
	topic  = kafka.UUID{0: 7, 15: 200}
	orders = kafka.TopicPartition{Topic: "orders"}
)

// desk is a Host that writes down what it is asked.
type desk struct {
	flushes   []*Partition
	proposals []ISRProposal
	failed    []error
	broken    []error
	full      int
	checks    []TxnCheck
}

func (d *desk) RequestFlush(p *Partition)              { d.flushes = append(d.flushes, p) }
func (d *desk) ProposeISR(_ *Partition, p ISRProposal) { d.proposals = append(d.proposals, p) }
func (d *desk) Verify(_ *Partition, c TxnCheck)        { d.checks = append(d.checks, c) }
func (d *desk) DirFailed(_ *log.Dir, err error)        { d.failed = append(d.failed, err) }
func (d *desk) LogBroken(_ *Partition, err error)      { d.broken = append(d.broken, err) }
func (d *desk) DirFull(*log.Dir)                       { d.full++ }
func (d *desk) run(e Effects)                          { e.Run(d) }
func (d *desk) flush(t *testing.T, now time.Time)      { d.flushWith(t, now, log.FlushToken.Sync) }
func (d *desk) flushWith(t *testing.T, now time.Time, sync func(log.FlushToken) error) {
	t.Helper()
	round := d.flushes
	d.flushes = nil
	for _, p := range round {
		token := p.BeginFlush()
		if token.Empty() {
			token.Drop()
			continue
		}
		d.run(p.Flushed(now, token, sync(token)))
	}
}

type rig struct {
	fs   *vfs.Mem
	dir  *log.Dir
	desk *desk
	p    *Partition
}

func openDir(t *testing.T, fs vfs.FS) *log.Dir {
	t.Helper()
	meta := log.MetaProperties{ClusterID: "c", NodeID: 1, DirectoryID: kafka.UUID{0: 9, 15: 255}}
	if err := log.FormatDir(fs, "/data", meta); err != nil {
		if _, statErr := fs.Stat("/data/meta.properties"); statErr != nil {
			t.Fatal(err)
		}
	}
	d, err := log.OpenDir(fs, "/data", meta)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// newRig makes a partition that node 1 leads, with the given replicas and in-sync set.
func newRig(t *testing.T, configure func(*log.Config), replicas, isr []kafka.NodeID) *rig {
	t.Helper()
	r := &rig{fs: vfs.NewMem(vfs.MemOptions{}), desk: &desk{}}
	r.dir = openDir(t, r.fs)
	c := log.DefaultConfig()
	if configure != nil {
		configure(&c)
	}
	l, err := r.dir.Create(orders, &c, log.CreateOptions{TopicID: topic}, t0)
	if err != nil {
		t.Fatal(err)
	}
	r.p = newPartition(1, orders, topic, l, 0, &Limits{})
	r.assign(&metadata.Partition{Replicas: replicas, ISR: isr, Leader: 1, LeaderEpoch: 3, PartitionEpoch: 5})
	return r
}

func (r *rig) assign(s *metadata.Partition) {
	s.Directories = make([]kafka.UUID, len(s.Replicas))
	r.desk.run(r.p.Assign(t0, Assignment{State: s}))
}

func batch(t testing.TB, values ...string) record.Batch {
	t.Helper()
	b := record.NewBuilder(record.Options{})
	for i, v := range values {
		b.Append(t0.UnixMilli()+int64(i), nil, []byte(v), nil)
	}
	out, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// outcome waits for one append.
type outcome struct {
	AppendWaiter
	done int
}

func (r *rig) append(t *testing.T, acks Acks, b record.Batch) (*outcome, error) {
	t.Helper()
	o := &outcome{}
	o.Done = func(*AppendWaiter) { o.done++ }
	e, err := r.p.Append(t0, AppendRequest{Batch: b, Acks: acks, LeaderEpoch: kafka.NoEpoch,
		Producer: log.ProducerCheck{Origin: log.FromClient}}, &o.AppendWaiter)
	r.desk.run(e)
	return o, err
}
