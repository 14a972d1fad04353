#!/bin/bash
# weir's worker on a cluster that is there already: worker.sh BOOTSTRAP PREFIX PORT DIR WEIR CLIENT.
# A file source and sink and PostgreSQL's changes, with kill -9; then the real Java worker
# with the same three topics shares a group with weir's, goes on where that has stopped, and
# weir's where Java's has; the same for standalone workers and one offsets file.
# Judged by kcat, Kafka's tools and the files. Ports from PORT, folders below DIR; WEIR is
# the binary, CLIENT what the cells are filed under.

source "$(dirname "${BASH_SOURCE[0]}")/cells.sh"
source "$peers/jars.sh"

bootstrap=$1 prefix=$2 port=$3 dir=$4 weir=$5 me=$6
folder=$dir/$prefix
java_port=$((port + 1)) console_port=$((port + 2)) pg_port=$((port + 3)) second_port=$((port + 7))
text=org.apache.kafka.connect.storage.StringConverter

# rest PORT PATH CURL... calls a worker.
rest() { curl -fsS -m 20 -H 'Content-Type: application/json' "http://127.0.0.1:$1$2" "${@:3}"; }

# eventually SECONDS COMMAND... repeats a command until it succeeds.
eventually() {
  local end=$((SECONDS + $1))
  shift
  until "$@" 2>/dev/null; do
    [ "$SECONDS" -lt "$end" ] || { echo "never came true: $*" >&2; return 1; }
    sleep 0.2
  done
}

# running PORT NAME WORKER says whether a connector and its task run, on that worker.
running() {
  [ "$(rest "$1" "/connectors/$2/status" | jq -r '[.connector, .tasks[]] | map(.state + "@" + .worker_id) | unique | join(",")')" = "RUNNING@127.0.0.1:$1" ]
}

# settings prints the file that Kafka ships, with a group of our own.
settings() {
  cat <<END
bootstrap.servers=$bootstrap
group.id=$prefix-workers
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=false
value.converter.schemas.enable=false
offset.storage.topic=$prefix-offsets
offset.storage.replication.factor=3
config.storage.topic=$prefix-configs
config.storage.replication.factor=3
status.storage.topic=$prefix-status
status.storage.replication.factor=3
offset.flush.interval.ms=1000
listeners=HTTP://127.0.0.1:$port
plugin.path=/usr/local/share/java,/usr/local/share/kafka/plugins
END
}

ready() { curl -fsS -m 2 "http://127.0.0.1:$console_port/readyz"; }

start_weir() {
  launch "$folder/weir" "$kafka_user" "$weir" connect --config "$folder/connect-distributed.properties" --console "127.0.0.1:$console_port"
  await "weir's worker" 30 "$folder/weir" ready
}

start_java() {
  HEAP=448 "$peers/connect.sh" start "$java_port" "$folder/java" "$bootstrap" group.id="$prefix-workers" \
    config.storage.topic="$prefix-configs" offset.storage.topic="$prefix-offsets" status.storage.topic="$prefix-status" "$@"
}

end_java() { "$peers/connect.sh" stop "$folder/java"; }

start() {
  local topics
  start_weir
  same "$("$peers/tool.sh" org.apache.kafka.tools.GroupsCommand --bootstrap-server "$bootstrap" --list | awk -v g="$prefix-workers" '$1 == g { print $3 }')" connect "protocol of the group"
  topics=$("$peers/tool.sh" topics --bootstrap-server "$bootstrap" --describe --topic "$prefix-(configs|offsets|status)" | grep 'cleanup.policy=compact' |
    grep -o 'Topic: [^[:space:]]*\|PartitionCount: [0-9]*' | awk '{ print $2 }' | paste -sd' ')
  for each in "$prefix-configs 1" "$prefix-offsets 25" "$prefix-status 5"; do
    [[ " $topics " == *" $each "* ]] || { echo "no compacted topic $each in: $topics" >&2; return 1; }
  done
}

# feed FROM TO appends lines to what the source reads.
feed() { seq -f 'line %g' "$1" "$2" >>"$folder/files/in.txt"; }

# arrived COUNT says whether all lines are in the topic and in the sink's file, each at least once.
arrived() {
  local want
  want=$(seq -f 'line %g' 1 "$1" | sort | digest)
  [ "$(timeout 20 kcat -b "$bootstrap" -C -t "$prefix-lines" -o beginning -e -q | sort -u | digest)" = "$want" ] &&
    [ "$(sort -u "$folder/files/out.txt" | digest)" = "$want" ]
}

