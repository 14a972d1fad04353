"""The cells of confluent-kafka (librdkafka): confluent.py BOOTSTRAP PREFIX."""

import os
import sys
import time

import confluent_kafka as ck
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from cells import CODECS, COUNT, cell, heard, same, values

bootstrap, prefix = sys.argv[1], sys.argv[2]
NAME = "confluent-kafka"
admin = AdminClient({"bootstrap.servers": bootstrap})


def topic(name, partitions=1):
    full = f"{prefix}-{name}"
    for future in admin.create_topics([NewTopic(full, partitions, 1)]).values():
        future.result(20)
    return full


def produce(full, records, **config):
    """Writes (key, value, headers) and waits until all are acknowledged."""
    failed, done = [], []
    producer = ck.Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 20, **config})

    def delivered(err, message):
        (failed if err else done).append(err or message)

    for record in records:
        producer.produce(full, key=record[0], value=record[1], headers=record[2] if len(record) > 2 else None,
                         on_delivery=delivered)
        producer.poll(0)
    left = producer.flush(30)
    same((left, failed[:1], len(done)), (0, [], len(records)), "delivery")


def read(consumer, count, seconds=30):
    got, end = [], time.monotonic() + seconds
    while len(got) < count and time.monotonic() < end:
        for message in consumer.consume(count - len(got), 0.5):
            if message.error():
                raise ck.KafkaException(message.error())
            got.append(message)
    return got


def consume_all(full, count, partitions=1):
    consumer = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": full + "-assign", "enable.auto.commit": False,
                            "check.crcs": True})
    consumer.assign([ck.TopicPartition(full, p, ck.OFFSET_BEGINNING) for p in range(partitions)])
    got = read(consumer, count)
    consumer.close()
    return got


def plain():
    full = topic("plain")
    produce(full, [(b"k%d" % i, v) for i, v in enumerate(values())])
    _, high = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": "x"}).get_watermark_offsets(
        ck.TopicPartition(full, 0), 10)
    same(high, COUNT, "high watermark")


def consume():
    got = consume_all(f"{prefix}-plain", COUNT)
    same([m.value() for m in got], values(), "values")
    same([m.offset() for m in got], list(range(COUNT)), "offsets")
    same(got[7].key(), b"k7", "key")


def codec(name):
    full = topic(name)
    produce(full, [(None, v) for v in values()], **{"compression.type": name, "linger.ms": 200})
    same([m.value() for m in consume_all(full, COUNT)], values(), "values")


