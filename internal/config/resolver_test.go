package config

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"moldau/internal/kafka"
)

type world map[Resource]Map

func (w world) set(t ResourceType, name, key, value string) world {
	res := Resource{t, name}
	if w[res] == nil {
		w[res] = Map{}
	}
	w[res][key] = value
	return w
}

func (w world) resolver(s *Static) *Resolver {
	return NewResolver(s, 1, func(t ResourceType, name string) Stored {
		if m, ok := w[Resource{t, name}]; ok {
			return m
		}
		return nil
	})
}

// TestPrecedence sets random subsets of every level of a topic's keys and holds the resolver against the rule,
// spelled out: the first level of topic, broker, all brokers, static and default at which the key or a stand-in has
// a value.
func TestPrecedence(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	var keys []*Key
	for _, k := range Keys(Topic) {
		if k.Type == Long && len(k.Synonyms) > 0 {
			keys = append(keys, k)
		}
	}
	for range 300 {
		k := keys[rnd.IntN(len(keys))]
		w := world{}
		var static []string
		want, wantSource := "", Source(0)
		take := func(value int64, unit Unit, source Source) {
			if wantSource == 0 {
				want, wantSource = strconv.FormatInt(value*int64(unit), 10), source
			}
		}
		value := func() int64 { return 1 + rnd.Int64N(9) }
		if v := value(); rnd.IntN(2) == 0 {
			w.set(TopicResource, "t", k.Name, strconv.FormatInt(v, 10))
			take(v, Same, FromTopic)
		}
		for _, level := range []struct {
			source Source
			name   string
		}{{FromDynamicBroker, "1"}, {FromDynamicDefault, ""}} {
			for _, syn := range k.Synonyms {
				if v := value(); rnd.IntN(3) == 0 {
					w.set(BrokerResource, level.name, syn.Name, strconv.FormatInt(v, 10))
					take(v, syn.Unit, level.source)
				}
			}
		}
		for _, syn := range k.Synonyms {
			if v := value(); rnd.IntN(3) == 0 {
				static = append(static, syn.Name+"="+strconv.FormatInt(v, 10))
				take(v, syn.Unit, FromStatic)
			}
		}
		if wantSource == 0 {
			want, wantSource = k.Default, FromDefault
		}
		l, err := SetLayer(static)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Load([]Layer{l}, Options{})
		if err != nil {
			continue // values that contradict each other
		}
		r := w.resolver(s)
		d := r.DescribeNewTopic(r.stored(TopicResource, "t"))
		got := d[slices.IndexFunc(d, func(d Described) bool { return d.Name == k.Name })]
		if v := r.TopicValue("t", k.Name); v.Text() != want || got.Source != wantSource || *got.Value != want {
			t.Fatalf("%s with %v and %q: %s from %s, want %s from %s", k.Name, w, static, v.Text(), got.Source, want,
				wantSource)
		}
	}
}

func TestTopicSettings(t *testing.T) {
	defaults := Defaults()
	base := world{}.resolver(defaults).TopicDefaults()
	want := TopicSettings{DeleteOld: true, SegmentBytes: 1 << 30, SegmentMs: 604800000, IndexIntervalBytes: 4096,
		SegmentIndexBytes: 10 << 20, FileDeleteDelay: time.Minute, RetentionMs: 604800000, RetentionBytes: -1,
		FlushMessages: 1<<63 - 1, FlushMs: 1<<63 - 1, AckOnFlush: true, MaxMessageBytes: 1048588,
		MaxDecompressedBytes: 2147483639, TimestampBeforeMaxMs: 1<<63 - 1, TimestampAfterMaxMs: 3600000,
		Compression: KeepCodec, GzipLevel: -1, Lz4Level: 9, ZstdLevel: 3, MinInSyncReplicas: 1,
		MaxCompactionLagMs: 1<<63 - 1, DeleteRetentionMs: 86400000, MinCleanableDirtyRatio: 0.5, LocalRetentionMs: -2,
		LocalRetentionBytes: -2}
	if diff := cmp.Diff(want, base); diff != "" {
		t.Error(diff)
	}
	w := world{}.set(BrokerResource, "", "log.retention.ms", "-7").set(BrokerResource, "1", "moldau.flush", "async").
		set(BrokerResource, "", "min.insync.replicas", "2").set(BrokerResource, "1", "log.segment.bytes", "rubbish")
	got := w.resolver(defaults).TopicDefaults().With(Map{"compression.type": "zstd", "cleanup.policy": "compact",
		"segment.ms": "9000", "max.compaction.lag.ms": "4000", "internal.segment.bytes": "77", "segment.bytes": "2097152",
		"retention.bytes": "rubbish", "no.such": "1"})
	if got.RetentionMs != -1 || got.AckOnFlush || got.MinInSyncReplicas != 2 || got.Compression != Zstd ||
		got.CompressionLevel() != 3 || got.DeleteOld || !got.Compact || got.RollMs() != 4000 || got.SegmentBytes != 77 ||
		got.RetentionBytes != -1 {
		t.Errorf("%+v", got)
	}
}

