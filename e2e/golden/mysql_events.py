"""Debezium's events of the tables of types, for golden.sh: one file for each case of settings.

mysql_events.py CONNECT KAFKA SERVER PORT CASES start         makes a connector of each case, waits for its snapshot
mysql_events.py CONNECT KAFKA SERVER PORT CASES write FOLDER  waits for the table golden_end, writes, removes them

A file holds, by table, the columns' schemas and the events' op, before and after. All but that
of plain hold only the columns that differ from plain's; a text over 1,000 characters is its hash.
"""

import hashlib
import json
import subprocess
import sys
import time
import urllib.request

CLASSES = {"mysql": "io.debezium.connector.mysql.MySqlConnector", "mariadb": "io.debezium.connector.mariadb.MariaDbConnector"}
TABLES = ("numbers", "texts", "charsets", "times", "firm", "defaults", "shapes", "own")
LONGEST = 1000
PATIENCE = 120


def call(method, url, body=None):
    request = urllib.request.Request(url, json.dumps(body).encode() if body is not None else None,
                                     {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=90) as answer:
        return json.loads(answer.read() or "null")


def config(prefix, server, port, kafka, extra):
    converter = "org.apache.kafka.connect.json.JsonConverter"
    return {
        "connector.class": CLASSES[server], "tasks.max": "1", "topic.prefix": prefix, "database.hostname": "127.0.0.1",
        "database.port": port, "database.user": "weir", "database.password": "weir",
        "database.server.id": str(int(hashlib.sha256(prefix.encode()).hexdigest()[:6], 16) + 100),
        "database.include.list": "types", "schema.history.internal.kafka.topic": f"history-{prefix}",
        "schema.history.internal.kafka.bootstrap.servers": kafka, "key.converter": converter, "value.converter": converter,
        "key.converter.schemas.enable": "true", "value.converter.schemas.enable": "true",
        "topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1", **extra,
    }


def read(kafka, topic):
    """The values of a topic, None for a tombstone; nothing of a topic that is not there."""
    out = subprocess.run(["kcat", "-b", kafka, "-C", "-t", topic, "-e", "-q", "-Z", "-o", "beginning", "-f", "%s\n"],
                         capture_output=True, check=False).stdout.decode()
    return [None if line == "NULL" else json.loads(line) for line in out.splitlines()]


def wait(what, done):
    end = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > end:
            sys.exit(f"{what}: not after {PATIENCE} s")
        time.sleep(0.3)


def snapshot_done(kafka, prefix):
    # A snapshot's last event is marked, in whichever table it is.
    return any(event and event["payload"]["source"]["snapshot"] == "last"
               for table in TABLES for event in read(kafka, f"{prefix}.types.{table}"))


def cut(value):
    if isinstance(value, str) and len(value) > LONGEST:
        return "sha256:" + hashlib.sha256(value.encode()).hexdigest()
    if isinstance(value, dict):
        return {name: cut(one) for name, one in value.items()}
    if isinstance(value, list):
        return [cut(one) for one in value]
    return value


def table(events):
    columns, out = {}, []
    for event in events:
        if event is None:
            continue
        for field in event["schema"]["fields"][1]["fields"]:
            columns.setdefault(field["field"], {key: value for key, value in field.items() if key != "field"})
        payload = event["payload"]
        out.append({"op": payload["op"], "before": cut(payload["before"]), "after": cut(payload["after"])})
    return {"columns": columns, "events": out}


def differing(one, plain):
    """The table without the columns that are the same in plain, None when all are."""
    keep = {name for name, schema in one["columns"].items() if schema != plain["columns"][name]}
    for event, other in zip(one["events"], plain["events"]):
        for side in ("before", "after"):
            keep |= {name for name, value in (event[side] or {}).items() if value != other[side][name]}
    if not keep - {"id"}:
        return None
    keep.add("id")
    events = [{key: {name: v for name, v in value.items() if name in keep} if isinstance(value, dict) else value
               for key, value in event.items()} for event in one["events"]]
    return {"columns": {name: schema for name, schema in one["columns"].items() if name in keep}, "events": events}


def text(tables):
    def dump(value):
        return json.dumps(value, ensure_ascii=False)
    parts = []
    for name, one in tables.items():
        columns = ",\n".join(f"  {dump(column)}: {dump(schema)}" for column, schema in one["columns"].items())
        events = ",\n".join("  " + dump(event) for event in one["events"])
        parts.append(f'{dump(name)}: {{"columns": {{\n{columns}}},\n "events": [\n{events}]}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main():
    connect, kafka, server, port, cases, verb, *rest = sys.argv[1:]
    cases = json.loads(cases)
    prefixes = {case: f"{server}-{case}" for case in cases}
    if verb == "start":
        for case, extra in cases.items():
            call("PUT", f"{connect}/connectors/{prefixes[case]}/config", config(prefixes[case], server, port, kafka, extra))
        for prefix in prefixes.values():
            wait(f"{prefix}: snapshot", lambda: snapshot_done(kafka, prefix))
        return
    found = {}
    for case, prefix in prefixes.items():
        wait(f"{prefix}: the last event", lambda: read(kafka, f"{prefix}.types.golden_end"))
        found[case] = {name: table(read(kafka, f"{prefix}.types.{name}")) for name in TABLES}
        call("DELETE", f"{connect}/connectors/{prefix}")
    for case, tables in found.items():
        if case != "plain":
            tables = {name: one for name, one in ((name, differing(one, found["plain"][name])) for name, one in tables.items()) if one}
        with open(f"{rest[0]}/{server}-{case}.json", "w", encoding="utf-8") as file:
            file.write(text(tables))


main()
