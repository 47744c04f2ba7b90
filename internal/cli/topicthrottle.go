package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The configurations by which a reassignment is throttled, as Kafka's tool sets them: rates on brokers, and on topics which
// replicas they hold for (KIP-73). The last bounds moves between log directories, and is taken back with the others.
const (
	leaderRate       = "leader.replication.throttled.rate"
	followerRate     = "follower.replication.throttled.rate"
	moveRate         = "replica.alter.log.dirs.io.max.bytes.per.second"
	leaderReplicas   = "leader.replication.throttled.replicas"
	followerReplicas = "follower.replication.throttled.replicas"
)

// throttledReplicas gives, by topic, the replicas that a plan throttles: where it copies from, and where to.
func throttledReplicas(moves []plannedMove) (leaders, followers map[string]string) {
	from, to := map[string][]string{}, map[string][]string{}
	for _, m := range moves {
		for _, id := range m.From {
			from[m.Topic] = append(from[m.Topic], fmt.Sprintf("%d:%d", m.Partition, id))
		}
		for _, id := range m.adds() {
			to[m.Topic] = append(to[m.Topic], fmt.Sprintf("%d:%d", m.Partition, id))
		}
	}
	join := func(lists map[string][]string) map[string]string {
		out := map[string]string{}
		for topic, list := range lists {
			slices.Sort(list)
			out[topic] = strings.Join(slices.Compact(list), ",")
		}
		return out
	}
	return join(from), join(to)
}

// throttle bounds what the moves of a plan copy to a rate in bytes per second for each broker. It must be in place before
// they begin.
func (s *session) throttle(ctx context.Context, moves []plannedMove, rate int64) error {
	leaders, followers := throttledReplicas(moves)
	for _, topic := range topicsOfMoves(moves) {
		set := []configChange{{key: leaderReplicas, value: leaders[topic]}}
		if followers[topic] != "" {
			set = append(set, configChange{key: followerReplicas, value: followers[topic]})
		}
		if err := s.alterConfigs(ctx, resource{kmsg.ConfigResourceTypeTopic, topic}, set); err != nil {
			return err
		}
	}
	var moving []int32
	for _, m := range moves {
		moving = append(append(moving, m.From...), m.To...)
	}
	alive, err := s.brokersInService(ctx)
	if err != nil {
		return err
	}
	value := fmt.Sprint(rate)
	for _, id := range alive {
		if !slices.Contains(moving, id) {
			continue
		}
		err := s.alterConfigs(ctx, brokerResource(id), []configChange{{key: leaderRate, value: value}, {key: followerRate, value: value}})
		if err != nil {
			return err
		}
	}
	return nil
}

// unthrottle takes back what throttle set, from topics and from all brokers in service.
func (s *session) unthrottle(ctx context.Context, topics []string) error {
	remove := func(keys ...string) (out []configChange) {
		for _, key := range keys {
			out = append(out, configChange{key: key, op: kmsg.IncrementalAlterConfigOpDelete})
		}
		return out
	}
	alive, err := s.brokersInService(ctx)
	if err != nil {
		return err
	}
	for _, id := range alive {
		if err := s.alterConfigs(ctx, brokerResource(id), remove(leaderRate, followerRate, moveRate)); err != nil {
			return err
		}
	}
	for _, topic := range topics {
		err := s.alterConfigs(ctx, resource{kmsg.ConfigResourceTypeTopic, topic}, remove(leaderReplicas, followerReplicas))
		if err != nil {
			return err
		}
	}
	return nil
}

func brokerResource(id int32) resource {
	return resource{kmsg.ConfigResourceTypeBroker, fmt.Sprint(id)}
}

func (s *session) brokersInService(parent context.Context) ([]int32, error) {
	ctx, cancel := s.bound(parent)
	defer cancel()
	found, err := s.admin.ListBrokers(ctx)
	if err != nil {
		return nil, s.about("cluster", err)
	}
	return found.NodeIDs(), nil
}
