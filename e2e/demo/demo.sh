#!/bin/bash
# The demo: PostgreSQL with Debian's package index -> weir -> an S3 bucket and a
# search index, with rows changing meanwhile, compared at the end by check.sh.
#
#   demo.sh run      starts what is needed, from scratch, and leaves it running
#   demo.sh stop     ends everything that run started
#
# KILLS=N sends weir N times SIGKILL at random moments of the run, the first while
# the snapshot is read (SEED=N repeats their times). DEMO_SECONDS is how long rows
# change, DEMO_PACKAGES limits the data. DEMO_DIR and DEMO_PORT choose the folder and
# the first of 16 ports, so that a test and a demo don't meet.

source "$(dirname "${BASH_SOURCE[0]}")/../services/lib.sh"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(repo_root)
services=$here/../services
dir=${DEMO_DIR:-$(run_dir)/demo}
base=${DEMO_PORT:-29090}
kills=${KILLS:-0}
seed=${SEED:-$(date +%s)}
seconds=${DEMO_SECONDS:-$((20 + kills * 5))}
limit=${DEMO_LIMIT:-300}
weir=${DEMO_WEIR:-$root/bin/weir}

kafka=127.0.0.1:$base
connect=http://127.0.0.1:$((base + 1))
console=http://127.0.0.1:$((base + 3))
pg_port=$((base + 10))
s3_port=$((base + 11))
search_port=$((base + 12))
search=http://127.0.0.1:$search_port
database=demo
bucket=weir-demo
tables='^(apt\..*|public\.pgbench_.*)$'
export PGHOST=127.0.0.1 PGPORT=$pg_port PGUSER=postgres PGDATABASE=$database PGPASSWORD=weir

helpers=()

# leave ends the processes that work beside the run; the servers stay.
leave() {
  local pid
  for pid in "${helpers[@]}"; do
    kill -TERM "$pid" 2>/dev/null || true
  done
}
trap leave EXIT

services_start() {
  say "starting PostgreSQL, S3 and OpenSearch"
  "$services/postgres.sh" start "$pg_port" "$dir/postgres" >/dev/null &
  local pg=$!
  "$services/s3.sh" start "$s3_port" "$dir/s3" >/dev/null &
  local s3=$!
  "$services/opensearch.sh" start "$search_port" "$dir/opensearch" >/dev/null &
  local os=$!
  wait "$pg" && wait "$s3" && wait "$os" || die "a service did not start"
}

# drop_slots frees the slots of an earlier run; the server may take a moment to notice
# that a killed reader is gone.
drop_slots() {
  local try
  for try in $(seq 50); do
    psql -X -q -At -v ON_ERROR_STOP=1 -d postgres >/dev/null 2>&1 <<SQL && return 0
SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active AND database = '$database';
SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '$database';
SQL
    sleep 0.2
  done
  die "the replication slots of an earlier run can't be dropped; is another weir reading from port $pg_port?"
}

