package metadata

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"moldau/internal/kafka"
)

// model is the meaning of records written a second time, as plainly as possible: maps of snapshot records, copied
// whole for every step.
type model struct {
	topics      map[kafka.UUID]TopicRecord
	partitions  map[partitionID]PartitionRecord
	brokers     map[kafka.NodeID]RegisterBrokerRecord
	controllers map[kafka.NodeID]RegisterControllerRecord
	features    map[string]int16
	configs     map[configKey]string
	quotas      map[[2]string]ClientQuotaRecord
	acls        map[kafka.UUID]AccessControlEntryRecord
	scram       map[string]UserScramCredentialRecord
	tokens      map[string]DelegationTokenRecord
	producerIDs kafka.ProducerID
	before      *model // what an open transaction goes back to
}

type partitionID struct {
	topic kafka.UUID
	index int32
}

func newModel() *model {
	return &model{
		topics: map[kafka.UUID]TopicRecord{}, partitions: map[partitionID]PartitionRecord{},
		brokers:     map[kafka.NodeID]RegisterBrokerRecord{},
		controllers: map[kafka.NodeID]RegisterControllerRecord{},
		features:    map[string]int16{}, configs: map[configKey]string{}, quotas: map[[2]string]ClientQuotaRecord{},
		acls:  map[kafka.UUID]AccessControlEntryRecord{},
		scram: map[string]UserScramCredentialRecord{}, tokens: map[string]DelegationTokenRecord{},
	}
}

func (m *model) clone() *model {
	c := *m
	c.topics, c.partitions, c.brokers = maps.Clone(m.topics), maps.Clone(m.partitions), maps.Clone(m.brokers)
	c.controllers, c.features, c.configs = maps.Clone(m.controllers), maps.Clone(m.features), maps.Clone(m.configs)
	c.quotas, c.acls, c.scram = maps.Clone(m.quotas), maps.Clone(m.acls), maps.Clone(m.scram)
	c.tokens = maps.Clone(m.tokens)
	return &c
}

// apply changes the model, or says that the record does not apply.
func (m *model) apply(r Record) bool {
	switch r := r.(type) {
	case *TopicRecord:
		for _, t := range m.topics {
			if t.Name == r.Name || t.TopicID == r.TopicID {
				return false
			}
		}
		m.topics[r.TopicID] = *r
	case *RemoveTopicRecord:
		t, ok := m.topics[r.TopicID]
		if !ok {
			return false
		}
		delete(m.topics, r.TopicID)
		maps.DeleteFunc(m.partitions, func(id partitionID, _ PartitionRecord) bool { return id.topic == r.TopicID })
		gone := ConfigResource{TopicResource, t.Name}
		maps.DeleteFunc(m.configs, func(k configKey, _ string) bool { return k.resource == gone })
	case *PartitionRecord:
		return m.setPartition(*r)
	case *PartitionChangeRecord:
		return m.changePartition(r)
	case *ClearElrRecord:
		return m.clearElr(r.TopicName)
	case *RegisterBrokerRecord, *UnregisterBrokerRecord, *BrokerRegistrationChangeRecord, *FenceBrokerRecord,
		*UnfenceBrokerRecord:
		return m.applyBroker(r)
	case *BeginTransactionRecord:
		if m.before != nil {
			return false
		}
		m.before = m.clone()
	case *EndTransactionRecord:
		if m.before == nil {
			return false
		}
		m.before = nil
	case *AbortTransactionRecord:
		if m.before == nil {
			return false
		}
		*m = *m.before
	default:
		return m.applyRest(r)
	}
	return true
}

func (m *model) setPartition(p PartitionRecord) bool {
	if _, ok := m.topics[p.TopicID]; !ok {
		return false
	}
	if len(p.Directories) == 0 {
		p.Directories = make([]kafka.UUID, len(p.Replicas))
	}
	if len(p.Directories) != len(p.Replicas) || p.LeaderRecoveryState < 0 || p.LeaderRecoveryState > 1 || p.Leader < -1 {
		return false
	}
	m.partitions[partitionID{p.TopicID, p.PartitionID}] = p
	return true
}

