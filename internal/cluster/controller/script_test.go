package controller

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/cluster/metadata"
	"moldau/internal/kafka"
)

// TestScripts runs the scripts in testdata: each command is a request or an event, its output the records and
// the reply.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, file string) {
		s := &script{names: map[string]string{}}
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string { return s.run(t, d) })
	})
}

type script struct {
	*world
	names map[string]string // how ids are printed
	out   strings.Builder
}

// words are the arguments of a command or the words of an input line: key=value, or a flag.
type words map[string]string

func split(line string) (first string, w words) {
	w = words{}
	for i, x := range strings.Fields(line) {
		key, value, _ := strings.Cut(x, "=")
		if i == 0 && !strings.Contains(x, "=") {
			first = key
		}
		w[key] = value
	}
	return first, w
}

func (w words) has(key string) bool { _, ok := w[key]; return ok }

func (w words) int(key string, otherwise int64) int64 {
	if v, ok := w[key]; ok {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			panic(err)
		}
		return n
	}
	return otherwise
}

func (w words) ints(key string) []int32 {
	var out []int32
	for _, x := range strings.FieldsFunc(w[key], func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(x)
		if err != nil {
			panic(err)
		}
		out = append(out, int32(n))
	}
	return out
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	s.out.Reset()
	if s.world != nil {
		s.world.t = t
	}
	args := words{}
	for _, a := range d.CmdArgs {
		args[a.Key] = strings.Join(a.Vals, ",")
	}
	lines := strings.FieldsFunc(d.Input, func(r rune) bool { return r == '\n' })
	switch d.Cmd {
	case "found":
		set := func(line string) bool { return strings.HasPrefix(line, minISRKey+"=") }
		if !slices.ContainsFunc(lines, set) { // or the third broker would raise it
			lines = append(slices.Clone(lines), minISRKey+"=1")
		}
		s.world = newWorld(t, founded(), lines...)
		s.print(nil)
	case "up":
		for _, id := range args.ints("id") {
			s.up(kafka.NodeID(id))
		}
	case "activate":
		s.activate(nil)
		s.print(nil)
	case "tick":
		after, _ := time.ParseDuration(args["after"])
		s.tick(after)
		s.print(nil)
	case "partitions":
		s.partitions()
	default:
		r := s.request(d.Cmd, args, lines)
		if v, ok := args["v"]; ok {
			n, _ := strconv.Atoi(v)
			r.SetVersion(int16(n))
		}
		s.print(s.ask(Request{Body: r, Connected: connection(args)}))
	}
	return s.out.String()
}

func connection(args words) func() bool {
	if args.has("connected") {
		return func() bool { return true }
	}
	return nil
}

func (s *script) request(cmd string, args words, lines []string) kmsg.Request {
	if r := s.brokerRequest(cmd, args, lines); r != nil {
		return r
	}
	if r := s.configRequest(cmd, args, lines); r != nil {
		return r
	}
	r := s.topicRequest(cmd, args, lines)
	if r == nil {
		panic("unknown command " + cmd)
	}
	return r
}

func latest[T kmsg.Request](r T) T {
	r.SetVersion(r.MaxVersion())
	return r
}

