package metadata

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"moldau/internal/kafka"
)

var (
	idA = kafka.UUID{0: 1, 15: 1}
	idB = kafka.UUID{0: 2, 15: 1}
	dir = kafka.UUID{0: 9, 15: 1}
)

func ids(n ...kafka.NodeID) []kafka.NodeID { return append([]kafka.NodeID{}, n...) }

// base is an image to try records on: brokers 1 to 3, topic a with one partition, one of everything else.
func base(t testing.TB) *Image {
	t.Helper()
	i, _, err := (*Image)(nil).Apply([]Record{
		&FeatureLevelRecord{MetadataVersionFeature, 33},
		&RegisterBrokerRecord{BrokerID: 1, BrokerEpoch: 10, LogDirs: []kafka.UUID{dir}, Fenced: true},
		&RegisterBrokerRecord{BrokerID: 2, BrokerEpoch: 20},
		&RegisterBrokerRecord{BrokerID: 3, BrokerEpoch: 30},
		&RegisterControllerRecord{ControllerID: 100},
		&TopicRecord{"a", idA},
		&PartitionRecord{
			TopicID: idA, Replicas: ids(1, 2, 3), ISR: ids(1, 2), Leader: 1, LeaderEpoch: 5, PartitionEpoch: 7,
			EligibleLeaderReplicas: ids(3), LastKnownELR: ids(1), Directories: []kafka.UUID{dir, idB, idA},
		},
		&ConfigRecord{TopicResource, "a", "retention.ms", new("1")},
		&ConfigRecord{BrokerResource, "", "retention.ms", new("2")},
		&ProducerIDsRecord{1, 10, 1000},
		&AccessControlEntryRecord{ID: idA},
		&UserScramCredentialRecord{Name: "u", Mechanism: ScramSHA256},
	})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func mustApply(t testing.TB, i *Image, records ...Record) (*Image, *Diff) {
	t.Helper()
	next, diff, err := i.Apply(records)
	if err != nil {
		t.Fatal(err)
	}
	return next, diff
}

func TestDoesNotApply(t *testing.T) {
	change := func(f func(*PartitionChangeRecord)) Record {
		r := &PartitionChangeRecord{TopicID: idA}
		f(r)
		return r
	}
	tests := []struct {
		record Record
		want   string
	}{
		{&TopicRecord{"a", idB}, `topic "a" exists`},
		{&TopicRecord{"b", idA}, `is that of topic "a"`},
		{&RemoveTopicRecord{idB}, "no topic with id"},
		{&PartitionRecord{TopicID: idB}, "no topic with id"},
		{&PartitionRecord{TopicID: idA, LeaderRecoveryState: 2}, "recovery state 2"},
		{&PartitionRecord{TopicID: idA, Directories: []kafka.UUID{dir}}, "1 directories for 0 replicas"},
		{&PartitionRecord{TopicID: idA, Leader: -2}, "leader -2"},
		{&PartitionChangeRecord{TopicID: idB}, "no topic with id"},
		{&PartitionChangeRecord{TopicID: idA, PartitionID: 1}, "no partition 1"},
		{change(func(r *PartitionChangeRecord) { r.Leader = new(kafka.NodeID(-2)) }), "leader -2"},
		{change(func(r *PartitionChangeRecord) { r.LeaderRecoveryState = new(LeaderRecoveryState(3)) }), "state 3"},
		{change(func(r *PartitionChangeRecord) { r.Replicas, r.Directories = ids(1, 2), []kafka.UUID{dir} }),
			"1 directories for 2 replicas"},
		{&ClearElrRecord{"b"}, `no topic "b"`},
		{&RegisterBrokerRecord{BrokerID: 2, LogDirs: []kafka.UUID{dir}}, "belongs to broker 1"},
		{&RegisterBrokerRecord{Endpoints: []Endpoint{{SecurityProtocol: 4}}}, "security protocol 4"},
		{&RegisterControllerRecord{Endpoints: []Endpoint{{SecurityProtocol: -1}}}, "security protocol -1"},
		{&UnregisterBrokerRecord{4, 10}, "broker 4 is not registered"},
		{&UnregisterBrokerRecord{1, 11}, "has epoch 10, not 11"},
		{&FenceBrokerRecord{1, 9}, "has epoch 10, not 9"},
		{&UnfenceBrokerRecord{4, 1}, "broker 4 is not registered"},
		{&BrokerRegistrationChangeRecord{BrokerID: 1, BrokerEpoch: 11}, "has epoch 10, not 11"},
		{&BrokerRegistrationChangeRecord{BrokerID: 1, BrokerEpoch: 10, Fenced: 2}, "change of the fence: 2"},
		{&BrokerRegistrationChangeRecord{BrokerID: 2, BrokerEpoch: 20, LogDirs: []kafka.UUID{dir}}, "belongs to broker 1"},
		{&UnregisterControllerRecord{1}, "controller 1 is not registered"},
		{&FeatureLevelRecord{MetadataVersionFeature, 34}, "34 is outside 7 to 33"},
		{&FeatureLevelRecord{MetadataVersionFeature, 0}, "0 is outside 7 to 33"},
		{&FeatureLevelRecord{GroupVersionFeature, 2}, "2 is outside 0 to 1"},
		{&FeatureLevelRecord{"unheard.of", 1}, "unknown feature"},
		{&ProducerIDsRecord{1, 10, 1000}, "1000 is not above 1000"},
		{&AccessControlEntryRecord{ID: idA}, "exists"},
		{&RemoveAccessControlEntryRecord{idB}, "no access control entry"},
		{&RemoveUserScramCredentialRecord{"u", ScramSHA512}, "no credential"},
		{&EndTransactionRecord{}, "no transaction is open"},
		{&AbortTransactionRecord{}, "no transaction is open"},
	}
	i := base(t)
	before := snapshotLines(i)
	for _, test := range tests {
		next, diff, err := i.Apply([]Record{&NoOpRecord{}, test.record})
		e, ok := errors.AsType[*ApplyError](err)
		if !ok || e.Index != 1 || e.Record != test.record || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", Dump(test.record, test.record.Type().MaxVersion()), err, test.want)
		}
		if next != nil || diff != nil {
			t.Errorf("%v: an image came with the error", err)
		}
	}
	if d := cmp.Diff(before, snapshotLines(i)); d != "" {
		t.Errorf("errors changed the image:\n%s", d)
	}
}