// TestEveryTopicKeyIsUsed changes each key and sees the settings change.
func TestEveryTopicKeyIsUsed(t *testing.T) {
	notForLogs := []string{"errors.deadletterqueue.group.enable", "remote.copy.lag.bytes", "remote.copy.lag.ms",
		"remote.log.copy.disable", "remote.log.delete.on.disable"}
	base := world{}.resolver(Defaults()).TopicDefaults()
	for _, k := range Keys(Topic) {
		other := map[Type]string{Boolean: "true", Int: "5242881", Long: "31", Double: "0.25", List: "0:1"}[k.Type]
		switch k.Name {
		case "cleanup.policy":
			other = "compact"
		case "compression.type":
			other = "lz4"
		case "message.timestamp.type":
			other = "LogAppendTime"
		case "moldau.flush":
			other = "async"
		case "compression.gzip.level", "compression.lz4.level", "compression.zstd.level":
			other = "5"
		}
		if _, err := k.Parse(other); err != nil {
			t.Fatal(err)
		}
		changed := !reflect.DeepEqual(base, base.With(Map{k.Name: other}))
		if changed == slices.Contains(notForLogs, k.Name) {
			t.Errorf("%s=%s: settings changed: %v", k.Name, other, changed)
		}
	}
}

func TestBrokerAndGroupValues(t *testing.T) {
	r := world{}.set(BrokerResource, "1", "log.cleaner.threads", "2").set(BrokerResource, "",
		"log.cleaner.threads", "3").
		set(BrokerResource, "", "num.io.threads", "9").set(GroupResource, "g", "consumer.session.timeout.ms", "99999999").
		set(GroupResource, "g", "streams.num.standby.replicas", "9").
		set(ClientMetricsResource, "s", "interval.ms", "500").resolver(mustLoad(t, "num.io.threads=4",
		"group.streams.assignors=a,b"))
	for key, want := range map[string]int64{"log.cleaner.threads": 2, "num.io.threads": 9, "num.partitions": 1,
		"log.retention.ms": 604800000} {
		if got := r.Broker(key).Int64(); got != want {
			t.Errorf("%s: %d, want %d", key, got, want)
		}
	}
	if got := r.GroupValue("g", "consumer.session.timeout.ms").Int64(); got != 60000 {
		t.Errorf("a stored session timeout above the bound gives %d", got)
	}
	if got := r.GroupValue("g", "streams.num.standby.replicas").Int64(); got != 2 {
		t.Errorf("stored standby replicas above the bound give %d", got)
	}
	if got := r.GroupValue("other", "streams.assignor.name").Text(); got != "a" {
		t.Error(got)
	}
	if r.ClientMetricsValue("s", "interval.ms").Int64() != 500 || r.ClientMetricsValue("x",
		"interval.ms").Int64() != 300000 {
		t.Error("client metrics")
	}
}

func ptr(s string) *string { return &s }

func TestAlterWrites(t *testing.T) {
	w := world{}.set(TopicResource, "t", "retention.ms", "5").set(TopicResource, "t", "cleanup.policy", "compact").
		set(BrokerResource, "1", "log.cleaner.threads", "2")
	r := w.resolver(mustLoad(t, "log.cleanup.policy=compact"))
	topic, broker := Resource{TopicResource, "t"}, Resource{BrokerResource, "1"}
	for _, c := range []struct {
		res     Resource
		changes []Change
		want    []Write
	}{
		{topic, []Change{{"retention.ms", Set, ptr("6")}}, []Write{{"retention.ms", ptr("6")}}},
		{topic, []Change{{"retention.ms", Set, ptr("5")}}, nil},
		{topic, []Change{{"retention.ms", Delete, nil}, {"segment.ms", Delete, nil}}, []Write{{"retention.ms", nil}}},
		{topic, []Change{{"cleanup.policy", Append, ptr("delete, compact")}}, []Write{{"cleanup.policy",
			ptr("compact,delete")}}},
		{topic, []Change{{"cleanup.policy", Subtract, ptr("compact")}}, []Write{{"cleanup.policy", ptr("")}}},
		{Resource{TopicResource, "u"}, []Change{{"cleanup.policy", Append, ptr("delete")}}, []Write{{"cleanup.policy",
			ptr("compact,delete")}}},
		{topic, []Change{{"segment.ms", Set, ptr("7")}, {"flush.ms", Set, ptr("8")}}, []Write{{"flush.ms", ptr("8")},
			{"segment.ms", ptr("7")}}},
		{broker, []Change{{"log.cleaner.threads", Set, ptr("2")}}, []Write{{"log.cleaner.threads", ptr("2")}}},
		{topic, []Change{{"moldau.flush", Set, ptr("async")}}, []Write{{"moldau.flush", ptr("async")}}},
	} {
		got, err := r.Alter(c.res, c.changes, AlterOptions{})
		if err != nil || !cmp.Equal(got, c.want) {
			t.Errorf("%v: %v %s", c.changes, err, cmp.Diff(c.want, got))
		}
	}
	got, err := r.Replace(topic, []Assignment{{"segment.ms", ptr("7")}, {"retention.ms", ptr("5")}}, AlterOptions{})
	if want := []Write{{"cleanup.policy", nil}, {"segment.ms", ptr("7")}}; err != nil || !cmp.Equal(got, want) {
		t.Error(err, cmp.Diff(want, got))
	}
	got, err = r.NewTopic([]Assignment{{"segment.ms", ptr("7")}, {"segment.ms", ptr("8")}})
	if want := []Write{{"segment.ms", ptr("8")}}; err != nil || !cmp.Equal(got, want) {
		t.Error(err, cmp.Diff(want, got))
	}
	if w[topic]["retention.ms"] != "5" || w[topic]["cleanup.policy"] != "compact" {
		t.Error("judging changed what is stored")
	}
}

