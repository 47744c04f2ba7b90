import com.fasterxml.jackson.databind.*;
import com.fasterxml.jackson.databind.node.*;
import java.io.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor;
import org.apache.kafka.common.*;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.*;

/**
 * Runs Apache Kafka's assignors, one JSON question per line of standard input, one JSON answer per line of standard
 * output. "client" names an assignor of the consumer, with topics and racks by name; "server" names one of the broker,
 * with topics by their place in the question.
 */
public class Assignors {
    static final ObjectMapper json = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; out.flush()) {
            JsonNode question = json.readTree(line);
            out.println(json.writeValueAsString(question.has("client") ? client(question) : server(question)));
        }
    }

    static ObjectNode client(JsonNode q) {
        ConsumerPartitionAssignor assignor = switch (q.get("client").asText()) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(q.get("client").asText());
        };
        Map<String, Subscription> members = new HashMap<>();
        for (JsonNode m : q.get("members")) members.put(m.get("id").asText(), subscription(assignor, m));
        var result = assignor.assign(cluster(q.get("topics")), new GroupSubscription(members)).groupAssignment();
        ObjectNode answer = json.createObjectNode();
        ObjectNode parts = answer.putObject("parts");
        for (String id : new TreeSet<>(members.keySet())) {
            ObjectNode byTopic = parts.putObject(id);
            for (TopicPartition tp : sorted(result.get(id).partitions())) {
                byTopic.withArray(tp.topic()).add(tp.partition());
            }
        }
        if (assignor instanceof AbstractStickyAssignor sticky && sticky.partitionsTransferringOwnership() != null) {
            ObjectNode moving = answer.putObject("transfers");
            for (TopicPartition tp : sorted(sticky.partitionsTransferringOwnership().keySet())) {
                moving.withArray(tp.topic()).add(tp.partition());
            }
        }
        return answer;
    }

    static Subscription subscription(ConsumerPartitionAssignor assignor, JsonNode m) {
        List<String> topics = new ArrayList<>();
        for (JsonNode t : m.get("topics")) topics.add(t.asText());
        List<TopicPartition> owned = new ArrayList<>();
        for (Map.Entry<String, JsonNode> e : m.get("owned").properties()) {
            for (JsonNode p : e.getValue()) owned.add(new TopicPartition(e.getKey(), p.asInt()));
        }
        int generation = m.get("generation").asInt();
        boolean sticky = assignor instanceof StickyAssignor;
        Subscription s = new Subscription(topics, sticky ? userData(m.get("owned"), generation) : null,
            assignor instanceof CooperativeStickyAssignor ? owned : List.of(), generation,
            Optional.ofNullable(m.get("rack").textValue()));
        s.setGroupInstanceId(Optional.ofNullable(m.get("instance").textValue()));
        return s;
    }

    /** What StickyAssignor sends along, version 1: partitions by topic, then the generation. */
    static ByteBuffer userData(JsonNode owned, int generation) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        try {
            out.writeInt(owned.size());
            for (Map.Entry<String, JsonNode> e : owned.properties()) {
                out.writeUTF(e.getKey());
                out.writeInt(e.getValue().size());
                for (JsonNode p : e.getValue()) out.writeInt(p.asInt());
            }
            out.writeInt(generation);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return ByteBuffer.wrap(bytes.toByteArray());
    }

    /** A cluster with one broker per rack; a partition without a rack lies on broker 0. */
    static Cluster cluster(JsonNode topics) {
        Map<String, Node> brokers = new LinkedHashMap<>();
        brokers.put("", new Node(0, "h", 9092));
        List<PartitionInfo> partitions = new ArrayList<>();
        for (Map.Entry<String, JsonNode> e : topics.properties()) {
            for (int p = 0; p < e.getValue().get("partitions").asInt(); p++) {
                JsonNode racks = e.getValue().get("racks");
                String rack = racks.isEmpty() ? "" : racks.get(p).asText();
                Node n = brokers.computeIfAbsent(rack, r -> new Node(brokers.size(), "h", 9092, r));
                partitions.add(new PartitionInfo(e.getKey(), p, n, new Node[]{n}, new Node[]{n}));
            }
        }
        return new Cluster("c", brokers.values(), partitions, Set.of(), Set.of());
    }

    static List<TopicPartition> sorted(Collection<TopicPartition> all) {
        List<TopicPartition> list = new ArrayList<>(all);
        list.sort(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition));
        return list;
    }

    static ObjectNode server(JsonNode q) {
        List<Uuid> ids = new ArrayList<>();
        Map<Uuid, Integer> place = new HashMap<>(), counts = new HashMap<>();
        for (JsonNode t : q.get("topics")) {
            Uuid id = Uuid.fromString(t.get("id").asText());
            place.put(id, ids.size());
            ids.add(id);
            counts.put(id, t.get("partitions").asInt());
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<Uuid>> subscriptions = new HashSet<>();
        for (JsonNode m : q.get("members")) {
            Set<Uuid> topics = new LinkedHashSet<>();
            for (JsonNode t : m.get("topics")) topics.add(ids.get(t.asInt()));
            subscriptions.add(topics);
            Map<Uuid, Set<Integer>> owned = new LinkedHashMap<>();
            for (Map.Entry<String, JsonNode> e : m.path("owned").properties()) {
                Uuid id = ids.get(Integer.parseInt(e.getKey()));
                for (JsonNode p : e.getValue()) {
                    owned.computeIfAbsent(id, x -> new LinkedHashSet<>()).add(p.asInt());
                    owners.computeIfAbsent(id, x -> new HashMap<>()).put(p.asInt(), m.get("id").asText());
                }
            }
            members.put(m.get("id").asText(), new MemberSubscriptionAndAssignmentImpl(Optional.empty(),
                Optional.ofNullable(m.path("instance").textValue()), topics,
                new org.apache.kafka.coordinator.group.modern.Assignment(owned)));
        }
        SubscriptionType type = subscriptions.size() <= 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid id) { return counts.getOrDefault(id, -1); }
            public Set<String> racksForPartition(Uuid id, int p) { return Set.of(); }
        };
        var assignor = q.get("server").asText().equals("range")
            ? new org.apache.kafka.coordinator.group.assignor.RangeAssignor() : new UniformAssignor();
        var result = assignor.assign(new GroupSpecImpl(members, type, owners), describer).members();
        ObjectNode answer = json.createObjectNode();
        ObjectNode parts = answer.putObject("parts");
        for (String id : members.keySet()) {
            ObjectNode byTopic = parts.putObject(id);
            if (!result.containsKey(id)) continue;
            Map<Integer, Set<Integer>> sorted = new TreeMap<>();
            result.get(id).partitions().forEach((topic, list) -> sorted.put(place.get(topic), list));
            sorted.forEach((topic, list) -> {
                for (int p : new TreeSet<>(list)) byTopic.withArray(String.valueOf(topic)).add(p);
            });
        }
        return answer;
    }
}
