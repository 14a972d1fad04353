#!/bin/bash
# Real foreign clients against a running weir: a table of client × feature.
#
#   interop.sh               against `weir start` (bin/weir, or WEIR)
#   interop.sh cluster       against three of them, which are one cluster
#   interop.sh kafka         the same tries against Apache Kafka: what they can show at all
#
# CLIENTS picks some of: kcat confluent aiokafka kafkajs sarama kafkago java tools
# streams services weir franz-go, and nodes (of a cluster only). Everything is in .run/interop: the clients (from
# their registries, once), logs, and the table as weir.md and weir.json. The status is
# not 0 when a cell fails that is expected to pass. Ports from INTEROP_PORT (29490).

source "$(dirname "${BASH_SOURCE[0]}")/cells.sh"

target=${1:-weir}
root=$(repo_root)
run=$(run_dir)/interop
dir=$run/$target
port=${INTEROP_PORT:-29490}
bootstrap=127.0.0.1:$port
prefix=i$(date +%H%M%S)
clients=${CLIENTS:-kcat confluent aiokafka kafkajs sarama kafkago java tools streams services weir franz-go}
export NODES=1 # that the cells find
if [ "$target" = cluster ]; then
  source "$interop/nodes.sh"
  NODES=3
  [ -n "${CLIENTS:-}" ] || clients="$clients nodes"
fi

start_target() {
  if [ "$target" = kafka ]; then
    HEAP=512 "$peers/kafka.sh" start "$port" "$dir/server" >/dev/null
    return
  fi
  if [ "$target" = cluster ]; then
    start_nodes "$port" "$dir"
    return
  fi
  refuse_taken "$port" weir
  rm -rf "$dir/server"
  mkdir -p "$dir/server"
  launch "$dir/server" "$(id -un)" "${WEIR:-$root/bin/weir}" start --data "$dir/server/data" --port-base "$port"
  await weir 30 "$dir/server" curl -fsS -m 2 "http://127.0.0.1:$((port + 3))/readyz"
}

stop_target() {
  if [ "$target" = kafka ]; then
    "$peers/kafka.sh" stop "$dir/server"
  elif [ "$target" = cluster ]; then
    stop_nodes "$dir"
  else
    halt weir "$dir/server" 30
  fi
}

# tried NAME CLIENT COMMAND... runs the program that tries a client and keeps what it
# says; one that ends with an error is a failed cell itself.
tried() {
  local name=$1 client=$2 status=0
  shift 2
  say "$client"
  local began=$SECONDS
  timeout 900 "$@" 2>"$dir/$name.log" </dev/null | tee -a "$dir/cells" >&2 || status=$?
  say "$client: $((SECONDS - began)) s"
  [ "$status" = 0 ] || report "$client" "$name" fail "ended with status $status: $(tail -n 1 "$dir/$name.log")" | tee -a "$dir/cells" >&2
}

# stored NAME CLIENT looks at the compression of what a client has written.
stored() { tried "$1-stored" "$2" "$run/bin/interop" stored "$bootstrap" "$prefix-$1" "$2"; }

# absent CLIENT WHY...
absent() { report "$1" all skip "not run: ${*:2}" | tee -a "$dir/cells" >&2; }

# python prints the interpreter of a folder of our own, with both clients in it.
python() {
  local home=$run/python
  if [ ! -e "$home/ready" ]; then
    rm -rf "$home"
    python3 -m venv "$home" >"$run/python.log" 2>&1 || return 1
    "$home/bin/pip" install -q -r "$interop/python/requirements.txt" >>"$run/python.log" 2>&1 || return 1
    touch "$home/ready"
  fi
  echo "$home/bin/python"
}

try_python() {
  local name=$1 client=$2 script=$3 interpreter
  interpreter=$(python) || { absent "$client" "pip: $(tail -n 1 "$run/python.log")"; return; }
  PYTHONDONTWRITEBYTECODE=1 tried "$name" "$client" "$interpreter" "$interop/python/$script" "$bootstrap" "$prefix-$name"
  stored "$name" "$client"
}

try_kafkajs() {
  local home=$run/node
  if ! cmp -s "$interop/node/package.json" "$home/package.json" || [ ! -d "$home/node_modules/kafkajs" ]; then
    mkdir -p "$home"
    cp "$interop/node/package.json" "$home/"
    (cd "$home" && npm install --silent --no-audit --no-fund >"$run/node.log" 2>&1) || { absent kafkajs "npm: $(tail -n 1 "$run/node.log")"; return; }
  fi
  cp "$interop/node/cells.js" "$home/"
  KAFKAJS_NO_PARTITIONER_WARNING=1 tried kafkajs kafkajs node "$home/cells.js" "$bootstrap" "$prefix-kafkajs"
  stored kafkajs kafkajs
}

try_go() {
  tried "$1" "$2" "$run/bin/interop" "$1" "$bootstrap" "$prefix-$1"
  stored "$1" "$2"
}

try_kcat() {
  tried kcat kcat "$interop/kcat.sh" "$bootstrap" "$prefix-kcat"
  stored kcat kcat
}

