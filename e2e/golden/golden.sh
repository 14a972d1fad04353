#!/bin/bash
# Runs the real peers and writes their answers into the committed test data anew.
#
#   golden.sh [RECORDER…]      all of them without a name
#
# README.md tells what each records. Nothing of a peer is kept but what it answered. A recorder
# that can't run says so, and the status is not 0. What has changed is for git diff to show: times,
# positions and transaction ids always do. Everything is in .run/golden, ports from GOLDEN_PORT (29590).

source "$(dirname "${BASH_SOURCE[0]}")/../services/lib.sh"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(repo_root)
services=$root/e2e/services
peers=$root/e2e/peers
dir=$(run_dir)/golden
port=${GOLDEN_PORT:-29590}
postgres=127.0.0.1:$port
search=http://127.0.0.1:$((port + 1))
kafka=127.0.0.1:$((port + 3))
connect=http://127.0.0.1:$((port + 5))
mysql=127.0.0.1:$((port + 6))
mariadb=127.0.0.1:$((port + 7))
debezium=debezium-3.6.1
recorders=(convert transform postgres postgres-17 mysql-values mysql-events mysql-ddl mysql-source opensearch rest group)
cd "$root"

# started NAME starts one of the servers unless it runs; the last act of all ends them.
started() {
  case "$1" in
    kafka) HEAP=512 "$peers/kafka.sh" start "${kafka#*:}" "$dir/kafka" ;;
    connect) started kafka && HEAP=768 "$peers/connect.sh" start "${connect##*:}" "$dir/connect" "$kafka" ;;
    postgres) "$services/postgres.sh" start "$port" "$dir/postgres" ;;
    postgres-17) "$peers/postgres17.sh" start $((port + 8)) "$dir/postgres-17" ;;
    opensearch) "$services/opensearch.sh" start "${search##*:}" "$dir/opensearch" ;;
    mysql) "$services/mysql.sh" install && "$services/mysql.sh" start "${mysql#*:}" "$dir/mysql" ;;
    mariadb) "$services/mariadb.sh" start "${mariadb#*:}" "$dir/mariadb" ;;
  esac >/dev/null
}

stop_all() {
  "$peers/connect.sh" stop "$dir/connect"
  "$peers/kafka.sh" stop "$dir/kafka"
  "$services/postgres.sh" stop "$dir/postgres"
  "$peers/postgres17.sh" stop "$dir/postgres-17"
  "$services/opensearch.sh" stop "$dir/opensearch"
  "$services/mysql.sh" stop "$dir/mysql"
  "$services/mariadb.sh" stop "$dir/mariadb"
} >/dev/null 2>&1

# java_with POM SOURCE sets the array java to run a class of SOURCE with the jars of POM.
java_with() {
  local pom=$1 source=$2 home lib
  home=$(source "$peers/jars.sh" && jdk)
  lib=$dir/jars-$(sha256sum <"$pom" | cut -c1-12)
  if [ ! -e "$lib" ]; then
    say "getting the jars of ${pom#"$root"/} by Maven"
    rm -rf "$lib.new"
    JAVA_HOME=$home mvn -q -B -f "$pom" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$lib.new" >"$dir/mvn.log" 2>&1 ||
      die "Maven could not get the jars: $(tail -n 1 "$dir/mvn.log")"
    mv "$lib.new" "$lib"
  fi
  rm -rf "$dir/classes"
  "$home/bin/javac" -nowarn -cp "$lib/*" -d "$dir/classes" "$source"
  java=("$home/bin/java" -Duser.timezone=UTC -cp "$lib/*:$dir/classes")
}

record_convert() { ask_java convert connect/convert/testdata; }
record_transform() { ask_java transform connect/transform/testdata; }

ask_java() {
  java_with connect/convert/testdata/java/pom.xml connect/convert/testdata/java/Golden.java
  "${java[@]}" Golden "$1" "$2/cases.json" "$dir/$1.json" >"$dir/$1.log" 2>&1
  mv "$dir/$1.json" "$2/answers.json"
}

record_postgres() {
  started postgres
  debezium_events connectors/postgres/testdata/$debezium "$port" "$dir/events.tsv"
  mv "$dir/events.tsv" "connectors/postgres/testdata/$debezium/events.tsv"
}

