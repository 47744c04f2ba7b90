package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// movesPerRequest bounds the partitions of one request, so that its records fit into one batch of the metadata log.
const movesPerRequest = 5000

// startMoves asks for moves; with none of its replicas given (To is nil) a move is taken back.
func (s *session) startMoves(parent context.Context, moves []plannedMove) error {
	var failed problems
	for some := range slices.Chunk(moves, movesPerRequest) {
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		req.TimeoutMillis = int32(s.timeout.Milliseconds())
		at := map[string]int{}
		for _, m := range some {
			i, ok := at[m.Topic]
			if !ok {
				i, at[m.Topic] = len(req.Topics), len(req.Topics)
				t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
				t.Topic = m.Topic
				req.Topics = append(req.Topics, t)
			}
			p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
			p.Partition, p.Replicas = m.Partition, m.To
			req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
		}
		ctx, cancel := s.bound(parent)
		resp, err := req.RequestWith(ctx, s)
		cancel()
		if err == nil {
			err = answered(resp.ErrorCode, resp.ErrorMessage)
		}
		if err != nil {
			return s.about("reassignment", err)
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				failed.add(fmt.Sprintf("partition %s-%d", t.Topic, p.Partition), answered(p.ErrorCode, p.ErrorMessage))
			}
		}
	}
	return failed.err()
}

// moving is a partition that is being reassigned.
type moving struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Replicas  []int32 `json:"replicas"`
	Adding    []int32 `json:"adding"`
	Removing  []int32 `json:"removing"`
	// LeftBytes is what is still to be copied, by the sizes of the replicas; -1: not known.
	LeftBytes int64 `json:"leftBytes"`
}

// listMoves gives the partitions of some topics (none: of all) that are being reassigned, by topic and number.
func (s *session) listMoves(parent context.Context, topics []string) ([]moving, error) {
	ctx, cancel := s.bound(parent)
	defer cancel()
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	req.TimeoutMillis = int32(s.timeout.Milliseconds())
	resp, err := req.RequestWith(ctx, s)
	if err == nil {
		err = answered(resp.ErrorCode, resp.ErrorMessage)
	}
	if err != nil {
		return nil, s.about("reassignments", err)
	}
	out := []moving{}
	for _, t := range resp.Topics {
		if len(topics) > 0 && !slices.Contains(topics, t.Topic) {
			continue
		}
		for _, p := range t.Partitions {
			out = append(out, moving{Topic: t.Topic, Partition: p.Partition, Replicas: p.Replicas, Adding: notNull(p.AddingReplicas),
				Removing: notNull(p.RemovingReplicas), LeftBytes: -1})
		}
	}
	slices.SortFunc(out, func(a, b moving) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	s.addLeft(ctx, out)
	return out, nil
}

func notNull(ids []int32) []int32 {
	if ids == nil {
		return []int32{}
	}
	return ids
}

// addLeft tells how much each move has still to copy: what the largest replica has that the new ones lack.
func (s *session) addLeft(ctx context.Context, all []moving) {
	var topics []string
	var brokers []int32
	for _, m := range all {
		topics, brokers = append(topics, m.Topic), append(brokers, m.Replicas...)
	}
	slices.Sort(topics)
	slices.Sort(brokers)
	topics, brokers = slices.Compact(topics), slices.Compact(brokers)
	if len(all) == 0 {
		return
	}
	sizes, _ := s.replicaSizes(ctx, brokers, topics)
	for i := range all {
		m := &all[i]
		largest := int64(-1)
		for _, id := range m.Replicas {
			if n, ok := sizes[replicaAt{m.Topic, m.Partition, id}]; ok {
				largest = max(largest, n)
			}
		}
		if largest < 0 {
			continue
		}
		m.LeftBytes = 0
		for _, id := range m.Adding {
			m.LeftBytes += max(0, largest-sizes[replicaAt{m.Topic, m.Partition, id}])
		}
	}
}

// leftText sums up what moves have still to do.
func leftText(all []moving) string {
	left, known := int64(0), true
	for _, m := range all {
		left += max(m.LeftBytes, 0)
		known = known && m.LeftBytes >= 0
	}
	text := count(len(all), "partition") + " on the way"
	switch {
	case !known:
		return text
	case left == 0:
		return text + ", waiting for the new replicas to be in sync"
	}
	return text + ", " + sizeText(left) + " left to copy"
}

// watchInterval is the time between two looks at moves.
const watchInterval = time.Second

// watchMoves prints how the moves of some topics go until there are none, and gives the topics that it saw moving.
func (s *session) watchMoves(ctx context.Context, out io.Writer, topics []string) (seen []string, err error) {
	last := ""
	for {
		all, err := s.listMoves(ctx, topics)
		if err != nil {
			return seen, err
		}
		if len(all) == 0 {
			fmt.Fprintln(out, "no partition is being reassigned")
			return seen, nil
		}
		for _, m := range all {
			seen = append(seen, m.Topic)
		}
		seen = distinct(seen)
		if text := leftText(all); text != last {
			fmt.Fprintln(out, text)
			last = text
		}
		select {
		case <-ctx.Done():
			return seen, ctx.Err()
		case <-time.After(watchInterval):
		}
	}
}

// refuseBusy says which of the planned partitions are being reassigned already.
func (s *session) refuseBusy(ctx context.Context, moves []plannedMove) error {
	busy, err := s.listMoves(ctx, nil)
	if err != nil {
		return err
	}
	for _, b := range busy {
		if slices.ContainsFunc(moves, func(m plannedMove) bool { return m.Topic == b.Topic && m.Partition == b.Partition }) {
			return fmt.Errorf("partition %s-%d is being reassigned already; wait with moldau topic reassign --watch, or end it with "+
				"moldau topic reassign %s --cancel --execute", b.Topic, b.Partition, b.Topic)
		}
	}
	return nil
}

// planView is a plan as it is printed.
type planView struct {
	Moves []plannedMove `json:"moves"`
	Bytes int64         `json:"bytes"` // to be copied in all; what is not known is left out
}

func planViewOf(moves []plannedMove) planView {
	v := planView{Moves: moves}
	for _, m := range moves {
		v.Bytes += max(m.Bytes, 0)
	}
	return v
}

// print shows the moves, and what each broker gains and loses.
func (v planView) print(w io.Writer) error {
	if len(v.Moves) == 0 {
		_, err := fmt.Fprintln(w, "nothing has to move")
		return err
	}
	t := newTable("TOPIC", "PARTITION", "FROM", "TO", "COPIES")
	gains, losses, bytes := map[int32]int{}, map[int32]int{}, map[int32]int64{}
	var ids []int32
	for _, m := range v.Moves {
		t.add(m.Topic, m.Partition, joinInts(m.From), joinInts(m.To), sizeOr(m.Bytes))
		ids = append(append(ids, m.From...), m.To...)
		for _, id := range m.adds() {
			gains[id]++
			bytes[id] += max(m.Bytes, 0) / int64(len(m.adds()))
		}
		for _, id := range (plannedMove{From: m.To, To: m.From}).adds() {
			losses[id]++
		}
	}
	if err := t.print(w); err != nil {
		return err
	}
	slices.Sort(ids)
	fmt.Fprintln(w)
	t = newTable("BROKER", "GAINS", "LOSES", "RECEIVES")
	for _, id := range slices.Compact(ids) {
		t.add(id, gains[id], losses[id], sizeText(bytes[id]))
	}
	if err := t.print(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s to reassign, %s to copy\n", count(len(v.Moves), "partition"), sizeText(v.Bytes))
	return err
}