func (s *script) brokerRequest(cmd string, args words, lines []string) kmsg.Request {
	id := kafka.NodeID(args.int("id", 1))
	epoch := int64(-1)
	if b, ok := s.image.Broker(id); ok {
		epoch = int64(b.Epoch)
	}
	epoch = args.int("epoch", epoch)
	switch cmd {
	case "register":
		r := s.registration(id, byte(args.int("incarnation", 1)), kafka.BrokerEpoch(args.int("previous", -1)))
		if args.has("dirs") {
			r.LogDirs = s.dirs(args["dirs"])
		}
		if args.has("cluster") {
			r.ClusterID = args["cluster"]
		}
		if rack, ok := args["rack"]; ok {
			r.Rack = &rack
		}
		for _, line := range lines {
			name, w := split(line)
			for i := range r.Features {
				if f := &r.Features[i]; f.Name == name {
					f.MinSupportedVersion, f.MaxSupportedVersion = int16(w.int("min", 0)), int16(w.int("max", 0))
					if w.has("unlisted") {
						r.Features = append(r.Features[:i], r.Features[i+1:]...)
						break
					}
				}
			}
		}
		return r
	case "beat":
		r := latest(kmsg.NewPtrBrokerHeartbeatRequest())
		r.BrokerID, r.BrokerEpoch, r.CurrentMetadataOffset = int32(id), epoch, args.int("offset", int64(s.next-1))
		r.WantFence, r.WantShutdown = args.has("fence"), args.has("shutdown")
		r.OfflineLogDirs = s.dirs(args["offline"])
		if args.has("cordoned") {
			r.CordonedLogDirs = append([][16]byte{}, s.dirs(args["cordoned"])...)
		}
		return r
	case "producer-ids":
		r := latest(kmsg.NewPtrAllocateProducerIDsRequest())
		r.BrokerID, r.BrokerEpoch = int32(id), epoch
		return r
	case "unregister":
		r := latest(kmsg.NewPtrUnregisterBrokerRequest())
		r.BrokerID = int32(id)
		return r
	case "unregister-controller":
		r := latest(kmsg.NewPtrUnregisterControllerRequest())
		r.ControllerID = int32(id)
		return r
	case "register-controller":
		r := latest(kmsg.NewPtrControllerRegistrationRequest())
		r.ControllerID = int32(id)
		return r
	}
	return s.isrRequest(cmd, int32(id), epoch, lines)
}

func (s *script) isrRequest(cmd string, id int32, epoch int64, lines []string) kmsg.Request {
	switch cmd {
	case "alter-partition": // one partition a line: topic-index, isr with ids or id:epoch
		r := latest(kmsg.NewPtrAlterPartitionRequest())
		r.BrokerID, r.BrokerEpoch = id, epoch
		for _, line := range lines {
			r.Topics = append(r.Topics, s.alterPartition(line))
		}
		return r
	case "assign-dirs":
		r := latest(kmsg.NewPtrAssignReplicasToDirsRequest())
		r.BrokerID, r.BrokerEpoch = id, epoch
		for _, line := range lines {
			first, w := split(line)
			dir := kmsg.NewAssignReplicasToDirsRequestDirectory()
			dir.ID = s.dirs(w["dir"])[0]
			topic := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
			p := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
			topic.TopicID, p.Partition = s.topicID(first)
			topic.Partitions = append(topic.Partitions, p)
			dir.Topics = append(dir.Topics, topic)
			r.Directories = append(r.Directories, dir)
		}
		return r
	}
	return nil
}

func (s *script) alterPartition(line string) kmsg.AlterPartitionRequestTopic {
	first, w := split(line)
	topic := kmsg.NewAlterPartitionRequestTopic()
	p := kmsg.NewAlterPartitionRequestTopicPartition()
	topic.TopicID, p.Partition = s.topicID(first)
	if at, ok := s.image.TopicByID(topic.TopicID); ok {
		if now, ok := at.Partition(p.Partition); ok {
			p.LeaderEpoch, p.PartitionEpoch = int32(now.LeaderEpoch), int32(now.PartitionEpoch)
		}
	}
	p.LeaderEpoch += int32(w.int("leader-epoch", 0)) // both relative to what the controller has
	p.PartitionEpoch += int32(w.int("partition-epoch", 0))
	p.LeaderRecoveryState = int8(w.int("recovering", 0))
	for _, x := range strings.FieldsFunc(w["isr"], func(r rune) bool { return r == ',' }) {
		idText, epochText, given := strings.Cut(x, ":")
		m := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		n, _ := strconv.Atoi(idText)
		m.BrokerID = int32(n)
		if given {
			m.BrokerEpoch, _ = strconv.ParseInt(epochText, 10, 64)
		}
		p.NewEpochISR = append(p.NewEpochISR, m)
		p.NewISR = append(p.NewISR, m.BrokerID)
	}
	topic.Partitions = append(topic.Partitions, p)
	return topic
}

