#!/bin/bash
# The cells of Kafka's tools for clusters: cluster.sh BOOTSTRAP PREFIX PORT DIR, of the three
# nodes that nodes.sh has started. One of them is killed.

source "$(dirname "${BASH_SOURCE[0]}")/cells.sh"
source "$interop/nodes.sh"

prefix=$2 port=$3 dir=$4
bootstrap=$(node_list "$port")
topic=$prefix-moved

tool() { timeout 60 "$peers/tool.sh" "$1" --bootstrap-server "$bootstrap" "${@:2}"; }

# cluster ACTION ARGUMENTS...
cluster() { timeout 60 "$peers/tool.sh" cluster "$1" --bootstrap-server "$bootstrap" "${@:2}"; }

# column NAME prints a column of the topic's partitions, one a line.
column() { tool topics --describe --topic "$topic" | awk -v name="$1:" '/Partition: / { for (i = 1; i < NF; i++) if ($i == name) print $(i + 1) }'; }

# until_same WHAT WANT COMMAND... repeats a command until it prints what is wanted.
until_same() {
  local got='' end=$((SECONDS + 40))
  while [ "$SECONDS" -lt "$end" ]; do
    got=$("${@:3}" | sort | paste -sd ' ')
    [ "$got" != "$2" ] || return 0
  done
  same "$got" "$2" "$1"
}

describe() {
  tool topics --create --topic "$topic" --partitions 3 --replication-factor 3
  until_same "leaders" "1 2 3" column Leader
  same "$(tool topics --describe --topic "$topic" --under-replicated-partitions)" "" "under-replicated partitions"
  cluster cluster-id | grep -q '^Cluster ID: .'
  same "$(cluster list-endpoints | grep -c ' unfenced ')" 3 "unfenced nodes"
}

quorum() {
  tool metadata-quorum describe --status | awk '/^LeaderId: / { leader = $2 } /^CurrentVoters: / { voters = gsub(/"id": /, "") }
    END { if (!(leader >= 1 && leader <= 3) || voters != 3) { print "want a leader and 3 voters"; exit 1 } }' >&2
  same "$(tool metadata-quorum describe --replication | awk 'NR > 1 { print $NF }' | sort | paste -sd ' ')" "Follower Follower Leader" "roles"
}

reassign() {
  moves '[3,1]' '[2]' >"$scratch/move.json"
  values | tool console-producer --topic "$topic" --request-required-acks all
  tool reassign-partitions --reassignment-json-file "$scratch/move.json" --execute
  until_same "reassignments under way" "No partition reassignments found." tool reassign-partitions --list
  tool reassign-partitions --reassignment-json-file "$scratch/move.json" --verify | grep -c 'is completed' | grep -qx 2
  same "$(column Replicas | head -n 2 | paste -sd ' ')" "3,1 2" replicas
  moves '[1,2,3]' '[2,3,1]' '[3,1,2]' >"$scratch/back.json"
  tool reassign-partitions --reassignment-json-file "$scratch/back.json" --execute
  until_same "partitions under-replicated" "" tool topics --describe --topic "$topic" --under-replicated-partitions
  same "$(tool console-consumer --topic "$topic" --from-beginning --max-messages "$count" --timeout-ms 20000 | sort | digest)" "$(values | sort | digest)" "digest of the values"
}

# moves REPLICAS... is the tool's file that has the topic's partitions, from 0 on, at these.
moves() {
  printf '%s\n' "$@" | jq -c --arg topic "$topic" -s '{version: 1, partitions: [to_entries[] | {topic: $topic, partition: .key, replicas: .value}]}'
}

log_dirs() {
  same "$(tool log-dirs --describe --topic-list "$topic" | sed -n 's/^{/{/p' | jq '[.brokers[].logDirs[].partitions[]] | length')" 9 "replicas of 3 partitions on 3 nodes"
}

killed() {
  halt_hard 2
  until_same "leaders without node 2" "1 3" leaders
  values | sed 's/value/again/g' | tool console-producer --topic "$topic" --request-required-acks all
  same "$(tool topics --describe --topic "$topic" --under-replicated-partitions | wc -l)" 3 "under-replicated partitions"
  same "$(tool topics --describe --topic "$topic" --unavailable-partitions | wc -l)" 0 "partitions without leader"
  start_node "$port" "$dir" 2
  await_node "$port" "$dir" 2
  until_same "partitions under-replicated" "" tool topics --describe --topic "$topic" --under-replicated-partitions
}

# leaders prints who leads something, each once.
leaders() { column Leader | sort -u; }

# halt_hard I kills a node.
halt_hard() {
  kill -KILL "$(cat "$dir/node-$1/pid")"
  while alive "$dir/node-$1"; do sleep 0.05; done
}

elect() {
  tool leader-election --election-type preferred --all-topic-partitions
  until_same "leaders" "1 2 3" leaders
  tool leader-election --election-type preferred --topic "$topic" --partition 1 | grep -q 'Valid replica already elected'
  same "$(tool console-consumer --topic "$topic" --from-beginning --max-messages $((2 * count)) --timeout-ms 20000 | wc -l)" $((2 * count)) records
}

unregister() {
  ! cluster unregister --id 2 2>"$scratch/refused"
  grep -q 'it is active' "$scratch/refused"
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if ! "$peers/kafka.sh" install 2>"$scratch/why"; then
  report "Kafka's tools for nodes" all skip "$(tail -n 1 "$scratch/why")"
  exit
fi
cell "Kafka's tools for nodes" "topics, cluster" 120 describe
cell "Kafka's tools for nodes" metadata-quorum 60 quorum
cell "Kafka's tools for nodes" reassign-partitions 240 reassign
cell "Kafka's tools for nodes" log-dirs 60 log_dirs
cell "Kafka's tools for nodes" "a killed node" 240 killed
cell "Kafka's tools for nodes" leader-election 120 elect
cell "Kafka's tools for nodes" "unregister an active node" 60 unregister
