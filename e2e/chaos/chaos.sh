#!/bin/bash
# Three brokers in three network namespaces, joined by a bridge in a fourth, with their clients in a fifth; then the program beside this script, which
# breaks them. Everything is ended and removed when this script ends, however it does.
#
#   chaos.sh random SECONDS       faults at random for so long
#   chaos.sh kill-each RUNS       each run: a fresh cluster, each node killed in turn
#
# TARGET=kafka does the same to Apache Kafka; SEED repeats a plan; WEIR is another binary than bin/weir. CHAOS_DIR (.run/chaos) has logs and data of a run that failed.
# It ends with status 3 and says why where namespaces can't be made (it needs root).

source "$(dirname "${BASH_SOURCE[0]}")/../peers/jars.sh"

root=$(repo_root)
dir=${CHAOS_DIR:-$(run_dir)/chaos}
target=${TARGET:-weir}
name=weir$$ # unique among what runs
subnet=10.91.$(($$ % 250)) # seen in these namespaces only

# ours NS... lists the processes in our namespaces.
ours() { local ns; for ns in hub client 1 2 3; do ip netns pids "$name-$ns" 2>/dev/null || true; done; }

clean_up() {
  local pid ns
  for pid in $(ours); do kill -KILL "$pid" 2>/dev/null || true; done
  for ns in 1 2 3 client hub; do ip netns del "$name-$ns" 2>/dev/null || true; done
}

# make_network: nodes have $subnet.1 to .3, the clients .9.
make_network() {
  local ns port
  ip netns add "$name-hub" 2>/dev/null || not_run "network namespaces can't be made here"
  ip -n "$name-hub" link add bridge type bridge || not_run "a bridge can't be made here"
  ip -n "$name-hub" link set bridge up
  for ns in 1 2 3 client; do
    port=port$ns
    ip netns add "$name-$ns"
    ip -n "$name-hub" link add "$port" type veth peer name eth0 netns "$name-$ns"
    ip -n "$name-hub" link set "$port" master bridge up
    ip -n "$name-$ns" link set lo up
    ip -n "$name-$ns" addr add "$subnet.${ns/client/9}/24" dev eth0
    ip -n "$name-$ns" link set eth0 up
  done
}

# addresses PORT prints host:port of the nodes, with commas.
addresses() { echo "$subnet.1:$1,$subnet.2:$1,$subnet.3:$1"; }

# node_script NODE COMMAND... writes what becomes the node's process.
node_script() {
  local file=$dir/node-$1/run
  shift
  { echo '#!/bin/bash'; printf 'exec'; printf ' %q' "$@"; echo; } >"$file"
  chmod 755 "$file"
}

weir_nodes() {
  local i
  [ -x "${WEIR:-$root/bin/weir}" ] || die "there is no ${WEIR:-$root/bin/weir}: make build"
  cp -f "${WEIR:-$root/bin/weir}" "$dir/weir" # a build meanwhile changes nothing
  grep -q -- --join <<<"$("$dir/weir" start --help)" || not_run "this weir has no --join"
  for i in 1 2 3; do
    mkdir -p "$dir/node-$i"
    node_script "$i" "$dir/weir" start --data "$dir/node-$i/data" --kafka "$subnet.$i:9092" --connect 127.0.0.1:8083 --console 127.0.0.1:8080 --insecure \
      --join "$(addresses 9092)" --set "broker.cluster.secret=secret of $name" --set broker.default.replication.factor=3
  done
}

kafka_nodes() {
  local i
  get_jars kafka
  own_folder "$dir"
  head -c 16 /dev/urandom | base64 | tr '+/' '-_' | cut -c-22 >"$dir/cluster-id"
  for i in 1 2 3; do
    own_folder "$dir/node-$i"
    cat >"$dir/node-$i/server.properties" <<END
process.roles=broker,controller
node.id=$i
controller.quorum.voters=1@$subnet.1:9093,2@$subnet.2:9093,3@$subnet.3:9093
listeners=PLAINTEXT://$subnet.$i:9092,CONTROLLER://$subnet.$i:9093
advertised.listeners=PLAINTEXT://$subnet.$i:9092
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=$dir/node-$i/data
offsets.topic.replication.factor=3
offsets.topic.num.partitions=10
default.replication.factor=3
group.initial.rebalance.delay.ms=0
END
    kafka_java 128
    as_user "$kafka_user" "${java[@]}" kafka.tools.StorageTool format -t "$(cat "$dir/cluster-id")" -c "$dir/node-$i/server.properties" >"$dir/node-$i/format.log" 2>&1
    kafka_java 512
    node_script "$i" setpriv --reuid="$kafka_user" --regid="$(id -gn "$kafka_user")" --clear-groups -- "${java[@]}" kafka.Kafka "$dir/node-$i/server.properties"
  done
}

# fresh makes folders without data for all nodes.
fresh() {
  rm -rf "$dir"/node-* "$dir/judged"
  "${target}_nodes"
}

# once PLAN FLAGS... is one run of the program.
once() { ip netns exec "$name-client" "$dir/chaos" -dir "$dir" -net "$name" -subnet "$subnet" -plan "$@"; }

plan=${1:?random SECONDS or kill-each RUNS}
many=${2:?how many}
[ "$(id -u)" = 0 ] || not_run "network namespaces need root"
case "$target" in weir | kafka) ;; *) die "TARGET is weir or kafka" ;; esac
mkdir -p "$dir"
chmod 755 "$dir"
[ -x "$(command -v kcat)" ] || "$root/e2e/services/install.sh" demo
(cd "$root" && go build -buildvcs=false -o "$dir/chaos" ./e2e/chaos)
trap clean_up EXIT
trap 'exit 1' INT TERM
make_network
case "$plan" in
  random)
    fresh
    once random -seconds "$many" ${SEED:+-seed "$SEED"}
    ;;
  kill-each)
    for ((i = 1; i <= many; i++)); do
      fresh
      say "run $i of $many: each node is killed in turn"
      once kill-each ${SEED:+-seed "$SEED"}
    done
    say "$many runs in a row: every record once and in order"
    ;;
  *) die "unknown plan $plan" ;;
esac
rm -rf "$dir"/node-*/data
