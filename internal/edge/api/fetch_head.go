package api

import (
	"encoding/binary"
	"sync"

	"moldau/internal/cluster/metadata"
	"moldau/internal/edge/server"
	"moldau/internal/kafka"
)

// fetchReply is an answer under construction: results, and the bytes around their records.
type fetchReply struct {
	results  []fetchResult
	head     []byte
	cuts     []int // where in head the records of a result belong
	segments []server.Segment
	release  func()
}

// Bounds of what a pooled reply keeps.
const (
	keepFetchResults = 256
	keepFetchHead    = 64 << 10
)

// fetchReplies is the pool of replies.
type fetchReplies struct{ pool sync.Pool }

func (p *fetchReplies) get() *fetchReply {
	r, ok := p.pool.Get().(*fetchReply)
	if !ok {
		r = &fetchReply{}
		r.release = func() { p.put(r) }
	}
	return r
}

// put releases the extents and takes the reply back.
func (p *fetchReplies) put(r *fetchReply) {
	for i := range r.results {
		r.results[i].Extents.Release()
	}
	clear(r.results)
	clear(r.segments)
	r.results, r.head, r.cuts, r.segments = r.results[:0], r.head[:0], r.cuts[:0], r.segments[:0]
	if cap(r.results) <= keepFetchResults && cap(r.head) <= keepFetchHead {
		p.pool.Put(r)
	}
}

// encode writes the response body around the records. It is exactly what kmsg writes, proven by tests for
// all versions.
func (op *fetchOp) encode(image *metadata.Image, r *fetchReply) server.Reply {
	w := fetchWriter{b: r.head, version: op.version, flexible: op.version >= 12}
	var code kafka.Code
	w.int32(0) // throttle time
	if op.version >= 7 {
		w.int16(0)
		w.int32(op.sessionID)
	}
	w.arrayLen(topicRuns(r.results, op.set.byID))
	for i := 0; i < len(r.results); {
		n := topicRun(r.results[i:], op.set.byID)
		if e := r.results[i].entry; op.version >= 13 {
			w.b = append(w.b, e.id[:]...)
		} else {
			w.string(e.topic)
		}
		w.arrayLen(n)
		for j := range n {
			p := &r.results[i+j]
			if code == 0 {
				code = p.code
			}
			op.partition(&w, image, p)
			if p.Size() > 0 {
				r.cuts = append(r.cuts, w.cut)
			}
		}
		w.tags(0)
		i += n
	}
	w.brokers()
	r.head = w.b
	r.cut()
	return server.Reply{Segments: r.segments, Code: code, Release: r.release}
}

// cut makes segments of the head and the records that belong into it.
func (r *fetchReply) cut() {
	at, next := 0, 0
	for i := range r.results {
		p := &r.results[i]
		if p.Size() == 0 {
			continue
		}
		r.segments = append(r.segments, server.Segment{Bytes: r.head[at:r.cuts[next]], Extents: &p.Extents})
		at = r.cuts[next]
		next++
	}
	r.segments = append(r.segments, server.Segment{Bytes: r.head[at:]})
}

// topicRun is how many results in a row belong to the first one's topic.
func topicRun(results []fetchResult, byID bool) int {
	first := results[0].entry
	for i := 1; i < len(results); i++ {
		e := results[i].entry
		if byID && e.id != first.id || !byID && e.topic != first.topic {
			return i
		}
	}
	return len(results)
}

func topicRuns(results []fetchResult, byID bool) int {
	runs := 0
	for len(results) > 0 {
		results = results[topicRun(results, byID):]
		runs++
	}
	return runs
}

// partition writes one partition.
func (op *fetchOp) partition(w *fetchWriter, image *metadata.Image, p *fetchResult) {
	code := p.code
	if code == kafka.KafkaStorageError && op.version <= 5 {
		code = kafka.NotLeaderOrFollower // KIP-112: not known before version 6
	}
	w.int32(p.entry.partition)
	w.int16(int16(code))
	w.int64(int64(p.HighWatermark))
	w.int64(int64(p.LastStable))
	if op.version >= 5 {
		w.int64(int64(p.LogStart))
	}
	switch {
	case op.readCommitted && p.code == 0 && !p.diverges() && p.preferred == kafka.NoNode || p.unread:
		w.arrayLen(len(p.Aborted))
		for _, a := range p.Aborted {
			w.int64(int64(a.ProducerID))
			w.int64(int64(a.First))
			w.tags(0)
		}
	default:
		w.nullArray()
	}
	if op.version >= 11 {
		w.int32(int32(p.preferred))
	}
	w.bytesLen(p.Size())
	w.cut = len(w.b)
	if !w.flexible {
		return
	}
	leader := noLeader
	if op.version >= 16 && (code == kafka.NotLeaderOrFollower || code == kafka.FencedLeaderEpoch) {
		leader = op.hint(w, image, p.entry)
	}
	w.partitionTags(p, leader)
}

