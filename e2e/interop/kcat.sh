#!/bin/bash
# The cells of kcat as Debian ships it, on librdkafka 2.0: kcat.sh BOOTSTRAP PREFIX.

source "$(dirname "${BASH_SOURCE[0]}")/cells.sh"

bootstrap=$1 prefix=$2

kc() { timeout 40 kcat -b "$bootstrap" "$@"; }

# produce TOPIC FLAGS... and read it back; the topic is made by the first record.
produce() { values | kc -P -t "$1" -X acks=all "${@:2}"; }

round_trip() {
  local topic=$1
  produce "$@"
  same "$(kc -C -t "$topic" -o beginning -e -q | digest)" "$(values | digest)" "digest of the values"
}

consume() {
  same "$(kc -C -t "$prefix-plain" -o beginning -e -q -f '%o %S\n' | awk 'END { print NR, $1 }')" "$count $((count - 1))" "records and last offset"
  same "$(kc -C -t "$prefix-plain" -o -5 -e -q | wc -l)" 5 "the last five"
}

# group reads a part as a member that commits and leaves, then the rest as another.
group() {
  local topic=$prefix-group first second
  values | awk '{ print NR ":" $0 }' | kc -P -t "$topic" -K : -X acks=all
  first=$(kc -G "$topic" -c 100 -q -X auto.offset.reset=earliest -f '%k\n' "$topic")
  same "$(wc -l <<<"$first")" 100 "records of the first member"
  second=$(kc -G "$topic" -e -q -X auto.offset.reset=earliest -X enable.partition.eof=true -f '%k\n' "$topic")
  same "$(printf '%s\n%s\n' "$first" "$second" | sort -n | digest)" "$(seq "$count" | digest)" "digest of the keys of both"
}

list() {
  same "$(kc -L -J | jq --arg t "$prefix-plain" '[.topics[] | select(.topic == $t)] | length')" 1 "topics of that name"
  same "$(kc -L -J | jq '.brokers | length')" "${NODES:-1}" "brokers"
}

headers() {
  echo v | kc -P -t "$prefix-headers" -H a=1 -H a=2 -H empty=
  same "$(kc -C -t "$prefix-headers" -e -q -f '%h\n')" "a=1,a=2,empty=" "headers"
}

times() {
  local before
  echo one | kc -P -t "$prefix-times"
  before=$(($(date +%s%3N) + 1))
  until [ "$(date +%s%3N)" -gt $((before + 5)) ]; do :; done
  echo two | kc -P -t "$prefix-times"
  same "$(kc -C -t "$prefix-times" -o "s@$before" -e -q)" two "records since a time"
  same "$(kc -Q -t "$prefix-times:0:$before" | awk '{ print $NF }')" 1 "offset by time"
}

transactions() {
  echo v | timeout 15 kcat -b "$bootstrap" -P -t "$prefix-transactions" -X transactional.id="$prefix"
}

kcat -V 2>&1 | head -3 >&2
cell kcat produce 60 produce "$prefix-plain"
cell kcat consume 60 consume
for codec in gzip snappy lz4 zstd; do
  cell kcat "$codec" 60 round_trip "$prefix-$codec" -z "$codec" -X linger.ms=200
done
cell kcat group 90 group
cell kcat admin 60 list
cell kcat idempotent 60 round_trip "$prefix-idempotent" -X enable.idempotence=true
cell kcat headers 60 headers
cell kcat times 60 times
cell kcat transactions 30 transactions