func TestAlterMessages(t *testing.T) {
	r := world{}.set(TopicResource, "old", "gone.key", "1").resolver(Defaults())
	for _, c := range []struct {
		res  Resource
		name string
		to   *string
		code kafka.Code
		want string
	}{
		{Resource{TopicResource, "t"}, "retention", ptr("1"), kafka.InvalidConfig, "no such topic config: retention"},
		{Resource{TopicResource, "t"}, "retention.mss", ptr("1"), kafka.InvalidConfig,
			"no such topic config: retention.mss; did you mean retention.ms?"},
		{Resource{TopicResource, "t"}, "segment.bytes", ptr("1"), kafka.InvalidConfig,
			"segment.bytes: 1 is too small; allowed: a whole number (32 bit), at least 1048576"},
		{Resource{TopicResource, "t"}, "moldau.flush", ptr("never"), kafka.InvalidConfig,
			`moldau.flush: "never" is not one of the values; allowed: one of ack, async`},
		{Resource{TopicResource, "t"}, "leader.replication.throttled.replicas", ptr(strings.Repeat("1:1,", 9000)),
			kafka.InvalidConfig,
			"leader.replication.throttled.replicas: the value is longer than 32767 bytes"},
		{Resource{BrokerResource, "1"}, "num.partitions", ptr("1"), kafka.InvalidRequest,
			"num.partitions cannot be altered while the broker runs; set it in its configuration and restart"},
		{Resource{BrokerResource, "1"}, "sasl.enabled.mechanisms", ptr("PLAIN"), kafka.InvalidRequest,
			"sasl.enabled.mechanisms: SASL is not built yet"},
		{Resource{TopicResource, "old"}, "segment.ms", ptr("1"), kafka.None, ""},
	} {
		_, err := r.Alter(c.res, []Change{{c.name, Set, c.to}}, AlterOptions{})
		if kafka.CodeOf(err) != c.code || kafka.MessageOf(err) != c.want {
			t.Errorf("%s: %v %q, want %v %q", c.name, kafka.CodeOf(err), kafka.MessageOf(err), c.code, c.want)
		}
	}
}

// FuzzAlter: what is accepted can be stored and read back, and describing it never fails.
func FuzzAlter(f *testing.F) {
	f.Add(int8(2), "cleanup.policy", int8(2), "delete, compact", "compact")
	f.Add(int8(4), "log.retention.ms", int8(0), "-5", "")
	f.Add(int8(32), "share.auto.offset.reset", int8(0), "by_duration:PT1H", "")
	f.Add(int8(16), "match", int8(0), "client_id=x.*", "")
	static := Defaults()
	f.Fuzz(func(t *testing.T, kind int8, key string, op int8, value, before string) {
		res := Resource{ResourceType(kind), "1"}
		w := world{res: Map{key: before}}
		writes, err := w.resolver(static).Alter(res, []Change{{key, Op(op), &value}}, AlterOptions{})
		if err != nil {
			return
		}
		for _, x := range writes {
			delete(w[res], x.Name)
			if x.Value != nil {
				w[res][x.Name] = *x.Value
			}
		}
		r := w.resolver(static)
		switch res.Type {
		case TopicResource:
			r.DescribeTopic("1", nil)
			r.Topic("1")
		case BrokerResource:
			r.DescribeBroker(nil)
		case GroupResource:
			r.DescribeGroup("1", nil)
		default:
			r.DescribeClientMetrics("1", nil)
		}
		if again, err := r.Alter(res, []Change{{key, Op(op), &value}},
			AlterOptions{}); err == nil && res.Type != BrokerResource &&
			Op(op) != Delete && len(again) != 0 {
			t.Errorf("done twice, %q %d %q writes again: %v", key, op, value, again)
		}
	})
}

func BenchmarkTopicSettings(b *testing.B) {
	r := world{}.resolver(Defaults())
	base := r.TopicDefaults()
	b.Run("defaults", func(b *testing.B) {
		for b.Loop() {
			r.TopicDefaults()
		}
	})
	b.Run("two own", func(b *testing.B) {
		own := Map{"retention.ms": "5", "cleanup.policy": "compact"}
		for b.Loop() {
			base.With(own)
		}
	})
}
