#!/bin/bash
# Makes the demo's database: Debian's package index in several tables, and
# pgbench's. An existing database of that name is dropped first.
#
#   load.sh HOST PORT DATABASE
#
# DEMO_PACKAGES limits the number of packages (0: all), DEMO_DEPTH the number of
# dependencies kept of each (2), DEMO_ACCOUNTS pgbench's accounts (20000).
# PGPASSWORD is the password of postgres.

source "$(dirname "${BASH_SOURCE[0]}")/../services/lib.sh"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PGHOST=$1 PGPORT=$2 PGUSER=postgres PGOPTIONS='--client-min-messages=warning'
database=$3
accounts=${DEMO_ACCOUNTS:-20000}

sql() { psql -X -q -v ON_ERROR_STOP=1 "$@"; }

stage() {
  local dir=$1
  apt-cache dumpavail |
    LC_ALL=C awk -v out="$dir" -v limit="${DEMO_PACKAGES:-0}" -v depth="${DEMO_DEPTH:-2}" -f "$here/packages.awk"
  [ -s "$dir/packages.tsv" ] || die "apt-cache dumpavail listed no package; run apt-get update"
  touch "$dir/dependencies.tsv"
  sql -d "$database" <<SQL
CREATE SCHEMA staging;
CREATE UNLOGGED TABLE staging.packages (package text, version text, source text, maintainer text, section text,
  priority text, essential text, multi_arch text, installed_size text, size text, homepage text, tag text,
  description text, depends text, recommends text, suggests text, provides text, conflicts text, replaces text,
  breaks text, built_using text, sha256 text, filename text);
CREATE UNLOGGED TABLE staging.dependencies (package text, position smallint, written text);
\copy staging.packages FROM '$dir/packages.tsv'
\copy staging.dependencies FROM '$dir/dependencies.tsv'
SQL
}

# pgbench's own tables, cut down to the size of a demo; history gets a key so that
# its rows can be told apart.
bench_tables() {
  pgbench_program -i -s 1 -q "$database" >"$1/pgbench.log" 2>&1 || { cat "$1/pgbench.log" >&2; die "pgbench -i failed"; }
  sql -d "$database" <<SQL
DELETE FROM pgbench_accounts WHERE aid > $accounts;
ALTER TABLE pgbench_history ADD COLUMN id bigserial PRIMARY KEY;
VACUUM FULL pgbench_accounts;
SQL
}

pgbench_program() {
  if command -v pgbench >/dev/null; then
    pgbench "$@"
  else
    "$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)/pgbench" "$@"
  fi
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
sql -d postgres -c "DROP DATABASE IF EXISTS $database WITH (FORCE)"
sql -d postgres -c "CREATE DATABASE $database"
stage "$dir"
sql -d "$database" -1 -f "$here/schema.sql"
bench_tables "$dir"
sql -d "$database" -At -F ' ' -c "ANALYZE" -c "
  SELECT 'loaded', schemaname || '.' || relname, n_live_tup, 'rows' FROM pg_stat_user_tables ORDER BY 2" >&2
