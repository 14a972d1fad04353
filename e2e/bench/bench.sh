#!/bin/bash
# Builds the benchmark, starts PostgreSQL when a scenario wants it, runs, and ends what was started.
#
#   bench.sh limits|peers|report [SCENARIO…]
#
# BENCH_SECONDS is the length of one run of one side (20), BENCH_ROUNDS the rounds (3), BENCH_PORT the
# port of PostgreSQL; RESUME=1 leaves what is complete, PROFILE=1 keeps weir's CPU profiles. Results
# are in .run/bench.

source "$(dirname "${BASH_SOURCE[0]}")/../services/lib.sh"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(repo_root)
dir=$(run_dir)/bench
port=${BENCH_PORT:-29390}
command=${1:?limits, peers or report}
shift

# wants_postgres SCENARIO… says whether one of them reads a database.
wants_postgres() {
  local name
  [ $# -gt 0 ] || return 0
  for name in "$@"; do case "$name" in postgres | all) return 0 ;; esac done
  return 1
}

mkdir -p "$dir/data"
chmod 755 "$dir" "$dir/data"
rm -rf "$dir"/data/run-* # of a run that was killed
cd "$root"
go build -buildvcs=false -o "$dir/bench" ./e2e/bench
# A copy, since a build in the middle of a long run would change what is measured.
[ "$command" = report ] || cp -f bin/weir "$dir/weir"
flags=(-weir "$dir/weir" -dir "$dir/data" -store "$dir" -peers "$root/e2e/peers" -seconds "${BENCH_SECONDS:-20}" -rounds "${BENCH_ROUNDS:-3}")
[ "${RESUME:-}" != 1 ] || flags+=(-resume)
[ "${PROFILE:-}" != 1 ] || flags+=(-profile)
[ "$command" != report ] || flags+=(-page "$here/RESULTS.md")
if [ "$command" != report ] && wants_postgres "$@"; then
  trap '"$here/../services/postgres.sh" stop "$dir/postgres"' EXIT
  "$here/../services/postgres.sh" start "$port" "$dir/postgres" >/dev/null
  flags+=(-pg "127.0.0.1:$port")
fi
"$dir/bench" "${flags[@]}" "$command" "$@"