func (m *model) changePartition(r *PartitionChangeRecord) bool {
	p, ok := m.partitions[partitionID{r.TopicID, r.PartitionID}]
	if !ok {
		return false
	}
	p.PartitionEpoch++
	if r.ISR != nil {
		p.ISR = r.ISR
	}
	if r.Leader != nil {
		p.Leader = *r.Leader
		p.LeaderEpoch++
	}
	if r.Replicas != nil {
		if r.Directories == nil {
			dirs := make([]kafka.UUID, len(r.Replicas))
			for i, id := range r.Replicas {
				if at := slices.Index(p.Replicas, id); at >= 0 {
					dirs[i] = p.Directories[at]
				}
			}
			p.Directories = dirs
		}
		p.Replicas = r.Replicas
	}
	if r.Directories != nil {
		p.Directories = r.Directories
	}
	if r.RemovingReplicas != nil {
		p.RemovingReplicas = r.RemovingReplicas
	}
	if r.AddingReplicas != nil {
		p.AddingReplicas = r.AddingReplicas
	}
	if r.LeaderRecoveryState != nil {
		p.LeaderRecoveryState = *r.LeaderRecoveryState
	}
	if r.EligibleLeaderReplicas != nil {
		p.EligibleLeaderReplicas = r.EligibleLeaderReplicas
	}
	if r.LastKnownELR != nil {
		p.LastKnownELR = r.LastKnownELR
	}
	return m.setPartition(p)
}

func (m *model) clearElr(topic string) bool {
	found := topic == ""
	for _, t := range m.topics {
		if topic != "" && t.Name != topic {
			continue
		}
		found = true
		for id, p := range m.partitions {
			if id.topic == t.TopicID && len(p.EligibleLeaderReplicas)+len(p.LastKnownELR) > 0 {
				p.EligibleLeaderReplicas, p.LastKnownELR = nil, nil
				p.PartitionEpoch++
				m.partitions[id] = p
			}
		}
	}
	return found
}

func (m *model) applyBroker(r Record) bool {
	var b RegisterBrokerRecord
	known := func(id kafka.NodeID, epoch kafka.BrokerEpoch) bool {
		found, ok := m.brokers[id]
		b = found
		return ok && b.BrokerEpoch == epoch
	}
	switch r := r.(type) {
	case *RegisterBrokerRecord:
		b = *r
	case *UnregisterBrokerRecord:
		ok := known(r.BrokerID, r.BrokerEpoch)
		if ok {
			delete(m.brokers, r.BrokerID)
		}
		return ok
	case *FenceBrokerRecord:
		if !known(r.ID, r.Epoch) {
			return false
		}
		b.Fenced = true
	case *UnfenceBrokerRecord:
		if !known(r.ID, r.Epoch) {
			return false
		}
		b.Fenced = false
	case *BrokerRegistrationChangeRecord:
		if !known(r.BrokerID, r.BrokerEpoch) || r.Fenced < -1 || r.Fenced > 1 {
			return false
		}
		if r.Fenced != 0 {
			b.Fenced = r.Fenced == 1
		}
		b.InControlledShutdown = b.InControlledShutdown || r.InControlledShutdown
		if len(r.LogDirs) > 0 {
			b.LogDirs = r.LogDirs
		}
		if r.CordonedLogDirs != nil {
			b.CordonedLogDirs = r.CordonedLogDirs
		}
	}
	for _, other := range m.brokers {
		for _, dir := range b.LogDirs {
			if other.BrokerID != b.BrokerID && slices.Contains(other.LogDirs, dir) {
				return false
			}
		}
	}
	m.brokers[b.BrokerID] = b
	return true
}

