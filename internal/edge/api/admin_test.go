package api

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/cluster/quorum"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// fakeController records what reaches it and answers when told.
type fakeController struct {
	asked   []kmsg.Request
	answers []*promise.Promise[ControlReply]
	now     func(kmsg.Request) *ControlReply // nil, or nil result: answered later
}

func (x *fakeController) control(_ *server.Call, body kmsg.Request) *promise.Promise[ControlReply] {
	x.asked = append(x.asked, body)
	p := &promise.Promise[ControlReply]{}
	x.answers = append(x.answers, p)
	if x.now != nil {
		if r := x.now(body); r != nil {
			p.Set(*r)
		}
	}
	return p
}

// newAdmin is a fixture with a controller under control.
func newAdmin(t testing.TB, settings ...string) (*fixture, *fakeController) {
	t.Helper()
	f, x := newFixture(t, settings...), &fakeController{}
	f.Control = x.control
	f.Quorum = func() *promise.Promise[QuorumReply] {
		return promise.Done(QuorumReply{Err: kafka.NotLeaderOrFollower})
	}
	// In a fixture, brokers register fenced like everywhere.
	f.unfence(1)
	f.unfence(2)
	return f, x
}

func (f *fixture) unfence(id kafka.NodeID) { f.setFenced(id, -1) }

func (f *fixture) fence(id kafka.NodeID) { f.setFenced(id, 1) }

func (f *fixture) setFenced(id kafka.NodeID, change int8) {
	f.t.Helper()
	b, _ := f.Image().Broker(id)
	if b.Fenced == (change > 0) {
		return
	}
	f.apply(&metadata.BrokerRegistrationChangeRecord{
		BrokerID: id, BrokerEpoch: b.Epoch, Fenced: metadata.FenceChange(change)})
}

// startPoisoned decodes a request from a buffer, calls its handler and overwrites the buffer, as a lease's end does.
func (f *fixture) startPoisoned(req kmsg.Request) *promise.Promise[server.Reply] {
	f.t.Helper()
	wire := req.AppendTo(nil)
	decoded := kmsg.RequestForKey(req.Key())
	decoded.SetVersion(req.GetVersion())
	if err := decoded.(kmsg.UnsafeReadFrom).UnsafeReadFrom(wire); err != nil {
		f.t.Fatal(err)
	}
	p := f.row(req.Key()).Handle(f.call(req), decoded)
	for i := range wire {
		wire[i] = 0xdb
	}
	return p
}

