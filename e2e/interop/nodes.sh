# Three weir nodes that are one cluster, each in a folder of its own: DIR/node-1 and so on.
# Sourced, never run.

source "$(dirname "${BASH_SOURCE[0]}")/../services/lib.sh"

# node_port PORT I prints where node I of a cluster at PORT speaks Kafka; its console is 3 above.
node_port() { echo $(($1 + ($2 > 1 ? 40 + 10 * ($2 - 1) : 0))); }

# node_list PORT prints all of them.
node_list() {
  local i list=
  for i in 1 2 3; do list+=,127.0.0.1:$(node_port "$1" "$i"); done
  echo "${list:1}"
}

# start_node PORT DIR I starts one, on the data that it has.
start_node() {
  local at
  at=$(node_port "$1" "$3")
  refuse_taken "$at" "node $3"
  mkdir -p "$2/node-$3"
  WEIR_CLUSTER_SECRET="the secret of a test" launch "$2/node-$3" "$(id -un)" "${WEIR:-$(repo_root)/bin/weir}" start \
    --data "$2/node-$3/data" --port-base "$at" --join "$(node_list "$1")"
}

# await_node PORT DIR I waits until one is ready.
await_node() { await "node $3" 30 "$2/node-$3" curl -fsS -m 2 "http://127.0.0.1:$(($(node_port "$1" "$3") + 3))/readyz"; }

# start_nodes PORT DIR founds a cluster.
start_nodes() {
  local i
  rm -rf "$2"/node-{1,2,3}
  for i in 1 2 3; do start_node "$1" "$2" "$i"; done
  for i in 1 2 3; do await_node "$1" "$2" "$i"; done
}

stop_nodes() {
  local i
  for i in 1 2 3; do halt "node $i" "$1/node-$i" 30; done
}
