package api

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/edge/server"
	"moldau/internal/kafka"
	"moldau/internal/promise"
)

// offsetTag is the tag of an Envelope's answer that says up to where the metadata has to be read to see what the answer
// tells of: the broker lets the answer go when it has (ADR 2). The tag is our own; Kafka skips tags that it does not know.
const offsetTag = 19823

func (b *Broker) envelopeRow() server.API {
	return server.API{Key: int16(kmsg.Envelope), Min: 0, Max: 0, Listener: server.ControllerListener, Internal: true,
		Handle: b.envelope}
}

// envelope answers Envelope (KIP-590): a broker passes on what a client has asked it and only the active controller can
// do. The request inside is handled as if the client had sent it here. A controller that is not active says so on the
// Envelope, so that the broker looks for the right one.
func (b *Broker) envelope(c *server.Call, r kmsg.Request) *promise.Promise[server.Reply] {
	call, f, err := b.openEnvelope(c, r.(*kmsg.EnvelopeRequest))
	if err != nil {
		return answer(server.Reply{Body: refusedEnvelope(err), Code: kafka.CodeOf(err)})
	}
	c.Lease.Release()
	return promise.Map(f.Row.Handle(call, f.Body), func(r server.Reply) server.Reply {
		if r.Release != nil {
			defer r.Release()
		}
		if err := lostOffice(f, r); err != nil {
			return server.Reply{Body: refusedEnvelope(err), Code: kafka.CodeOf(err)}
		}
		resp := kmsg.NewPtrEnvelopeResponse()
		resp.ResponseData = f.Answer(r.Body)
		resp.UnknownTags.Set(offsetTag, binary.BigEndian.AppendUint64(nil, uint64(b.Image().Offset())))
		return server.Reply{Body: resp, Code: r.Code}
	})
}

// openEnvelope gives the request inside, and the call as it would be if the client had sent it here.
func (b *Broker) openEnvelope(c *server.Call, r *kmsg.EnvelopeRequest) (*server.Call, *server.Forwarded, error) {
	principal, err := readPrincipal(r.RequestPrincipal)
	if err != nil {
		return nil, nil, err
	}
	from, ok := netip.AddrFromSlice(r.ClientHostAddress)
	if !ok {
		return nil, nil, kafka.Errorf(kafka.InvalidRequest, "the client's address has %d bytes", len(r.ClientHostAddress))
	}
	table, err := b.forwardable()
	if err != nil {
		return nil, nil, err
	}
	f, err := table.Forwarded(r.RequestData)
	if err != nil {
		return nil, nil, err
	}
	conn := server.NewConnInfo(c.Conn.Listener, c.Conn.Kind, c.Conn.Local, net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)))
	conn.Principal = principal
	return &server.Call{Conn: conn, Principal: principal, Key: f.Row.Key, Version: f.Version,
		CorrelationID: f.CorrelationID, ClientID: f.ClientID, Now: c.Now}, f, nil
}

// envelopes is the table of what an Envelope may hold, made when the first one comes.
type envelopes struct {
	once  sync.Once
	table *server.Table
	err   error
}

// forwardable is the table of what an Envelope may hold: what controllers answer.
func (b *Broker) forwardable() (*server.Table, error) {
	b.envelopes.once.Do(func() {
		var rows []server.API
		for _, r := range b.Rows() {
			if r.Listener&server.ControllerListener != 0 {
				rows = append(rows, r)
			}
		}
		b.envelopes.table, b.envelopes.err = server.NewTable(server.VersionInfo{}, rows...)
	})
	return b.envelopes.table, b.envelopes.err
}

// lostOffice says why there is no answer: this is not the active controller, which DescribeQuorum says in words of its
// own, or the request cannot be answered at all.
func lostOffice(f *server.Forwarded, r server.Reply) error {
	switch {
	case r.Code == kafka.NotController,
		r.Code == kafka.NotLeaderOrFollower && f.Row.Key == int16(kmsg.DescribeQuorum):
		return kafka.NotController
	case r.Body == nil:
		return kafka.Errorf(kafka.UnknownServerError, "%s has no answer", kmsg.NameForKey(f.Row.Key))
	}
	return nil
}

func refusedEnvelope(err error) *kmsg.EnvelopeResponse {
	resp := kmsg.NewPtrEnvelopeResponse()
	resp.ErrorCode = int16(kafka.CodeOf(err))
	return resp
}

// readPrincipal decodes a principal as Kafka's brokers encode it.
func readPrincipal(b []byte) (kafka.Principal, error) {
	p := kmsg.NewDefaultPrincipalData()
	if err := p.ReadFrom(b); err != nil || p.Version != 0 {
		return kafka.Principal{}, kafka.Errorf(kafka.PrincipalDeserializationFailure, "the principal does not decode")
	}
	return kafka.Principal{Type: p.Type, Name: p.Name}, nil
}

// NewEnvelope wraps a client's request, which must have its version set, for the active controller.
func NewEnvelope(c *server.Call, body kmsg.Request) *kmsg.EnvelopeRequest {
	p := kmsg.NewDefaultPrincipalData()
	p.Type, p.Name = c.Principal.Type, c.Principal.Name
	r := kmsg.NewPtrEnvelopeRequest()
	r.RequestPrincipal = p.AppendTo(nil)
	r.ClientHostAddress = c.Conn.RemoteIP.AsSlice()
	header := kmsg.NewRequestFormatter(kmsg.FormatterClientID(c.ClientID))
	r.RequestData = header.AppendRequest(nil, body, c.CorrelationID)[4:] // without the frame's length
	return r
}

// OpenEnvelope takes the response to body out of the one to its Envelope. kafka.NotController: another controller is to
// be asked; kafka.UnsupportedVersion: the controller does not know the request, which costs the client its connection.
func OpenEnvelope(body kmsg.Request, r *kmsg.EnvelopeResponse) (kmsg.Response, error) {
	if r.ErrorCode != 0 {
		return nil, kafka.Code(r.ErrorCode)
	}
	b := r.ResponseData
	header := 4
	if body.IsFlexible() {
		header++ // a count of tags, of which there are none
	}
	resp := body.ResponseKind()
	resp.SetVersion(body.GetVersion())
	if len(b) < header || header == 5 && b[4] != 0 {
		return nil, kafka.Errorf(kafka.UnknownServerError, "the controller's answer is malformed")
	}
	if err := resp.ReadFrom(bytes.Clone(b[header:])); err != nil {
		return nil, kafka.Errorf(kafka.UnknownServerError, "the controller's answer is malformed: %v", err)
	}
	return resp, nil
}

// EnvelopeOffset is up to where the metadata has to be read to see what the answer in an Envelope tells of; NoOffset when
// the controller does not say.
func EnvelopeOffset(r *kmsg.EnvelopeResponse) kafka.Offset {
	offset := kafka.NoOffset
	r.UnknownTags.Each(func(tag uint32, value []byte) {
		if tag == offsetTag && len(value) == 8 {
			offset = kafka.Offset(binary.BigEndian.Uint64(value))
		}
	})
	return offset
}
