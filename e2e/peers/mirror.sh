#!/bin/bash
# MirrorMaker 2 as a process of its own: copies from one cluster to another, named
# "source" and "target".
#
#   mirror.sh install
#   mirror.sh start DIR SOURCE TARGET [KEY=VALUE…]   starts it; it has no port to wait for
#   mirror.sh stop DIR
#   mirror.sh status DIR
#
# SOURCE and TARGET are HOST:PORT,…; KEY=VALUE are further keys of mm2.properties. It
# runs as the user weir-kafka; HEAP sets its heap in MB (default 384).

source "$(dirname "${BASH_SOURCE[0]}")/jars.sh"

settings() {
  local source=$1 target=$2
  shift 2
  cat <<EOF
clusters=source,target
source.bootstrap.servers=$source
target.bootstrap.servers=$target
source->target.enabled=true
source->target.topics=.*
source->target.groups=.*
target->source.enabled=false
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1
refresh.topics.interval.seconds=2
refresh.groups.interval.seconds=2
sync.topic.acls.enabled=false
EOF
  [ $# = 0 ] || printf '%s\n' "$@"
}

start() {
  local dir=$1
  shift
  alive "$dir" && return
  get_jars kafka
  own_folder "$dir"
  settings "$@" >"$dir/mm2.properties"
  kafka_java "${HEAP:-384}"
  launch "$dir" "$kafka_user" "${java[@]}" org.apache.kafka.connect.mirror.MirrorMaker "$dir/mm2.properties"
  await mirror 120 "$dir" grep -q 'Kafka MirrorMaker started' "$dir/log"
}

case "${1:-}" in
  install) get_jars kafka ;;
  start) [ $# -ge 4 ] || die "start needs DIR SOURCE TARGET"; shift; start "$@" ;;
  stop) halt mirror "$2" 30 ;;
  status) alive "$2" && echo running || { echo stopped; exit 1; } ;;
  *) die "usage: mirror.sh install | start DIR SOURCE TARGET [KEY=VALUE…] | stop DIR | status DIR" ;;
esac