# PostgreSQL 17 must give the same events as 15, which are the ones that are kept.
record_postgres-17() {
  started postgres-17
  debezium_events connectors/postgres/testdata/$debezium $((port + 8)) "$dir/events-17.tsv"
  diff <(lasting "connectors/postgres/testdata/$debezium/events.tsv") <(lasting "$dir/events-17.tsv") >"$dir/postgres-17.diff" ||
    die "PostgreSQL 17 gives other events than 15: see $dir/postgres-17.diff"
}

# lasting FILE prints events without what is of the moment.
lasting() { cut -f 2- "$1" | tr '\t' '\n' | jq -c 'walk(if type == "object" and has("ts_ms") and (.ts_ms | type) == "number" then del(.ts_ms, .ts_us, .ts_ns, .lsn, .txId, .sequence) else . end)'; }

# debezium_events FOLDER PORT FILE runs the statements of a folder against Debezium and writes what it makes of them.
debezium_events() {
  local data=$1 port=$2 file=$3
  java_with "$here/debezium/pom.xml" "$here/debezium/Events.java"
  export PGHOST=127.0.0.1 PGPORT=$port PGUSER=postgres PGPASSWORD=weir
  psql -qX -c 'drop database if exists demo with (force)' -c 'create database demo'
  export PGDATABASE=demo PGOPTIONS='-c timezone=UTC'
  statements() { sed "s/\$ID/${2:-}/g" "$data/$1" | psql -qX -v ON_ERROR_STOP=1 >/dev/null; }
  statements setup.sql
  statements insert.sql 1
  statements before.sql
  cat >"$dir/postgres.properties" <<EOF
name=golden
connector.class=io.debezium.connector.postgresql.PostgresConnector
offset.storage=org.apache.kafka.connect.storage.MemoryOffsetBackingStore
plugin.name=pgoutput
topic.prefix=srv
database.hostname=127.0.0.1
database.port=$port
database.user=postgres
database.password=weir
database.dbname=demo
slot.drop.on.stop=true
EOF
  rm -f "$file"
  launch "$dir" "$(id -un)" "${java[@]}" Events "$dir/postgres.properties" "$file" .golden_end
  await Debezium 60 "$dir" grep -q '"snapshot":"last"' "$file"
  statements insert.sql 2
  statements stream.sql
  psql -qX -c 'create table golden_end (id int primary key)' -c 'insert into golden_end values (1)'
  await "Debezium's last event" 60 "$dir/none" gone "$dir"
  rm -f "$dir/pid"
  [ "$(wc -l <"$file")" -ge 10 ] || die "only $(wc -l <"$file") events came: $(tail -n 3 "$dir/log")"
}

gone() { ! alive "$1"; }

# sql SERVER DATABASE runs the statements of its standard input, plainly encoded and with no mode.
sql() { { echo "set names utf8mb4; set sql_mode = '';"; [ -z "$2" ] || echo "use $2;"; cat; } | "$services/$1.sh" sql "$dir/$1"; }

# types SERVER FILE ID runs one of the files of types, with the ids of its rows from ID.
types() {
  local database=types zero=2000
  [ "$1" = mariadb ] || zero=0
  [ "$2" != setup.sql ] || database=
  sed "s/\$ZERO/$zero/g; s/\$ID/$3/g" "connectors/mysql/value/testdata/$debezium/$2" | sql "$1" "$database"
}

# fresh SERVER makes the tables of types with their first rows, and an empty binlog.
fresh() {
  local reset="reset binary logs and gtids"
  [ "$1" = mysql ] || reset="reset master"
  echo "drop database if exists types; drop database if exists beyond; $reset;" | sql "$1" ""
  types "$1" setup.sql 0
  types "$1" "setup-$1.sql" 0
  types "$1" rows.sql 0
  types "$1" "rows-$1.sql" 0
}

stream() {
  types "$1" rows.sql 100
  types "$1" "rows-$1.sql" 100
  types "$1" stream.sql 0
}

record_mysql-values() {
  local server
  for server in mysql mariadb; do
    started "$server"
    fresh "$server"
    stream "$server"
    types "$server" beyond.sql 0
    types "$server" "beyond-$server.sql" 0
    go run ./connectors/mysql/value/testdata/record "$server" "${!server}" >"$dir/$server.json.gz"
    mv "$dir/$server.json.gz" "connectors/mysql/value/testdata/$server.json.gz"
  done
}

