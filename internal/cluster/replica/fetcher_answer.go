package replica

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// Answered takes the answer to the oldest request under way, or why there is none, and runs on host what follows from
// it. The bytes of the answer are not kept. It gives the replicas that had lost records and have all that is committed
// again.
func (f *Fetcher) Answered(now time.Time, resp kmsg.Response, err error, host Host) (regained []*Partition) {
	if len(f.flights) == 0 {
		return nil
	}
	flight := f.flights[0]
	f.flights = f.flights[1:]
	if err == nil {
		switch r := resp.(type) {
		case *kmsg.FetchResponse:
			return f.fetched(now, flight, r, host)
		case *kmsg.ListOffsetsResponse:
			f.failures = 0
			f.lookedUp(now, flight, r, host)
			return nil
		}
	}
	f.interrupted(now, flight)
	return nil
}

// interrupted handles a request that brought nothing: all is asked again, after a pause.
func (f *Fetcher) interrupted(now time.Time, lost flight) {
	f.session.restart()
	f.resume = now.Add(f.pauseAfter(f.failures))
	f.failures++
	for _, x := range lost.lookUps {
		if !x.gone && x.state != pausing {
			f.mark(x)
		}
	}
}

// pauseAfter is the pause after so many earlier errors in a row.
func (f *Fetcher) pauseAfter(failures int) time.Duration {
	return min(firstPause<<min(failures, 16), f.o.Backoff)
}

// pause leaves a replica out for a while.
func (f *Fetcher) pause(now time.Time, x *followed) {
	if x.gone {
		return
	}
	f.session.forget(idOf(x.p))
	x.state, x.resume = pausing, now.Add(f.pauseAfter(x.failures))
	x.failures++
	f.paused = append(f.paused, x)
}

func (f *Fetcher) report(x *followed, err error) {
	if f.o.Failed != nil {
		f.o.Failed(x.p, err)
	}
}

func (f *Fetcher) fetched(now time.Time, flight flight, r *kmsg.FetchResponse, host Host) (regained []*Partition) {
	switch code := kafka.Code(r.ErrorCode); code {
	case kafka.None:
	case kafka.InvalidFetchSessionEpoch:
		if len(f.flights) > 0 {
			return nil // the next request has overtaken it
		}
		fallthrough
	case kafka.FetchSessionIDNotFound, kafka.FetchSessionTopicIDError:
		f.session.restart() // the leader has forgotten; the first time nothing is lost by that
		if f.failures++; f.failures > 1 {
			f.resume = now.Add(f.pauseAfter(f.failures - 2))
		}
		return nil
	default:
		f.interrupted(now, flight)
		return nil
	}
	f.failures = 0
	f.session.answered(r.SessionID)
	for i := range r.Topics {
		t := &r.Topics[i]
		for j := range t.Partitions {
			x := f.followed[partitionID{t.TopicID, t.Partitions[j].Partition}]
			if x == nil || x.state != fetching || x.named > flight.number {
				continue
			}
			if f.took(now, x, &t.Partitions[j], host) {
				regained = append(regained, x.p)
			}
		}
	}
	return regained
}

// took applies what was answered for one replica.
func (f *Fetcher) took(now time.Time, x *followed, r *kmsg.FetchResponseTopicPartition, host Host) (regained bool) {
	view := LeaderView{Epoch: x.at.LeaderEpoch, Offset: x.at.Offset, HighWatermark: kafka.Offset(r.HighWatermark),
		LogStart: kafka.Offset(r.LogStartOffset)}
	var e Effects
	var err error
	switch code := kafka.Code(r.ErrorCode); {
	case code == kafka.OffsetOutOfRange:
		x.state = endWanted
		f.session.forget(idOf(x.p))
		f.mark(x)
		return false
	case code != kafka.None:
		if !stale(code) {
			f.report(x, code)
		}
		f.pause(now, x)
		return false
	case r.DivergingEpoch.Epoch >= 0 || r.DivergingEpoch.EndOffset >= 0:
		e, err = x.p.Diverged(view, kafka.LeaderEpoch(r.DivergingEpoch.Epoch), kafka.Offset(r.DivergingEpoch.EndOffset))
	default:
		var batches []byte
		if batches, err = intact(r.RecordBatches, view.Epoch); err == nil {
			regained, e, err = x.p.Replicate(now, batches, view)
		}
	}
	f.o.count(len(r.RecordBatches))
	if x.heard = true; f.o.Quota != nil && x.throttled() {
		f.o.Quota.Record(now, int64(len(r.RecordBatches)))
	}
	e.Run(host)
	f.went(now, x, err)
	return regained
}

func (o *FetcherOptions) count(bytes int) {
	if o.Copied != nil && bytes > 0 {
		o.Copied(bytes)
	}
}

// went goes on with a replica after a step of it.
func (f *Fetcher) went(now time.Time, x *followed, err error) {
	if err != nil {
		f.report(x, err)
		f.pause(now, x)
		return
	}
	x.state, x.failures = fetching, 0
	f.mark(x)
}

// stale says whether an error only tells that one of two nodes has not seen the newest metadata yet.
func stale(code kafka.Code) bool {
	switch code {
	case kafka.FencedLeaderEpoch, kafka.UnknownLeaderEpoch, kafka.NotLeaderOrFollower, kafka.UnknownTopicID,
		kafka.UnknownTopicOrPartition, kafka.InconsistentTopicID:
		return true
	}
	return false
}

// lookedUp takes where the leader's logs end or begin.
func (f *Fetcher) lookedUp(now time.Time, flight flight, r *kmsg.ListOffsetsResponse, host Host) {
	unanswered := flight.lookUps
	for i := range r.Topics {
		t := &r.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			at := slices.IndexFunc(unanswered, func(x *followed) bool {
				return x.p.tp.Topic == t.Topic && x.p.tp.Partition == p.Partition
			})
			if at < 0 {
				continue
			}
			x := unanswered[at]
			unanswered = slices.Delete(unanswered, at, at+1)
			f.found(now, x, p, host)
		}
	}
	for _, x := range unanswered {
		f.pause(now, x)
	}
}

// found handles one end of the leader's log.
func (f *Fetcher) found(now time.Time, x *followed, r *kmsg.ListOffsetsResponseTopicPartition, host Host) {
	if x.gone || (x.state != endWanted && x.state != startWanted) {
		return
	}
	if code := kafka.Code(r.ErrorCode); code != kafka.None {
		if !stale(code) {
			f.report(x, code)
		}
		f.pause(now, x)
		return
	}
	offset := kafka.Offset(r.Offset)
	if x.state == endWanted && offset >= x.at.Offset {
		x.state, x.leaderEnd = startWanted, offset
		f.mark(x)
		return
	}
	start, end := kafka.Offset(0), offset
	if x.state == startWanted {
		start, end = offset, x.leaderEnd
	}
	if start <= x.at.Offset && x.at.Offset <= end {
		f.pause(now, x) // nothing is out of range any more; should the leader say so again, not at once
		return
	}
	e, err := x.p.OutOfRange(LeaderView{Epoch: x.at.LeaderEpoch, Offset: x.at.Offset}, start, end)
	e.Run(host)
	f.went(now, x, err)
}
