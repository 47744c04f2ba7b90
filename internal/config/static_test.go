package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func file(t *testing.T, text string) Layer {
	t.Helper()
	l, err := FileLayer("server.properties", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestDefaultsAreALoneNode(t *testing.T) {
	s := Defaults()
	n := s.Node()
	want := Node{ID: 1, IsBroker: true, IsController: true, InterBroker: "PLAINTEXT",
		Listeners:           []Endpoint{{"PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"}},
		ControllerListeners: []string{"CONTROLLER"}, LogDirs: []string{"./moldau-data"}, MetadataDir: "./moldau-data"}
	if diff := cmp.Diff(want, n); diff != "" {
		t.Error(diff)
	}
	if s.Int("default.replication.factor") != 1 || s.Int("group.initial.rebalance.delay.ms") != 50 ||
		s.Int64("log.retention.ms") != 168*3600*1000 || s.Int64("log.roll.ms") != 168*3600*1000 ||
		s.Text("moldau.flush") != "ack" || !s.Value("log.roll.jitter.ms").flagless() {
		t.Error("a default is wrong")
	}
	if len(s.Warnings()) != 0 || len(s.WithoutEffect()) != 0 {
		t.Errorf("an empty configuration warns: %q %q", s.Warnings(), s.WithoutEffect())
	}
}

// flagless says whether the value is the number 0.
func (v Value) flagless() bool { return v.present && v.number == 0 }

func TestAdaptedDefaults(t *testing.T) {
	s, err := Load(nil, Options{Nodes: 5})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int{"default.replication.factor": 3, "offsets.topic.replication.factor": 3,
		"transaction.state.log.min.isr": 2, "group.initial.rebalance.delay.ms": 3000} {
		if got := s.Int(key); got != want {
			t.Errorf("%s is %d, want %d", key, got, want)
		}
	}
}

// TestKafkasOwnFile reads what Apache Kafka ships as config/server.properties (its settings, not its comments).
func TestKafkasOwnFile(t *testing.T) {
	s, err := Load([]Layer{file(t, `process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
`)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := s.Node()
	if len(s.Warnings()) > 0 || len(n.Listeners) != 1 || n.Listeners[0].Address() != ":9092" || len(n.Controller) != 1 ||
		n.LogDirs[0] != "/tmp/kraft-combined-logs" || len(n.Bootstrap) != 1 {
		t.Errorf("%q %+v", s.Warnings(), n)
	}
}

func TestLayersAndSources(t *testing.T) {
	set, err := SetLayer([]string{"num.partitions=7", "log.dirs=/c"})
	if err != nil {
		t.Fatal(err)
	}
	env := EnvLayer([]string{"MOLDAU_NUM_PARTITIONS=5", "MOLDAU_LOG_RETENTION_HOURS=2", "HOME=/root",
		"MOLDAU_FLUSH=async",
		"MOLDAU_LISTENER_NAME_PLAINTEXT_MAX_CONNECTIONS=9", "MOLDAU_PORT_9092_TCP=x", "MOLDAU_CONFIG=f"}, "MOLDAU_CONFIG")
	s, err := Load([]Layer{file(t, "num.partitions=3\nbroker.rack=r1\nnum.partitions=4\n"), env, set}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"num.partitions": "7 --set", "log.dirs": "/c --set", "broker.rack": "r1 server.properties:2",
		"log.retention.hours":                     "2 environment MOLDAU_LOG_RETENTION_HOURS",
		"moldau.flush":                            "async environment MOLDAU_FLUSH",
		"listener.name.plaintext.max.connections": "9 environment MOLDAU_LISTENER_NAME_PLAINTEXT_MAX_CONNECTIONS",
	} {
		at, ok := s.Setting(key)
		if got := at.Value + " " + at.Where; !ok || got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if s.Int64("log.retention.ms") != 2*3600*1000 {
		t.Error("the hours do not count")
	}
	want := []string{"server.properties:3: num.partitions replaces the value of line 1"}
	if diff := cmp.Diff(want, s.Warnings()); diff != "" {
		t.Error(diff)
	}
	if _, err := SetLayer([]string{"novalue"}); err == nil {
		t.Error("--set without = is accepted")
	}
}

func TestEnvironmentNamesAreUnique(t *testing.T) {
	seen := map[string]string{}
	for _, k := range Keys(Broker) {
		for _, name := range []string{envName(k.Name), strings.TrimPrefix(envName(k.Name), "MOLDAU_")} {
			if other, twice := seen[name]; twice && other != k.Name {
				t.Errorf("%s and %s have the same variable", other, k.Name)
			}
			seen[name] = k.Name
		}
		l := EnvLayer([]string{EnvName(k.Name) + "=x"})
		if len(l.entries) != 1 || l.entries[0].key != k.Name {
			t.Errorf("%s does not set %s: %v", EnvName(k.Name), k.Name, l)
		}
	}
}

// TestWrongSettings holds the one line of each mistake.
func TestWrongSettings(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"num.partitions=x", `server.properties:1: num.partitions: "x" is not a whole number of this size; allowed: a whole number (32 bit), at least 1`},
		{"\nnum.partitions=0",
			"server.properties:2: num.partitions: 0 is too small; allowed: a whole number (32 bit), at least 1"},
		{"compression.type=none",
			`server.properties:1: compression.type: "none" is not one of the values; allowed: one of uncompressed, zstd, lz4, snappy, gzip, producer`},
		{"auto.create.topics.enable=yes",
			`server.properties:1: auto.create.topics.enable: "yes" is not true or false; allowed: true or false`},
		{"process.roles=", "server.properties:1: process.roles: the list is empty; allowed: a comma separated list of broker, controller, not empty"},
		{"log.dirs=/a,,/b", "server.properties:1: log.dirs: an entry of the list is empty; allowed: a comma separated list, not empty"},
		{"log.dirs=/a,/b/../a", "server.properties:1: log.dirs: /a and /b/../a are the same directory"},
		{"listeners=PLAINTEXT:9092", `server.properties:1: listeners: "PLAINTEXT:9092" is not NAME://host:port`},
		{"listeners=PLAINTEXT://:99999",
			`server.properties:1: listeners: "PLAINTEXT://:99999": the port must be from 0 to 65535`},
		{"listeners=SSL://:9092",
			"server.properties:1: listeners: listener SSL asks for SSL, which is not built yet; allowed: PLAINTEXT"},
		{"listeners=SASL_SSL://:9092",
			"server.properties:1: listeners: listener SASL_SSL asks for SASL_SSL, which is not built yet; " +
				"allowed: PLAINTEXT"},
		{"listeners=FOO://:9092",
			"server.properties:1: listeners: listener FOO has no security protocol; add FOO:PLAINTEXT to " +
				"listener.security.protocol.map"},
		{"listeners=FOO://:1,FOO://:2\nlistener.security.protocol.map=FOO:PLAINTEXT",
			"server.properties:1: listeners: listener FOO stands there twice; each needs a name of its own"},
		{"listeners=A://:1,B://:1\nlistener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT",
			"server.properties:1: listeners: A://:1 and B://:1 use the same port"},
		{"listeners=CONTROLLER://:9093",
			"server.properties:1: listeners: a broker needs a listener besides the controller's"},
		{"advertised.listeners=PLAINTEXT://0.0.0.0:9092",
			"server.properties:1: advertised.listeners: PLAINTEXT://0.0.0.0:9092: 0.0.0.0 is no address that " +
				"clients can connect to; name the host"},
		{"advertised.listeners=PLAINTEXT://:9092",
			"server.properties:1: advertised.listeners: PLAINTEXT://:9092: name the host that clients connect to"},
		{"listener.security.protocol.map=PLAINTEXT:TLS",
			`server.properties:1: listener.security.protocol.map: "PLAINTEXT:TLS": the protocol must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL`},
		{"inter.broker.listener.name=FOO",
			"server.properties:1: inter.broker.listener.name: FOO is not one of the listeners"},
		{"inter.broker.listener.name=CONTROLLER",
			"server.properties:1: inter.broker.listener.name: CONTROLLER is a controller listener"},
		{"inter.broker.listener.name=PLAINTEXT\nsecurity.inter.broker.protocol=PLAINTEXT",
			"server.properties:1: inter.broker.listener.name: it must not be set together with " +
				"security.inter.broker.protocol; remove one"},
		{"security.inter.broker.protocol=SSL",
			"server.properties:1: security.inter.broker.protocol: SSL is not built yet; allowed: PLAINTEXT"},
		{"node.id=1\nbroker.id=2", "server.properties:2: broker.id: it says 2 and node.id says 1; remove broker.id"},
		{"process.roles=broker",
			"server.properties:1: process.roles: a node without controller role needs " +
				"controller.quorum.bootstrap.servers or controller.quorum.voters"},
		{"process.roles=controller",
			"listeners: a controller needs one of the listeners in controller.listener.names (CONTROLLER)"},
		{"controller.quorum.voters=2@h:1",
			"server.properties:1: controller.quorum.voters: the node is a controller and its id 1 is not among the voters"},
		{"controller.quorum.voters=1@h:1,2@h:2", "listeners: a quorum of 2 needs a controller listener (CONTROLLER)"},
		{"controller.quorum.voters=1h:1",
			`server.properties:1: controller.quorum.voters: "1h:1" does not have the form of an entry; allowed: a comma separated list of id@host:port`},
		{"cordoned.log.dirs=/x", "server.properties:1: cordoned.log.dirs: /x is not one of log.dirs"},
		{"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
			"server.properties:1: authorizer.class.name: authorization is not built yet; remove the key"},
		{"super.users=User:a", "server.properties:1: super.users: authorization is not built yet; remove the key"},
		{"sasl.enabled.mechanisms=PLAIN",
			"server.properties:1: sasl.enabled.mechanisms: SASL is not built yet; remove the key"},
		{"listener.name.plaintext.sasl.enabled.mechanisms=PLAIN",
			"server.properties:1: listener.name.plaintext.sasl.enabled.mechanisms: SASL is not built yet; remove the key"},
		{"listener.name.plaintext.plain.sasl.jaas.config=x",
			"server.properties:1: listener.name.plaintext.plain.sasl.jaas.config: SASL is not built yet; remove the key"},
		{"ssl.keystore.location=/k", "server.properties:1: ssl.keystore.location: TLS is not built yet; remove the key"},
		{"delegation.token.secret.key=s3cret",
			"server.properties:1: delegation.token.secret.key: delegation tokens are not built yet; remove the key"},
		{"quota.window.num=5", "server.properties:1: quota.window.num: quotas are not built yet; remove the key"},
		{"remote.log.storage.system.enable=true",
			"server.properties:1: remote.log.storage.system.enable: remote storage is not built yet; remove the key"},
		{"config.providers=file",
			"server.properties:1: config.providers: configuration providers are not built yet; remove the key"},
		{"log.retention.hours=0",
			"server.properties:1: log.retention.hours: 0 would delete everything; allowed: -1 (no limit) or at least 1"},
		{"replica.lag.time.max.ms=100",
			"server.properties:1: replica.lag.time.max.ms: 100 is below replica.fetch.wait.max.ms (500)"},
		{"replica.fetch.wait.max.ms=40000",
			"server.properties:1: replica.fetch.wait.max.ms: 40000 is above replica.lag.time.max.ms (30000)"},
		{"queued.max.request.bytes=5",
			"server.properties:1: queued.max.request.bytes: 5 is below socket.request.max.bytes (104857600)"},
		{"max.connections.per.ip=0",
			"server.properties:1: max.connections.per.ip: 0 lets nobody connect unless " +
				"max.connections.per.ip.overrides names somebody"},
		{"offsets.topic.compression.codec=9",
			"server.properties:1: offsets.topic.compression.codec: 9 is no codec; allowed: 0 none, 1 gzip, 2 " +
				"snappy, 3 lz4, 4 zstd"},
		{"moldau.admin.listener=9644",
			`server.properties:1: moldau.admin.listener: "9644" is not host:port; allowed: host:port, or empty`},
		{"num.partitions=0\nnum.io.threads=x",
			"server.properties:2: num.io.threads: \"x\" is not a whole number of this size; allowed: a whole " +
				"number (32 bit), at least 1\n" +
				"server.properties:1: num.partitions: 0 is too small; allowed: a whole number (32 bit), at least 1"},
	} {
		_, err := Load([]Layer{file(t, c.text)}, Options{})
		if err == nil || err.Error() != c.want {
			t.Errorf("%q:\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

// TestSecretsStaySecret: a wrong or refused secret is not printed.
func TestSecretsStaySecret(t *testing.T) {
	for _, k := range Keys(Broker) {
		if !k.Sensitive() {
			continue
		}
		_, err := Load([]Layer{file(t, k.Name+"=hunter2")}, Options{})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", k.Name, err)
		}
	}
}

// TestHarmlessSecurityKeysPass: a key that is not built may be set to its default.
func TestHarmlessSecurityKeysPass(t *testing.T) {
	for _, k := range Keys(Broker) {
		if k.Standing != Refused || k.NoDefault {
			continue
		}
		if _, err := Load([]Layer{file(t, k.Name+"="+k.Default)}, Options{}); err != nil {
			t.Errorf("%s: %v", k.Name, err)
		}
	}
}

func TestUnknownKeysWarn(t *testing.T) {
	s, err := Load([]Layer{file(t,
		"num.partition=3\nretention.ms=5\nzookeeper.connect=z\nmy.own.key=1\nnum.io.threads=3\n")}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"server.properties:4: no such key: my.own.key",
		"server.properties:1: no such key: num.partition; did you mean num.partitions?",
		"server.properties:2: no such key: retention.ms; that is a topic's key; the broker's is log.retention.ms",
		"server.properties:3: no such key: zookeeper.connect; Kafka 4 and Moldau have no ZooKeeper; remove it",
	}
	if diff := cmp.Diff(want, s.Warnings()); diff != "" {
		t.Error(diff)
	}
	if !slices.Equal(s.WithoutEffect(), []string{"num.io.threads"}) {
		t.Error(s.WithoutEffect())
	}
	l := EnvLayer([]string{"MOLDAU_LOG_DIR5=x"})
	if want := []string{"environment MOLDAU_LOG_DIR5: no such key; did you mean MOLDAU_LOG_DIR?"}; !slices.Equal(l.warnings, want) {
		t.Error(l.warnings)
	}
}

func TestNodes(t *testing.T) {
	s, err := Load([]Layer{file(t, `process.roles=broker
node.id=7
controller.quorum.voters=1@a:9093,2@[::1]:9093
listeners=IN://10.0.0.1:9092,OUT://[::]:9094
advertised.listeners=IN://b7:9092,OUT://example.org:9094
listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=/d1, /d2
metadata.log.dir=/m
broker.rack= r
`)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := Node{ID: 7, IsBroker: true, Rack: "r", InterBroker: "IN", ControllerListeners: []string{"CONTROLLER"},
		Listeners:  []Endpoint{{"IN", "10.0.0.1", 9092, "PLAINTEXT"}, {"OUT", "::", 9094, "PLAINTEXT"}},
		Advertised: []Endpoint{{"IN", "b7", 9092, "PLAINTEXT"}, {"OUT", "example.org", 9094, "PLAINTEXT"}},
		Voters:     []Voter{{1, "a", 9093}, {2, "::1", 9093}}, LogDirs: []string{"/d1", "/d2"}, MetadataDir: "/m"}
	if diff := cmp.Diff(want, s.Node()); diff != "" {
		t.Error(diff)
	}
	if got := want.Listeners[1].String(); got != "OUT://[::]:9094" {
		t.Error(got)
	}
	if _, err := Load([]Layer{file(t,
		"listeners=A://127.0.0.1:5,B://[::1]:5\nlistener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT\n")}, Options{}); err != nil {
		t.Errorf("one port for IPv4 and IPv6: %v", err)
	}
	old, err := Load([]Layer{file(t, "broker.id=4\n")}, Options{})
	if err != nil || old.Node().ID != 4 {
		t.Error("broker.id is not taken for node.id", err)
	}
}

func TestNearest(t *testing.T) {
	for typo, want := range map[string]string{"num.partions": "num.partitions", "log.dir": "log.dir",
		"lgo.dirs":            "log.dirs",
		"advertised.listener": "advertised.listeners", "quite.something.else": "",
		"auto.crete.topics.enabled": "auto.create.topics.enable"} {
		if got := Nearest(Broker, typo); got != want {
			t.Errorf("%s: %q, want %q", typo, got, want)
		}
	}
	if got := Nearest(Topic, "retention.m"); got != "retention.ms" {
		t.Error(got)
	}
}

// FuzzLoad feeds whole files: nothing but an error may come of it, and what is accepted has readable listeners.
func FuzzLoad(f *testing.F) {
	f.Add("listeners=PLAINTEXT://:9092\nlog.dirs=/a")
	f.Add("listener.name.x.num.io.threads=3\nprocess.roles=controller\ncontroller.quorum.voters=1@a:1")
	f.Add("moldau.memory.budget.bytes=16777216\nlog.retention.minutes=5")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := FileLayer("f", strings.NewReader(text))
		if err != nil {
			return
		}
		s, err := Load([]Layer{l}, Options{})
		if err != nil {
			return
		}
		if n := s.Node(); n.IsBroker == (len(n.Listeners) == 0) || len(n.LogDirs) == 0 {
			t.Errorf("%+v", n)
		}
		NewResolver(s, s.Node().ID, NothingStored).DescribeBroker(nil)
	})
}