// topicID reads topic-index. An unknown topic has an id of its own.
func (s *script) topicID(text string) (kafka.UUID, int32) {
	at := strings.LastIndex(text, "-")
	n, _ := strconv.Atoi(text[at+1:])
	if t, ok := s.image.Topic(text[:at]); ok {
		return t.ID, int32(n)
	}
	return kafka.UUID{0: 0xee, 15: 200}, int32(n)
}

// dirs reads directories such as 1.2 (the second one of broker 1) or lost.
func (s *script) dirs(text string) [][16]byte {
	var out [][16]byte
	for _, x := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		switch x {
		case "none":
		case "lost":
			out = append(out, kafka.DirectoryLost)
		case "unassigned":
			out = append(out, kafka.DirectoryUnassigned)
		default:
			var broker, n int
			_, _ = fmt.Sscanf(x, "%d.%d", &broker, &n)
			out = append(out, directory(kafka.NodeID(broker), byte(n)))
		}
	}
	return out
}

func (s *script) topicRequest(cmd string, args words, lines []string) kmsg.Request {
	switch cmd {
	case "create":
		r := latest(kmsg.NewPtrCreateTopicsRequest())
		r.ValidateOnly = args.has("validate")
		for _, line := range lines {
			r.Topics = append(r.Topics, createTopic(line))
		}
		return r
	case "delete":
		return s.deleteRequest(args, lines)
	case "grow":
		r := latest(kmsg.NewPtrCreatePartitionsRequest())
		r.ValidateOnly = args.has("validate")
		for _, line := range lines {
			x := kmsg.NewCreatePartitionsRequestTopic()
			first, w := split(line)
			x.Topic, x.Count = first, int32(w.int("count", 0))
			for _, ids := range strings.FieldsFunc(w["assign"], func(r rune) bool { return r == '/' }) {
				a := kmsg.NewCreatePartitionsRequestTopicAssignment()
				a.Replicas = words{"x": ids}.ints("x")
				x.Assignment = append(x.Assignment, a)
			}
			r.Topics = append(r.Topics, x)
		}
		return r
	case "move": // one partition a line: topic-index, to with ids, or cancel
		r := latest(kmsg.NewPtrAlterPartitionAssignmentsRequest())
		r.AllowReplicationFactorChange = !args.has("keep-factor")
		for _, line := range lines {
			first, w := split(line)
			at := strings.LastIndex(first, "-")
			n, _ := strconv.Atoi(first[at+1:])
			x, p := kmsg.NewAlterPartitionAssignmentsRequestTopic(), kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
			x.Topic, p.Partition = first[:at], int32(n)
			if !w.has("cancel") {
				p.Replicas = append([]int32{}, w.ints("to")...)
			}
			x.Partitions = append(x.Partitions, p)
			r.Topics = append(r.Topics, x)
		}
		return r
	case "moves": // all, or one topic a line with its partitions
		r := latest(kmsg.NewPtrListPartitionReassignmentsRequest())
		for _, line := range lines {
			first, w := split(line)
			x := kmsg.NewListPartitionReassignmentsRequestTopic()
			x.Topic, x.Partitions = first, w.ints("of")
			r.Topics = append(r.Topics, x)
		}
		return r
	case "elect":
		r := latest(kmsg.NewPtrElectLeadersRequest())
		r.ElectionType = int8(args.int("type", 0))
		for _, line := range lines {
			x := kmsg.NewElectLeadersRequestTopic()
			at := strings.LastIndex(line, "-")
			n, _ := strconv.Atoi(line[at+1:])
			x.Topic, x.Partitions = line[:at], []int32{int32(n)}
			r.Topics = append(r.Topics, x)
		}
		return r
	case "features":
		r := latest(kmsg.NewPtrUpdateFeaturesRequest())
		r.ValidateOnly = args.has("validate")
		for _, line := range lines {
			first, w := split(line)
			x := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
			x.Feature, x.MaxVersionLevel, x.UpgradeType = first, int16(w.int("level", 0)), int8(w.int("type", 1))
			x.AllowDowngrade = w.has("down")
			r.FeatureUpdates = append(r.FeatureUpdates, x)
		}
		return r
	}
	return nil
}

