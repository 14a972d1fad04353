"""Debezium and weir's connector on the same database, for compare.sh.

compare.py start CASES JAVA_URL WEIR_URL PG_PORT [NAME…]   makes both connectors of each case, prints those taken
compare.py snapshot CASES KAFKA [NAME…]                    waits until both have read what is there
compare.py diff CASES KAFKA MARKER [NAME…]                 waits for the row MARKER, compares, prints Markdown

What may differ is masked: times of events, log positions, transaction ids. All else is
compared: topics, the order in each, keys, values with their schemas, headers and their order.
"""

import json
import re
import sys
import time
import urllib.request

import urllib.error

import confluent_kafka as ck

SIDES = ("java", "weir")
MASKED = {"ts_ms", "ts_us", "ts_ns", "lsn", "txId", "sequence", "xmin", "id@transaction", "ts_ms@end"}


def prefix(side, case):
    return f"{side}-{case}"


class Refused(Exception):
    """An answer other than 2xx."""


def call(method, url, body=None):
    request = urllib.request.Request(url, json.dumps(body).encode() if body is not None else None,
                                     {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=90) as answer:
            return json.loads(answer.read() or "null")
    except urllib.error.HTTPError as fault:
        raise Refused(f"{method} {url}: {fault.code} {fault.read().decode()[:600]}") from None


def start(cases, java_url, weir_url, pg_port):
    """Prints the cases that both have taken."""
    for name, extra in cases.items():
        try:
            make(name, extra, java_url, weir_url, pg_port)
            print(name)
        except Refused as why:
            print(f"{name} is refused: {' '.join(str(why).split())}", file=sys.stderr)


def make(name, extra, java_url, weir_url, pg_port):
    for side, url in zip(SIDES, (java_url, weir_url)):
        config = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "tasks.max": "1",
            "database.hostname": "127.0.0.1", "database.port": pg_port, "database.user": "postgres",
            "database.password": "weir", "database.dbname": "compare", "topic.prefix": prefix(side, name),
            "schema.include.list": "s", "plugin.name": "pgoutput", "slot.name": f"{side}_{name}",
            "publication.name": f"{side}_{name}", "publication.autocreate.mode": "filtered", "slot.drop.on.stop": "true",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false",
            "topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1", **extra,
        }
        call("PUT", f"{url}/connectors/{side}-{name}/config", config)


def read(kafka, wanted):
    """All records of the topics whose names begin with the prefix: topic -> [(key, value, headers)]."""
    consumer = ck.Consumer({"bootstrap.servers": kafka, "group.id": "compare", "enable.auto.commit": False,
                            "enable.partition.eof": True})
    topics = [t for t in consumer.list_topics(timeout=10).topics if t.startswith(wanted + ".") or t == wanted]
    found = {t[len(wanted):]: [] for t in topics}
    if topics:
        consumer.assign([ck.TopicPartition(t, 0, ck.OFFSET_BEGINNING) for t in topics])
    left = len(topics)
    end = time.monotonic() + 60
    while left and time.monotonic() < end:
        for message in consumer.consume(500, 1.0):
            if message.error():
                left -= message.error().code() == ck.KafkaError._PARTITION_EOF
                continue
            found[message.topic()[len(wanted):]].append((message.key(), message.value(), message.headers() or []))
    consumer.close()
    return found


def total(found):
    return sum(len(records) for records in found.values())


def settle(kafka, cases, done, seconds=120):
    """Waits until each side is done and says nothing new for some seconds, or for the end of the time."""
    end = time.monotonic() + seconds
    seen, since = {}, time.monotonic()
    while time.monotonic() < end:
        now = {(side, name): read(kafka, prefix(side, name)) for name in cases for side in SIDES}
        counts = {key: total(found) for key, found in now.items()}
        if counts != seen:
            seen, since = counts, time.monotonic()
        elif all(done(found) for found in now.values()) and time.monotonic() - since > 4:
            return now
        time.sleep(0.5)
    print(f"not settled after {seconds} s: {seen}", file=sys.stderr)
    return now


def normal(raw, wanted):
    if raw is None:
        return None
    text = raw.decode().replace(wanted, "PREFIX").replace(re.sub(r"[^A-Za-z0-9_.]", "_", wanted), "PREFIX")
    try:
        return json.loads(text)
    except ValueError:
        return text


def walk(path, java, weir, report):
    key = path.rsplit(".", 1)[-1]
    if key in MASKED:
        if (java is None) != (weir is None):
            report(path, java, weir)
        return
    if path.endswith("transaction.id") or (key == "id" and ".status" in path):
        return
    if isinstance(java, dict) and isinstance(weir, dict):
        for name in dict.fromkeys([*java, *weir]):
            if name not in java or name not in weir:
                report(f"{path}.{name}", java.get(name, "absent"), weir.get(name, "absent"))
            else:
                walk(f"{path}.{name}", java[name], weir[name], report)
        if list(java) != list(weir) and set(java) == set(weir):
            report(path + " (order of fields)", list(java), list(weir))
    elif isinstance(java, list) and isinstance(weir, list) and len(java) == len(weir):
        for at, (one, other) in enumerate(zip(java, weir)):
            name = one.get("field") if isinstance(one, dict) else None
            walk(f"{path}[{name or at}]", one, other, report)
    elif java != weir or type(java) is not type(weir):
        report(path, java, weir)


def compare(case, java, weir):
    wanted = {side: prefix(side, case) for side in SIDES}
    faults = {}
    records = 0

    def at(where):
        return lambda path, one, other: faults.setdefault((topic, path), (where, one, other))

    for topic in sorted({*java, *weir}):
        ours, theirs = weir.get(topic, []), java.get(topic, [])
        if len(ours) != len(theirs):
            faults[(topic, "records")] = ("-", len(theirs), len(ours))
        for index, (one, other) in enumerate(zip(theirs, ours)):
            records += 1
            for part, name in enumerate(("key", "value")):
                walk(name, normal(one[part], wanted["java"]), normal(other[part], wanted["weir"]), at(index))
            mine, other_headers = ([(k, normal(v, wanted[side])) for k, v in which if not k.endswith(".runId")]
                                   for side, which in (("java", one[2]), ("weir", other[2])))
            walk("headers", dict(mine), dict(other_headers), at(index))
    print(f"\n## {case}: {records} records compared, {len(faults)} differences\n")
    if faults:
        print("| topic | record | where | Debezium | weir |\n|---|---|---|---|---|")
    for (topic, path), (where, one, other) in faults.items():
        cells = [topic, str(where), path, *(json.dumps(v, ensure_ascii=False)[:160] for v in (one, other))]
        print("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    return len(faults)


def main():
    verb, path, *rest = sys.argv[1:]
    cases = json.load(open(path))
    fixed = {"start": 3, "snapshot": 1, "diff": 2}[verb]
    args, names = rest[:fixed], rest[fixed:]
    cases = {name: cases[name] for name in names or cases}
    if verb == "start":
        start(cases, *args)
    elif verb == "snapshot":
        settle(args[0], cases, lambda found: total(found) >= 20)
    else:
        kafka, marker = args
        now = settle(kafka, cases, lambda found: any(marker in (value or b"").decode() for _, value, _ in found.get(".s.defaults", [])))
        print("# Debezium and weir on the same database")
        faults = [compare(name, now[("java", name)], now[("weir", name)]) for name in cases]
        print(f"\n{sum(faults)} differences in {len(faults)} cases")
        sys.exit(1 if any(faults) else 0)


main()
