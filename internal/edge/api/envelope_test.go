package api

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// newController is a fixture whose connection is to a controller's listener.
func newController(t testing.TB) (*fixture, *fakeController) {
	f, x := newAdmin(t)
	f.conn = server.NewConnInfo("CONTROLLER", server.ControllerListener, f.conn.Local, f.conn.Remote)
	return f, x
}

// enclose is what a broker sends for a client.
func enclose(f *fixture, body kmsg.Request) *kmsg.EnvelopeRequest {
	c := f.call(body)
	c.Principal, c.ClientID, c.CorrelationID = kafka.Principal{Type: "User", Name: "bob"}, "their-client", 77
	return NewEnvelope(c, body)
}

// TestEnvelopePassesEverything: every forwarded request reaches the controller as the client sent it, under the client's
// name, and the controller's answer comes back.
func TestEnvelopePassesEverything(t *testing.T) {
	eachForwarded(t, func(t *testing.T, f *fixture, x *fakeController, body kmsg.Request) {
		f.conn = server.NewConnInfo("CONTROLLER", server.ControllerListener, f.conn.Local, f.conn.Remote)
		var caller *server.Call
		f.Control = func(c *server.Call, r kmsg.Request) *promise.Promise[ControlReply] {
			caller = c
			return x.control(c, r)
		}
		p := f.startPoisoned(enclose(f, body))
		if len(x.asked) != 1 {
			t.Fatalf("version %d: the controller was asked %d times", body.GetVersion(), len(x.asked))
		}
		if diff := cmp.Diff(body.AppendTo(nil), x.asked[0].AppendTo(nil)); diff != "" {
			t.Errorf("version %d: the controller was asked something else: %s", body.GetVersion(), diff)
		}
		if caller.Principal.Name != "bob" || caller.ClientID != "their-client" || caller.Conn.Kind != server.ControllerListener {
			t.Errorf("the request came from %v, %q, by %v", caller.Principal, caller.ClientID, caller.Conn)
		}
		want := body.ResponseKind()
		want.SetVersion(body.GetVersion())
		x.answers[0].Set(ControlReply{Body: want})
		reply, ok := p.Get()
		if !ok {
			t.Fatal("no reply")
		}
		if offset := EnvelopeOffset(reply.Body.(*kmsg.EnvelopeResponse)); offset != f.Image().Offset() {
			t.Errorf("the answer tells of offset %d", offset)
		}
		got, err := OpenEnvelope(body, reply.Body.(*kmsg.EnvelopeResponse))
		if err != nil {
			t.Fatalf("version %d: %v", body.GetVersion(), err)
		}
		switch body.Key() {
		case int16(kmsg.AlterConfigs), int16(kmsg.IncrementalAlterConfigs): // put together anew from an answer that tells nothing
		default:
			if diff := cmp.Diff(want.AppendTo(nil), got.AppendTo(nil)); diff != "" {
				t.Errorf("version %d: %s", body.GetVersion(), diff)
			}
		}
	})
}

