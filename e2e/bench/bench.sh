#!/bin/bash
# Builds the benchmark and runs it; it starts what it needs and ends what it has started.
#
#   bench.sh limits|peers|report [SCENARIO…]
#
# BENCH_SECONDS is the length of one run of one side (20), BENCH_ROUNDS the rounds (3);
# RESUME=1 leaves what is complete, PROFILE=1 keeps weir's CPU profiles, WEIR is another binary than
# bin/weir. Results are in BENCH_DIR (.run/bench).

source "$(dirname "${BASH_SOURCE[0]}")/../services/lib.sh"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(repo_root)
dir=${BENCH_DIR:-$(run_dir)/bench}
command=${1:?limits, peers or report}
shift

mkdir -p "$dir/data"
chmod 755 "$dir" "$dir/data"
rm -rf "$dir"/data/run-* # of a run that was killed
cd "$root"
go build -buildvcs=false -o "$dir/bench" ./e2e/bench
# A copy, since a build in the middle of a long run would change what is measured.
[ "$command" = report ] || cp -f "${WEIR:-bin/weir}" "$dir/weir"
flags=(-weir "$dir/weir" -dir "$dir/data" -store "$dir" -peers "$root/e2e/peers" -seconds "${BENCH_SECONDS:-20}" -rounds "${BENCH_ROUNDS:-3}")
[ "${RESUME:-}" != 1 ] || flags+=(-resume)
[ "${PROFILE:-}" != 1 ] || flags+=(-profile)
[ "$command" != report ] || flags+=(-page "$here/RESULTS.md")
"$dir/bench" "${flags[@]}" "$command" "$@"