// forwarded lists a request of every API that goes to the controller, at a version.
func forwarded(key kmsg.Key, version int16) kmsg.Request {
	value := "v"
	switch key {
	case kmsg.CreateTopics:
		r := kmsg.NewPtrCreateTopicsRequest()
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = "new-topic", 3, 1
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Replicas = []int32{1, 2}
		t.ReplicaAssignment = append(t.ReplicaAssignment, a)
		x := kmsg.NewCreateTopicsRequestTopicConfig()
		x.Name, x.Value = "retention.ms", &value
		t.Configs = append(t.Configs, x)
		r.Topics, r.TimeoutMillis = append(r.Topics, t), 5000
		return at(r, version)
	case kmsg.DeleteTopics:
		r := kmsg.NewPtrDeleteTopicsRequest()
		r.TimeoutMillis = 5000
		if version < 6 {
			r.TopicNames = []string{"new-topic"}
			return at(r, version)
		}
		byName, byID := kmsg.NewDeleteTopicsRequestTopic(), kmsg.NewDeleteTopicsRequestTopic()
		byName.Topic, byID.TopicID = kmsg.StringPtr("new-topic"), [16]byte{7}
		r.Topics = append(r.Topics, byName, byID)
		return at(r, version)
	case kmsg.CreatePartitions:
		r := kmsg.NewPtrCreatePartitionsRequest()
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count = "new-topic", 9
		r.Topics, r.TimeoutMillis = append(r.Topics, t), 5000
		return at(r, version)
	case kmsg.ElectLeaders:
		r := kmsg.NewPtrElectLeadersRequest()
		t := kmsg.NewElectLeadersRequestTopic()
		t.Topic, t.Partitions = "new-topic", []int32{0, 5}
		r.Topics, r.TimeoutMillis = append(r.Topics, t), 5000
		return at(r, version)
	case kmsg.UpdateFeatures:
		r := kmsg.NewPtrUpdateFeaturesRequest()
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel = "group.version", 1
		r.FeatureUpdates, r.TimeoutMillis = append(r.FeatureUpdates, u), 5000
		return at(r, version)
	case kmsg.AlterConfigs:
		r := kmsg.NewPtrAlterConfigsRequest()
		x := kmsg.NewAlterConfigsRequestResource()
		x.ResourceType, x.ResourceName = kmsg.ConfigResourceTypeTopic, "new-topic"
		c := kmsg.NewAlterConfigsRequestResourceConfig()
		c.Name, c.Value = "retention.ms", &value
		x.Configs = append(x.Configs, c)
		r.Resources = append(r.Resources, x)
		return at(r, version)
	case kmsg.IncrementalAlterConfigs:
		r := kmsg.NewPtrIncrementalAlterConfigsRequest()
		x := kmsg.NewIncrementalAlterConfigsRequestResource()
		x.ResourceType, x.ResourceName = kmsg.ConfigResourceTypeTopic, "new-topic"
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = "retention.ms", &value
		x.Configs = append(x.Configs, c)
		r.Resources = append(r.Resources, x)
		return at(r, version)
	case kmsg.AlterPartitionAssignments:
		r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		t, p := kmsg.NewAlterPartitionAssignmentsRequestTopic(), kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		p.Replicas = []int32{2, 1}
		t.Topic, t.Partitions = "new-topic", append(t.Partitions, p)
		r.Topics, r.TimeoutMillis = append(r.Topics, t), 5000
		return at(r, version)
	case kmsg.ListPartitionReassignments:
		r := kmsg.NewPtrListPartitionReassignmentsRequest()
		t := kmsg.NewListPartitionReassignmentsRequestTopic()
		t.Topic, t.Partitions = "new-topic", []int32{0, 5}
		r.Topics, r.TimeoutMillis = append(r.Topics, t), 5000
		return at(r, version)
	case kmsg.UnregisterBroker:
		return at(kmsg.NewPtrUnregisterBrokerRequest(), version)
	case kmsg.UnregisterController:
		return at(kmsg.NewPtrUnregisterControllerRequest(), version)
	}
	panic("not forwarded: " + key.Name())
}

var forwardedKeys = []kmsg.Key{kmsg.CreateTopics, kmsg.DeleteTopics, kmsg.CreatePartitions, kmsg.ElectLeaders,
	kmsg.UpdateFeatures, kmsg.AlterConfigs, kmsg.IncrementalAlterConfigs, kmsg.AlterPartitionAssignments,
	kmsg.ListPartitionReassignments, kmsg.UnregisterBroker, kmsg.UnregisterController}

func at[R kmsg.Request](r R, version int16) R { r.SetVersion(version); return r }

// errorsIn collects the error codes of a response to a request of forwarded.
func errorsIn(resp kmsg.Response) []int16 {
	var out []int16
	switch r := resp.(type) {
	case *kmsg.CreateTopicsResponse:
		for _, t := range r.Topics {
			out = append(out, t.ErrorCode)
		}
	case *kmsg.DeleteTopicsResponse:
		for _, t := range r.Topics {
			out = append(out, t.ErrorCode)
		}
	case *kmsg.CreatePartitionsResponse:
		for _, t := range r.Topics {
			out = append(out, t.ErrorCode)
		}
	case *kmsg.AlterPartitionAssignmentsResponse:
		out = append(out, r.ErrorCode)
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				out = append(out, p.ErrorCode)
			}
		}
	case *kmsg.ListPartitionReassignmentsResponse:
		out = append(out, r.ErrorCode)
	case *kmsg.UnregisterBrokerResponse:
		out = append(out, r.ErrorCode)
	case *kmsg.UnregisterControllerResponse:
		out = append(out, r.ErrorCode)
	case *kmsg.ElectLeadersResponse:
		if r.Version >= 1 {
			out = append(out, r.ErrorCode)
		}
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				out = append(out, p.ErrorCode)
			}
		}
	case *kmsg.UpdateFeaturesResponse:
		out = append(out, r.ErrorCode)
	case *kmsg.AlterConfigsResponse:
		for _, x := range r.Resources {
			out = append(out, x.ErrorCode)
		}
	case *kmsg.IncrementalAlterConfigsResponse:
		for _, x := range r.Resources {
			out = append(out, x.ErrorCode)
		}
	}
	return out
}

