import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.Stores;

/**
 * Joins and windows, all keyed by customer. Orders get the tier their customer had at the time (rated), orders and
 * payments of a customer close in time are paired (paid), and what is ordered is counted and summed by tier and window,
 * every change of it (totals). usage: Shop HOST:PORT STATE-DIR PAIRED-MS WINDOW-MS
 */
public class Shop {
    private static final Serde<String> TEXT = Serdes.String();
    // Nothing is ever late: what is computed must not depend on who was killed when.
    private static final Duration GRACE = Duration.ofHours(1);

    public static void main(String[] args) {
        Properties p = new Properties();
        p.put(StreamsConfig.APPLICATION_ID_CONFIG, "shop");
        p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        p.put(StreamsConfig.STATE_DIR_CONFIG, args[1]);
        p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        p.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        p.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        p.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        p.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        p.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 3000);
        p.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 500);
        p.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), 10000);
        KafkaStreams streams = new KafkaStreams(
            topology(Duration.ofMillis(Long.parseLong(args[2])), Duration.ofMillis(Long.parseLong(args[3]))).build(), p);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(10))));
        streams.start();
    }

    private static StreamsBuilder topology(Duration paired, Duration window) {
        StreamsBuilder b = new StreamsBuilder();
        // A versioned store answers as of an order's time, also when the table has run ahead of the orders.
        KTable<String, String> tiers = b.table("customers", Consumed.with(TEXT, TEXT),
            Materialized.<String, String>as(Stores.persistentVersionedKeyValueStore("tiers", GRACE.multipliedBy(2)))
                .withKeySerde(TEXT).withValueSerde(TEXT));
        KStream<String, String> orders = b.stream("orders", Consumed.with(TEXT, TEXT));
        KStream<String, String> payments = b.stream("payments", Consumed.with(TEXT, TEXT));

        KStream<String, String> rated = orders.leftJoin(tiers, (order, tier) -> order + " " + (tier == null ? "none" : tier),
            Joined.with(TEXT, TEXT, TEXT));
        rated.to("rated", Produced.with(TEXT, TEXT));

        orders.join(payments, (order, payment) -> order + " " + payment, JoinWindows.ofTimeDifferenceAndGrace(paired, GRACE),
            StreamJoined.with(TEXT, TEXT, TEXT)).to("paid", Produced.with(TEXT, TEXT));

        rated.groupBy((customer, order) -> order.split(" ")[2], Grouped.with(TEXT, TEXT))
            .windowedBy(TimeWindows.ofSizeAndGrace(window, GRACE))
            .aggregate(() -> "0 0", (tier, order, total) -> add(total, order), Materialized.with(TEXT, TEXT))
            .toStream((w, total) -> w.key() + "@" + w.window().start())
            .to("totals", Produced.with(TEXT, TEXT));
        return b;
    }

    /** An order is "ID AMOUNT TIER", a total "COUNT SUM". */
    private static String add(String total, String order) {
        String[] t = total.split(" ");
        return (Long.parseLong(t[0]) + 1) + " " + (Long.parseLong(t[1]) + Long.parseLong(order.split(" ")[1]));
    }
}
