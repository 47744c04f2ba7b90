package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// findCoordinator waits until a group's coordinator serves.
func findCoordinator(w *wire, group string) error {
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		r := kmsg.NewPtrOffsetFetchRequest()
		r.SetVersion(5)
		r.Group = group
		f := kmsg.NewPtrFindCoordinatorRequest()
		f.SetVersion(2)
		f.CoordinatorKey = group
		answer := kmsg.NewPtrFindCoordinatorResponse()
		answer.SetVersion(2)
		if err := w.ask(f, answer); err != nil {
			return err
		}
		err := kerr.ErrorForCode(answer.ErrorCode)
		if err == nil {
			fetched := kmsg.NewPtrOffsetFetchResponse()
			fetched.SetVersion(5)
			if err := w.ask(r, fetched); err != nil {
				return err
			}
			if err = kerr.ErrorForCode(fetched.ErrorCode); err == nil {
				return nil
			}
		}
		if time.Since(begun) > time.Minute {
			return fmt.Errorf("no coordinator for %s: %w", group, err)
		}
	}
}

// ask sends one request of a version with response header 0 and reads its response.
func (w *wire) ask(r kmsg.Request, resp kmsg.Response) error {
	if err := w.send(1, r); err != nil {
		return err
	}
	raw, err := w.receive()
	if err != nil {
		return err
	}
	return resp.ReadFrom(raw[4:])
}

// commit commits one offset outside of membership.
func (w *wire) commit(group, topic string, offset int64) error {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.SetVersion(6)
	r.Group, r.Generation = group, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset = offset
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.SetVersion(6)
	if err := w.ask(r, resp); err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

// commits commits offsets one at a time on each connection, each for a group of its own.
func commits(o options) (map[string]any, error) {
	if err := makeTopic(o); err != nil {
		return nil, err
	}
	var warm sync.WaitGroup
	warm.Add(o.connections)
	var once sync.Once
	var before usage
	err := each(o.connections, func(n int) error {
		group := fmt.Sprintf("commits-%d", n)
		w, err := warmed(o, group)
		warm.Done()
		if err != nil {
			return err
		}
		defer w.Close()
		warm.Wait()
		once.Do(func() { before = measure(o.pids) })
		for i := range o.count {
			if err := w.commit(group, o.topic, int64(i)); err != nil {
				return err
			}
		}
		return nil
	})
	total := o.connections * o.count
	after := measure(o.pids)
	return map[string]any{"commits_s": round(float64(total) / after.at.Sub(before.at).Seconds()), "connections": o.connections,
		"cpu_us_per_request": round((after.cpu - before.cpu).Seconds() * 1e6 / float64(total))}, err
}

// warmed dials and commits a little: a JVM's JIT wants that.
func warmed(o options, group string) (*wire, error) {
	w, err := dial(o.brokers[0])
	if err != nil {
		return nil, err
	}
	if err := findCoordinator(w, group); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	for i := range 200 {
		if err := w.commit(group, o.topic, int64(i)); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	return w, nil
}

// groups leaves offsets of many groups behind.
func groups(o options) (map[string]any, error) {
	if err := makeTopic(o); err != nil {
		return nil, err
	}
	empty := residentMiB(o.pids)
	err := each(o.connections, func(n int) error {
		w, err := dial(o.brokers[0])
		if err != nil {
			return err
		}
		defer w.Close()
		for i := n; i < o.count; i += o.connections {
			group := fmt.Sprintf("group-%05d", i)
			if i < 200 { // every shard once
				if err := findCoordinator(w, group); err != nil {
					return err
				}
			}
			if err := w.commit(group, o.topic, int64(i)); err != nil {
				return err
			}
		}
		return nil
	})
	return map[string]any{"groups": o.count, "rss_mib": round(residentMiB(o.pids)), "rss_mib_before": round(empty)}, err
}

// loaded waits until the coordinators of all groups that the work groups left answer with their offsets.
func loaded(o options) (map[string]any, error) {
	begun := time.Now()
	var w *wire
	for {
		var err error
		if w, err = dial(o.brokers[0]); err == nil {
			break
		}
		if time.Since(begun) > time.Minute {
			return nil, err
		}
		time.Sleep(5 * time.Millisecond)
	}
	defer w.Close()
	for i := range o.count {
		group := fmt.Sprintf("group-%05d", i)
		if err := findCoordinator(w, group); err != nil {
			return nil, err
		}
	}
	return map[string]any{"groups": o.count, "ms": round(float64(time.Since(begun).Microseconds()) / 1000),
		"rss_mib": round(residentMiB(o.pids))}, nil
}

// members starts that many members of one group at once and waits until all partitions are owned.
func members(o options) (map[string]any, error) {
	if err := makeTopic(o); err != nil {
		return nil, err
	}
	group := fmt.Sprintf("members-%d", time.Now().UnixNano())
	w, err := dial(o.brokers[0])
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if err := findCoordinator(w, group); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	owned := map[int32]int{}
	done := make(chan struct{})
	var once sync.Once
	change := func(n int, lost, got []int32) {
		mu.Lock()
		defer mu.Unlock()
		for _, p := range lost {
			if owned[p] == n {
				delete(owned, p)
			}
		}
		for _, p := range got {
			owned[p] = n
		}
		holders := map[int]bool{}
		for _, holder := range owned {
			holders[holder] = true
		}
		if len(owned) == o.partitions && len(holders) == min(o.connections, o.partitions) {
			once.Do(func() { close(done) })
		}
	}
	begun := time.Now()
	var clients []*kgo.Client
	for n := range o.connections {
		options := []kgo.Opt{kgo.SeedBrokers(o.brokers...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(o.topic),
			kgo.FetchMaxWait(5 * time.Second),
			kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { change(n, nil, m[o.topic]) }),
			kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { change(n, m[o.topic], nil) }),
			kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { change(n, m[o.topic], nil) })}
		if o.consumer {
			options = append(options, kgo.ServerSideBalancer())
		}
		c, err := kgo.NewClient(options...)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		clients = append(clients, c)
		go c.PollFetches(context.Background())
	}
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		return nil, errors.New("not all partitions were owned")
	}
	return map[string]any{"members": len(clients), "partitions": o.partitions,
		"ms": round(float64(time.Since(begun).Microseconds()) / 1000)}, nil
}
