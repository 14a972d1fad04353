#!/bin/bash
# Compares what arrived with what is in the database, by tools that know nothing of
# weir: psql, curl, kcat, zcat, jq, sort, sha256sum.
#
#   check.sh                   all tables: collects, compares, prints; exits 1 on any difference
#   check.sh collect TABLE     reads the four places into $CHECK_WORK/TABLE
#   check.sh compare TABLE     compares what was collected; writes TABLE/result
#
# For each table: rows in PostgreSQL = documents in the index = the bucket's lines
# replayed by key, and the data events of the log = the bucket's lines, one by one
# and in order. A table without a key is compared as a set, and not in the index.
#
# Environment: PGHOST PGPORT PGDATABASE PGPASSWORD, CHECK_TABLES (a regular expression
# over schema.table), CHECK_KAFKA host:port, CHECK_INDEX url, CHECK_BUCKET folder,
# CHECK_PREFIX of the topics, CHECK_DEAD (regular expression of dead-letter topics),
# CHECK_WORK a folder for what is read.

source "$(dirname "${BASH_SOURCE[0]}")/../services/lib.sh"

export LC_ALL=C PGUSER=${PGUSER:-postgres}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
self=$here/$(basename "${BASH_SOURCE[0]}")
prefix=${CHECK_PREFIX:-demo}
work=${CHECK_WORK:?}

sha() { sha256sum | cut -c1-16; }
lines() { wc -l <"$1" | tr -d ' '; }

# program FILE TABLE prints a jq program with the table's row and key in place.
program() {
  cat "$here/micros.jq"
  ROW=$(cat "$work/$2/row.jq") KEY=$(cat "$work/$2/key.jq") awk '
    { at = index($0, "ROW;"); if (at) $0 = substr($0, 1, at - 1) ENVIRON["ROW"] ";" }
    { at = index($0, "KEY;"); if (at) $0 = substr($0, 1, at - 1) ENVIRON["KEY"] ";" }
    { print }' "$1"
}

# read_log TOPIC writes its records. A topic that nothing was written to need not exist.
read_log() {
  local topics
  topics=$(kcat -q -J -L -b "$CHECK_KAFKA" | jq -r '.topics[].topic')
  printf '%s\n' "$topics" | grep -qxF "$1" || return 0
  kcat -q -C -e -b "$CHECK_KAFKA" -t "$1" -o beginning -X check.crcs=true -f '%p\t%o\t%T\t%S\t%s\n'
}

# read_index URL writes an index's documents, page by page; an index that does not
# exist has none.
read_index() {
  local page id
  [ "$(curl -sS -o /dev/null -w '%{http_code}' -I "$1")" != 404 ] || return 0
  page=$(mktemp)
  curl -fsS -X POST "$1/_refresh" >/dev/null
  curl -fsS "$1/_search?scroll=2m&size=2000&filter_path=_scroll_id,hits.hits._source" \
    -H 'Content-Type: application/json' -d '{"sort":["_doc"]}' >"$page"
  while grep -q '"_source"' "$page"; do
    cat "$page"
    echo
    id=$(head -c 4000 "$page" | sed -n 's/^.*"_scroll_id":"\([^"]*\)".*$/\1/p')
    curl -fsS "${1%/*}/_search/scroll?filter_path=_scroll_id,hits.hits._source" \
      -H 'Content-Type: application/json' -d "{\"scroll\":\"2m\",\"scroll_id\":\"$id\"}" >"$page"
  done
  rm -f "$page"
}

collect() {
  local table=$1 dir=$work/$1 topic=$prefix.$1 index
  psql -X -q -At -v ON_ERROR_STOP=1 -f "$dir/rows.sql" >"$dir/source.rows"
  read_log "$topic" >"$dir/log.tsv"
  index=$CHECK_INDEX/$(printf '%s' "$topic" | tr '[:upper:]' '[:lower:]')
  if [ "$(cat "$dir/kind")" = keyed ]; then
    read_index "$index" >"$dir/index.pages"
  elif curl -fsS -o /dev/null "$index" 2>/dev/null; then
    echo "the index has $topic, which has no key" >"$dir/index.pages"
  else
    : >"$dir/index.pages"
  fi
  rm -f "$dir/objects"
  ln -s "$CHECK_BUCKET/topics/$topic" "$dir/objects"
}

# objects TABLE lists its objects in the order of partition and first offset.
objects() { (cd "$work/$1/objects/" 2>/dev/null && find . -type f \( -name '*.gz' -o -name '*.json' \) | sort) || true; }

unpack() { case $1 in *.gz) zcat "$1" ;; *) cat "$1" ;; esac; }

