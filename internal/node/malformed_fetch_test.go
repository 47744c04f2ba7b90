package node

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// fetchCodes compares the error code of an answer to Fetch and those of its partitions, in its order.
func fetchCodes(top kafka.Code, want ...kafka.Code) func(kmsg.Response) error {
	return func(resp kmsg.Response) error {
		r := resp.(*kmsg.FetchResponse)
		if kafka.Code(r.ErrorCode) != top {
			return fmt.Errorf("%v instead of %v", kafka.Code(r.ErrorCode), top)
		}
		var got []int16
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				got = append(got, p.ErrorCode)
			}
		}
		return codes(want...)(got)
	}
}

func fetchCases(s *suite) []hostile {
	one := func(name string, want kafka.Code, change func(*kmsg.FetchRequest, *kmsg.FetchRequestTopicPartition)) hostile {
		r := fetchRequest(12, "m", 0, 0)
		change(r, &r.Topics[0].Partitions[0])
		top := kafka.None
		if want == kafka.UnknownServerError {
			top = want
		}
		return request(name, r, fetchCodes(top, want))
	}
	type req = kmsg.FetchRequest
	type part = kmsg.FetchRequestTopicPartition
	many := func(n int) *kmsg.FetchRequest {
		r := fetchRequest(12, "m", 0, 0)
		for i := range n {
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, fetchPartition(int32(i+1), 0))
		}
		return r
	}
	partitions := 200_000
	if long() {
		partitions = 999_999
	}
	twice := fetchRequest(12, "m", 0, 0)
	twice.Topics = append(twice.Topics, twice.Topics[0])
	byID := fetchRequest(13, "", 0, 0)
	byID.Topics[0].TopicID = [16]byte{9, 9}
	out := []hostile{
		one("offset -1", kafka.OffsetOutOfRange, func(_ *req, p *part) { p.FetchOffset = -1 }),
		one("offset -2^63", kafka.OffsetOutOfRange, func(_ *req, p *part) { p.FetchOffset = -1 << 63 }),
		one("offset 2^63-1", kafka.OffsetOutOfRange, func(_ *req, p *part) { p.FetchOffset = 1<<63 - 1 }),
		one("partition -1", kafka.UnknownTopicOrPartition, func(_ *req, p *part) { p.Partition = -1 }),
		one("partition 2^31-1", kafka.UnknownTopicOrPartition,
			func(_ *req, p *part) { p.Partition = 1<<31 - 1 }),
		one("partition max bytes 0", kafka.None, func(_ *req, p *part) { p.PartitionMaxBytes = 0 }),
		one("partition max bytes -1", kafka.None, func(_ *req, p *part) { p.PartitionMaxBytes = -1 }),
		one("max bytes -1", kafka.None, func(r *req, _ *part) { r.MaxBytes = -1 }),
		one("max bytes -2^31", kafka.None, func(r *req, _ *part) { r.MaxBytes = -1 << 31 }),
		one("min bytes -1", kafka.None, func(r *req, _ *part) { r.MinBytes = -1 }),
		one("min bytes 2^31-1, no wait", kafka.None, func(r *req, _ *part) { r.MinBytes = 1<<31 - 1 }),
		one("wait of -1", kafka.None, func(r *req, p *part) { r.MaxWaitMillis = -1 }),
		one("leader epoch 5", kafka.UnknownLeaderEpoch, func(_ *req, p *part) { p.CurrentLeaderEpoch = 5 }),
		one("last fetched epoch 5", kafka.OffsetOutOfRange,
			func(_ *req, p *part) { p.FetchOffset, p.LastFetchedEpoch = 1, 5 }),
		one("replica id -2", kafka.None, func(r *req, _ *part) { r.ReplicaID = -2 }),
		one("replica id 7", kafka.NotLeaderOrFollower, func(r *req, _ *part) { r.ReplicaID = 7 }),
		one("isolation 9", kafka.UnknownServerError, func(r *req, _ *part) { r.IsolationLevel = 9 }),
		request("unknown topic", fetchRequest(12, "none", 0, 0), fetchCodes(0, kafka.UnknownTopicOrPartition)),
		request("unknown topic id", byID, fetchCodes(0, kafka.UnknownTopicID)),
		request("zero topic id", fetchRequest(13, "", 0, 0), fetchCodes(0, kafka.UnknownTopicID)),
		request("same topic twice", twice, func(resp kmsg.Response) error {
			if r := resp.(*kmsg.FetchResponse); r.ErrorCode != 0 || len(r.Topics) == 0 {
				return errors.New("not answered")
			}
			return nil
		}),
		bytesCase("100,000 partitions", frame(many(99_999), 1), answered(1)),
		// Apache Kafka answers more of them too; our node does not keep what cannot be partitions.
		bytesCase("very many partitions", frame(many(partitions), 1), closed),
		bytesCase("1,000,001 partitions", frame(many(1_000_000), 1), closed),
		{"a session of a thousand partitions", func(*suite) []byte {
			r := many(1000)
			r.SessionEpoch = 0
			return frame(r, 1)
		}, answered(1)},
		{"3,000 sessions", nothing, manySessions},
		{"session epochs", nothing, sessionAbuse},
		{"session named by id after names", nothing, sessionKinds},
	}
	for _, id := range []int32{0, 5, -1, -1 << 31, 1<<31 - 1} {
		for _, epoch := range []int32{1, -2, 1<<31 - 1} {
			r := fetchRequest(12, "m", 0, 0)
			r.SessionID, r.SessionEpoch = id, epoch
			out = append(out, request(fmt.Sprintf("session %d, epoch %d", id, epoch), r,
				fetchCodes(kafka.FetchSessionIDNotFound)))
		}
	}
	return out
}

