"""The cells of aiokafka (pure Python): aio.py BOOTSTRAP PREFIX."""

import asyncio
import sys
import time

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from cells import CODECS, COUNT, cell, heard, same, values

bootstrap, prefix = sys.argv[1], sys.argv[2]
NAME = "aiokafka"


async def topic(name, partitions=1):
    full = f"{prefix}-{name}"
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(full, partitions, 1)])
    finally:
        await admin.close()
    return full


async def produce(full, records, **config):
    """Writes (key, value, headers) and waits until all are acknowledged."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=20, **config)
    await producer.start()
    try:
        sent = [await producer.send(full, key=r[0], value=r[1], headers=r[2] if len(r) > 2 else None) for r in records]
        return [(await one).offset for one in sent]
    finally:
        await producer.stop()


async def read(consumer, count, seconds=30):
    got, end = [], time.monotonic() + seconds
    while len(got) < count and time.monotonic() < end:
        for batch in (await consumer.getmany(timeout_ms=500, max_records=count - len(got))).values():
            got.extend(batch)
    return got


async def consume_all(full, count):
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign([TopicPartition(full, 0)])
        return await read(consumer, count)
    finally:
        await consumer.stop()


async def plain():
    full = await topic("plain")
    offsets = await produce(full, [(b"k%d" % i, v) for i, v in enumerate(values())])
    same(offsets, list(range(COUNT)), "offsets acknowledged")


async def consume():
    got = await consume_all(f"{prefix}-plain", COUNT)
    same([m.value for m in got], values(), "values")
    same([m.offset for m in got], list(range(COUNT)), "offsets")
    same(got[7].key, b"k7", "key")


async def codec(name):
    full = await topic(name)
    await produce(full, [(None, v) for v in values()], compression_type=name)
    same([m.value for m in await consume_all(full, COUNT)], values(), "values")


async def group():
    full = await topic("group", 3)
    await produce(full, [(b"k%d" % i, v) for i, v in enumerate(values())])
    config = {"bootstrap_servers": bootstrap, "group_id": full, "auto_offset_reset": "earliest",
              "enable_auto_commit": False}
    first = AIOKafkaConsumer(full, **config)
    await first.start()
    half = await read(first, COUNT // 2)
    await first.commit()
    await first.stop()
    second = AIOKafkaConsumer(full, **config)
    await second.start()
    rest = await read(second, COUNT - len(half))
    same(await read(second, 1, 2), [], "records read twice")
    same(sorted(m.value for m in half + rest), sorted(values()), "values")
    await second.commit()
    await second.stop()


async def members():
    """Two members share the partitions, and one takes over when the other leaves."""
    full = await topic("members", 4)
    config = {"bootstrap_servers": bootstrap, "group_id": full, "session_timeout_ms": 6000,
              "heartbeat_interval_ms": 500}
    one, two = AIOKafkaConsumer(full, **config), AIOKafkaConsumer(full, **config)
    await asyncio.gather(one.start(), two.start())

    async def settle(want, members):
        end = time.monotonic() + 40
        while time.monotonic() < end:
            for member in members:
                await member.getmany(timeout_ms=100)
            if [len(m.assignment()) for m in members] == want:
                return
        raise AssertionError(f"assignment: got {[len(m.assignment()) for m in members]}, want {want}")

    await settle([2, 2], [one, two])
    await two.stop()
    await settle([4], [one])
    await one.stop()


async def administer():
    full = await topic("admin", 2)
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        same(full in await admin.list_topics(), True, "topic listed")
        same(len((await admin.describe_topics([full]))[0]["partitions"]), 2, "partitions described")
        await admin.create_partitions({full: NewPartitions(5)})
        heard()
        same(len((await admin.describe_topics([full]))[0]["partitions"]), 5, "partitions after growth")
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, full, {"retention.ms": "3600000"})])
        heard()
        answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, full)])
        found = {entry[0]: entry[1] for answer in answers for entry in answer.resources[0][4]}
        same(found["retention.ms"], "3600000", "retention.ms")
        same(f"{prefix}-group" in [g[0] for g in await admin.list_consumer_groups()], True, "group listed")
        described = (await admin.describe_consumer_groups([f"{prefix}-group"]))[0].groups[0]
        same(described[2], "Empty", "state of the group")
        offsets = await admin.list_consumer_group_offsets(f"{prefix}-group")
        same(sum(o.offset for o in offsets.values()), COUNT, "committed offsets")
        await admin.delete_topics([full])
        heard()
        same(full in await admin.list_topics(), False, "deleted topic listed")
    finally:
        await admin.close()


async def delete_records():
    full = await topic("deleted")
    await produce(full, [(None, v) for v in values(20)])
    from aiokafka.admin import RecordsToDelete

    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.delete_records({TopicPartition(full, 0): RecordsToDelete(before_offset=12)})
    finally:
        await admin.close()
    same((await consume_all(full, 8))[0].offset, 12, "first offset")


async def idempotent():
    full = await topic("idempotent")
    await produce(full, [(None, v) for v in values()], enable_idempotence=True)
    same([m.value for m in await consume_all(full, COUNT)], values(), "values")


async def headers():
    full = await topic("headers")
    wanted = [("a", b"1"), ("a", b"2"), ("null", None), ("empty", b"")]
    await produce(full, [(None, b"v", wanted)])
    same(list((await consume_all(full, 1))[0].headers), wanted, "headers")


async def times():
    full = await topic("times")
    base = int(time.time() * 1000) - 100_000
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    for i in range(10):
        await producer.send_and_wait(full, b"v", timestamp_ms=base + i * 1000)
    await producer.stop()
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await consumer.start()
    try:
        tp = TopicPartition(full, 0)
        same((await consumer.offsets_for_times({tp: base + 3500}))[tp].offset, 4, "offset by time")
    finally:
        await consumer.stop()
    same((await consume_all(full, 10))[4].timestamp, base + 4000, "timestamp")


async def transactions():
    full = await topic("transactions")
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=full)
    await producer.start()
    try:
        async with producer.transaction():
            await producer.send_and_wait(full, b"committed")
    finally:
        await producer.stop()


def run(function, *args):
    return asyncio.run(asyncio.wait_for(function(*args), 90))


print(aiokafka.__version__, file=sys.stderr)
cell(NAME, "produce", run, plain)
cell(NAME, "consume", run, consume)
for each in CODECS:
    cell(NAME, each, run, codec, each)
cell(NAME, "group", run, group)
cell(NAME, "members", run, members)
cell(NAME, "admin", run, administer)
cell(NAME, "delete-records", run, delete_records)
cell(NAME, "idempotent", run, idempotent)
cell(NAME, "headers", run, headers)
cell(NAME, "times", run, times)
cell(NAME, "transactions", run, transactions)