# replay_bucket TABLE writes events.tsv (see replay.jq) and bucket.P, the lines of
# partition P as stored.
replay_bucket() {
  local table=$1 dir=$work/$1 object partition
  rm -f "$dir"/bucket.[0-9]*
  program "$here/replay.jq" "$table" >"$dir/replay.jq"
  objects "$table" | while read -r object; do
    partition=$(printf '%s' "$object" | sed -n 's/^.*partition=\([0-9]*\)\/.*$/\1/p')
    printf '{"object_ms":%s}\n' "$(stat -L -c '%.3Y' "$dir/objects/$object" | tr -d .)"
    unpack "$dir/objects/$object" | tee -a "$dir/bucket.${partition:-none}"
  done | jq -nr -f "$dir/replay.jq" >"$dir/events.tsv"
}

# split_log TABLE writes log.P, the data events of partition P, and the delays from
# commit to the record's time; it prints records, data events, tombstones.
split_log() {
  local dir=$work/$1
  rm -f "$dir"/log.[0-9]*
  awk -F '\t' -v dir="$dir" '
    { records++ }
    $4 < 0 { tombstones++; next }
    {
      value = substr($0, length($1) + length($2) + length($3) + length($4) + 5)
      print value > (dir "/log." $1)
      events++
      if (index(value, "\"op\":\"r\"")) next
      at = index(value, "\"source\":{")
      if (!at) next
      value = substr(value, at, 600)
      if (match(value, /"ts_ms":[0-9]+/)) print $3 - substr(value, RSTART + 8, RLENGTH - 8) > (dir "/delay.log")
    }
    END { print records + 0, events + 0, tombstones + 0 }' "$dir/log.tsv"
}

# differ A B WHAT reports lines that only one of two sorted files has.
differ() {
  local only_a only_b
  cmp -s "$1" "$2" && return 0
  only_a=$(comm -23 "$1" "$2" | wc -l)
  only_b=$(comm -13 "$1" "$2" | wc -l)
  echo "$3: $only_a rows are missing or differ, $only_b are there that should not be"
  comm -23 "$1" "$2" | sed -n '1,3p' | cut -c1-240 | sed 's/^/    expected /'
  comm -13 "$1" "$2" | sed -n '1,3p' | cut -c1-240 | sed 's/^/    found    /'
}

# same_events TABLE compares log.P and bucket.P of every partition, byte by byte,
# and by content where a sink has written the same JSON in another form.
same_events() {
  local dir=$work/$1 name partition
  for name in $(cd "$dir" && ls | sed -n 's/^\(log\|bucket\)\.\([0-9][0-9]*\)$/\2/p' | sort -u); do
    partition=$name
    touch "$dir/log.$partition" "$dir/bucket.$partition"
    cmp -s "$dir/log.$partition" "$dir/bucket.$partition" && continue
    [ "$(jq -cS . "$dir/log.$partition" | sha)" = "$(jq -cS . "$dir/bucket.$partition" | sha)" ] && continue
    echo "events: partition $partition has $(lines "$dir/log.$partition") data events in the log and" \
      "$(lines "$dir/bucket.$partition") lines in the bucket, or others"
  done
  [ ! -e "$dir/bucket.none" ] || echo "events: objects outside of a partition's folder"
}

compare() {
  local table=$1 dir=$work/$1 kind records events tombstones
  kind=$(cat "$dir/kind")
  rm -f "$dir"/delay.* "$dir/faults"
  jq -c . "$dir/source.rows" | sort >"$dir/source.sorted"
  replay_bucket "$table"
  read -r records events tombstones < <(split_log "$table")
  awk -F '\t' -v dir="$dir" '$4 != "" { print $4 > (dir "/delay.bucket") }' "$dir/events.tsv"
  if [ "$kind" = keyed ]; then
    awk -F '\t' '{ if ($2 == "d") delete row[$1]; else row[$1] = $3 } END { for (k in row) print row[k] }' \
      "$dir/events.tsv" | sort >"$dir/bucket.sorted"
    { cat "$here/micros.jq"; echo ".hits.hits[]._source | $(cat "$dir/row.jq")"; } >"$dir/index.jq"
    jq -c -f "$dir/index.jq" "$dir/index.pages" | sort >"$dir/index.sorted"
  else
    cut -f 3 "$dir/events.tsv" | sort -u >"$dir/bucket.sorted"
    cp "$dir/index.pages" "$dir/index.sorted"
  fi
  {
    differ "$dir/source.sorted" "$dir/bucket.sorted" "bucket"
    if [ "$kind" = keyed ]; then
      differ "$dir/source.sorted" "$dir/index.sorted" "index"
    elif [ -s "$dir/index.pages" ]; then
      cat "$dir/index.pages"
    fi
    same_events "$table"
  } >"$dir/faults"
  printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$table" "$(lines "$dir/source.sorted")" \
    "$([ "$kind" = keyed ] && lines "$dir/index.sorted" || echo -)" "$(lines "$dir/bucket.sorted")" \
    "$events" "$(lines "$dir/events.tsv")" "$tombstones" "$(sha <"$dir/source.sorted")" \
    "$([ -s "$dir/faults" ] && echo DIFFERS || echo same)" >"$dir/result"
}