// diverges says that the reader is only told where its log parts from this one.
func (r *fetchResult) diverges() bool {
	return r.DivergingEpoch != kafka.NoEpoch || r.DivergingEnd != kafka.NoOffset
}

// currentLeader is the leader that a partition's answer names.
type currentLeader struct {
	id    kafka.NodeID
	epoch kafka.LeaderEpoch
}

var noLeader = currentLeader{kafka.NoNode, kafka.NoEpoch}

// hint finds the leader for a client that came to the wrong broker (KIP-951).
func (op *fetchOp) hint(w *fetchWriter, image *metadata.Image, e *fetchEntry) currentLeader {
	tp := kafka.TopicPartition{Topic: e.topic, Partition: e.partition}
	part, _ := op.h.b.Partitions.Get(tp)
	id, epoch := leadership(image, part, tp)
	if op.replica == kafka.NoNode { // brokers know each other
		w.name(op.h.b, op.call.Conn, image, id)
	}
	return currentLeader{id, epoch}
}

// fetchWriter writes a Fetch response body.
type fetchWriter struct {
	b         []byte
	version   int16
	flexible  bool
	cut       int // where the records of the last partition belong
	endpoints []leaderEndpoint
}

// name adds the endpoint of a leader to the response, once.
func (w *fetchWriter) name(b *Broker, c *server.ConnInfo, image *metadata.Image, id kafka.NodeID) {
	for _, e := range w.endpoints {
		if e.id == id {
			return
		}
	}
	if e, ok := b.leaderEndpoint(c, image, id); ok {
		w.endpoints = append(w.endpoints, e)
	}
}

func (w *fetchWriter) int16(v int16) { w.b = binary.BigEndian.AppendUint16(w.b, uint16(v)) }
func (w *fetchWriter) int32(v int32) { w.b = binary.BigEndian.AppendUint32(w.b, uint32(v)) }
func (w *fetchWriter) int64(v int64) { w.b = binary.BigEndian.AppendUint64(w.b, uint64(v)) }

func (w *fetchWriter) uvarint(v int) { w.b = binary.AppendUvarint(w.b, uint64(v)) }

func (w *fetchWriter) arrayLen(n int) {
	if w.flexible {
		w.uvarint(n + 1)
		return
	}
	w.int32(int32(n))
}

func (w *fetchWriter) nullArray() {
	if w.flexible {
		w.uvarint(0)
		return
	}
	w.int32(-1)
}

func (w *fetchWriter) bytesLen(n int) { w.arrayLen(n) }

func (w *fetchWriter) string(s string) {
	if w.flexible {
		w.uvarint(len(s) + 1)
	} else {
		w.int16(int16(len(s)))
	}
	w.b = append(w.b, s...)
}

// tags writes how many tagged fields follow.
func (w *fetchWriter) tags(n int) {
	if w.flexible {
		w.uvarint(n)
	}
}

// partitionTags writes the tagged fields of a partition: diverging epoch (KIP-595) and current leader.
func (w *fetchWriter) partitionTags(p *fetchResult, leader currentLeader) {
	n := 0
	diverges := p.diverges()
	if diverges {
		n++
	}
	if leader != noLeader {
		n++
	}
	w.tags(n)
	if diverges {
		w.uvarint(0)
		w.uvarint(4 + 8 + 1)
		w.int32(int32(p.DivergingEpoch))
		w.int64(int64(p.DivergingEnd))
		w.tags(0)
	}
	if leader != noLeader {
		w.uvarint(1)
		w.uvarint(4 + 4 + 1)
		w.int32(int32(leader.id))
		w.int32(int32(leader.epoch))
		w.tags(0)
	}
}

// brokers ends the body with the endpoints of the leaders that were named.
func (w *fetchWriter) brokers() {
	if !w.flexible {
		return
	}
	if len(w.endpoints) == 0 {
		w.tags(0)
		return
	}
	w.tags(1)
	w.uvarint(0)
	field := fetchWriter{flexible: true}
	field.arrayLen(len(w.endpoints))
	for _, e := range w.endpoints {
		field.int32(int32(e.id))
		field.string(e.host)
		field.int32(e.port)
		if e.rack == nil {
			field.uvarint(0)
		} else {
			field.string(*e.rack)
		}
		field.tags(0)
	}
	w.uvarint(len(field.b))
	w.b = append(w.b, field.b...)
}