func (m *model) applyRest(r Record) bool {
	switch r := r.(type) {
	case *ConfigRecord:
		k := configKey{ConfigResource{r.ResourceType, r.ResourceName}, r.Name}
		if r.Value == nil {
			delete(m.configs, k)
		} else {
			m.configs[k] = *r.Value
		}
	case *FeatureLevelRecord:
		f, ok := LookupFeature(r.Name)
		if r.Name == KRaftVersionFeature {
			return true
		}
		if !ok || r.Level < f.Min || r.Level > f.Max {
			return !ok && r.Level == 0
		}
		m.features[r.Name] = r.Level
		if r.Level == 0 {
			delete(m.features, r.Name)
		}
	case *ProducerIDsRecord:
		if r.NextProducerID <= m.producerIDs {
			return false
		}
		m.producerIDs = r.NextProducerID
	case *RegisterControllerRecord:
		m.controllers[r.ControllerID] = *r
	case *UnregisterControllerRecord:
		_, ok := m.controllers[r.ControllerID]
		delete(m.controllers, r.ControllerID)
		return ok
	case *ClientQuotaRecord:
		k := [2]string{fmt.Sprint(len(r.Entity), *r.Entity[0].Name), r.Key}
		m.quotas[k] = *r
		if r.Remove {
			delete(m.quotas, k)
		}
	case *AccessControlEntryRecord:
		if _, ok := m.acls[r.ID]; ok {
			return false
		}
		m.acls[r.ID] = *r
	case *RemoveAccessControlEntryRecord:
		_, ok := m.acls[r.ID]
		delete(m.acls, r.ID)
		return ok
	case *UserScramCredentialRecord:
		m.scram[fmt.Sprint(r.Name, r.Mechanism)] = *r
	case *RemoveUserScramCredentialRecord:
		k := fmt.Sprint(r.Name, r.Mechanism)
		_, ok := m.scram[k]
		delete(m.scram, k)
		return ok
	case *DelegationTokenRecord:
		m.tokens[r.TokenID] = *r
	case *RemoveDelegationTokenRecord:
		delete(m.tokens, r.TokenID)
	}
	return true
}

// lines is the visible state as dumped snapshot records, sorted.
func (m *model) lines() (lines []string) {
	if m.before != nil {
		return m.before.lines()
	}
	add := func(r Record) { lines = append(lines, Dump(r, r.Type().MaxVersion())) }
	for _, r := range m.topics {
		add(&r)
	}
	for _, r := range m.partitions {
		for _, list := range []*[]kafka.NodeID{&r.EligibleLeaderReplicas, &r.LastKnownELR} {
			if len(*list) == 0 {
				*list = nil
			}
		}
		add(&r)
	}
	for _, r := range m.brokers {
		add(&r)
	}
	for _, r := range m.controllers {
		add(&r)
	}
	for name, level := range m.features {
		add(&FeatureLevelRecord{name, level})
	}
	for k, value := range m.configs {
		add(&ConfigRecord{k.resource.Type, k.resource.Name, k.key, &value})
	}
	for _, r := range m.quotas {
		add(&r)
	}
	for _, r := range m.acls {
		add(&r)
	}
	for _, r := range m.scram {
		add(&r)
	}
	for _, r := range m.tokens {
		add(&r)
	}
	if m.producerIDs != 0 {
		add(&ProducerIDsRecord{-1, -1, m.producerIDs})
	}
	slices.Sort(lines)
	return lines
}

// The generators draw from few names, so that records meet each other.

func drawUUID(t *rapid.T, n byte) kafka.UUID {
	return kafka.UUID{0: rapid.ByteRange(0, n).Draw(t, "uuid"), 8: 1}
}

func drawNode(t *rapid.T) kafka.NodeID { return kafka.NodeID(rapid.Int32Range(1, 4).Draw(t, "node")) }

func drawNodes(t *rapid.T) []kafka.NodeID {
	return rapid.Permutation([]kafka.NodeID{1, 2, 3, 4}).Draw(t, "nodes")[:rapid.IntRange(0, 3).Draw(t, "n")]
}

func maybe[T any](t *rapid.T, draw func(*rapid.T) T) (value T) {
	if rapid.Bool().Draw(t, "set") {
		value = draw(t)
	}
	return value
}

func drawText(t *rapid.T) string { return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "text") }

func drawDirs(t *rapid.T, n int) []kafka.UUID {
	dirs := make([]kafka.UUID, n)
	for i := range dirs {
		dirs[i] = drawUUID(t, 20)
	}
	return dirs
}