// TestEnvelopeRefusals has what Apache Kafka 4.4 was asked, and its answers.
func TestEnvelopeRefusals(t *testing.T) {
	f, x := newController(t)
	x.now = func(r kmsg.Request) *ControlReply { return &ControlReply{Body: r.ResponseKind()} }
	body := forwarded(kmsg.UnregisterBroker, 0)
	good := enclose(f, body)
	with := func(change func(*kmsg.EnvelopeRequest)) *kmsg.EnvelopeRequest {
		r := *good
		r.RequestData = append([]byte{}, good.RequestData...)
		r.RequestPrincipal = append([]byte{}, good.RequestPrincipal...)
		change(&r)
		return &r
	}
	inside := func(r kmsg.Request) *kmsg.EnvelopeRequest { return enclose(f, r) }
	for name, x := range map[string]struct {
		r    *kmsg.EnvelopeRequest
		want kafka.Code
	}{
		"good":                {good, 0},
		"principal version 1": {with(func(r *kmsg.EnvelopeRequest) { r.RequestPrincipal[1] = 1 }), kafka.PrincipalDeserializationFailure},
		"no principal":        {with(func(r *kmsg.EnvelopeRequest) { r.RequestPrincipal = nil }), kafka.PrincipalDeserializationFailure},
		"principal cut":       {with(func(r *kmsg.EnvelopeRequest) { r.RequestPrincipal = r.RequestPrincipal[:3] }), kafka.PrincipalDeserializationFailure},
		"principal and more":  {with(func(r *kmsg.EnvelopeRequest) { r.RequestPrincipal = append(r.RequestPrincipal, 1, 2) }), 0},
		"3 bytes of address":  {with(func(r *kmsg.EnvelopeRequest) { r.ClientHostAddress = []byte{1, 2, 3} }), kafka.InvalidRequest},
		"no address":          {with(func(r *kmsg.EnvelopeRequest) { r.ClientHostAddress = nil }), kafka.InvalidRequest},
		"16 bytes of address": {with(func(r *kmsg.EnvelopeRequest) { r.ClientHostAddress = make([]byte, 16) }), 0},
		"unknown version":     {with(func(r *kmsg.EnvelopeRequest) { r.RequestData[3] = 9 }), kafka.UnsupportedVersion},
		"unknown API":         {with(func(r *kmsg.EnvelopeRequest) { r.RequestData[1] = 200 }), kafka.UnsupportedVersion},
		"body cut":            {with(func(r *kmsg.EnvelopeRequest) { r.RequestData = r.RequestData[:len(r.RequestData)-3] }), kafka.UnsupportedVersion},
		"header cut":          {with(func(r *kmsg.EnvelopeRequest) { r.RequestData = r.RequestData[:9] }), kafka.UnsupportedVersion},
		"hardly a header":     {with(func(r *kmsg.EnvelopeRequest) { r.RequestData = r.RequestData[:5] }), kafka.UnsupportedVersion},
		"nothing":             {with(func(r *kmsg.EnvelopeRequest) { r.RequestData = nil }), kafka.UnsupportedVersion},
		"request and more":    {with(func(r *kmsg.EnvelopeRequest) { r.RequestData = append(r.RequestData, 1, 2, 3) }), 0},
		"an Envelope":         {inside(good), kafka.InvalidRequest},
		"DescribeCluster":     {inside(at(kmsg.NewPtrDescribeClusterRequest(), 1)), kafka.InvalidRequest},
		"ApiVersions":         {inside(at(kmsg.NewPtrApiVersionsRequest(), 3)), kafka.InvalidRequest},
	} {
		resp := ask[*kmsg.EnvelopeResponse](f, x.r)
		if got := kafka.Code(resp.ErrorCode); got != x.want {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
		if (len(resp.ResponseData) == 0) != (x.want != 0) {
			t.Errorf("%s: %v with an answer of %d bytes", name, x.want, len(resp.ResponseData))
		}
	}
}

// TestEnvelopeToAnotherController: who is not the active controller says so outside, for the broker to read.
func TestEnvelopeToAnotherController(t *testing.T) {
	f, x := newController(t)
	x.now = func(kmsg.Request) *ControlReply { return &ControlReply{Err: kafka.NotController} }
	quorum := at(kmsg.NewPtrDescribeQuorumRequest(), 2)
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic, topic.Partitions = kafka.MetadataTopic, []kmsg.DescribeQuorumRequestTopicPartition{{}}
	quorum.Topics = append(quorum.Topics, topic)
	bodies := []kmsg.Request{quorum}
	for _, key := range forwardedKeys {
		bodies = append(bodies, forwarded(key, f.row(int16(key)).Max))
	}
	for _, body := range bodies {
		resp := ask[*kmsg.EnvelopeResponse](f, enclose(f, body))
		if _, err := OpenEnvelope(body, resp); kafka.CodeOf(err) != kafka.NotController {
			t.Errorf("%s: %v", kmsg.NameForKey(body.Key()), err)
		}
	}
}

// TestControllersAlterAnyBroker: a broker's settings reach the controller through that broker, so a controller takes those
// of any.
func TestControllersAlterAnyBroker(t *testing.T) {
	f, x := newController(t)
	x.now = func(r kmsg.Request) *ControlReply { return &ControlReply{Body: r.ResponseKind()} }
	ask[kmsg.Response](f, enclose(f, incremental(false, alterOf(kmsg.ConfigResourceTypeBroker, "2", "log.cleaner.threads", 0))))
	if len(x.asked) != 1 {
		t.Fatalf("the controller was asked %d times", len(x.asked))
	}
	f.conn = server.NewConnInfo("PLAINTEXT", server.BrokerListener, f.conn.Local, f.conn.Remote)
	ask[kmsg.Response](f, incremental(false, alterOf(kmsg.ConfigResourceTypeBroker, "2", "log.cleaner.threads", 0)))
	if len(x.asked) != 1 {
		t.Fatal("a broker took the settings of another one")
	}
}

// TestOpenEnvelopeDoubtsAnswers: a controller's answer may be anything.
func TestOpenEnvelopeDoubtsAnswers(t *testing.T) {
	body := forwarded(kmsg.UnregisterBroker, 0)
	for _, data := range [][]byte{nil, {}, {0, 0, 0, 1}, {0, 0, 0, 1, 0}, {0, 0, 0, 1, 3, 0, 0}, {0, 0, 0, 1, 0, 0, 0, 0, 0, 0}} {
		if got, err := OpenEnvelope(body, &kmsg.EnvelopeResponse{ResponseData: data}); kafka.CodeOf(err) != kafka.UnknownServerError {
			t.Errorf("%v: %v, %v", data, got, err)
		}
	}
}
