#!/bin/bash
# Shows that the checker finds what it must find: hand-made tables that agree, and
# then one fault at a time in each of the places it looks at. Needs no service.

source "$(dirname "${BASH_SOURCE[0]}")/../services/lib.sh"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export CHECK_WORK CHECK_PREFIX=demo
CHECK_WORK=$(mktemp -d)
trap 'rm -rf "$CHECK_WORK"' EXIT
passed=0
failed=0

# event OP BEFORE AFTER TS prints one event as the log and the bucket have it.
event() {
  printf '{"before":%s,"after":%s,"source":{"connector":"postgresql","ts_ms":%s,"snapshot":"false"},"op":"%s","ts_ms":%s}\n' "$2" "$3" "$4" "$1" "$4"
}

row() { printf '{"id":%s,"name":"%s","at":"2026-01-02T03:04:05.%sZ","price":"%s"}' "$1" "$2" "$3" "$4"; }

# lay makes the folder of a table whose four places agree: two partitions, an update,
# a delete with its tombstone, a key change, a row that comes back, a resent event.
lay() {
  local dir=$CHECK_WORK/apt.t p0 p1
  rm -rf "$dir"
  mkdir -p "$dir/stored/partition=0" "$dir/stored/partition=1"
  ln -s stored "$dir/objects"
  echo keyed >"$dir/kind"
  printf '[length, .["id"], .["name"], (.["at"]|micros), .["price"]]' >"$dir/row.jq"
  printf '[.["id"]]' >"$dir/key.jq"
  cat >"$dir/source.rows" <<'ROWS'
[4, 1, "one, newer", "2026-01-02T03:04:05.100000Z", "1.50"]
[4, 3, "back", "2026-01-02T03:04:05.000000Z", "3.00"]
[4, 5, "moved \"x\"\t\\", "2026-01-02T03:04:05.123456Z", "4.00"]
ROWS
  p0=$dir/lines.0
  p1=$dir/lines.1
  {
    event r null "$(row 1 one 1 1.00)" 1000
    event u null "$(row 1 'one, newer' 1 1.50)" 2000
    event r null "$(row 2 two 1 2.00)" 1000
    event d "$(row 2 two 1 2.00)" null 3000
  } >"$p0"
  {
    event r null "$(row 3 three 0 3.00)" 1000
    event d "$(row 3 three 0 3.00)" null 2000
    event c null "$(row 3 back 0 3.00)" 2500
    event d "$(row 4 moved 1 4.00)" null 3000
    event c null "$(row 5 'moved \"x\"\t\\' 123456 4.00)" 3000
    event c null "$(row 5 'moved \"x\"\t\\' 123456 4.00)" 3000
  } >"$p1"
  head -n 2 "$p0" | gzip >"$dir/stored/partition=0/demo.apt.t+0+0000000000.json.gz"
  tail -n 2 "$p0" | gzip >"$dir/stored/partition=0/demo.apt.t+0+0000000002.json.gz"
  gzip <"$p1" >"$dir/stored/partition=1/demo.apt.t+1+0000000000.json.gz"
  {
    awk '{ printf "0\t%d\t5000\t%d\t%s\n", NR - 1, length($0), $0 } END { printf "0\t%d\t5000\t-1\t\n", NR }' "$p0"
    awk '{ printf "1\t%d\t5000\t%d\t%s\n", NR - 1, length($0), $0 }' "$p1"
  } >"$dir/log.tsv"
  printf '{"_scroll_id":"x","hits":{"hits":[{"_source":%s},{"_source":%s}]}}\n{"_scroll_id":"y","hits":{"hits":[{"_source":%s}]}}\n' \
    "$(row 1 'one, newer' 1 1.50)" "$(row 3 back 0 3.00)" "$(row 5 'moved \"x\"\t\\' 123456 4.00)" >"$dir/index.pages"
}

# expect WHAT VERDICT [WORDS] compares and looks at the verdict, and at the words of
# the fault that is reported.
expect() {
  local dir=$CHECK_WORK/apt.t got
  if ! "$here/check.sh" compare apt.t 2>"$dir/errors"; then
    got=broken
  else
    got=$(cut -f 9 "$dir/result")
  fi
  if [ "$got" = "$2" ] && { [ -z "${3:-}" ] || grep -q "$3" "$dir/faults"; }; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAIL: $1: verdict $got, want $2 ${3:-}"
    cat "$dir/faults" "$dir/errors" 2>/dev/null | sed 's/^/  /'
  fi
}

