#!/bin/bash
# The real Debezium, in Java Connect, and weir's connector on one PostgreSQL: the same
# tables, statements and settings, and every record that they write compared.
#
#   compare.sh [CASE…]       cases of cases.json, all without a name
#
# Both write to one weir. Everything is in .run/interop/debezium, the result in
# .run/interop/debezium.md. Ports from INTEROP_PORT + 30. The status is not 0 when
# something differs.

source "$(dirname "${BASH_SOURCE[0]}")/../cells.sh"

here=$interop/debezium
run=$(run_dir)/interop
dir=$run/debezium
port=$((${INTEROP_PORT:-29490} + 30))
kafka=127.0.0.1:$((port + 1))
export PGPASSWORD=weir

sql() { psql -qX -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$port" -U postgres "$@" >/dev/null; }

end() {
  "$peers/connect.sh" stop "$dir/connect" || true
  halt weir "$dir/weir" 20 || true
  "$peers/../services/postgres.sh" stop "$dir/postgres" || true
}

compare() { "$run/python/bin/python" "$here/compare.py" "$1" "$here/cases.json" "${@:2}"; }

[ -x "$run/python/bin/python" ] || CLIENTS=confluent "$interop/interop.sh" >/dev/null
end
rm -rf "$dir"
mkdir -p "$dir/weir"
trap end EXIT
"$peers/../services/postgres.sh" start "$port" "$dir/postgres" >/dev/null
sql -c "create database compare"
sql -d compare -f "$here/setup.sql"
sql -d compare -v id=0 -f "$here/rows.sql"
launch "$dir/weir" "$(id -un)" "${WEIR:-$(repo_root)/bin/weir}" start --data "$dir/weir/data" --port-base $((port + 1))
await weir 30 "$dir/weir" curl -fsS -m 2 "http://127.0.0.1:$((port + 4))/readyz"
HEAP=512 "$peers/connect.sh" start $((port + 6)) "$dir/connect" "$kafka" >/dev/null
taken=$(compare start "http://127.0.0.1:$((port + 6))" "http://127.0.0.1:$((port + 2))" "$port" "$@")
mapfile -t cases <<<"$taken"
[ -n "$taken" ] || die "no case was taken by both"
compare snapshot "$kafka" "${cases[@]}"
sql -d compare -v id=100 -f "$here/rows.sql"
sql -d compare -f "$here/stream.sql"
sql -d compare -c "insert into s.defaults (id, b) values (999999, 'the end')"
compare diff "$kafka" '"the end"' "${cases[@]}" | tee "$run/debezium.md"