// eachForwarded runs a test for every forwarded API and version.
func eachForwarded(t *testing.T, test func(t *testing.T, f *fixture, x *fakeController, req kmsg.Request)) {
	for _, key := range forwardedKeys {
		t.Run(key.Name(), func(t *testing.T) {
			f, x := newAdmin(t)
			row := f.row(int16(key))
			if !row.Forward {
				t.Error("the row does not say that it is forwarded")
			}
			for v := row.Min; v <= row.Max; v++ {
				x.asked, x.answers = nil, nil
				test(t, f, x, forwarded(key, v))
			}
		})
	}
}

// TestForwardOwnsItsMemory: the controller keeps the request after the lease has ended.
func TestForwardOwnsItsMemory(t *testing.T) {
	eachForwarded(t, func(t *testing.T, f *fixture, x *fakeController, req kmsg.Request) {
		f.startPoisoned(req)
		if len(x.asked) != 1 {
			t.Fatalf("version %d: the controller was asked %d times", req.GetVersion(), len(x.asked))
		}
		if got, want := x.asked[0].AppendTo(nil), req.AppendTo(nil); !slices.Equal(got, want) {
			t.Errorf("version %d: the controller got\n%q, the client sent\n%q", req.GetVersion(), got, want)
		}
	})
}

// TestForwardPassesTheAnswer: what the controller says reaches the client unchanged.
func TestForwardPassesTheAnswer(t *testing.T) {
	f, x := newAdmin(t)
	req := forwarded(kmsg.CreatePartitions, 3)
	_, p := f.start(req)
	if _, ok := p.Get(); ok {
		t.Fatal("answered before the controller did")
	}
	resp := kmsg.NewPtrCreatePartitionsResponse()
	topic := kmsg.NewCreatePartitionsResponseTopic()
	topic.Topic, topic.ErrorCode, topic.ErrorMessage = "new-topic", 37, kmsg.StringPtr("no")
	resp.Topics = append(resp.Topics, topic)
	x.answers[0].Set(ControlReply{Body: resp})
	got := f.body(req, f.reply(p)).(*kmsg.CreatePartitionsResponse).Topics[0]
	if got.ErrorCode != 37 || *got.ErrorMessage != "no" {
		t.Errorf("got %+v", got)
	}
	if f.waiting() != 0 {
		t.Error("the timer still runs")
	}
}

// waiting counts the timers that would still fire.
func (f *fixture) waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, x := range f.timers {
		if !x.done {
			n++
		}
	}
	return n
}

func TestForwardTimesOut(t *testing.T) {
	eachForwarded(t, func(t *testing.T, f *fixture, x *fakeController, req kmsg.Request) {
		p := f.startPoisoned(req)
		wait := 5 * time.Second
		if _, ok := req.(interface{ Timeout() int32 }); !ok {
			wait = 30 * time.Second // request.timeout.ms
		}
		f.advance(wait - 1)
		if _, ok := p.Get(); ok {
			t.Fatalf("version %d: answered too early", req.GetVersion())
		}
		f.advance(1)
		for _, code := range errorsIn(f.body(req, f.reply(p))) {
			if kafka.Code(code) != kafka.RequestTimedOut {
				t.Errorf("version %d: %v", req.GetVersion(), kafka.Code(code))
			}
		}
		x.answers[0].Set(ControlReply{Err: kafka.NotController}) // too late: must change nothing
	})
}

func TestForwardWithoutController(t *testing.T) {
	eachForwarded(t, func(t *testing.T, f *fixture, x *fakeController, req kmsg.Request) {
		for _, reply := range []ControlReply{{Err: kafka.NotController}, {}} {
			x.now = func(kmsg.Request) *ControlReply { return &reply }
			want := kafka.UnknownServerError
			if reply.Err != nil {
				want = kafka.NotController
			}
			codes := errorsIn(f.body(req, f.reply(f.startPoisoned(req))))
			if len(codes) == 0 {
				t.Errorf("version %d: no error at all", req.GetVersion())
			}
			for _, code := range codes {
				if kafka.Code(code) != want {
					t.Errorf("version %d: %v, want %v", req.GetVersion(), kafka.Code(code), want)
				}
			}
		}
		x.now = nil
	})
}