func TestEpochArithmetic(t *testing.T) {
	tests := []struct {
		name           string
		record         Record
		partitionEpoch kafka.PartitionEpoch
		leaderEpoch    kafka.LeaderEpoch
	}{
		{"nothing set", &PartitionChangeRecord{TopicID: idA}, 8, 5},
		{"isr", &PartitionChangeRecord{TopicID: idA, ISR: ids(1)}, 8, 5},
		{"other leader", &PartitionChangeRecord{TopicID: idA, Leader: new(kafka.NodeID(2))}, 8, 6},
		{"same leader", &PartitionChangeRecord{TopicID: idA, Leader: new(kafka.NodeID(1))}, 8, 6},
		{"no leader", &PartitionChangeRecord{TopicID: idA, Leader: new(kafka.NoNode)}, 8, 6},
		{"elr of the topic", &ClearElrRecord{"a"}, 8, 5},
		{"elr of all", &ClearElrRecord{}, 8, 5},
	}
	for _, test := range tests {
		i, _ := mustApply(t, base(t), test.record)
		p, _ := i.Partition(kafka.TopicPartition{Topic: "a"})
		if p.PartitionEpoch != test.partitionEpoch || p.LeaderEpoch != test.leaderEpoch {
			t.Errorf("%s: partition epoch %d, leader epoch %d", test.name, p.PartitionEpoch, p.LeaderEpoch)
		}
	}
	i, _ := mustApply(t, base(t), &ClearElrRecord{}, &ClearElrRecord{"a"})
	p, _ := i.Partition(kafka.TopicPartition{Topic: "a"})
	if p.PartitionEpoch != 8 || p.ELR != nil || p.LastKnownELR != nil {
		t.Errorf("cleared twice: %+v", p)
	}
}

