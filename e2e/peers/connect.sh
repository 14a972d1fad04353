#!/bin/bash
# Kafka Connect in distributed mode, one worker, with the file connectors and Debezium.
#
#   connect.sh install                              the jars, into .run/peers
#   connect.sh start PORT DIR KAFKA [KEY=VALUE…]    starts a worker on the cluster KAFKA, waits, prints its address
#   connect.sh stop DIR
#   connect.sh status DIR
#
# KAFKA is HOST:PORT,… of any cluster that speaks the protocol. KEY=VALUE are further
# worker settings and win over those here. It runs as the user weir-kafka; HEAP sets
# its heap in MB (default 512; Kafka's own scripts give 256 to 2048). A Debezium that
# Maven can't bring is left out with a word, and the worker starts without it.

source "$(dirname "${BASH_SOURCE[0]}")/jars.sh"

plugins=$peers_run/plugins

install() {
  local name
  get_jars kafka
  mkdir -p "$plugins"
  for name in debezium debezium-mariadb; do
    if (get_jars "$name"); then
      ln -sfn "$(lib_dir "$name")" "$plugins/$name"
    fi
  done
  # The worker takes each entry of the plugin path as a folder of plugins.
  mkdir -p "$plugins/file"
  ln -f "$(lib_dir kafka)"/connect-file-*.jar "$plugins/file/"
}

settings() {
  local port=$1 dir=$2 kafka=$3
  shift 3
  cat <<EOF
bootstrap.servers=$kafka
group.id=connect-peer
listeners=http://127.0.0.1:$port
rest.advertised.host.name=127.0.0.1
rest.advertised.port=$port
plugin.path=$plugins
plugin.discovery=service_load
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=false
value.converter.schemas.enable=false
config.storage.topic=connect-peer-configs
offset.storage.topic=connect-peer-offsets
status.storage.topic=connect-peer-status
config.storage.replication.factor=-1
offset.storage.replication.factor=-1
status.storage.replication.factor=-1
offset.flush.interval.ms=1000
EOF
  [ $# = 0 ] || printf '%s\n' "$@"
}

answers() { curl -fsS -m 3 "http://127.0.0.1:$1/connectors"; }

start() {
  local port=$1 dir=$2
  if alive "$dir"; then
    echo "http://127.0.0.1:$port"
    return
  fi
  refuse_taken "$port" connect
  install
  own_folder "$dir"
  shift 2
  settings "$port" "$dir" "$@" >"$dir/connect.properties"
  kafka_java "${HEAP:-512}"
  launch "$dir" "$kafka_user" "${java[@]}" org.apache.kafka.connect.cli.ConnectDistributed "$dir/connect.properties"
  await connect 120 "$dir" answers "$port"
  echo "http://127.0.0.1:$port"
}

case "${1:-}" in
  install) install ;;
  start) [ $# -ge 4 ] || die "start needs PORT DIR KAFKA"; shift; start "$@" ;;
  stop) halt connect "$2" 30 ;;
  status) alive "$2" && echo running || { echo stopped; exit 1; } ;;
  *) die "usage: connect.sh install | start PORT DIR KAFKA [KEY=VALUE…] | stop DIR | status DIR" ;;
esac