# once COUNT says whether the topic has no line twice.
once() { same "$(timeout 20 kcat -b "$bootstrap" -C -t "$prefix-lines" -o beginning -e -q | wc -l)" "$1" "lines in the topic"; }

files() {
  feed 1 2000
  rest "$port" "/connectors/$prefix-in/config" -X PUT -d "{\"connector.class\": \"org.apache.kafka.connect.file.FileStreamSourceConnector\",
    \"file\": \"$folder/files/in.txt\", \"topic\": \"$prefix-lines\", \"value.converter\": \"$text\"}"
  rest "$port" "/connectors/$prefix-out/config" -X PUT -d "{\"connector.class\": \"org.apache.kafka.connect.file.FileStreamSinkConnector\",
    \"file\": \"$folder/files/out.txt\", \"topics\": \"$prefix-lines\", \"value.converter\": \"$text\"}"
  eventually 40 running "$port" "$prefix-in"
  eventually 40 running "$port" "$prefix-out"
  eventually 40 arrived 2000
  once 2000
}

kills() {
  local round at=2000
  for round in 1 2 3; do
    feed $((at + 1)) $((at + 3000))
    at=$((at + 3000))
    sleep "0.$((RANDOM % 9))" # the moment of the kill
    kill_now "$folder/weir"
    start_weir
  done
  eventually 60 arrived "$at"
}
lines=11000 # after kills

sql() { PGPASSWORD=weir psql -X -q -At -v ON_ERROR_STOP=1 "postgres://postgres@127.0.0.1:$pg_port/shop" -c "$1"; }

# changes prints how many distinct rows have come from the table, how many events, and how many of them by a snapshot.
changes() {
  timeout 20 kcat -b "$bootstrap" -C -t "$prefix.public.items" -o beginning -e -q |
    jq -r '(.payload // .) | select(.after != null) | "\(.after.id) \(.op)"' |
    awk '{ if (!seen[$1]++) ids++; n++; if ($2 == "r") r++ } END { print ids + 0, n + 0, r + 0 }'
}

# streaming says whether the stored offset is one of the stream.
streaming() {
  [ "$(rest "$port" "/connectors/$prefix-pg/offsets" | jq -c '[.offsets[].offset | (.lsn != null and .snapshot == null)]')" = '[true]' ]
}

rows() { [ "$(changes | cut -d' ' -f1)" = "$1" ]; }

postgres() {
  "$peers/../services/postgres.sh" start "$pg_port" "$folder/postgres"
  PGPASSWORD=weir psql -X -q "postgres://postgres@127.0.0.1:$pg_port/postgres" -c 'create database shop'
  sql "create table items (id int primary key, name text); insert into items select i, 'item ' || i from generate_series(1, 1000) i"
  rest "$port" "/connectors/$prefix-pg/config" -X PUT -d "{\"connector.class\": \"io.debezium.connector.postgresql.PostgresConnector\",
    \"database.hostname\": \"127.0.0.1\", \"database.port\": \"$pg_port\", \"database.user\": \"postgres\", \"database.password\": \"weir\",
    \"database.dbname\": \"shop\", \"topic.prefix\": \"$prefix\", \"table.include.list\": \"public.items\", \"plugin.name\": \"pgoutput\",
    \"slot.name\": \"weir_worker\", \"publication.name\": \"weir_worker\", \"publication.autocreate.mode\": \"filtered\"}"
  eventually 40 running "$port" "$prefix-pg"
  eventually 40 rows 1000
  sql "insert into items select i, 'item ' || i from generate_series(1001, 1500) i"
  eventually 20 streaming # a snapshot that was not stored as done is begun again
  kill_now "$folder/weir"
  sql "insert into items select i, 'item ' || i from generate_series(1501, 2000) i"
  start_weir
  eventually 40 rows 2000
  same "$(changes | cut -d' ' -f3)" 1000 "rows read by a snapshot"
}

# told PORT prints the ports of the workers that run the group's connectors and tasks, "not" if not all of them run.
told() {
  rest "$1" "/connectors?expand=status" |
    jq -r '[.[].status | .connector, .tasks[]] | if all(.state == "RUNNING") then map(.worker_id | sub(".*:"; "")) | unique | join(" ") else "not" end'
}