func nothing(*suite) []byte { return nil }

func open(c *wire) (int32, error) {
	r := fetchRequest(12, "m", 0, 0)
	r.SessionEpoch = 0
	resp, err := c.ask(r)
	if err != nil {
		return 0, err
	}
	return resp.(*kmsg.FetchResponse).SessionID, nil
}

// manySessions asks for more sessions than there are slots: they go on without.
func manySessions(s *suite, c *wire) error {
	got, without := map[int32]bool{}, 0
	for i := range 3000 {
		id, err := open(c)
		switch {
		case err != nil:
			return fmt.Errorf("session %d: %w", i, err)
		case id == 0:
			without++
		default:
			got[id] = true
		}
	}
	if without == 0 || len(got) > 1000 { // max.incremental.fetch.session.cache.slots
		return fmt.Errorf("%d sessions, %d without", len(got), without)
	}
	for id := range got { // Apache Kafka lets anybody end anybody's session
		r := fetchRequest(12, "m", 0, 0)
		r.SessionID, r.SessionEpoch = id, -1
		if _, err := c.ask(r); err != nil {
			return err
		}
	}
	return goesOn(s, c)
}

func sessionAbuse(s *suite, c *wire) error {
	id, err := open(c)
	if err != nil || id == 0 {
		return fmt.Errorf("no session: %v", err)
	}
	other := s.dial()
	defer other.Close()
	for i, step := range []struct {
		on    *wire
		epoch int32
		want  kafka.Code
	}{
		{c, 2, kafka.InvalidFetchSessionEpoch}, {c, 1<<31 - 1, kafka.InvalidFetchSessionEpoch}, {c, -2, kafka.InvalidFetchSessionEpoch},
		{c, 1, 0}, {c, 1, kafka.InvalidFetchSessionEpoch}, {other, 2, 0}, {c, 3, 0}, {other, -1, 0},
		{c, 4, kafka.FetchSessionIDNotFound},
	} {
		r := fetchRequest(12, "m", 0, 0)
		r.Topics, r.SessionID, r.SessionEpoch = nil, id, step.epoch
		resp, err := step.on.ask(r)
		if err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		if got := kafka.Code(resp.(*kmsg.FetchResponse).ErrorCode); got != step.want {
			return fmt.Errorf("step %d: %v instead of %v", i, got, step.want)
		}
	}
	return goesOn(s, c)
}

func sessionKinds(s *suite, c *wire) error {
	id, err := open(c)
	if err != nil || id == 0 {
		return fmt.Errorf("no session: %v", err)
	}
	r := fetchRequest(13, "", 0, 0)
	r.Topics, r.SessionID, r.SessionEpoch = nil, id, 1
	resp, err := c.ask(r)
	if err != nil {
		return err
	}
	if got := kafka.Code(resp.(*kmsg.FetchResponse).ErrorCode); got != kafka.FetchSessionTopicIDError {
		return fmt.Errorf("%v", got)
	}
	return goesOn(s, c)
}