# catalog makes a folder for each captured table.
catalog() {
  local table kind select row key
  rm -rf "$work"
  mkdir -p "$work"
  psql -X -q -At -F "$(printf '\t')" -v ON_ERROR_STOP=1 -v tables="$CHECK_TABLES" -f "$here/catalog.sql" >"$work/catalog.tsv"
  [ -s "$work/catalog.tsv" ] || die "no table of $PGDATABASE matches $CHECK_TABLES"
  while IFS="$(printf '\t')" read -r table kind select row key; do
    mkdir -p "$work/$table"
    printf '%s\n' "$kind" >"$work/$table/kind"
    printf '%s;\n' "$select" >"$work/$table/rows.sql"
    printf '%s' "$row" >"$work/$table/row.jq"
    printf '%s' "$key" >"$work/$table/key.jq"
  done <"$work/catalog.tsv"
}

# percentiles WHAT FILES... prints p50 and p99 of numbers, one a line.
percentiles() {
  local what=$1
  shift
  cat "$@" 2>/dev/null | sort -n | awk -v what="$what" '
    { v[NR] = $1 }
    END { if (NR) printf "  %-34s p50 %6d ms   p99 %6d ms   max %6d ms   (%d events)\n", what, v[int((NR - 1) * 0.5) + 1], v[int((NR - 1) * 0.99) + 1], v[NR], NR }'
}

dead_letters() {
  local topic count total=0
  for topic in $(kcat -q -J -L -b "$CHECK_KAFKA" | jq -r '.topics[].topic' | grep -E "${CHECK_DEAD:-^dlq}" || true); do
    count=$(kcat -q -C -e -b "$CHECK_KAFKA" -t "$topic" -o beginning -f '.\n' | wc -l)
    [ "$count" = 0 ] || echo "  $topic: $count" >&2
    total=$((total + count))
  done
  echo "$total"
}

report() {
  local faults=0 table dead
  { printf 'table\trows\tindex\tbucket\tevents\tlines\ttombstones\tsha256\t\n'; cat "$work"/*/result; } |
    awk -F '\t' '{ printf "%-26s %9s %9s %9s %9s %9s %10s  %-16s %s\n", $1, $2, $3, $4, $5, $6, $7, $8, $9 }'
  for table in $(cut -f 1 "$work/catalog.tsv"); do
    if [ ! -e "$work/$table/result" ] || [ -s "$work/$table/faults" ]; then
      faults=1
      echo "$table:"
      sed 's/^/  /' "$work/$table/faults" 2>/dev/null || echo "  could not be compared"
    fi
  done
  dead=$(dead_letters)
  echo "left out of the bucket (tombstones): $(cat "$work"/*/result | awk -F '\t' '{ n += $7 } END { print n + 0 }');" \
    "not in the index (no key): $(awk -F '\t' '$2 == "set" { print $1 }' "$work/catalog.tsv" | tr '\n' ' ')"
  echo "dead-lettered: $dead"
  [ "$dead" = 0 ] || faults=1
  echo "from the commit in PostgreSQL to"
  percentiles "the record in the log" "$work"/*/delay.log
  percentiles "the object readable in the bucket" "$work"/*/delay.bucket
  percentiles "the document found by a search" "$work/delay.index"
  return $faults
}

main() {
  local table ok=0
  catalog
  # Two tables at a time, the large ones first.
  cut -f 1 "$work/catalog.tsv" | while read -r table; do
    printf '%s %s\n' "$(psql -X -q -At -c "SELECT pg_total_relation_size('$table')")" "$table"
  done | sort -rn | cut -d ' ' -f 2 |
    xargs -P 2 -I '{}' sh -c '"$0" collect "$1" && "$0" compare "$1"' "$self" '{}' || ok=1
  [ -z "${CHECK_DELAYS:-}" ] || cp "$CHECK_DELAYS" "$work/delay.index" 2>/dev/null || true
  report || ok=1
  [ "$ok" = 0 ] && echo "everything is the same everywhere" || echo "DIFFERENCES FOUND (what was read is in $work)"
  return $ok
}

case "${1:-}" in
  '') main ;;
  collect) collect "$2" ;;
  compare) compare "$2" ;;
  *) die "usage: check.sh [collect TABLE | compare TABLE]" ;;
esac