# reset forgets what an earlier run has left: slot, tables, objects, documents, log.
reset() {
  halt weir "$dir/weir" 30
  rm -rf "$dir/weir" "$dir/check" "$dir"/*.ms
  drop_slots
  rm -rf "$dir/s3/objects/$bucket"
  "$services/s3.sh" bucket "$dir/s3" "$bucket"
  curl -fsS -o /dev/null -X DELETE "$search/demo.*"
  # A search index of one node: no replicas, and texts that look like dates stay texts.
  curl -fsS -o /dev/null -X PUT "$search/_index_template/demo" -H 'Content-Type: application/json' -d '{
    "index_patterns": ["demo.*"],
    "template": {"settings": {"number_of_shards": 1, "number_of_replicas": 0}, "mappings": {"date_detection": false}}}'
}

weir_launch() {
  local log=$dir/weir/all.log
  mkdir -p "$dir/weir"
  [ ! -e "$dir/weir/log" ] || cat "$dir/weir/log" >>"$log"
  launch "$dir/weir" "$(id -un)" "$weir" start --data "$dir/weir/data" --port-base "$base"
}

weir_ready() { await weir "${1:-60}" "$dir/weir" curl -fsS -m 2 "$console/readyz"; }

# apply gives weir one of configs/connectors/*.json, with this run's ports.
apply() {
  local file=$root/configs/connectors/$1.json name answer
  name=$(jq -r .name "$file")
  answer=$(jq --arg pg "$pg_port" --arg s3 "http://127.0.0.1:$s3_port" --arg search "$search" '.config
    | if has("database.port") then .["database.port"] = $pg else . end
    | if has("store.url") then .["store.url"] = $s3 else . end
    | if has("connection.url") then .["connection.url"] = $search else . end' "$file" |
    curl -sS -m 60 -X PUT -H 'Content-Type: application/json' --data-binary @- "$connect/connectors/$name/config")
  [ "$(printf '%s' "$answer" | jq -r '.name? // empty' 2>/dev/null)" = "$name" ] ||
    die "connector $name was not accepted: $answer"
  say "connector $name applied"
}

# killer sends SIGKILL to weir at seeded moments and starts it again each time. The
# first comes while the snapshot is read; after that a short gap, in which the sinks
# have not taken over yet, follows a long one, in which they are writing.
killer() {
  local gap number=0
  for gap in $(awk -v seed="$seed" -v n="$kills" 'BEGIN { srand(seed); for (i = 0; i < n; i++) printf "%.2f\n", i % 2 ? 7 + rand() * 7 : 0.3 + rand() * 2 }'); do
    number=$((number + 1))
    sleep "$gap"
    kill_now "$dir/weir" || die "weir was not there to be killed: it ended by itself"
    weir_launch
    weir_ready 60
    say "kill $number of $kills after $gap s: weir is back"
  done
}

rows() {
  psql -X -q -At -c "SELECT coalesce(sum(n), 0)::bigint FROM (SELECT (xpath('/row/n/text()',
      query_to_xml(format('SELECT count(*) AS n FROM %I.%I', n.nspname, c.relname), false, true, '')))[1]::text::bigint AS n
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
    WHERE n.nspname || '.' || c.relname ~ '$tables') AS t"
}

documents() { { curl -fsS -m 10 "$search/demo.*/_count?filter_path=count&ignore_unavailable=true" 2>/dev/null || echo '{}'; } | jq -r '.count // 0'; }
objects() { find "$dir/s3/objects/$bucket/topics" -type f 2>/dev/null | wc -l; }
confirmed() { psql -X -q -At -c "SELECT coalesce(bool_and(confirmed_flush_lsn >= '$1'), false) FROM pg_replication_slots WHERE database = '$database'"; }
behind() { psql -X -q -At -c "SELECT coalesce(pg_size_pretty(max(pg_current_wal_lsn() - confirmed_flush_lsn)), 'no slot yet') FROM pg_replication_slots WHERE database = '$database'"; }

progress() {
  while :; do
    say "rows in PostgreSQL $(rows), documents $(documents), objects $(objects), slot behind by $(behind)"
    sleep 3
  done
}

# quiet waits until PostgreSQL's slot has confirmed the last change, the index holds
# as many documents as there are rows, and the bucket has not changed for 3 s.
quiet() {
  local end deadline=$((SECONDS + limit)) before=none now since=$SECONDS
  end=$(psql -X -q -At -c 'SELECT pg_current_wal_insert_lsn()')
  while :; do
    alive "$dir/weir" || die "weir ended by itself; its log is $dir/weir/log"
    now=$(find "$dir/s3/objects/$bucket/topics" -type f -printf '%s %p\n' 2>/dev/null | sort | sha256sum)
    [ "$now" = "$before" ] || { before=$now since=$SECONDS; }
    if [ "$(confirmed "$end")" = t ] && [ "$(rows)" = "$(documents)" ] && [ $((SECONDS - since)) -ge 3 ]; then
      return 0
    fi
    if [ "$SECONDS" -ge "$deadline" ]; then
      say "not quiet after $limit s: slot confirmed $(confirmed "$end"), rows $(rows), documents $(documents)"
      return 1
    fi
    sleep 0.5
  done
}

# check repeats the comparison while what differs may still be under way.
check() {
  local try out=$dir/check.out
  for try in 1 2 3; do
    if CHECK_TABLES=$tables CHECK_KAFKA=$kafka CHECK_INDEX=$search CHECK_BUCKET=$dir/s3/objects/$bucket \
      CHECK_WORK=$dir/check CHECK_DELAYS=$dir/probe.ms "$here/check.sh" >"$out" 2>&1; then
      break
    fi
    [ "$try" = 3 ] || { say "something differs; looking again in 5 s"; sleep 5; }
  done
  cat "$out"
  tail -n 1 "$out" | grep -q '^everything is the same'
}

addresses() {
  cat <<TEXT

Still running, until "make demo-stop":
  weir      kafka $kafka   connect $connect   status page $console
  postgres  psql -h 127.0.0.1 -p $pg_port -U postgres $database      (password weir)
  bucket    $dir/s3/objects/$bucket      (S3 at http://127.0.0.1:$s3_port, key weir, secret weir-secret)
  search    $search/demo.apt.packages/_search?q=summary:editor
  try       kcat -b $kafka -C -t demo.apt.packages -o -1 -c 1
TEXT
}

# steady changes rows for some seconds more, now that nothing is left to catch up with,
# and measures meanwhile how long a row takes from its commit to a search.
steady() {
  local probes
  say "changing rows for ${DEMO_STEADY:-10} s more, to measure the way of a row"
  "$here/probe.sh" 127.0.0.1 "$pg_port" "$database" "$search/demo.apt.probes" >"$dir/probe.ms" &
  probes=$!
  helpers+=("$probes")
  "$here/changes.sh" 127.0.0.1 "$pg_port" "$database" "${DEMO_STEADY:-10}" 10001 || die "the rows could not be changed"
  kill -TERM "$probes" 2>/dev/null || true
  wait "$probes" 2>/dev/null || true
  quiet || true
}

run() {
  local started=$SECONDS changes killing=
  [ -x "$weir" ] || die "$weir is not built; run make build"
  mkdir -p "$dir"
  services_start
  reset
  weir_launch
  "$here/load.sh" 127.0.0.1 "$pg_port" "$database"
  weir_ready
  say "weir is up: kafka $kafka, connect $connect, status page $console"
  apply postgres-source
  apply s3-sink
  apply elasticsearch-sink
  if [ "$kills" -gt 0 ]; then
    say "$kills kills to come, seed $seed"
    killer &
    killing=$!
  fi
  progress &
  helpers+=($!)
  "$here/changes.sh" 127.0.0.1 "$pg_port" "$database" "$seconds" 1 &
  changes=$!
  wait "$changes" || die "the rows could not be changed"
  [ -z "$killing" ] || wait "$killing" || die "weir did not come back from a kill"
  say "waiting until everything has arrived"
  quiet || true
  steady
  leave
  helpers=()
  check || die "the demo failed: see above, and weir's log $dir/weir/log"
  addresses
  say "done in $((SECONDS - started)) s"
}

stop() {
  halt weir "$dir/weir" 30
  "$services/opensearch.sh" stop "$dir/opensearch" &
  "$services/s3.sh" stop "$dir/s3"
  "$services/postgres.sh" stop "$dir/postgres"
  wait
  say "stopped; the data stays in $dir"
}

case "${1:-}" in
  run) run ;;
  stop) stop ;;
  *) die "usage: demo.sh run | stop" ;;
esac