func drawRecord(t *rapid.T) Record {
	kind := rapid.IntRange(0, 37).Draw(t, "kind")
	switch {
	case kind < 3:
		return &TopicRecord{drawText(t), drawUUID(t, 2)}
	case kind < 8:
		r := &PartitionRecord{
			PartitionID: rapid.Int32Range(0, 2).Draw(t, "partition"), TopicID: drawUUID(t, 2), Replicas: drawNodes(t),
			ISR: drawNodes(t), AddingReplicas: drawNodes(t), RemovingReplicas: drawNodes(t),
			EligibleLeaderReplicas: maybe(t, drawNodes), LastKnownELR: maybe(t, drawNodes),
			Leader:              kafka.NodeID(rapid.Int32Range(-2, 4).Draw(t, "leader")),
			LeaderRecoveryState: LeaderRecoveryState(rapid.Int8Range(0, 2).Draw(t, "recovery")),
		}
		r.Directories = drawDirs(t, rapid.SampledFrom([]int{len(r.Replicas), len(r.Replicas), 0, 2}).Draw(t, "dirs"))
		return r
	case kind < 14:
		r := &PartitionChangeRecord{
			PartitionID: rapid.Int32Range(0, 2).Draw(t, "partition"), TopicID: drawUUID(t, 2), ISR: maybe(t, drawNodes),
			Replicas: maybe(t, drawNodes), AddingReplicas: maybe(t, drawNodes), RemovingReplicas: maybe(t, drawNodes),
			EligibleLeaderReplicas: maybe(t, drawNodes), LastKnownELR: maybe(t, drawNodes),
		}
		if rapid.Bool().Draw(t, "leads") {
			r.Leader = new(kafka.NodeID(rapid.Int32Range(-1, 4).Draw(t, "leader")))
		}
		if rapid.Bool().Draw(t, "recovers") {
			r.LeaderRecoveryState = new(LeaderRecoveryState(rapid.Int8Range(0, 2).Draw(t, "recovery")))
		}
		if n := len(r.Replicas); n > 0 && rapid.Bool().Draw(t, "moves") {
			r.Directories = drawDirs(t, rapid.SampledFrom([]int{n, n, n + 1}).Draw(t, "dirs"))
		}
		return r
	case kind < 16:
		return &RemoveTopicRecord{drawUUID(t, 2)}
	case kind < 18:
		return &ClearElrRecord{rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "topic")}
	case kind < 24:
		return drawNodeRecord(t)
	case kind < 26:
		return &ConfigRecord{
			rapid.SampledFrom([]ResourceType{TopicResource, BrokerResource, GroupResource}).Draw(t, "type"),
			drawText(t), drawText(t), maybe(t, func(t *rapid.T) *string { return new(drawText(t)) }),
		}
	case kind < 31:
		return rapid.SampledFrom([]Record{
			&BeginTransactionRecord{}, &BeginTransactionRecord{new("x")}, &EndTransactionRecord{},
			&AbortTransactionRecord{}, &AbortTransactionRecord{new("y")}, &NoOpRecord{},
		}).Draw(t, "transaction")
	}
	return drawSecurityRecord(t)
}

func drawNodeRecord(t *rapid.T) Record {
	id, epoch := drawNode(t), kafka.BrokerEpoch(rapid.Int64Range(1, 2).Draw(t, "epoch"))
	switch rapid.IntRange(0, 8).Draw(t, "kind") {
	case 0, 1, 2:
		return &RegisterBrokerRecord{
			BrokerID: id, BrokerEpoch: epoch, LogDirs: drawDirs(t, 1), Fenced: rapid.Bool().Draw(t, "fenced"),
			Features: []FeatureRange{{"a", 0, 1}, {"b", 1, 2}}, Endpoints: []Endpoint{{"X", "h", 1, Plaintext}},
		}
	case 3:
		return &UnregisterBrokerRecord{id, epoch}
	case 4, 5:
		return &BrokerRegistrationChangeRecord{
			BrokerID: id, BrokerEpoch: epoch, Fenced: FenceChange(rapid.Int8Range(-1, 2).Draw(t, "fence")),
			InControlledShutdown: rapid.Bool().Draw(t, "shutdown"),
			LogDirs:              maybe(t, func(t *rapid.T) []kafka.UUID { return drawDirs(t, 1) }),
			CordonedLogDirs:      maybe(t, func(t *rapid.T) []kafka.UUID { return drawDirs(t, 0) }),
		}
	case 6:
		return rapid.SampledFrom([]Record{&FenceBrokerRecord{id, epoch}, &UnfenceBrokerRecord{id, epoch}}).Draw(t, "r")
	case 7:
		return &RegisterControllerRecord{ControllerID: id, IncarnationID: drawUUID(t, 1)}
	}
	return &UnregisterControllerRecord{id}
}