def group():
    full = topic("group", 3)
    produce(full, [(b"k%d" % i, v) for i, v in enumerate(values())])
    config = {"bootstrap.servers": bootstrap, "group.id": full, "auto.offset.reset": "earliest",
              "enable.auto.commit": False}
    first = ck.Consumer(config)
    first.subscribe([full])
    half = read(first, COUNT // 2)
    first.commit(asynchronous=False)
    first.close()
    second = ck.Consumer(config)
    second.subscribe([full])
    rest = read(second, COUNT - len(half))
    same(read(second, 1, 2), [], "records read twice")
    same(sorted(m.value() for m in half + rest), sorted(values()), "values")
    second.commit(asynchronous=False)
    second.close()


def members():
    """Two members share the partitions, and one takes over when the other leaves."""
    full = topic("members", 4)
    config = {"bootstrap.servers": bootstrap, "group.id": full, "auto.offset.reset": "earliest",
              "partition.assignment.strategy": "cooperative-sticky", "session.timeout.ms": 6000}
    one, two = ck.Consumer(config), ck.Consumer(config)
    one.subscribe([full])
    two.subscribe([full])

    def settle(want, members):
        end = time.monotonic() + 40
        while time.monotonic() < end:
            for member in members:
                member.poll(0.1)
            if [len(m.assignment()) for m in members] == want:
                return
        raise AssertionError(f"assignment: got {[len(m.assignment()) for m in members]}, want {want}")

    settle([2, 2], [one, two])
    two.close()
    settle([4], [one])
    one.close()


def administer():
    full = topic("admin", 2)
    listed = admin.list_topics(timeout=10).topics
    same(len(listed[full].partitions), 2, "partitions listed")
    for future in admin.describe_topics(ck.TopicCollection([full])).values():
        same(len(future.result(10).partitions), 2, "partitions described")
    for future in admin.create_partitions([NewPartitions(full, 5)]).values():
        future.result(10)
    heard()
    same(len(admin.list_topics(full, 10).topics[full].partitions), 5, "partitions after growth")
    resource = ConfigResource(ConfigResource.Type.TOPIC, full, incremental_configs=[
        ConfigEntry("retention.ms", "3600000", incremental_operation=AlterConfigOpType.SET)])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(10)
    heard()
    wanted = ConfigResource(ConfigResource.Type.TOPIC, full)
    for future in admin.describe_configs([wanted]).values():
        same(future.result(10)["retention.ms"].value, "3600000", "retention.ms")
    groups = admin.list_consumer_groups().result(10)
    same(f"{prefix}-group" in [g.group_id for g in groups.valid], True, "group listed")
    for future in admin.describe_consumer_groups([f"{prefix}-group"]).values():
        same(future.result(10).state.name, "EMPTY", "state of the group")
    for future in admin.delete_consumer_groups([f"{prefix}-group"]).values():
        future.result(10)
    same(len(admin.describe_cluster().result(10).nodes), int(os.environ.get("NODES", "1")), "nodes")
    for future in admin.delete_topics([full]).values():
        future.result(10)
    heard()
    same(full in admin.list_topics(timeout=10).topics, False, "deleted topic listed")


def delete_records():
    full = topic("deleted")
    produce(full, [(None, v) for v in values(20)])
    for future in admin.delete_records([ck.TopicPartition(full, 0, 12)]).values():
        same(future.result(10).low_watermark, 12, "low watermark")
    for future in admin.list_offsets({ck.TopicPartition(full, 0): OffsetSpec.earliest()}).values():
        same(future.result(10).offset, 12, "earliest offset")


def idempotent():
    full = topic("idempotent")
    produce(full, [(None, v) for v in values()], **{"enable.idempotence": True})
    same([m.value() for m in consume_all(full, COUNT)], values(), "values")


def headers():
    full = topic("headers")
    produce(full, [(None, b"v", [("a", b"1"), ("a", b"2"), ("null", None), ("empty", b"")])])
    same(consume_all(full, 1)[0].headers(), [("a", b"1"), ("a", b"2"), ("null", None), ("empty", b"")], "headers")


def times():
    full = topic("times")
    producer = ck.Producer({"bootstrap.servers": bootstrap})
    base = int(time.time() * 1000) - 100_000
    for i in range(10):
        producer.produce(full, b"v", timestamp=base + i * 1000)
    producer.flush(20)
    consumer = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": "x"})
    found = consumer.offsets_for_times([ck.TopicPartition(full, 0, base + 3500)], 10)
    same(found[0].offset, 4, "offset by time")
    same(consume_all(full, 10)[4].timestamp(), (ck.TIMESTAMP_CREATE_TIME, base + 4000), "timestamp")
    consumer.close()


def transactions():
    full = topic("transactions")
    producer = ck.Producer({"bootstrap.servers": bootstrap, "transactional.id": full})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(full, b"aborted")
    producer.flush(10)
    producer.abort_transaction(10)
    producer.begin_transaction()
    producer.produce(full, b"committed")
    producer.commit_transaction(10)
    consumer = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": "x", "isolation.level": "read_committed"})
    consumer.assign([ck.TopicPartition(full, 0, 0)])
    same([m.value() for m in read(consumer, 2, 5)], [b"committed"], "read_committed")


def consumer_protocol():
    """The group protocol of KIP-848."""
    full = topic("next", 2)
    produce(full, [(None, v) for v in values()])
    consumer = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": full, "group.protocol": "consumer",
                            "auto.offset.reset": "earliest"})
    consumer.subscribe([full])
    same(len(read(consumer, COUNT, 10)), COUNT, "records")
    consumer.close()


print(ck.version(), ck.libversion(), file=sys.stderr)
cell(NAME, "produce", plain)
cell(NAME, "consume", consume)
for each in CODECS:
    cell(NAME, each, codec, each)
cell(NAME, "group", group)
cell(NAME, "members", members)
cell(NAME, "admin", administer)
cell(NAME, "delete-records", delete_records)
cell(NAME, "idempotent", idempotent)
cell(NAME, "headers", headers)
cell(NAME, "times", times)
cell(NAME, "transactions", transactions)
cell(NAME, "kip-848", consumer_protocol)
