#!/bin/bash
# Starts PostgreSQL for the benchmark, runs it, and ends what was started.

source "$(dirname "${BASH_SOURCE[0]}")/../services/lib.sh"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(repo_root)
dir=$(run_dir)/bench
port=${BENCH_PORT:-29390}

mkdir -p "$dir"
trap '"$here/../services/postgres.sh" stop "$dir/postgres"' EXIT
"$here/../services/postgres.sh" start "$port" "$dir/postgres" >/dev/null
uname -srm
awk -F ': ' '/^model name/ { print $2; exit }' /proc/cpuinfo
cd "$root"
go run ./e2e/bench -weir bin/weir -dir "$dir/data" -pg "127.0.0.1:$port" "$@"