func TestPartitionDirectories(t *testing.T) {
	i, _ := mustApply(t, base(t), &PartitionChangeRecord{TopicID: idA, Replicas: ids(3, 4)})
	p, _ := i.Partition(kafka.TopicPartition{Topic: "a"})
	if want := []kafka.UUID{idA, kafka.DirectoryMigrating}; !slices.Equal(p.Directories, want) {
		t.Errorf("replicas changed without directories: %v, want %v", p.Directories, want)
	}
	if p.Directory(3) != idA || p.Directory(9) != kafka.DirectoryMigrating {
		t.Errorf("directory of 3 %v, of 9 %v", p.Directory(3), p.Directory(9))
	}
	b := &Broker{LogDirs: []kafka.UUID{dir}}
	for _, test := range []struct {
		b      *Broker
		dir    kafka.UUID
		online bool
	}{
		{b, dir, true}, {b, idB, false}, {b, kafka.DirectoryLost, false}, {b, kafka.DirectoryMigrating, true},
		{b, kafka.DirectoryUnassigned, true}, {&Broker{}, idB, true}, {&Broker{}, kafka.DirectoryLost, false},
	} {
		if got := test.b.DirectoryOnline(test.dir); got != test.online {
			t.Errorf("directory %v with %v registered: online %v", test.dir, test.b.LogDirs, got)
		}
	}
}

func TestTransactions(t *testing.T) {
	begin, end := &BeginTransactionRecord{new("x")}, &EndTransactionRecord{}
	topic := &TopicRecord{"b", idB}
	start := base(t).WithPosition(7, 1, 99)

	open, diff := mustApply(t, start, &ConfigRecord{TopicResource, "a", "k", new("v")}, begin, topic)
	if _, ok := open.Topic("b"); ok || len(slices.Collect(diff.Topics())) != 0 {
		t.Error("the transaction shows before its end")
	}
	if v, _ := open.Config(TopicResource, "a").Get("k"); v != "v" {
		t.Error("what came before the transaction does not show")
	}
	if name, ok := open.Transaction(); name != "x" || !ok {
		t.Errorf("transaction %q open: %v", name, ok)
	}
	if _, _, err := open.Apply([]Record{begin}); err == nil {
		t.Error("a second transaction began")
	}

	open = open.WithPosition(8, 2, 100)
	done, diff := mustApply(t, open, &RemoveTopicRecord{idA}, end, &ConfigRecord{TopicResource, "b", "k", new("v")})
	if _, ok := done.Topic("b"); !ok || done.TopicCount() != 1 {
		t.Error("the transaction does not show after its end")
	}
	if n := len(slices.Collect(diff.Topics())); n != 2 {
		t.Errorf("%d topics in the diff of the end, want 2", n)
	}
	if done.Offset() != 8 || done.Epoch() != 2 || done.TimestampMs() != 100 {
		t.Errorf("position %d %d %d went back to where the transaction began", done.Offset(), done.Epoch(),
			done.TimestampMs())
	}

	back, diff := mustApply(t, open, &AbortTransactionRecord{}, &NoOpRecord{})
	if d := cmp.Diff(snapshotLines(open), snapshotLines(back)); d != "" || !diff.Empty() {
		t.Errorf("after the abort, diff empty %v:\n%s", diff.Empty(), d)
	}
	if _, ok := back.Transaction(); ok {
		t.Error("the transaction is open after its abort")
	}
}

// TestTransactionIsolation: what a transaction changes in one call with its beginning must not reach what the call
// changed before, nor must the visible image reach what was set aside.
func TestTransactionIsolation(t *testing.T) {
	set := func(v string) Record { return &ConfigRecord{TopicResource, "a", "k", &v} }
	isr := func(n kafka.NodeID) Record { return &PartitionChangeRecord{TopicID: idA, ISR: ids(n)} }
	begin, end, abort := &BeginTransactionRecord{}, &EndTransactionRecord{}, &AbortTransactionRecord{}
	open, _ := mustApply(t, base(t), set("1"), isr(1), begin, set("2"), isr(2))
	for _, test := range []struct {
		name  string
		i     *Image
		value string
		isr   kafka.NodeID
	}{
		{"open", open, "1", 1},
		{"aborted", first(mustApply(t, base(t), set("1"), isr(1), begin, set("2"), isr(2), abort)), "1", 1},
		{"aborted later", first(mustApply(t, open, set("3"), isr(3), abort)), "1", 1},
		{"ended later", first(mustApply(t, open, set("3"), isr(3), end)), "3", 3},
		{"ended", first(mustApply(t, open, end)), "2", 2},
		{"ended and changed", first(mustApply(t, open, end, begin, set("4"), isr(4), abort, isr(5))), "2", 5},
		{"still open", open, "1", 1},
	} {
		value, _ := test.i.Config(TopicResource, "a").Get("k")
		p, _ := test.i.Partition(kafka.TopicPartition{Topic: "a"})
		if value != test.value || !slices.Equal(p.ISR, ids(test.isr)) {
			t.Errorf("%s: config %s, isr %v, want %s and %d", test.name, value, p.ISR, test.value, test.isr)
		}
	}
}

