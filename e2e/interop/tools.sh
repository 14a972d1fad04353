#!/bin/bash
# The cells of Kafka's own command line tools: tools.sh BOOTSTRAP PREFIX. Each is a Java
# program of its own, as an administrator runs it.

source "$(dirname "${BASH_SOURCE[0]}")/cells.sh"

bootstrap=$1 prefix=$2

tool() { timeout 60 "$peers/tool.sh" "$1" --bootstrap-server "$bootstrap" "${@:2}"; }

topics() {
  tool topics --create --topic "$prefix-tools" --partitions 3 --replication-factor 1 --config retention.ms=3600000
  tool topics --list | grep -qx "$prefix-tools"
  same "$(tool topics --describe --topic "$prefix-tools" | grep -c 'Partition: ')" 3 partitions
  tool topics --alter --topic "$prefix-tools" --partitions 5
  same "$(tool topics --describe --topic "$prefix-tools" | grep -c 'Partition: ')" 5 "partitions after growth"
}

configs() {
  tool configs --entity-type topics --entity-name "$prefix-tools" --alter --add-config cleanup.policy=compact
  tool configs --entity-type topics --entity-name "$prefix-tools" --describe | grep -q 'cleanup.policy=compact' ||
    { echo "the config that was set is not described" >&2; return 1; }
  tool configs --entity-type brokers --entity-name 1 --describe --all | grep -q 'log.dir' ||
    { echo "the broker's configs lack log.dir" >&2; return 1; }
}

produce() { values | tool console-producer --topic "$prefix-console" --request-required-acks all; }

consume() {
  same "$(tool console-consumer --topic "$prefix-console" --from-beginning --max-messages "$count" --timeout-ms 20000 | digest)" \
    "$(values | digest)" "digest of the values"
}

groups() {
  same "$(tool console-consumer --topic "$prefix-console" --group "$prefix-console" --from-beginning --max-messages 120 --timeout-ms 20000 | wc -l)" 120 records
  same "$(tool consumer-groups --describe --group "$prefix-console" | awk '/-console/ { print $4, $6 }' | grep -x "120 $((count - 120))")" \
    "120 $((count - 120))" "offset and lag"
  tool consumer-groups --reset-offsets --group "$prefix-console" --topic "$prefix-console" --to-earliest --execute
  same "$(tool consumer-groups --describe --group "$prefix-console" | awk '/-console/ { print $4 }')" 0 "offset after the reset"
  tool consumer-groups --list --state | grep -q "$prefix-console"
  tool consumer-groups --delete --group "$prefix-console"
}

offsets() {
  same "$(tool get-offsets --topic "$prefix-console")" "$prefix-console:0:$count" "end offsets"
  echo "{\"partitions\":[{\"topic\":\"$prefix-console\",\"partition\":0,\"offset\":12}],\"version\":1}" >"$scratch/delete.json"
  tool delete-records --offset-json-file "$scratch/delete.json"
  same "$(tool get-offsets --topic "$prefix-console" --time earliest)" "$prefix-console:0:12" "earliest offset"
}

delete_topic() {
  tool topics --delete --topic "$prefix-tools"
  ! tool topics --list | grep -qx "$prefix-tools"
}

versions() { tool broker-api-versions | grep -q 'Fetch(1)'; }

verifiable() {
  tool verifiable-producer --topic "$prefix-verifiable" --max-messages 2000 --acks -1 >"$scratch/produced"
  same "$(grep -c producer_send_success "$scratch/produced")" 2000 "acknowledged"
  tool verifiable-consumer --topic "$prefix-verifiable" --group-id "$prefix-verifiable" --max-messages 2000 --reset-policy earliest >"$scratch/consumed"
  same "$(jq -rs '[.[] | select(.name == "records_consumed") | .count] | add' "$scratch/consumed")" 2000 "consumed"
  same "$(jq -rs '[.[] | select(.name == "offsets_committed" and .success)][-1].offsets[0].offset' "$scratch/consumed")" 2000 "committed offset"
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if ! "$peers/kafka.sh" install 2>"$scratch/why"; then
  report "Kafka's tools" all skip "$(tail -n 1 "$scratch/why")"
  exit
fi
cell "Kafka's tools" topics 120 topics
cell "Kafka's tools" configs 120 configs
cell "Kafka's tools" console-producer 60 produce
cell "Kafka's tools" console-consumer 60 consume
cell "Kafka's tools" consumer-groups 180 groups
cell "Kafka's tools" offsets,delete-records 120 offsets
cell "Kafka's tools" "delete topic" 60 delete_topic
cell "Kafka's tools" api-versions 60 versions
cell "Kafka's tools" verifiable-producer/consumer 120 verifiable
