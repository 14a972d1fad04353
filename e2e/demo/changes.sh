#!/bin/bash
# Changes rows while the pipeline runs: rounds of updates, deletes, key changes and
# inserts, with pgbench beside them.
#
#   changes.sh HOST PORT DATABASE SECONDS ROUND
#
# ROUND is the number of the first round; a number must not come twice in a database.
# It prints one closing line. PGPASSWORD is the password of postgres.

source "$(dirname "${BASH_SOURCE[0]}")/../services/lib.sh"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PGHOST=$1 PGPORT=$2 PGUSER=postgres PGDATABASE=$3 PGOPTIONS='--client-min-messages=warning'
seconds=$4
first=$5
pgbench=$(command -v pgbench || ls /usr/lib/postgresql/*/bin/pgbench | sort -V | tail -n 1)

log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$pgbench" -n -f "$here/transfer.pgbench" -D accounts="${DEMO_ACCOUNTS:-20000}" -c 2 -R "${DEMO_RATE:-100}" -T "$seconds" >"$log" 2>&1 &
bench=$!
round=$((first - 1))
deadline=$((SECONDS + seconds))
while [ "$SECONDS" -lt "$deadline" ]; do
  round=$((round + 1))
  psql -X -q -v ON_ERROR_STOP=1 -v round="$round" -f "$here/changes.sql" >/dev/null
  sleep 0.3
done
wait "$bench" || { tail -n 20 "$log" >&2; die "pgbench failed"; }
say "changed rows in $((round - first + 1)) rounds, and pgbench made $(awk '/transactions actually processed/ {print $NF}' "$log") transactions"