func drawSecurityRecord(t *rapid.T) Record {
	mechanism := ScramMechanism(rapid.Int8Range(1, 2).Draw(t, "mechanism"))
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		return &FeatureLevelRecord{
			rapid.SampledFrom([]string{MetadataVersionFeature, GroupVersionFeature, KRaftVersionFeature, "x"}).
				Draw(t, "feature"),
			rapid.Int16Range(0, 8).Draw(t, "level"),
		}
	case 1:
		return &ProducerIDsRecord{1, 1, kafka.ProducerID(rapid.Int64Range(0, 9).Draw(t, "next"))}
	case 2, 3:
		entity := []QuotaEntityPart{{"client-id", new(drawText(t))}, {"user", nil}}
		return &ClientQuotaRecord{
			entity[:rapid.IntRange(1, 2).Draw(t, "parts")], drawText(t), 1.5, rapid.Bool().Draw(t, "remove"),
		}
	case 4:
		return &AccessControlEntryRecord{ID: drawUUID(t, 5), Host: drawText(t)}
	case 5:
		return &RemoveAccessControlEntryRecord{drawUUID(t, 5)}
	case 6:
		return &UserScramCredentialRecord{Name: drawText(t), Mechanism: mechanism, Iterations: 5}
	case 7:
		return &RemoveUserScramCredentialRecord{drawText(t), mechanism}
	case 8:
		return &DelegationTokenRecord{TokenID: drawText(t), Owner: drawText(t)}
	}
	return &RemoveDelegationTokenRecord{drawText(t)}
}

// TestModel applies random histories to images and to the model. After each call the visible states must be equal, the
// indexes right and the diffs complete; at the end every image of the history must still be what it was.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		image, m := New(), newModel()
		type version struct {
			image *Image
			lines []string
		}
		history := []version{{image, snapshotLines(image)}}
		start, merged := image, (*Diff)(nil)
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			var records []Record
			want := m.clone()
			for range rapid.IntRange(1, 6).Draw(t, "records") {
				r := drawRecord(t)
				next := want.clone()
				if !next.apply(r) {
					_, _, err := image.Apply(append(slices.Clone(records), r))
					if e, ok := errors.AsType[*ApplyError](err); !ok || e.Index != len(records) {
						t.Fatalf("%s must not apply: %v", Dump(r, r.Type().MaxVersion()), err)
					}
					continue
				}
				records, want = append(records, r), next
			}
			next, diff, err := image.Apply(records)
			if err != nil {
				t.Fatal(err)
			}
			earlier := merged
			merged = merged.Merge(diff)
			checkDiff(t, start, image, earlier)
			checkDiff(t, image, next, diff)
			checkCompare(t, image, next)
			image, m = next, want
			lines := snapshotLines(image)
			history = append(history, version{image, lines})
			if d := cmp.Diff(m.lines(), sortedLines(image)); d != "" {
				t.Fatalf("image against model:\n%s", d)
			}
			if _, open := image.Transaction(); open != (m.before != nil) {
				t.Fatalf("transaction open: %v", open)
			}
			checkIndexes(t, image)
			if rapid.IntRange(0, 4).Draw(t, "subscriber") == 0 {
				checkDiff(t, start, image, merged)
				start, merged = image, nil
			}
		}
		checkDiff(t, start, image, merged)
		other := history[rapid.IntRange(0, len(history)-1).Draw(t, "other")].image
		checkCompare(t, other, image)
		checkCompare(t, image, other)
		checkSnapshot(t, image)
		for i, v := range history {
			if d := cmp.Diff(v.lines, snapshotLines(v.image)); d != "" {
				t.Fatalf("image %d of %d has changed:\n%s", i, len(history), d)
			}
		}
	})
}

func sortedLines(i *Image) (lines []string) {
	for r := range i.Records(LatestMetadataVersion) {
		lines = append(lines, Dump(r, r.Type().MaxVersion()))
	}
	slices.Sort(lines)
	return lines
}