func adminCases() []hostile {
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 7, 5000
	for range 2 {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = "twice", 1, 1
		create.Topics = append(create.Topics, t)
	}
	one := func(change func(*kmsg.CreateTopicsRequestTopic)) *kmsg.CreateTopicsRequest {
		r := kmsg.NewPtrCreateTopicsRequest()
		r.Version, r.TimeoutMillis = 7, 5000
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = "never", 1, 1
		change(&t)
		r.Topics = append(r.Topics, t)
		return r
	}
	created := func(want ...kafka.Code) func(kmsg.Response) error {
		return func(resp kmsg.Response) error {
			var got []int16
			for _, t := range resp.(*kmsg.CreateTopicsResponse).Topics {
				got = append(got, t.ErrorCode)
			}
			return codes(want...)(got)
		}
	}
	type topic = kmsg.CreateTopicsRequestTopic
	metadata := func(names ...string) *kmsg.MetadataRequest { return metadataOf(names...) }
	lots := make([]string, 20_000)
	for i := range lots {
		lots[i] = "m"
	}
	return []hostile{
		request("create the same twice", create, created(kafka.InvalidRequest)),
		request("create with a name not UTF-8", one(func(t *topic) { t.Topic = "\xff\xfe" }),
			created(kafka.InvalidTopicException)),
		request("create with a name of 30,000", one(func(t *topic) { t.Topic = string(make([]byte, 30_000)) }),
			created(kafka.InvalidTopicException)),
		request("create with path in the name", one(func(t *topic) { t.Topic = "../../etc" }),
			created(kafka.InvalidTopicException)),
		request("create the metadata topic", one(func(t *topic) { t.Topic = "__cluster_metadata" }),
			created(kafka.InvalidRequest)),
		request("create 2^30 partitions", one(func(t *topic) { t.NumPartitions = 1 << 30 }),
			created(kafka.PolicyViolation)),
		request("create 2^31-1 partitions", one(func(t *topic) { t.NumPartitions = 1<<31 - 1 }),
			created(kafka.PolicyViolation)),
		request("create -2 partitions", one(func(t *topic) { t.NumPartitions = -2 }),
			created(kafka.InvalidPartitions)),
		request("create 2^15-1 replicas", one(func(t *topic) { t.ReplicationFactor = 1<<15 - 1 }),
			created(kafka.InvalidReplicationFactor)),
		request("list offsets of the same partition twice", listOffsets("m", 0, 0), func(resp kmsg.Response) error {
			var got []int16
			for _, t := range resp.(*kmsg.ListOffsetsResponse).Topics {
				for _, p := range t.Partitions {
					got = append(got, p.ErrorCode)
				}
			}
			return codes(kafka.InvalidRequest)(got)
		}),
		request("metadata of 20,000 times the same", metadata(lots...), func(resp kmsg.Response) error {
			if n := len(resp.(*kmsg.MetadataResponse).Topics); n != 1 {
				return fmt.Errorf("%d topics", n)
			}
			return nil
		}),
		request("create partitions: 2^31-1", createPartitions("m", 1<<31-1), func(resp kmsg.Response) error {
			if c := kafka.Code(resp.(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode); c != kafka.PolicyViolation && c != kafka.InvalidPartitions {
				return fmt.Errorf("%v", c)
			}
			return nil
		}),
		request("delete records up to 2^63-1", deleteRecords("m", 1<<63-1), func(resp kmsg.Response) error {
			return codes(kafka.OffsetOutOfRange)([]int16{resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode})
		}),
		request("delete records up to -2", deleteRecords("m", -2), func(resp kmsg.Response) error {
			return codes(kafka.OffsetOutOfRange)([]int16{resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode})
		}),
		request("delete a topic twice", deleteTopics("none", "none"), func(resp kmsg.Response) error {
			for _, t := range resp.(*kmsg.DeleteTopicsResponse).Topics {
				if t.ErrorCode == 0 {
					return errors.New("deleted")
				}
			}
			return nil
		}),
	}
}