// TestRefusalsNameWhatWasAsked: a client finds its topics in an answer that the controller did not give.
func TestRefusalsNameWhatWasAsked(t *testing.T) {
	f, x := newAdmin(t)
	x.now = func(kmsg.Request) *ControlReply { return &ControlReply{Err: kafka.NotController} }
	ct := ask[*kmsg.CreateTopicsResponse](f, forwarded(kmsg.CreateTopics, 7)).Topics[0]
	if ct.Topic != "new-topic" || ct.NumPartitions != -1 || ct.ReplicationFactor != -1 {
		t.Errorf("CreateTopics: %+v", ct)
	}
	dt := ask[*kmsg.DeleteTopicsResponse](f, forwarded(kmsg.DeleteTopics, 6)).Topics
	if *dt[0].Topic != "new-topic" || dt[1].Topic != nil || dt[1].TopicID != [16]byte{7} {
		t.Errorf("DeleteTopics: %+v", dt)
	}
	el := ask[*kmsg.ElectLeadersResponse](f, forwarded(kmsg.ElectLeaders, 0)).Topics[0]
	if el.Topic != "new-topic" || len(el.Partitions) != 2 || el.Partitions[1].Partition != 5 {
		t.Errorf("ElectLeaders: %+v", el)
	}
}

func incremental(
	validateOnly bool, resources ...kmsg.IncrementalAlterConfigsRequestResource,
) *kmsg.IncrementalAlterConfigsRequest {
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r.Version, r.ValidateOnly, r.Resources = 1, validateOnly, resources
	return r
}

func alterOf(
	t kmsg.ConfigResourceType, name, key string, op int8, value ...string,
) kmsg.IncrementalAlterConfigsRequestResource {
	x := kmsg.NewIncrementalAlterConfigsRequestResource()
	x.ResourceType, x.ResourceName = t, name
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Op = key, kmsg.IncrementalAlterConfigOp(op)
	if len(value) > 0 {
		c.Value = &value[0]
	}
	x.Configs = append(x.Configs, c)
	return x
}

// TestAlterScreens: what another broker must answer, what stands there twice and what has no configuration never reaches
// the controller, and every resource is answered in its place.
func TestAlterScreens(t *testing.T) {
	const topic, brk, logger = kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker,
		kmsg.ConfigResourceTypeBrokerLogger
	f, x := newAdmin(t)
	x.now = func(body kmsg.Request) *ControlReply {
		resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
		for _, r := range slices.Backward(body.(*kmsg.IncrementalAlterConfigsRequest).Resources) { // any order
			y := kmsg.NewIncrementalAlterConfigsResponseResource()
			y.ResourceType, y.ResourceName = r.ResourceType, r.ResourceName
			if r.ResourceName == "bad" {
				y.ErrorCode, y.ErrorMessage = 40, kmsg.StringPtr("no such key")
			}
			resp.Resources = append(resp.Resources, y)
		}
		return &ControlReply{Body: resp}
	}
	const threads = "log.cleaner.threads"
	req := incremental(false, alterOf(topic, "ok", "retention.ms", 0, "1"), alterOf(brk, "7", threads, 0, "2"),
		alterOf(topic, "bad", "x", 0, "1"), alterOf(topic, "twice", "retention.ms", 0, "1"),
		alterOf(brk, "1", threads, 0, "2"), alterOf(77, "x", "y", 0, "1"),
		alterOf(topic, "twice", "retention.ms", 0, "2"), alterOf(brk, "", threads, 0, "2"),
		alterOf(logger, "2", "root", 0, "DEBUG"), alterOf(brk, "one", threads, 0, "2"))
	got := ask[*kmsg.IncrementalAlterConfigsResponse](f, req).Resources
	want := []kafka.Code{0, 42, 40, 42, 0, 42, 42, 0, 42, 42}
	for i, r := range got {
		if r.ResourceName != req.Resources[i].ResourceName || r.ResourceType != req.Resources[i].ResourceType {
			t.Errorf("resource %d is %v %q", i, r.ResourceType, r.ResourceName)
		}
		if kafka.Code(r.ErrorCode) != want[i] || (r.ErrorMessage == nil) != (want[i] == 0) {
			t.Errorf("resource %d: %v, want %v", i, kafka.Code(r.ErrorCode), want[i])
		}
	}
	var names []string
	for _, r := range x.asked[0].(*kmsg.IncrementalAlterConfigsRequest).Resources {
		names = append(names, r.ResourceName)
	}
	if !slices.Equal(names, []string{"ok", "bad", "1", ""}) {
		t.Errorf("the controller was asked about %q", names)
	}
	legacy := kmsg.NewPtrAlterConfigsRequest()
	for _, name := range []string{"1", "9"} {
		r := kmsg.NewAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = logger, name
		legacy.Resources = append(legacy.Resources, r)
	}
	x.asked = nil
	for _, r := range ask[*kmsg.AlterConfigsResponse](f, at(legacy, 2)).Resources {
		if kafka.Code(r.ErrorCode) != kafka.InvalidRequest {
			t.Errorf("loggers, AlterConfigs: %v", kafka.Code(r.ErrorCode))
		}
	}
	if len(x.asked) != 0 {
		t.Error("the controller was asked about loggers")
	}
}