// checkSnapshot replays a snapshot, through the codec.
func checkSnapshot(t *rapid.T, i *Image) {
	var records []Record
	for r := range i.Records(LatestMetadataVersion) {
		decoded, err := Decode(Encode(nil, r, VersionFor(r, LatestMetadataVersion)))
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, decoded)
	}
	replayed, _, err := (*Image)(nil).Apply(records)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(snapshotLines(i), snapshotLines(replayed)); d != "" {
		t.Fatalf("snapshot replayed:\n%s", d)
	}
	checkIndexes(t, replayed)
	checkDiff(t, nil, replayed, mustDiff(records))
	if d := Compare(i, replayed); !d.Empty() {
		t.Fatalf("an image against its own snapshot: %+v", diffEntries(d))
	}
}

// checkCompare compares two images whole: what the diff says is what differs, and nothing else.
func checkCompare(t *rapid.T, before, after *Image) {
	d := Compare(before, after)
	checkDiff(t, before, after, d)
	for k, e := range diffEntries(d) {
		if reflect.DeepEqual(e[0], e[1]) && !strings.HasPrefix(k, "topic ") {
			t.Fatalf("%q is in the diff and the same: %+v", k, e[0])
		}
	}
}

func mustDiff(records []Record) *Diff {
	_, d, _ := (*Image)(nil).Apply(records)
	return d
}

// checkIndexes compares what indexes say with a look at everything.
func checkIndexes(t *rapid.T, i *Image) {
	var all []PartitionRef
	topics := 0
	for topic := range i.TopicsByID() {
		topics++
		if named, ok := i.Topic(topic.Name); !ok || named != topic {
			t.Fatalf("topic %s by name: %v", topic.Name, named)
		}
		for index, p := range topic.Partitions() {
			all = append(all, PartitionRef{topic, index, p})
		}
	}
	if topics != i.TopicCount() || len(all) != i.PartitionCount() || topics != len(slices.Collect(i.Topics())) {
		t.Fatalf("%d topics, %d partitions, counted %d and %d", topics, len(all), i.TopicCount(), i.PartitionCount())
	}
	check := func(what string, got []PartitionRef, want func(*Partition) bool) {
		var refs []PartitionRef
		for _, ref := range all {
			if want(ref.Partition) {
				refs = append(refs, ref)
			}
		}
		if !slices.Equal(got, refs) {
			t.Fatalf("%s: %v, want %v", what, got, refs)
		}
	}
	for id := kafka.NodeID(1); id <= 5; id++ {
		check("on", slices.Collect(i.PartitionsOn(id)),
			func(p *Partition) bool {
				named := slices.Concat(p.Replicas, p.ISR, p.ELR, p.LastKnownELR)
				return p.Leader == id || slices.Contains(named, id)
			})
		check("replicas", slices.Collect(i.ReplicasOn(id)),
			func(p *Partition) bool { return slices.Contains(p.Replicas, id) })
		check("isr", slices.Collect(i.InISR(id)), func(p *Partition) bool { return slices.Contains(p.ISR, id) })
		check("elr", slices.Collect(i.InELR(id)), func(p *Partition) bool { return slices.Contains(p.ELR, id) })
		check("led", slices.Collect(i.LedBy(id)), func(p *Partition) bool { return p.Leader == id })
		if n := len(slices.Collect(i.PartitionsOn(id))); n != i.PlacedCount(id) {
			t.Fatalf("%d partitions on %d, counted %d", n, id, i.PlacedCount(id))
		}
	}
	check("leaderless", slices.Collect(i.LedBy(kafka.NoNode)), func(p *Partition) bool { return p.Leader == -1 })
	if n := len(slices.Collect(i.Leaderless())); n != i.LeaderlessCount() {
		t.Fatalf("%d leaderless, counted %d", n, i.LeaderlessCount())
	}
	owners := 0
	for b := range i.Brokers() {
		owners += len(b.LogDirs)
		for _, dir := range b.LogDirs {
			if owner, ok := i.DirectoryOwner(dir); !ok || owner != b.ID {
				t.Fatalf("directory %s of %d belongs to %d", dir, b.ID, owner)
			}
		}
	}
	if owners != i.directories.len() {
		t.Fatalf("%d directories, %d owners", owners, i.directories.len())
	}
}

