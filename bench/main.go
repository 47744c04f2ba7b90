// Command bench puts the same work on any Kafka-compatible broker or cluster and tells what it cost the brokers' processes:
// prebuilt batches over plain connections, so that the client costs next to nothing and the brokers' CPU seconds are the
// figure.
//
//	bench -brokers HOST:PORT[,HOST:PORT...] -pid PID[,PID...] raw-produce|raw-fetch|sync|openloop|failover|fill|first|...
//
// It prints one JSON line. bench/run compares one node of Moldau with Apache Kafka on the same machine in the same run,
// bench/cluster three.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type options struct {
	brokers       []string
	pids          []int
	replicas      int
	rate, seconds int
	victim        string
	signal        int
	topic         string
	partitions    int
	batch, answer int
	mib           int
	connections   int
	depth         int
	count         int
	configs       string
	consumer      bool
}

func main() {
	var o options
	brokers := flag.String("brokers", "127.0.0.1:9092", "brokers, comma separated")
	pids := flag.String("pid", "", "process ids of the brokers in the order of their node ids, for CPU and memory")
	flag.IntVar(&o.replicas, "replicas", 1, "replicas of the topic's partitions")
	flag.IntVar(&o.rate, "rate", 500, "records a second (openloop)")
	flag.IntVar(&o.seconds, "seconds", 15, "seconds (openloop, failover)")
	flag.StringVar(&o.victim, "victim", "broker", "which leader dies (failover): broker, or controller for the active one")
	flag.IntVar(&o.signal, "signal", 9, "signal to it (failover)")
	flag.StringVar(&o.topic, "topic", "bench", "topic; made anew")
	flag.IntVar(&o.partitions, "partitions", 6, "partitions")
	flag.IntVar(&o.batch, "batch", 256<<10, "batch size in bytes")
	flag.IntVar(&o.answer, "answer", 1<<20, "most bytes of a fetch answer")
	flag.IntVar(&o.mib, "mib", 1024, "MiB to move")
	flag.IntVar(&o.connections, "connections", 2, "connections")
	flag.IntVar(&o.depth, "depth", 5, "requests in flight a connection")
	flag.IntVar(&o.count, "count", 2000, "records (sync), records a partition (fill)")
	flag.StringVar(&o.configs, "configs", "", "topic configs key=value, comma separated")
	flag.BoolVar(&o.consumer, "consumer", false, "members speak the consumer protocol (KIP-848)")
	flag.Parse()
	o.brokers = strings.Split(*brokers, ",")
	for pid := range strings.FieldsFuncSeq(*pids, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(pid)
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench: -pid:", err)
			os.Exit(2)
		}
		o.pids = append(o.pids, n)
	}
	work := map[string]func(options) (map[string]any, error){
		"raw-produce": rawProduce, "raw-fetch": rawFetch, "sync": syncOne, "fill": fill, "first": first,
		"commits": commits, "groups": groups, "loaded": loaded, "members": members, "txn": transactions, "compact": compact,
		"producers": producers, "openloop": openLoop, "failover": failover, "insync": inSync,
	}[flag.Arg(0)]
	if work == nil {
		flag.Usage()
		os.Exit(2)
	}
	result, err := work(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	result["what"] = flag.Arg(0)
	line, _ := json.Marshal(result)
	fmt.Println(string(line))
}

// makeTopic makes the topic anew.
func makeTopic(o options) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(o.brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	admin := kadm.NewClient(client)
	if err := untilJoined(ctx, admin, o); err != nil {
		return err
	}
	if _, err := admin.DeleteTopics(ctx, o.topic); err != nil {
		return err
	}
	time.Sleep(500 * time.Millisecond)
	configs := map[string]*string{}
	for entry := range strings.SplitSeq(o.configs, ",") {
		if key, value, ok := strings.Cut(entry, "="); ok {
			configs[key] = &value
		}
	}
	made, err := admin.CreateTopics(ctx, int32(o.partitions), int16(o.replicas), configs, o.topic)
	if err != nil {
		return err
	}
	if err := made.Error(); err != nil {
		return err
	}
	return untilInSync(ctx, admin, o)
}