func createTopic(line string) kmsg.CreateTopicsRequestTopic {
	first, w := split(line)
	x := kmsg.NewCreateTopicsRequestTopic()
	x.Topic = strings.Trim(first, `"`)
	x.NumPartitions, x.ReplicationFactor = int32(w.int("partitions", -1)), int16(w.int("rf", -1))
	for _, part := range strings.FieldsFunc(w["assign"], func(r rune) bool { return r == '/' }) {
		index, ids, _ := strings.Cut(part, ":")
		n, _ := strconv.Atoi(index)
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(n), words{"x": ids}.ints("x")
		x.ReplicaAssignment = append(x.ReplicaAssignment, a)
	}
	for _, word := range strings.Fields(line) {
		if key, value, ok := strings.Cut(word, "="); ok && strings.Contains(key, ".") {
			c := kmsg.NewCreateTopicsRequestTopicConfig()
			c.Name, c.Value = key, &value
			if value == "null" {
				c.Value = nil
			}
			x.Configs = append(x.Configs, c)
		}
	}
	return x
}

func (s *script) deleteRequest(args words, lines []string) kmsg.Request {
	r := latest(kmsg.NewPtrDeleteTopicsRequest())
	for _, line := range lines {
		first, w := split(line)
		x := kmsg.NewDeleteTopicsRequestTopic()
		if first != "" {
			x.Topic = &first
		}
		if id, ok := w["id"]; ok {
			x.TopicID, _ = s.topicID(id + "-0")
		}
		r.Topics = append(r.Topics, x)
		r.TopicNames = append(r.TopicNames, first)
	}
	return r
}

func (s *script) configRequest(cmd string, args words, lines []string) kmsg.Request {
	resource := func(line string) (kmsg.ConfigResourceType, string, []string) {
		fields := strings.Fields(line)
		kind, name, _ := strings.Cut(fields[0], ":")
		n, _ := strconv.Atoi(kind)
		return kmsg.ConfigResourceType(n), name, fields[1:]
	}
	ops := map[string]kmsg.IncrementalAlterConfigOp{"=": 0, "+": 2, "-": 3, "?": 9}
	switch cmd {
	case "alter-configs": // type:name key=value key+=value key-=value !key (delete)
		r := latest(kmsg.NewPtrIncrementalAlterConfigsRequest())
		r.ValidateOnly = args.has("validate")
		for _, line := range lines {
			x := kmsg.NewIncrementalAlterConfigsRequestResource()
			var rest []string
			x.ResourceType, x.ResourceName, rest = resource(line)
			for _, word := range rest {
				c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
				if key, ok := strings.CutPrefix(word, "!"); ok {
					c.Name, c.Op = key, 1
				} else {
					key, value, _ := strings.Cut(word, "=")
					c.Name, c.Value = strings.TrimRight(key, "+-?"), &value
					c.Op = ops["="+key[len(c.Name):]]
					if op := key[len(c.Name):]; op != "" {
						c.Op = ops[op]
					}
					if value == "null" {
						c.Value = nil
					}
				}
				x.Configs = append(x.Configs, c)
			}
			r.Resources = append(r.Resources, x)
		}
		return r
	case "replace-configs":
		r := latest(kmsg.NewPtrAlterConfigsRequest())
		r.ValidateOnly = args.has("validate")
		for _, line := range lines {
			x := kmsg.NewAlterConfigsRequestResource()
			var rest []string
			x.ResourceType, x.ResourceName, rest = resource(line)
			for _, word := range rest {
				c := kmsg.NewAlterConfigsRequestResourceConfig()
				key, value, _ := strings.Cut(word, "=")
				c.Name, c.Value = key, &value
				x.Configs = append(x.Configs, c)
			}
			r.Resources = append(r.Resources, x)
		}
		return r
	}
	return nil
}