func describeRequest(
	version int16, kind kmsg.ConfigResourceType, name string, keys ...string,
) *kmsg.DescribeConfigsRequest {
	r := kmsg.NewPtrDescribeConfigsRequest()
	r.Version, r.IncludeSynonyms, r.IncludeDocumentation = version, true, true
	x := kmsg.NewDescribeConfigsRequestResource()
	x.ResourceType, x.ResourceName, x.ConfigNames = kind, name, keys
	r.Resources = append(r.Resources, x)
	return r
}

func (f *fixture) describe(
	version int16, kind kmsg.ConfigResourceType, name string, keys ...string,
) kmsg.DescribeConfigsResponseResource {
	return ask[*kmsg.DescribeConfigsResponse](f, describeRequest(version, kind, name, keys...)).Resources[0]
}

// hostile calls every admin handler with damaged requests; none may panic, and every answer must encode.
func TestHostileAdminRequests(t *testing.T) {
	f, x := newAdmin(t)
	f.create("known", 2)
	f.Quorum = func() *promise.Promise[QuorumReply] {
		return promise.Done(QuorumReply{Description: quorum.Description{}})
	}
	x.now = func(kmsg.Request) *ControlReply { return &ControlReply{Err: kafka.NotController} }
	const seed = 4711
	rnd := rand.New(rand.NewPCG(seed, seed))
	for _, seedRequest := range adminSeeds() {
		row := f.row(seedRequest.Key())
		for v := row.Min; v <= row.Max; v++ {
			seedRequest.SetVersion(v)
			wire := seedRequest.AppendTo(nil)
			for range 300 {
				b := slices.Clone(wire)
				for range 1 + rnd.IntN(3) {
					if len(b) > 0 {
						b[rnd.IntN(len(b))] = byte(rnd.Uint32())
					}
				}
				req := kmsg.RequestForKey(seedRequest.Key())
				req.SetVersion(v)
				if req.ReadFrom(b) != nil {
					continue
				}
				r, ok := row.Handle(f.call(req), req).Get()
				if !ok || r.Body == nil {
					t.Fatalf("%s version %d, seed %d: no answer to %x", apiName(row.Key), v, seed, b)
				}
				r.Body.SetVersion(v)
				r.Body.AppendTo(nil)
			}
		}
	}
}

func adminSeeds() []kmsg.Request {
	md := kmsg.NewPtrMetadataRequest()
	for _, name := range []string{"known", "unknown", strings.Repeat("x", 300)} {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		md.Topics = append(md.Topics, t)
	}
	dtp := kmsg.NewPtrDescribeTopicPartitionsRequest()
	t := kmsg.NewDescribeTopicPartitionsRequestTopic()
	t.Topic = "known"
	c := kmsg.NewDescribeTopicPartitionsRequestCursor()
	c.Topic, c.Partition = "known", 1
	dtp.Topics, dtp.Cursor = append(dtp.Topics, t), &c
	dq := kmsg.NewPtrDescribeQuorumRequest()
	q := kmsg.NewDescribeQuorumRequestTopic()
	q.Topic, q.Partitions = kafka.MetadataTopic, []kmsg.DescribeQuorumRequestTopicPartition{{}}
	dq.Topics = append(dq.Topics, q)
	lc := kmsg.NewPtrListConfigResourcesRequest()
	lc.ResourceTypes = []int8{2, 4}
	out := []kmsg.Request{md, dtp, dq, lc, kmsg.NewPtrDescribeClusterRequest(),
		describeRequest(1, kmsg.ConfigResourceTypeTopic, "known", "retention.ms"),
		describeRequest(1, kmsg.ConfigResourceTypeBroker, "1", "num.partitions")}
	for _, key := range forwardedKeys {
		out = append(out, forwarded(key, 0))
	}
	return out
}