func first(i *Image, _ *Diff) *Image { return i }

// TestDiffOfReplacedTopic: a topic that went and came again under its id has other partitions, whether the diff is
// that of one call or merged.
func TestDiffOfReplacedTopic(t *testing.T) {
	again := []Record{
		&TopicRecord{"a", idA}, &PartitionRecord{TopicID: idA, PartitionID: 0, Leader: 2},
		&PartitionRecord{TopicID: idA, PartitionID: 1, Leader: 3},
	}
	gone, d1 := mustApply(t, base(t), &RemoveTopicRecord{idA})
	_, d2 := mustApply(t, gone, again...)
	_, whole := mustApply(t, base(t), append([]Record{&RemoveTopicRecord{idA}}, again...)...)
	for name, diff := range map[string]*Diff{"merged": d1.Merge(d2), "one call": whole, "added": new(Diff).Merge(whole)} {
		var leaders []kafka.NodeID
		for c := range diff.Partitions() {
			if c.Old != nil {
				leaders = append(leaders, c.Old.Leader)
			}
			leaders = append(leaders, c.New.Leader)
		}
		if !slices.Equal(leaders, ids(1, 2, 3)) {
			t.Errorf("%s: leaders old and new %v", name, leaders)
		}
	}
}

func TestClearElrOfSeveralPartitions(t *testing.T) {
	var records []Record
	for n := range int32(3) {
		records = append(records, &PartitionRecord{TopicID: idA, PartitionID: n, EligibleLeaderReplicas: ids(1)})
	}
	i, _ := mustApply(t, base(t), records...)
	i, diff := mustApply(t, i, &ClearElrRecord{})
	a, _ := i.Topic("a")
	for n, p := range a.Partitions() {
		if p.ELR != nil {
			t.Errorf("partition %d: %+v", n, p)
		}
	}
	if n := len(slices.Collect(diff.Partitions())); n != 3 {
		t.Errorf("%d partitions in the diff", n)
	}
}

func TestRemovedTopicTakesItsConfigs(t *testing.T) {
	i, diff := mustApply(t, base(t), &RemoveTopicRecord{idA})
	if i.Config(TopicResource, "a").Len() != 0 || i.PlacedCount(1) != 0 || i.PartitionCount() != 0 {
		t.Errorf("%d configs, %d partitions left", i.Config(TopicResource, "a").Len(), i.PartitionCount())
	}
	var got []string
	for c := range diff.Configs() {
		got = append(got, c.Resource.Name+" "+c.Key+" "+*c.Old)
	}
	if !slices.Equal(got, []string{"a retention.ms 1"}) {
		t.Errorf("configs in the diff: %v", got)
	}
}

// TestDiffOrder: a topic that is deleted and created again under its name has two ids; the old one must go first.
func TestDiffOrder(t *testing.T) {
	for _, id := range []kafka.UUID{{0: 0, 15: 1}, {0: 5, 15: 1}} {
		_, diff := mustApply(t, base(t), &RemoveTopicRecord{idA}, &TopicRecord{"a", id},
			&PartitionRecord{TopicID: id, Replicas: ids(1)}, &TopicRecord{"0", idB})
		var got []string
		for c := range diff.Partitions() {
			kind := "+"
			if c.New == nil {
				kind = "-"
			}
			got = append(got, kind+c.Topic.Name)
		}
		if !slices.Equal(got, []string{"-a", "+a"}) {
			t.Errorf("%v", got)
		}
		var names []string
		for c := range diff.Topics() {
			names = append(names, c.Name())
		}
		if !slices.Equal(names, []string{"0", "a", "a"}) {
			t.Errorf("%v", names)
		}
	}
}