# divided WORKERS COUNT PORT... says whether COUNT connectors and all their tasks run at these workers, by what each of PORT tells.
divided() {
  local workers=$1 count=$2 each
  shift 2
  for each in "$@"; do
    [ "$(told "$each")" = "$workers" ] && [ "$(rest "$each" /connectors | jq length)" = "$count" ] || return 1
    [ "$(rest "$each" "/connectors/$prefix-shared-out/status" | jq '.tasks | length')" = 4 ] || return 1
  done
}

share() { seq -f 'line %g' "$1" "$2" >>"$folder/files/shared.txt"; }

# passed COUNT says whether all lines are in the sink's file, each at least once.
passed() { [ "$(sort -u "$folder/files/shared-out.txt" | digest)" = "$(seq -f 'line %g' 1 "$1" | sort | digest)" ]; }

# shared_connectors makes a source and a sink of four tasks at the worker of PORT.
shared_connectors() {
  rest "$1" "/connectors/$prefix-shared-in/config" -X PUT -d "{\"connector.class\": \"org.apache.kafka.connect.file.FileStreamSourceConnector\",
    \"file\": \"$folder/files/shared.txt\", \"topic\": \"$prefix-shared\", \"value.converter\": \"$text\"}"
  rest "$1" "/connectors/$prefix-shared-out/config" -X PUT -d "{\"connector.class\": \"org.apache.kafka.connect.file.FileStreamSinkConnector\", \"tasks.max\": \"4\",
    \"file\": \"$folder/files/shared-out.txt\", \"topics\": \"$prefix-shared\", \"value.converter\": \"$text\"}"
}

# beside_java runs a Java worker in weir's group: they share the work, whoever leads, each serves all requests, and what
# one of them had that is gone the other has.
beside_java() {
  local each all=$(($(rest "$port" /connectors | jq length) + 2))
  start_java scheduled.rebalance.max.delay.ms=0
  share 1 100
  shared_connectors "$java_port" # weir leads
  eventually 40 divided "$port $java_port" "$all" "$port" "$java_port"
  eventually 40 passed 100
  kill_now "$folder/weir"
  eventually 20 divided "$java_port" "$all" "$java_port"
  share 101 200
  eventually 40 passed 200
  start_weir # Java leads
  eventually 40 divided "$port $java_port" "$all" "$port" "$java_port"
  for each in out in; do rest "$port" "/connectors/$prefix-shared-$each" -X DELETE; done
  shared_connectors "$port"
  eventually 40 divided "$port $java_port" "$all" "$port" "$java_port"
  for each in 0 1 2 3; do rest "$port" "/connectors/$prefix-shared-out/tasks/$each/restart" -X POST; done
  share 201 300
  eventually 40 passed 300
  end_java
  eventually 20 divided "$port" "$all" "$port"
  share 301 400
  eventually 40 passed 400
  same "$(timeout 20 kcat -b "$bootstrap" -C -t "$prefix-shared" -o beginning -e -q | sort -u | wc -l)" 400 "lines in the topic"
  for each in out in; do rest "$port" "/connectors/$prefix-shared-$each" -X DELETE; done
  for each in in out; do eventually 40 running "$port" "$prefix-$each"; done
}

# beside_weir runs a second weir's worker in the group.
beside_weir() {
  local each all=$(($(rest "$port" /connectors | jq length) + 2))
  sed "s/^listeners=.*/listeners=http:\/\/127.0.0.1:$second_port/" "$folder/connect-distributed.properties" >"$folder/second.properties"
  launch "$folder/second" "$kafka_user" "$weir" connect --config "$folder/second.properties" --console "127.0.0.1:$((port + 4))"
  await "the second worker" 30 "$folder/second" curl -fsS -m 2 "http://127.0.0.1:$((port + 4))/readyz"
  shared_connectors "$second_port"
  eventually 40 divided "$port $second_port" "$all" "$port" "$second_port"
  kill_now "$folder/second"
  eventually 15 divided "$port" "$all" "$port"
  for each in out in; do rest "$port" "/connectors/$prefix-shared-$each" -X DELETE; done
  for each in in out; do eventually 40 running "$port" "$prefix-$each"; done
}

position() { rest "$1" "/connectors/$prefix-in/offsets" | jq -c '.offsets'; }