# java_cells KIND NAME CLIENT
java_cells() {
  local classes=$run/java
  kafka_java 256
  mkdir -p "$classes"
  "$(jdk)/bin/javac" -nowarn -cp "$(lib_dir kafka)/*" -d "$classes" "$interop/java/Cells.java" >"$run/javac.log" 2>&1 ||
    { absent "$3" "javac: $(head -n 1 "$run/javac.log")"; return; }
  kafka_classpath=$classes kafka_java 256
  tried "$2" "$3" "${java[@]:0:1}" -Dweir.log=WARN "-Djava.io.tmpdir=$dir" "${java[@]:1}" Cells "$1" "$bootstrap" "$prefix-$2"
}

try_java() {
  source "$peers/jars.sh"
  if ! (get_jars kafka) 2>"$run/jars.log"; then
    absent "$3" "$(tail -n 1 "$run/jars.log")"
    return
  fi
  java_cells "$@"
}

# try_franz runs the tests of franz-go's client against the cluster, in a copy of the
# module that Go has fetched anyway. Most need no cluster; those of groups do. The
# transactional one would only wait for the end of its time.
try_franz() {
  local from copy=$run/franz-go status=0
  from=$(cd "$root" && go list -m -f '{{.Dir}}' github.com/twmb/franz-go) || { absent franz-go "the module is not in Go's cache"; return; }
  if [ ! -x "$copy/kgo.test" ]; then
    rm -rf "$copy"
    mkdir -p "$copy"
    cp -r "$from" "$copy/source"
    chmod -R u+w "$copy/source"
    (cd "$copy/source" && go test -c -o "$copy/kgo.test" ./pkg/kgo) >"$run/franz-go.log" 2>&1 || { absent franz-go "its tests do not compile: $(tail -n 1 "$run/franz-go.log")"; return; }
  fi
  say "franz-go's own tests"
  (cd "$copy/source/pkg/kgo" && KGO_SEEDS=$bootstrap KGO_TEST_RF=1 KGO_TEST_RECORDS=${RECORDS:-50000} KGO_TEST_MAX_TOPIC_PARTS=3 \
    timeout 400 "$copy/kgo.test" -test.v -test.timeout 380s -test.skip '^TestTxn') >"$dir/franz-go.log" 2>&1 || status=$?
  awk -v status="$status" '
    /^--- PASS: / { passed++ }
    /^--- FAIL: / { failed++; printf "franz-go\t%s\tfail\t\n", $3 }
    /^--- SKIP: / { skipped++ }
    END { printf "franz-go\tits own tests\t%s\t%d passed, %d failed, %d skipped, status %d\n",
      (status == 0 && passed) ? "pass" : "fail", passed, failed, skipped, status }
  ' "$dir/franz-go.log" | tee -a "$dir/cells" >&2
  report franz-go "its own transactional test" skip "not run: it needs transactions" >>"$dir/cells"
}

# try_worker runs weir's worker on the cluster under test and, where that is weir, on Apache Kafka too.
try_worker() {
  local weir=${WEIR:-$root/bin/weir} at=$((port + 30))
  tried worker "weir's worker on $target" "$interop/worker.sh" "$bootstrap" "$prefix-worker" "$at" "$run/worker" "$weir" "weir's worker on $target"
  [ "$target" != kafka ] || return 0
  if ! HEAP=384 "$peers/kafka.sh" start $((at + 5)) "$run/worker/kafka" >/dev/null 2>"$run/worker-kafka.log"; then
    absent "weir's worker on Apache Kafka" "$(tail -n 1 "$run/worker-kafka.log")"
    return
  fi
  tried worker-kafka "weir's worker on Apache Kafka" "$interop/worker.sh" "127.0.0.1:$((at + 5))" "$prefix-worker-kafka" "$at" "$run/worker" "$weir" "weir's worker on Apache Kafka"
  "$peers/kafka.sh" stop "$run/worker/kafka"
  rm -rf "$run/worker/kafka"
}

try() {
  case $1 in
    kcat) try_kcat ;;
    confluent) try_python confluent confluent-kafka confluent.py ;;
    aiokafka) try_python aiokafka aiokafka aio.py ;;
    kafkajs) try_kafkajs ;;
    sarama) try_go sarama sarama ;;
    kafkago) try_go kafkago kafka-go ;;
    java) (try_java clients java kafka-clients) ;;
    streams) (try_java streams streams "Kafka Streams") ;;
    tools) tried tools "Kafka's tools" "$interop/tools.sh" "$bootstrap" "$prefix-tools" ;;
    nodes) tried nodes "Kafka's tools for nodes" "$interop/cluster.sh" "$bootstrap" "$prefix-nodes" "$port" "$dir" ;;
    services) tried services "Kafka's services" "$interop/services.sh" "$bootstrap" "$prefix-services" $((port + 10)) "$run/services" ;;
    weir) try_worker ;;
    franz-go) try_franz ;;
    *) die "unknown client $1" ;;
  esac
}

mkdir -p "$dir" "$run/bin"
: >"$dir/cells"
(cd "$interop/go" && CGO_ENABLED=0 go build -o "$run/bin/interop" .) || die "the Go clients do not compile"
trap stop_target EXIT
start_target
for each in $clients; do try "$each"; done
expect=$interop/expect.tsv
[ "$target" != kafka ] || expect=/dev/null
"$interop/report.sh" "$dir/cells" "$expect" "$run/$target" "Foreign clients on $target"