func TestDiffLeavesOutWhatCameBack(t *testing.T) {
	i := base(t)
	set := func(v *string) Record { return &ConfigRecord{TopicResource, "a", "retention.ms", v} }
	a, d1 := mustApply(t, i, set(new("9")), &TopicRecord{"b", idB}, &FeatureLevelRecord{GroupVersionFeature, 1})
	_, d2 := mustApply(t, a, set(new("1")), &RemoveTopicRecord{idB}, &FeatureLevelRecord{GroupVersionFeature, 0})
	sum := d1.Merge(d2)
	for c := range sum.Configs() {
		t.Errorf("config %v", c)
	}
	for c := range sum.Topics() {
		t.Errorf("topic %v", c)
	}
	for c := range sum.Features() {
		t.Errorf("feature %v", c)
	}
	if len(slices.Collect(d1.Configs())) != 1 || len(slices.Collect(d1.Topics())) != 1 {
		t.Error("Merge changed what it merged")
	}
}

// TestNil: nil images and diffs are empty ones, for every method that reads.
func TestNil(t *testing.T) {
	var i *Image
	if i.TopicCount()+i.PartitionCount()+i.BrokerCount()+i.LeaderlessCount()+i.PlacedCount(1) != 0 ||
		i.Offset() != kafka.NoOffset || i.Epoch() != kafka.NoEpoch || i.TimestampMs() != -1 ||
		i.NextProducerID() != 0 || i.MetadataVersion() != 0 || i.Config(TopicResource, "a").Len() != 0 {
		t.Error("a nil image has content")
	}
	for range i.Topics() {
		t.Error("topic")
	}
	for range i.PartitionsOn(1) {
		t.Error("partition")
	}
	for range i.Leaderless() {
		t.Error("leaderless")
	}
	for range i.Records(33) {
		t.Error("record")
	}
	if _, ok := i.Broker(1); ok {
		t.Error("broker")
	}
	if _, open := i.Transaction(); open {
		t.Error("transaction")
	}
	if got := i.WithPosition(5, 1, 2); got.Offset() != 5 {
		t.Error("position")
	}
	var d *Diff
	if !d.Empty() || !d.Merge(nil).Empty() {
		t.Error("a nil diff has content")
	}
	_, one := mustApply(t, nil, &TopicRecord{"a", idA})
	if d.Merge(one).Empty() || one.Merge(nil).Empty() {
		t.Error("merging with nil loses changes")
	}
}

// TestConcurrentUse: images are read and applied to by several goroutines at once. It is for the race detector.
func TestConcurrentUse(t *testing.T) {
	i := base(t)
	var all sync.WaitGroup
	start := make(chan struct{})
	for n := range 4 {
		all.Go(func() {
			<-start
			mine := i
			for k := range 50 {
				mine, _ = mustApply(t, mine, &PartitionChangeRecord{TopicID: idA, ISR: ids(kafka.NodeID(n))},
					&ConfigRecord{TopicResource, "a", "k", new(string(rune('a' + k%26)))})
				for r := range i.Records(33) {
					_ = Encode(nil, r, VersionFor(r, 33))
				}
			}
			if p, _ := mine.Partition(kafka.TopicPartition{Topic: "a"}); p.PartitionEpoch != 57 || p.ISR[0] != kafka.NodeID(n) {
				t.Errorf("%+v", p)
			}
		})
	}
	close(start)
	all.Wait()
}

func TestSnapshotAtOlderVersions(t *testing.T) {
	i, _ := mustApply(t, base(t), &DelegationTokenRecord{TokenID: "t"})
	types := func(mv int16) (got []RecordType) {
		for r := range i.Records(mv) {
			got = append(got, r.Type())
		}
		return got
	}
	for _, test := range []struct {
		typ RecordType
		mv  int16
	}{{TypeRegisterController, 15}, {TypeUserScramCredential, 11}, {TypeDelegationToken, 14}} {
		if slices.Contains(types(test.mv-1), test.typ) || !slices.Contains(types(test.mv), test.typ) {
			t.Errorf("%s must be in a snapshot from metadata.version %d on", test.typ, test.mv)
		}
	}
}
