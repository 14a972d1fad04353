#!/bin/bash
# The real Debezium begins, weir goes on, Debezium goes on: one connector of MySQL or
# MariaDB, one offset, one schema history, no second snapshot, no change lost or twice.
#
#   takeover.sh [mysql|mysql-file|mariadb]…     all without a name
#
# mysql-file is a MySQL without GTIDs, whose positions are file and place alone.
#
# Java Connect and "weir connect" take turns on the three topics of one group; rows and
# changed structures come while either runs and while nobody does. In the end every row
# of the table must have come exactly once, with the columns of its time, and the topic
# replayed must be the table. Everything is in .run/interop/takeover, ports from
# INTEROP_PORT + 50. The status is not 0 when something is wrong.

source "$(dirname "${BASH_SOURCE[0]}")/../cells.sh"

dir=$(run_dir)/interop/takeover
port=$((${INTEROP_PORT:-29490} + 50))
weir=${WEIR:-$(repo_root)/bin/weir}
kafka=127.0.0.1:$((port + 1))
rest=http://127.0.0.1:$((port + 6))
log=${kafka#*:}

# program is the script of the server's kind, options what it is started with.
program() { echo "$peers/../services/${server%-file}.sh"; }
options() { [ "$server" != mysql-file ] || echo --gtid-mode=OFF --enforce-gtid-consistency=OFF; }
sql() { "$(program)" sql "$dir/$server" "$@"; }

end() {
  halt "weir connect" "$dir/worker" 20 || true
  "$peers/connect.sh" stop "$dir/java" || true
  halt weir "$dir/weir" 20 || true
  "$peers/../services/mysql.sh" stop "$dir/mysql" || true
  "$peers/../services/mysql.sh" stop "$dir/mysql-file" || true
  "$peers/../services/mariadb.sh" stop "$dir/mariadb" || true
}

answer() { curl -fsS -m 5 "$rest/connectors/take-$server/$1"; }

# debezium_on starts Java Connect, weir_on "weir connect" with the very same file.
debezium_on() { HEAP=512 "$peers/connect.sh" start "${rest##*:}" "$dir/java" "$kafka" "group.id=$server" >/dev/null; }
weir_on() {
  mkdir -p "$dir/worker"
  launch "$dir/worker" "$(id -un)" "$weir" connect --config "$dir/java/connect.properties" --console "127.0.0.1:$((port + 7))"
  await "weir connect" 60 "$dir/worker" curl -fsS -m 2 "$rest/connectors"
}
debezium_off() { "$peers/connect.sh" stop "$dir/java"; }
weir_off() { halt "weir connect" "$dir/worker" 30; }

# topic NAME prints a topic's values, one a line.
topic() { kcat -q -b "$kafka" -t "$1" -C -e -f '%s\n' 2>/dev/null || true; }

# arrived WORD waits for a row with that word as its name.
arrived() {
  local i
  for ((i = 0; i < 300; i++)); do
    ! topic "take-$server.take.t" | grep -q "\"name\":\"$1\"" || return 0
    sleep 0.2
  done
  answer status >&2 || true
  die "$server: the row $1 did not come"
}

# rows FROM TO EXTRA inserts rows one by one and three at once, changes and deletes some.
rows() {
  local i from=$1 to=$2
  for ((i = from; i <= to; i += 4)); do
    echo "insert into t (id, name) values ($i, 'n$i');"
    echo "insert into t (id, name) values ($((i + 1)), 'n$((i + 1))'), ($((i + 2)), 'n$((i + 2))'), ($((i + 3)), 'n$((i + 3))');"
    echo "begin; update t set name = concat(name, 'u') where id = $i; delete from t where id = $((i + 1)); commit;"
  done | sql take
}

mark() { echo "insert into t (id, name) values ($1, 'mark$1');" | sql take; }

connector() {
  local class=io.debezium.connector.mysql.MySqlConnector
  [ "$server" != mariadb ] || class=io.debezium.connector.mariadb.MariaDbConnector
  jq -n --arg class "$class" --arg port "$1" --arg kafka "$kafka" --arg prefix "take-$server" '{
    "connector.class": $class, "tasks.max": "1", "database.hostname": "127.0.0.1", "database.port": $port,
    "database.user": "weir", "database.password": "weir", "database.server.id": "7001", "topic.prefix": $prefix,
    "database.include.list": "take", "schema.history.internal.kafka.bootstrap.servers": $kafka,
    "schema.history.internal.kafka.topic": ("history-" + $prefix),
    "topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}'
}

# turns runs the three turns on one server.
turns() {
  local db=$((port + 8))
  [ "$server" != mariadb ] || db=$((port + 9))
  # shellcheck disable=SC2046
  "$(program)" start "$db" "$dir/$server" $(options) >/dev/null
  sql <<<"create database take; use take; create table t (id int primary key, name varchar(30), kind enum('a','b') default 'b') default charset utf8mb4;"
  rows 1 8
  debezium_on
  connector "$db" | curl -fsS -X PUT -H 'Content-Type: application/json' -d @- "$rest/connectors/take-$server/config" >/dev/null
  arrived n8 # the snapshot is read
  mark 9 && arrived mark9
  sql take <<<"alter table t add column one int not null default 1;"
  rows 11 18
  mark 19 && arrived mark19
  say "$server: Debezium has begun"

  debezium_off
  rows 21 28
  sql take <<<"alter table t add column two varchar(5) default 'two' after id, modify kind enum('a','b','c') default 'c';"
  rows 31 38
  weir_on
  mark 39 && arrived mark39
  sql take <<<"create table _t_new like t; alter table _t_new drop column one, add column three decimal(5,2) default 3.50 first; insert into _t_new (id, name, two, kind) select id, name, two, kind from t; rename table t to _t_old, _t_new to t;"
  rows 41 48
  mark 49 && arrived mark49
  say "$server: weir has gone on"

  weir_off
  rows 51 58
  sql take <<<"alter table t rename column two to deux, change name name varchar(40) not null;"
  rows 61 68
  debezium_on
  mark 69 && arrived mark69
  sql take <<<"alter table t drop column kind;"
  rows 71 78
  mark 79 && arrived mark79
  say "$server: Debezium has gone on"

  debezium_off
  rows 81 88
  weir_on
  mark 99 && arrived mark99
  same "$(answer status | jq -r '.tasks[0].state')" RUNNING "the task's state"
  weir_off
  examine
}

# examine compares what the topic holds with the table.
examine() {
  local events=$dir/$server.events
  topic "take-$server.take.t" | jq -c 'select(.op)' >"$events"
  # Snapshot rows are the first turn's alone: 1 to 8 without the two that were deleted.
  same "$(jq -r 'select(.op == "r").after.id' "$events" | sort -n | paste -sd' ')" "1 3 4 5 7 8" "rows of snapshots"
  # Every row that was inserted later has come exactly once.
  same "$(jq -r 'select(.op == "c").after.id' "$events" | paste -sd' ')" "$(created | paste -sd' ')" "rows that were inserted"
  same "$(jq -r 'select(.op == "d").before.id' "$events" | paste -sd' ')" "$(created | awk '$1 % 10 == 2 || $1 % 10 == 6' | paste -sd' ')" "rows that were deleted"
  same "$(jq -r 'select(.op == "u").after.id' "$events" | paste -sd' ')" "$(created | awk '$1 % 10 == 1 || $1 % 10 == 5' | paste -sd' ')" "rows that were changed"
  # With the columns of its time, in their order.
  local want='9:id,name,kind 11:id,name,kind,one 28:id,name,kind,one 31:id,two,name,kind,one 41:three,id,two,name,kind 58:three,id,two,name,kind 61:three,id,deux,name,kind 71:three,id,deux,name 99:three,id,deux,name'
  same "$(jq -r 'select(.op == "c" and (.after.id | IN(9,11,28,31,41,58,61,71,99))) | "\(.after.id):\(.after | keys_unsorted | join(","))"' "$events" | paste -sd' ')" "$want" "columns"
  # The topic replayed is the table, but for columns whose values a swap brought.
  same "$(jq -sr 'reduce .[] as $e ({}; if $e.op == "d" then del(.["\($e.before.id)"]) else .["\($e.after.id)"] = $e.after.name end) | to_entries[] | "\(.key) \(.value)"' "$events" | sort | digest)" \
    "$(sql take <<<"select id, name from t" | tail -n +2 | tr '\t' ' ' | sort | digest)" "the topic replayed"
  # One snapshot's structure in the history, and every statement since, once.
  same "$(topic "history-take-$server" | jq -c 'select(.databaseName == "take" and .position.snapshot == null) | .ddl[0:5] + .databaseName' | wc -l)" "$(statements)" "statements in the history"
  say "$server: every change came once, with the structure of its time"
  "$(program)" stop "$dir/$server"
}

# created prints the ids that were inserted after the snapshot, in order.
created() {
  echo 9
  local from
  for from in 11 21 31 41 51 61 71 81; do
    seq "$from" $((from + 7))
    case $from in 11) echo 19 ;; 31) echo 39 ;; 41) echo 49 ;; 61) echo 69 ;; 71) echo 79 ;; 81) echo 99 ;; esac
  done
}

# statements prints how many records the statements after the snapshot make: a RENAME of
# two tables is two.
statements() { echo 8; }

servers=("$@")
[ $# -gt 0 ] || servers=(mysql mysql-file mariadb)
trap end EXIT
end
rm -rf "$dir"
mkdir -p "$dir/weir"
launch "$dir/weir" "$(id -un)" "$weir" start --data "$dir/weir/data" --port-base "$log"
await weir 30 "$dir/weir" curl -fsS -m 2 "http://127.0.0.1:$((log + 3))/readyz"
for server in "${servers[@]}"; do turns; done