// checkDiff compares a diff with the images before and after it: whatever differs must be in it, with the right old
// and new; what is in it and does not differ was touched, and must still be right.
func checkDiff(t *rapid.T, before, after *Image, d *Diff) {
	collect := func(i *Image) map[string]any {
		all := map[string]any{}
		for topic := range i.Topics() {
			all["topic "+topic.ID.String()] = topic.Name
			for index, p := range topic.Partitions() {
				all[fmt.Sprint("partition ", topic.ID, index)] = *p
			}
		}
		for b := range i.Brokers() {
			all[fmt.Sprint("broker ", b.ID)] = *b
		}
		for c := range i.Controllers() {
			all[fmt.Sprint("controller ", c.ID)] = *c
		}
		for name, level := range i.Features() {
			all["feature "+name] = level
		}
		for c := range i.Configs() {
			for k, v := range c.All() {
				all[fmt.Sprint("config ", c.Resource, k)] = v
			}
		}
		for q := range i.Quotas() {
			for k, v := range q.All() {
				all[fmt.Sprint("quota ", entityKey(q.Entity), k)] = v
			}
		}
		for r := range i.ACLs() {
			all[fmt.Sprint("acl ", r.ID)] = *r
		}
		for r := range i.ScramCredentials() {
			all["scram "+scramKey(r.Name, r.Mechanism)] = *r
		}
		for r := range i.DelegationTokens() {
			all["token "+r.TokenID] = *r
		}
		return all
	}
	old, now := collect(before), collect(after)
	got := diffEntries(d)
	for k := range maps.Keys(mergedKeys(old, now)) {
		if _, ok := got[k]; !ok && !reflect.DeepEqual(old[k], now[k]) {
			t.Fatalf("%q is not in the diff: was %+v, is %+v", k, old[k], now[k])
		}
	}
	for k, e := range got {
		if !reflect.DeepEqual(e[0], old[k]) || !reflect.DeepEqual(e[1], now[k]) {
			t.Fatalf("%q in the diff: %+v, was %+v, is %+v", k, e, old[k], now[k])
		}
	}
	was, is, changed := d.ProducerIDs()
	if changed != (before.NextProducerID() != after.NextProducerID()) ||
		changed && (was != before.NextProducerID() || is != after.NextProducerID()) {
		t.Fatalf("producer ids: %d to %d, %v", was, is, changed)
	}
	if d.Empty() && len(got) > 0 {
		t.Fatal("the diff says that it is empty")
	}
}

func mergedKeys(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// diffEntries is everything a diff says: old and new value by the keys of checkDiff.
func diffEntries(d *Diff) map[string][2]any {
	got := map[string][2]any{}
	for c := range d.Topics() {
		var old, now any
		if c.Old != nil {
			old = c.Old.Name
		}
		if c.New != nil {
			now = c.New.Name
		}
		got["topic "+c.ID.String()] = [2]any{old, now}
		for index, p := range c.Partitions() {
			got[fmt.Sprint("partition ", c.ID, index)] = valuesOf(p)
		}
	}
	for id, c := range d.Brokers() {
		got[fmt.Sprint("broker ", id)] = valuesOf(c)
	}
	for id, c := range d.Controllers() {
		got[fmt.Sprint("controller ", id)] = valuesOf(c)
	}
	for f := range d.Features() {
		e := [2]any{f.Old, f.New}
		for i, level := range []int16{f.Old, f.New} {
			if level == 0 {
				e[i] = nil
			}
		}
		got["feature "+f.Name] = e
	}
	for c := range d.Configs() {
		got[fmt.Sprint("config ", c.Resource, c.Key)] = valuesOf(Change[string]{c.Old, c.New})
	}
	for q := range d.Quotas() {
		got[fmt.Sprint("quota ", entityKey(q.Entity), q.Key)] = valuesOf(Change[float64]{q.Old, q.New})
	}
	for id, c := range d.ACLs() {
		got[fmt.Sprint("acl ", id)] = valuesOf(c)
	}
	for c := range d.ScramCredentials() {
		r := c.New
		if r == nil {
			r = c.Old
		}
		got["scram "+scramKey(r.Name, r.Mechanism)] = valuesOf(c)
	}
	for c := range d.DelegationTokens() {
		r := c.New
		if r == nil {
			r = c.Old
		}
		got["token "+r.TokenID] = valuesOf(c)
	}
	return got
}

func valuesOf[T any](c Change[T]) (e [2]any) {
	if c.Old != nil {
		e[0] = *c.Old
	}
	if c.New != nil {
		e[1] = *c.New
	}
	return e
}