// print shows the records of the last step, in the words of Kafka's dump tool, and the reply.
func (s *script) print(reply kmsg.Response) {
	for _, r := range s.written {
		if t, ok := r.(*metadata.TopicRecord); ok {
			s.names[t.TopicID.String()] = "<" + t.Name + ">"
		}
		fmt.Fprintln(&s.out, s.pretty(metadata.Dump(r, metadata.VersionFor(r, s.image.MetadataVersion()))))
	}
	if reply != nil {
		fmt.Fprintln(&s.out, s.pretty(printReply(reply)))
	}
}

var fieldName = regexp.MustCompile(`"(\w+)":`)

func (s *script) pretty(line string) string {
	for b := kafka.NodeID(0); b < 10; b++ {
		for n := byte(1); n < 4; n++ {
			line = strings.ReplaceAll(line, directory(b, n).String(), fmt.Sprintf("%d.%d", b, n))
			line = strings.ReplaceAll(line, kafka.UUID{0: n, 15: byte(b)}.String(), fmt.Sprintf("incarnation %d", n))
		}
	}
	line = strings.ReplaceAll(line, kafka.DirectoryLost.String(), "lost")
	line = strings.ReplaceAll(line, kafka.DirectoryUnassigned.String(), "unassigned")
	for id, name := range s.names {
		line = strings.ReplaceAll(line, id, name)
	}
	for _, r := range [][2]string{{`{"type":"`, ""}, {`_RECORD","version":`, " v"}, {`,"data":`, " "}} {
		line = strings.Replace(line, r[0], r[1], 1)
	}
	line = strings.ReplaceAll(fieldName.ReplaceAllString(line, "$1:"), `,`, ", ")
	if !strings.HasPrefix(line, "->") {
		line = strings.TrimSuffix(line, "}")
	}
	if feats := strings.Index(line, "features:["); feats >= 0 { // long and always the same
		line = line[:feats] + "features:[..]" + line[feats+strings.Index(line[feats:], "]")+1:]
	}
	return line
}

// printReply gives a response as JSON with names of error codes, without what is empty.
func printReply(r kmsg.Response) string {
	raw, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		panic(err)
	}
	out, _ := json.Marshal(simplify(v))
	return "-> " + strings.ReplaceAll(string(out), `"`, "")
}

func simplify(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if code, ok := x.(float64); ok && strings.HasSuffix(k, "ErrorCode") {
				x = kafka.Code(code).Name()
				if code == 0 {
					x = nil
				}
			}
			if k == "Configs" {
				if list, ok := x.([]any); ok {
					x = ownConfigs(list)
				}
			}
			if id, ok := x.([]any); ok && len(id) == 16 {
				var u kafka.UUID
				for i := range u {
					u[i] = byte(id[i].(float64))
				}
				x = u.String()
				if u.IsZero() {
					x = nil
				}
			}
			if x = simplify(x); x == nil || x == 0.0 || x == false {
				if k != "ISR" && k != "LeaderID" {
					delete(v, k)
					continue
				}
			}
			v[k] = x
		}
		delete(v, "Version")
		delete(v, "UnknownTags")
		if len(v) == 0 {
			return "ok"
		}
		return v
	case []any:
		if len(v) == 0 {
			return nil
		}
		for i := range v {
			v[i] = simplify(v[i])
		}
	}
	return v
}

// ownConfigs shows how many configs there are, and those that are not the default.
func ownConfigs(list []any) any {
	out := []any{}
	for _, x := range list {
		if m := x.(map[string]any); m["Source"] != 5.0 {
			out = append(out, fmt.Sprintf("%v=%v from %v", m["Name"], m["Value"], m["Source"]))
		}
	}
	return append(out, fmt.Sprintf("%d in all", len(list)))
}

// partitions shows the state of every partition.
func (s *script) partitions() {
	for topic := range s.image.Topics() {
		for index, p := range topic.Partitions() {
			fmt.Fprintf(&s.out, "%s-%d replicas=%v %s\n", topic.Name, index, p.Replicas, show(p))
		}
	}
}
