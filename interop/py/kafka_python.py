"""kafka-python against a broker: admin, producer, assigned consumers and consumer groups. usage: ... HOST:PORT

Prints one line "ok NAME" or "FAIL NAME: reason" per check.
"""
import sys
import time
import traceback

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError

ADDRESS = sys.argv[1]
TOPIC = "kafka-python"


def check(name):
    def run(f):
        try:
            f()
            print("ok", name, flush=True)
        except Exception:
            print("FAIL", name + ":", traceback.format_exc().replace("\n", " | "), flush=True)
    return run


def consumer(**options):
    return KafkaConsumer(bootstrap_servers=ADDRESS, group_id=None, consumer_timeout_ms=5000,
                         auto_offset_reset="earliest", **options)


def read(c, n):
    got = []
    for message in c:
        got.append(message)
        if len(got) == n:
            return got
    raise AssertionError("%d of %d records" % (len(got), n))


admin = KafkaAdminClient(bootstrap_servers=ADDRESS)


@check("create topic")
def _():
    admin.create_topics([NewTopic(TOPIC, 3, 1, topic_configs={"retention.ms": "7654321"})])
    try:
        admin.create_topics([NewTopic(TOPIC, 3, 1)])
    except TopicAlreadyExistsError:
        return
    raise AssertionError("created twice")


@check("produce")
def _():
    p = KafkaProducer(bootstrap_servers=ADDRESS, acks="all", retries=3)
    futures = [p.send(TOPIC, b"v%d" % i, key=b"k%d" % i, headers=[("h", b"x")], partition=i % 3) for i in range(300)]
    p.flush()
    # Not in order: the client may send its batches again while a new topic has no leader yet.
    for partition in range(3):
        assert sorted(f.get(10).offset for f in futures[partition::3]) == list(range(100))
    p.close()


@check("produce gzip")
def _():
    p = KafkaProducer(bootstrap_servers=ADDRESS, compression_type="gzip", acks=1)
    for _ in range(50):
        p.send(TOPIC, b"z" * 500, partition=0)
    p.flush()
    p.close()


# Not acks=0: kafka-python 2.3.3 closes its connection without sending such a batch, with any broker.
@check("empty and null values")
def _():
    p = KafkaProducer(bootstrap_servers=ADDRESS)
    p.send(TOPIC, b"", partition=1).get(10)
    p.send(TOPIC, None, key=b"gone", partition=1).get(10)
    p.close()


@check("idempotent")
def _():
    p = KafkaProducer(bootstrap_servers=ADDRESS, enable_idempotence=True)
    futures = [p.send(TOPIC, b"%d" % i, partition=2) for i in range(100)]
    p.flush()
    assert [f.get(10).offset for f in futures] == list(range(100, 200))
    p.close()


@check("consume")
def _():
    c = consumer()
    tps = [TopicPartition(TOPIC, p) for p in range(3)]
    c.assign(tps)
    got = read(c, 300 + 50 + 2 + 100)
    first = [m for m in got if m.key == b"k0"][0]
    assert (first.partition, first.value, first.headers) == (0, b"v0", [("h", b"x")]), first
    assert sum(m.value is None for m in got) == 1
    assert c.end_offsets(tps) == {tps[0]: 150, tps[1]: 102, tps[2]: 200}
    assert c.beginning_offsets(tps) == dict.fromkeys(tps, 0)
    c.close()


@check("seek")
def _():
    c = consumer(fetch_max_wait_ms=200)
    tp = TopicPartition(TOPIC, 0)
    c.assign([tp])
    c.seek(tp, 149)
    assert read(c, 1)[0].offset == 149
    at = c.offsets_for_times({tp: 1})[tp]
    assert at.offset == 0
    assert c.offsets_for_times({tp: int(time.time() * 1000) + 3600000})[tp] is None
    c.seek_to_beginning(tp)
    assert read(c, 1)[0].offset == 0
    c.close()


GROUPS = "kafka-python-groups"


def member(group, **options):
    options.setdefault("enable_auto_commit", False)
    return KafkaConsumer(GROUPS, bootstrap_servers=ADDRESS, group_id=group, auto_offset_reset="earliest",
                         session_timeout_ms=6000, heartbeat_interval_ms=500, consumer_timeout_ms=10000, **options)


def until(what, holds):
    end = time.time() + 20
    while not holds():
        assert time.time() < end, what + " does not come"


@check("group consume and commit")
def _():
    admin.create_topics([NewTopic(GROUPS, 4, 1)])
    p = KafkaProducer(bootstrap_servers=ADDRESS)
    for i in range(200):
        p.send(GROUPS, b"%d" % i, partition=i % 4)
    p.flush()
    p.close()
    c = member("py")
    got = read(c, 200)
    assert len({(m.partition, m.offset) for m in got}) == 200
    c.commit()
    assert [c.committed(TopicPartition(GROUPS, n)) for n in range(4)] == [50] * 4
    c.close()
    again = member("py", enable_auto_commit=True)
    assert not again.poll(2000)
    again.close()


@check("group rebalance")
def _():
    first, second = member("py-two"), member("py-two")
    until("the first assignment", lambda: first.poll(100) is not None and len(first.assignment()) == 4)

    def shared():
        first.poll(100)
        second.poll(100)
        return len(first.assignment()) == 2 and len(second.assignment()) == 2
    until("the sharing", shared)
    second.close()
    until("the rest", lambda: first.poll(100) is not None and len(first.assignment()) == 4)
    first.close()


@check("group administration")
def _():
    assert ("py", "consumer") in admin.list_consumer_groups()
    offsets = admin.list_consumer_group_offsets("py")
    assert [offsets[TopicPartition(GROUPS, n)].offset for n in range(4)] == [50] * 4
    assert admin.describe_consumer_groups(["py"])[0].state == "Empty"
    assert all("NoError" in str(r) for r in admin.delete_consumer_groups(["py", "py-two"]))
    assert "py" not in [g[0] for g in admin.list_consumer_groups()]


@check("configs")
def _():
    resource = ConfigResource(ConfigResourceType.TOPIC, TOPIC)
    assert "7654321" in str(admin.describe_configs([resource]))
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, TOPIC, configs={"retention.ms": "1111111"})])
    assert "1111111" in str(admin.describe_configs([resource]))


@check("partitions")
def _():
    admin.create_partitions({TOPIC: NewPartitions(5)})
    assert len(admin.describe_topics([TOPIC])[0]["partitions"]) == 5


@check("cluster")
def _():
    assert len(admin.describe_cluster()["brokers"]) == 1


@check("delete topic")
def _():
    admin.delete_topics([TOPIC])
    for _ in range(50):
        try:
            admin.delete_topics([TOPIC])
        except UnknownTopicOrPartitionError:
            return
    raise AssertionError("still there")