# again writes an object anew from the lines on standard input.
again() { gzip >"$CHECK_WORK/apt.t/stored/$1"; }

lay
expect "all agree" same
[ "$(cut -f 5-7 "$CHECK_WORK/apt.t/result" | tr '\t' ' ')" = "10 10 1" ] ||
  { echo "FAIL: counts of events, lines, tombstones: $(cut -f 5-7 "$CHECK_WORK/apt.t/result")"; failed=$((failed + 1)); }

lay
sed -i 's/"price":"3.00"/"price":"3.0"/' "$CHECK_WORK/apt.t/index.pages"
expect "a value differs in the index" DIFFERS '^index: 1 rows are missing or differ, 1'

lay
sed -i '$d' "$CHECK_WORK/apt.t/index.pages"
expect "a document is missing" DIFFERS '^index: 1 rows are missing or differ, 0'

lay
head -n 1 "$CHECK_WORK/apt.t/index.pages" >>"$CHECK_WORK/apt.t/index.pages"
expect "documents are there twice" DIFFERS '^index: 0 rows are missing or differ, 2'

lay
sed -i 's/"price":"3.00"/"price":"3.00","more":1/' "$CHECK_WORK/apt.t/index.pages"
expect "a document has one field more" DIFFERS '^index: 1'

lay
rm "$CHECK_WORK/apt.t/stored/partition=0/demo.apt.t+0+0000000002.json.gz"
expect "an object is lost" DIFFERS '^events: partition 0 has 4 .* and 2'

lay
tail -n 3 "$CHECK_WORK/apt.t/lines.0" | again "partition=0/demo.apt.t+0+0000000002.json.gz"
expect "a line is in two objects" DIFFERS '^events: partition 0 has 4 .* and 5'

lay
{ sed -n 1,4p "$CHECK_WORK/apt.t/lines.1"; sed -n 6p "$CHECK_WORK/apt.t/lines.1"; } | again "partition=1/demo.apt.t+1+0000000000.json.gz"
expect "a line is lost that changes no row" DIFFERS '^events: partition 1 has 6 .* and 5'

lay
{ sed -n 2p "$CHECK_WORK/apt.t/lines.0"; sed -n 1p "$CHECK_WORK/apt.t/lines.0"; } | again "partition=0/demo.apt.t+0+0000000000.json.gz"
expect "two lines changed places" DIFFERS '^bucket: 1'

lay
sed -i '2d' "$CHECK_WORK/apt.t/log.tsv"
expect "an event is missing in the log" DIFFERS '^events: partition 0 has 3 .* and 4'

lay
sed -i '$d' "$CHECK_WORK/apt.t/source.rows"
expect "a row was deleted in the database only" DIFFERS '^bucket: 0 rows are missing or differ, 1'

lay
sed -n 1p "$CHECK_WORK/apt.t/lines.0" | cut -c 1-100 | again "partition=0/demo.apt.t+0+0000000000.json.gz"
expect "an object is cut short" broken

lay
jq -cS . "$CHECK_WORK/apt.t/lines.1" | again "partition=1/demo.apt.t+1+0000000000.json.gz"
expect "the same JSON in another form" same

lay
echo set >"$CHECK_WORK/apt.t/kind"
printf 'null' >"$CHECK_WORK/apt.t/key.jq"
: >"$CHECK_WORK/apt.t/index.pages"
{ event c null "$(row 1 a 1 1.00)" 1; event c null "$(row 2 b 1 1.00)" 1; event c null "$(row 2 b 1 1.00)" 1; } >"$CHECK_WORK/apt.t/lines.0"
printf '[4,2,"b","2026-01-02T03:04:05.100000Z","1.00"]\n[4,1,"a","2026-01-02T03:04:05.100000Z","1.00"]\n' >"$CHECK_WORK/apt.t/source.rows"
rm -rf "$CHECK_WORK/apt.t/stored"/*
mkdir "$CHECK_WORK/apt.t/stored/partition=0"
again "partition=0/demo.apt.t+0+0000000000.json.gz" <"$CHECK_WORK/apt.t/lines.0"
awk '{ printf "0\t%d\t5000\t%d\t%s\n", NR - 1, length($0), $0 }' "$CHECK_WORK/apt.t/lines.0" >"$CHECK_WORK/apt.t/log.tsv"
expect "a table without a key is a set" same
echo '[4,3,"c","2026-01-02T03:04:05.100000Z","1.00"]' >>"$CHECK_WORK/apt.t/source.rows"
expect "a row of it is missing" DIFFERS '^bucket: 1 rows are missing or differ, 0'

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
