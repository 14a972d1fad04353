#!/bin/bash
# Apache Kafka in KRaft mode: one node or three, each broker and controller at once,
# loopback only.
#
#   kafka.sh install                              the jars, into .run/peers/lib-kafka
#   kafka.sh start PORT DIR [NODES [KEY=VALUE…]]  starts NODES (1 or 3) nodes, waits, prints their addresses
#   kafka.sh stop DIR
#   kafka.sh kill DIR NODE                        SIGKILL for one node (1, 2, 3)
#   kafka.sh again DIR NODE                       starts a node anew that has ended; does not wait
#   kafka.sh status DIR
#
# Node i listens on PORT+i-1 for clients and on PORT+NODES+i-1 for the other
# controllers; KEY=VALUE are further broker settings. Each node has its folder
# DIR/node-i, and they run as the user weir-kafka. HEAP sets the heap of one node in
# MB (default 512; Kafka's own scripts give 1024), PATIENCE how many seconds a node may
# take to start (default 90).

source "$(dirname "${BASH_SOURCE[0]}")/jars.sh"

# addresses PORT NODES prints host:port of the nodes, with commas.
addresses() {
  local i list=()
  for ((i = 0; i < $2; i++)); do list+=("127.0.0.1:$(($1 + i))"); done
  (IFS=,; echo "${list[*]}")
}

# settings PORT NODES NODE DIR KEY=VALUE… prints one node's server.properties.
settings() {
  local port=$1 nodes=$2 node=$3 dir=$4 i voters=()
  shift 4
  for ((i = 1; i <= nodes; i++)); do voters+=("$i@127.0.0.1:$((port + nodes + i - 1))"); done
  cat <<EOF
process.roles=broker,controller
node.id=$node
controller.quorum.voters=$(IFS=,; echo "${voters[*]}")
listeners=PLAINTEXT://127.0.0.1:$((port + node - 1)),CONTROLLER://127.0.0.1:$((port + nodes + node - 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$((port + node - 1))
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=$dir/data
offsets.topic.replication.factor=$nodes
offsets.topic.num.partitions=10
transaction.state.log.replication.factor=$nodes
transaction.state.log.min.isr=$(((nodes + 1) / 2))
transaction.state.log.num.partitions=10
share.coordinator.state.topic.replication.factor=$nodes
share.coordinator.state.topic.min.isr=$(((nodes + 1) / 2))
default.replication.factor=$nodes
group.initial.rebalance.delay.ms=0
EOF
  [ $# = 0 ] || printf '%s\n' "$@"
}

# format_node DIR formats a node's data folder once.
format_node() {
  local dir=$1
  [ -e "$dir/data/meta.properties" ] && return
  kafka_java 128
  as_user "$kafka_user" "${java[@]}" kafka.tools.StorageTool format -t "$(cat "$dir/../cluster-id")" \
    -c "$dir/server.properties" >"$dir/format.log" 2>&1 || {
    tail -n 20 "$dir/format.log" >&2
    not_run "Kafka's data folder could not be formatted; $dir/format.log says why"
  }
}

# complete ADDRESS NODES says whether a node sees all the others.
complete() { [ "$(kcat -b "$1" -L -J -m 3 2>/dev/null | jq '.brokers | length')" = "$2" ]; }

start() {
  local port=$1 dir=$2 nodes=${3:-1} node i
  shift 2
  [ $# = 0 ] || shift
  if alive "$dir/node-1"; then
    addresses "$port" "$nodes"
    return
  fi
  for ((i = 0; i < 2 * nodes; i++)); do refuse_taken "$((port + i))" kafka; done
  get_jars kafka
  own_folder "$dir"
  [ -e "$dir/cluster-id" ] || head -c 16 /dev/urandom | base64 | tr '+/' '-_' | cut -c-22 >"$dir/cluster-id"
  for ((i = 1; i <= nodes; i++)); do
    node=$dir/node-$i
    own_folder "$node"
    settings "$port" "$nodes" "$i" "$node" "$@" >"$node/server.properties"
    format_node "$node"
    kafka_java "${HEAP:-512}"
    launch "$node" "$kafka_user" "${java[@]}" kafka.Kafka "$node/server.properties"
  done
  for ((i = 1; i <= nodes; i++)); do
    await "kafka node $i" "${PATIENCE:-90}" "$dir/node-$i" complete "127.0.0.1:$((port + i - 1))" "$nodes"
  done
  addresses "$port" "$nodes"
}

# stop ends all nodes at once: a quorum would wait for one that is gone.
stop() {
  local node pid
  for node in "$1"/node-*; do
    if alive "$node"; then kill -TERM "$(cat "$node/pid")" 2>/dev/null || true; fi
  done
  for node in "$1"/node-*; do
    [ ! -d "$node" ] || halt "kafka ${node##*/}" "$node" 20
  done
}

# again starts one node on the data that it has.
again() {
  kafka_java "${HEAP:-512}"
  launch "$1/node-$2" "$kafka_user" "${java[@]}" kafka.Kafka "$1/node-$2/server.properties"
}

status() {
  local node
  for node in "$1"/node-*; do
    alive "$node" || { echo "stopped: ${node##*/}"; exit 1; }
  done
  echo running
}

case "${1:-}" in
  install) get_jars kafka ;;
  start) shift && start "$@" ;;
  stop) stop "$2" ;;
  kill) kill_now "$2/node-$3" ;;
  again) again "$2" "$3" ;;
  status) status "$2" ;;
  *) die "usage: kafka.sh install | start PORT DIR [NODES [KEY=VALUE…]] | stop DIR | kill DIR NODE | again DIR NODE | status DIR" ;;
esac