// usage is what the brokers' processes have used so far.
type usage struct {
	at  time.Time
	cpu time.Duration
}

func measure(pids []int) usage {
	u := usage{at: time.Now()}
	for _, pid := range pids {
		raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			continue
		}
		text := string(raw)
		fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		user, _ := strconv.Atoi(fields[11])
		system, _ := strconv.Atoi(fields[12])
		u.cpu += time.Duration(user+system) * 10 * time.Millisecond
	}
	return u
}

func residentMiB(pids []int) (mib float64) {
	for _, pid := range pids {
		raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		if err != nil {
			return -1
		}
		for line := range strings.Lines(string(raw)) {
			if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				kib, _ := strconv.Atoi(strings.Fields(rest)[0])
				mib += float64(kib) / 1024
			}
		}
	}
	return mib
}

// report puts what moving n bytes in so many requests took.
func report(before usage, o options, bytes int64, requests int) map[string]any {
	after := measure(o.pids)
	seconds, cpu := after.at.Sub(before.at).Seconds(), (after.cpu - before.cpu).Seconds()
	return map[string]any{
		"mb_s": round(float64(bytes) / 1e6 / seconds), "cpu_s_per_gb": round(cpu / (float64(bytes) / 1e9)),
		"cpu_us_per_request": round(cpu * 1e6 / float64(requests)), "requests": requests, "rss_mib": round(residentMiB(o.pids)),
	}
}

func round(f float64) float64 { return float64(int64(f*1000+0.5)) / 1000 }

// syncOne sends one record at a time and waits for each acknowledgement.
func syncOne(o options) (map[string]any, error) {
	if err := makeTopic(o); err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(o.brokers...), kgo.DefaultProduceTopic(o.topic), kgo.ProducerLinger(0),
		kgo.DisableIdempotentWrite(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	value := make([]byte, 1024)
	var took []time.Duration
	before := measure(o.pids)
	for range o.count {
		start := time.Now()
		if err := client.ProduceSync(context.Background(), &kgo.Record{Value: value}).FirstErr(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
	}
	out := report(before, o, int64(o.count)*1024, o.count)
	quantiles(out, took)
	return out, nil
}

// fill writes count small records into each partition.
func fill(o options) (map[string]any, error) {
	start := time.Now()
	if err := makeTopic(o); err != nil {
		return nil, err
	}
	created := time.Since(start) - 500*time.Millisecond
	client, err := kgo.NewClient(kgo.SeedBrokers(o.brokers...), kgo.DefaultProduceTopic(o.topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(100_000))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var failed error
	value := make([]byte, 100)
	for range o.count {
		for p := range o.partitions {
			client.Produce(context.Background(), &kgo.Record{Partition: int32(p), Value: value}, func(_ *kgo.Record, err error) {
				if err != nil {
					failed = err
				}
			})
		}
	}
	if err := client.Flush(context.Background()); err != nil {
		return nil, err
	}
	return map[string]any{"create_s": round(created.Seconds()), "total_s": round(time.Since(start).Seconds()),
		"rss_mib": round(residentMiB(o.pids))}, failed
}

// first waits until the broker acknowledges one record: started just before the broker, it measures the start.
func first(o options) (map[string]any, error) {
	start := time.Now()
	client, err := kgo.NewClient(kgo.SeedBrokers(o.brokers...), kgo.DefaultProduceTopic(o.topic), kgo.AllowAutoTopicCreation(),
		kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }), kgo.DialTimeout(time.Second),
		kgo.MetadataMinAge(10*time.Millisecond), kgo.DisableIdempotentWrite())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		if err := client.ProduceSync(ctx, &kgo.Record{Value: []byte("x")}).FirstErr(); err == nil {
			return map[string]any{"first_ms": time.Since(start).Milliseconds(), "rss_mib": round(residentMiB(o.pids))}, nil
		}
	}
	return nil, ctx.Err()
}