# The settings of each case of mysql-events.
cases='{"plain": {}, "text": {"decimal.handling.mode": "string", "binary.handling.mode": "base64", "time.precision.mode": "isostring", "bigint.unsigned.handling.mode": "precise"},
  "connect": {"decimal.handling.mode": "double", "binary.handling.mode": "hex", "time.precision.mode": "connect"},
  "nanos": {"binary.handling.mode": "base64-url-safe", "time.precision.mode": "nanoseconds"}, "micros": {"time.precision.mode": "microseconds"}}'

record_mysql-events() {
  local server
  started connect
  for server in mysql mariadb; do
    started "$server"
    fresh "$server"
    python3 "$here/mysql_events.py" "$connect" "$kafka" "$server" "${!server#*:}" "$cases" start
    stream "$server"
    echo "create table if not exists golden_end (id int primary key); insert into golden_end values (1)" | sql "$server" types
    python3 "$here/mysql_events.py" "$connect" "$kafka" "$server" "${!server#*:}" "$cases" write "connectors/mysql/value/testdata/$debezium"
  done
}

record_mysql-ddl() {
  started connect
  started mysql
  started mariadb
  RECORD_MYSQL=$mysql RECORD_MARIADB=$mariadb RECORD_KAFKA=$kafka RECORD_CONNECT=$connect \
    go test -count=1 -tags record -run '^TestRecord$' ./connectors/mysql/schema >"$dir/ddl.log" 2>&1 || die "$(grep -m1 -A3 -- '--- FAIL' "$dir/ddl.log")"
}

record_mysql-source() {
  started connect
  started mysql
  started mariadb
  WEIR_TEST_MYSQL=$mysql WEIR_TEST_MARIADB=$mariadb RECORD_KAFKA=$kafka RECORD_CONNECT=$connect \
    go test -count=1 -tags record -run '^TestRecordDebezium$' ./connectors/mysql >"$dir/source.log" 2>&1 || die "$(grep -m1 -A3 -- '--- FAIL' "$dir/source.log" || tail -n 3 "$dir/source.log")"
}

record_opensearch() {
  started opensearch
  WEIR_RECORD_OPENSEARCH=$search go test -count=1 -run '^TestAnswers$' ./connectors/elasticsearch >"$dir/opensearch.log" 2>&1 || die "$(tail -n 3 "$dir/opensearch.log")"
}

record_rest() {
  started connect
  python3 "$here/rest.py" "$connect" "$here/rest.json" >"$dir/rest.json"
  mv "$dir/rest.json" connect/rest/testdata/java.json
}

# The test starts and stops its own workers, on an in-process Kafka that notes what they send.
record_group() {
  RECORD_CONNECT=$peers/connect.sh RECORD_DIR=$dir/group RECORD_PORT=$((port + 10)) \
    go test -count=1 -timeout 15m -tags record -run '^TestRecordGroup$' ./connect/worker >"$dir/group.log" 2>&1 || die "$(grep -m1 -A3 -- '--- FAIL' "$dir/group.log" || tail -n 3 "$dir/group.log")"
}

# A recorder is a process of its own, so that the first thing that fails ends it.
if [ "${1:-}" = --one ]; then
  "record_$2"
  exit
fi

mkdir -p "$dir"
exec 9>"$dir/lock"
flock -n 9 || die "another run is at work in $dir"
stop_all || true
rm -rf "$dir"/{kafka,connect,group,postgres,postgres-17,opensearch,mysql,mariadb} # what an earlier run has left would be recorded too
trap stop_all EXIT
[ $# -gt 0 ] || set -- "${recorders[@]}"
failed=()
for name in "$@"; do
  declare -F "record_$name" >/dev/null || die "unknown recorder $name: there are ${recorders[*]}"
  began=$SECONDS
  if "$0" --one "$name" </dev/null 9>&-; then
    say "recorded $name ($((SECONDS - began)) s)"
  else
    failed+=("$name")
    say "NOT recorded: $name; the lines above say why"
  fi
done
git -C "$root" --no-pager diff --stat -- '*/testdata/*' >&2
[ "${#failed[@]}" = 0 ] || die "not recorded: ${failed[*]}"