to_java() {
  local before
  before=$(position "$port")
  halt weir "$folder/weir" 20
  start_java
  for each in in out ${1:+pg}; do eventually 60 running "$java_port" "$prefix-$each"; done
  same "$(position "$java_port")" "$before" "offsets as Java tells them"
  ! grep -q 'Failed to start task' "$folder/java/log" || { echo "Java could not start a task as it was stored" >&2; return 1; }
  feed $((lines + 1)) $((lines + 500))
  eventually 60 arrived $((lines + 500))
  [ -z "${1:-}" ] || { sql "insert into items select i, 'item ' || i from generate_series(2001, 2500) i"; eventually 60 rows 2500; same "$(changes | cut -d' ' -f3)" 1000 "rows read by a snapshot"; }
}

from_java() {
  end_java
  feed $((lines + 501)) $((lines + 1000))
  [ -z "${1:-}" ] || sql "insert into items select i, 'item ' || i from generate_series(2501, 3000) i"
  local before
  before=$(timeout 20 kcat -b "$bootstrap" -C -t "$prefix-lines" -o beginning -e -q | wc -l)
  start_weir
  for each in in out ${1:+pg}; do eventually 40 running "$port" "$prefix-$each"; done
  eventually 60 arrived $((lines + 1000))
  once $((before + 500))
  [ -z "${1:-}" ] || { eventually 60 rows 3000; same "$(changes | cut -d' ' -f3)" 1000 "rows read by a snapshot"; }
}

# alone WHAT COMMAND... runs a standalone worker on one source until the topic has COUNT lines.
alone() {
  local what=$1 count=$2
  shift 2
  launch "$folder/alone" "$kafka_user" "$@" "$folder/alone.properties" "$folder/source.properties"
  eventually 60 counted "$count"
  eventually 20 stored "$count"
  halt "$what" "$folder/alone" 20
}

counted() { [ "$(timeout 20 kcat -b "$bootstrap" -C -t "$prefix-alone" -o beginning -e -q | wc -l)" = "$1" ]; }

# stored COUNT says whether the offsets file tells the place after so many lines.
stored() { grep -aq "\"position\":$(seq -f 'line %g' 1 "$1" | wc -c)}" "$folder/alone/offsets"; }

# standalone hands one offsets file from weir's standalone worker to Java's and back.
standalone() {
  local run=("$weir" run --console "127.0.0.1:$((port + 4))" --config)
  printf '%s\n' "bootstrap.servers=$bootstrap" "key.converter=$text" "value.converter=$text" "offset.storage.file.filename=$folder/alone/offsets" \
    offset.flush.interval.ms=500 "listeners=http://127.0.0.1:$((port + 5))" "plugin.path=$peers_run/plugins" plugin.discovery=service_load >"$folder/alone.properties"
  printf '%s\n' "name=$prefix-alone" connector.class=FileStreamSource "file=$folder/files/alone.txt" "topic=$prefix-alone" >"$folder/source.properties"
  seq -f 'line %g' 1 100 >"$folder/files/alone.txt"
  alone "weir run" 100 "${run[@]}"
  seq -f 'line %g' 101 200 >>"$folder/files/alone.txt"
  "$peers/connect.sh" install
  kafka_java 256
  alone "Java's standalone worker" 200 "${java[@]}" org.apache.kafka.connect.cli.ConnectStandalone
  seq -f 'line %g' 201 300 >>"$folder/files/alone.txt"
  alone "weir run" 300 "${run[@]}"
}

end() {
  halt "the second worker" "$folder/second" 5
  halt alone "$folder/alone" 5
  halt weir "$folder/weir" 20
  end_java || true
  "$peers/../services/postgres.sh" stop "$folder/postgres" || true
}

ensure_user "$kafka_user"
mkdir -p "$folder"/{weir,second,files,alone}
settings >"$folder/connect-distributed.properties"
: >"$folder/files/in.txt"
: >"$folder/files/shared.txt"
chown -R "$kafka_user" "$folder"/{weir,second,files,alone}
chmod a+r "$folder"/connect-distributed.properties
trap end EXIT
cell "$me" start 180 start
cell "$me" "file source to sink" 120 files
cell "$me" "kill -9" 150 kills
cell "$me" "PostgreSQL, kill -9" 180 postgres
cell "$me" "shares with a second one" 120 beside_weir
cell "$me" "shares with a Java worker" 240 beside_java
with_pg=
[ ! -e "$(lib_dir debezium)/stamp" ] || with_pg=1
cell "$me" "hands over to Java" 240 to_java "$with_pg"
cell "$me" "takes over from Java" 180 from_java "$with_pg"
cell "$me" "standalone, Java's between" 180 standalone
