#!/bin/bash
# Kafka's own services on the cluster under test: services.sh BOOTSTRAP PREFIX PORT DIR.
# Java Connect with a file source and a file sink, and MirrorMaker 2 which reads from it
# and writes to it. Ports from PORT, folders below DIR.

source "$(dirname "${BASH_SOURCE[0]}")/cells.sh"

bootstrap=$1 prefix=$2 port=$3 dir=$4
folder=$dir/$prefix

rest() { curl -fsS -m 20 -H 'Content-Type: application/json' "http://127.0.0.1:$port$1" "${@:2}"; }

running() {
  [ "$(rest "/connectors/$1/status" | jq -r '[.connector.state, .tasks[].state] | unique | join(",")')" = RUNNING ]
}

# eventually SECONDS COMMAND... repeats a command until it succeeds.
eventually() {
  local end=$((SECONDS + $1))
  shift
  until "$@" 2>/dev/null; do
    [ "$SECONDS" -lt "$end" ] || { echo "never came true: $*" >&2; return 1; }
    sleep 0.3
  done
}

lines() { [ "$(wc -l <"$1")" -ge "$2" ]; }

start_connect() {
  HEAP=384 "$peers/connect.sh" start "$port" "$folder/connect" "$bootstrap" group.id="$prefix-connect" \
    config.storage.topic="$prefix-configs" offset.storage.topic="$prefix-offsets" status.storage.topic="$prefix-status"
}

files() {
  values >"$folder/in.txt"
  chmod a+r "$folder/in.txt"
  rest "/connectors/$prefix-in/config" -X PUT -d "{\"connector.class\": \"org.apache.kafka.connect.file.FileStreamSourceConnector\",
    \"file\": \"$folder/in.txt\", \"topic\": \"$prefix-lines\", \"value.converter\": \"org.apache.kafka.connect.storage.StringConverter\"}"
  rest "/connectors/$prefix-out/config" -X PUT -d "{\"connector.class\": \"org.apache.kafka.connect.file.FileStreamSinkConnector\",
    \"file\": \"$folder/connect/out.txt\", \"topics\": \"$prefix-lines\", \"value.converter\": \"org.apache.kafka.connect.storage.StringConverter\"}"
  eventually 40 running "$prefix-in"
  eventually 40 running "$prefix-out"
  eventually 60 lines "$folder/connect/out.txt" "$count"
  same "$(digest <"$folder/connect/out.txt")" "$(values | digest)" "digest of the file"
}

# again stops the worker and starts it: connectors, source and sink offsets must be there.
again() {
  "$peers/connect.sh" stop "$folder/connect"
  echo "one line more" >>"$folder/in.txt"
  start_connect
  eventually 60 lines "$folder/connect/out.txt" $((count + 1))
  same "$(wc -l <"$folder/connect/out.txt")" $((count + 1)) "lines after a restart"
}

offsets_api() {
  rest "/connectors/$prefix-in/stop" -X PUT
  eventually 30 stopped
  rest "/connectors/$prefix-in/offsets" | grep -q position || { echo "no offset is stored" >&2; return 1; }
  rest "/connectors/$prefix-in/offsets" -X DELETE
  eventually 20 no_offsets
}

# no_offsets may be wrong at first: Java lists the source partitions that it knows
# before it reads its topic to the end.
no_offsets() { [ "$(rest "/connectors/$prefix-in/offsets" | jq -c .offsets)" = '[]' ]; }

stopped() { [ "$(rest "/connectors/$prefix-in/status" | jq -r .connector.state)" = STOPPED ]; }

# mirrored SOURCE TARGET TOPIC starts MirrorMaker 2 and waits for a topic's copy.
mirrored() {
  local source=$1 target=$2 topic=$3 way=$4
  values | kcat -b "$source" -P -t "$topic" -X acks=all
  kcat -b "$source" -G "$topic-group" -c 120 -q -X auto.offset.reset=earliest "$topic" >/dev/null
  HEAP=256 "$peers/mirror.sh" start "$folder/mirror-$way" "$source" "$target" "source->target.topics=$topic" \
    "source->target.groups=$topic-group" emit.checkpoints.interval.seconds=1 sync.group.offsets.enabled=true \
    sync.group.offsets.interval.seconds=1 offset.lag.max=0
  eventually 60 copied "$target" "source.$topic"
  eventually 30 followed "$target" "$topic-group" "source.$topic"
}

copied() { [ "$(timeout 10 kcat -b "$1" -C -t "$2" -o beginning -e -q | digest)" = "$(values | digest)" ]; }

# followed says whether a mirrored group has a place on the other side, no further than
# its own: MirrorMaker translates offsets to the last one that it is sure of.
followed() {
  timeout 30 "$peers/tool.sh" consumer-groups --bootstrap-server "$1" --describe --group "$2" |
    awk -v topic="$3" '$2 == topic && $4 > 0 && $4 <= 120 { found = 1 } END { exit !found }'
}

end() {
  for way in to from; do "$peers/mirror.sh" stop "$folder/mirror-$way" || true; done
  "$peers/connect.sh" stop "$folder/connect" || true
  "$peers/kafka.sh" stop "$folder/kafka" || true
}

mkdir -p "$folder"
trap end EXIT
cell "Kafka Connect" start 180 start_connect
cell "Kafka Connect" "file source to sink" 150 files
cell "Kafka Connect" "goes on after a restart" 150 again
cell "Kafka Connect" "offsets by REST" 60 offsets_api
"$peers/connect.sh" stop "$folder/connect" || true
kafka=127.0.0.1:$((port + 1))
cell "MirrorMaker 2" "start Apache Kafka" 120 env HEAP=384 "$peers/kafka.sh" start $((port + 1)) "$folder/kafka"
cell "MirrorMaker 2" "from Apache Kafka to it" 180 mirrored "$kafka" "$bootstrap" "$prefix-there" to
"$peers/mirror.sh" stop "$folder/mirror-to" || true
cell "MirrorMaker 2" "from it to Apache Kafka" 180 mirrored "$bootstrap" "$kafka" "$prefix-back" from
