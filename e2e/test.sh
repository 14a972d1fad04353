#!/bin/bash
# Everything that `make test` does, and how it closes.
#
#   test.sh         installs, builds once, starts the services once while compiling,
#                   runs unit tests (with the race detector), the linter, scenarios on the real
#                   services, three nodes in network namespaces broken at random for a while, the
#                   checker's own test, and the demo with two kills
#   test.sh unit    the unit tests alone
#   test.sh e2e [RE]   the scenarios on real services, those whose names match
#   test.sh chaos [SECONDS]   three nodes broken at random, by bin/weir as it is
#
# The last line counts tests; the status is not 0 when one failed, when a package
# with tests ran none, or when a package that should have tests has none.

source "$(dirname "${BASH_SOURCE[0]}")/services/lib.sh"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(repo_root)
run=$(run_dir)
dir=$run/test
base=${TEST_PORT:-29190}
pg_port=$((base + 10))
s3_port=$((base + 11))
search_port=$((base + 12))
mysql_port=$((base + 14)) # the search engine has the one behind its own too
mariadb_port=$((base + 15))
passed=0
failed=0
skipped=0
faults=()
cd "$root"

# Packages that have no code of their own worth a test.
untested='^github\.com/weirlog/weir/(cmd/weir|connect/connecttest|plugins/pluginpb|e2e/bench)$'

# go_tests NAME ARGS... runs go test -v and prints one line for each package, and all
# that a failed one has said. It adds to the counts.
go_tests() {
  local name=$1 log=$dir/$1.log counts status=0
  shift
  go test -v "$@" 2>&1 | tee "$log" | awk -v counts="$dir/$name.counts" -v untested="$untested" '
    function flush_block(   i) { for (i = 1; i <= n; i++) print "    " block[i]; n = 0 }
    /^=== (RUN|PAUSE|CONT|NAME)/ { next }
    /^ *--- PASS: / { p++; here++; next }
    /^ *--- SKIP: / { s++; here++; block[++n] = $0; skips[s] = $0; next }
    /^ *--- FAIL: / { f++; here++; block[++n] = $0; next }
    /^PASS$/ { next }
    /^ok  \t/ {
      n = 0
      if (here) printf "ok    %-46s %4d tests  %s\n", $2, here, $3
      else { bad++; printf "FAIL  %s ran no test\n", $2 }
      here = 0; fflush(); next
    }
    /^FAIL\t/ {
      broken++; printf "FAIL  %s\n", $2; flush_block(); here = 0; fflush(); next
    }
    /^\?   \t/ || /\[no test files\]/ {
      if ($0 ~ /^\?/) pkg = $2; else pkg = $1
      n = 0
      if (pkg !~ untested) { bad++; printf "FAIL  %s has no test\n", pkg }
      next
    }
    { if (n < 400) block[++n] = $0 }
    END {
      flush_block()
      for (i = 1; i <= s; i++) print "SKIPPED " skips[i]
      if (broken && !f) f = 1
      print p + 0, f + bad, s + 0 > counts
    }' || status=1
  read -r p f s <"$dir/$name.counts"
  passed=$((passed + p))
  failed=$((failed + f))
  skipped=$((skipped + s))
  if [ "$f" -gt 0 ] || [ "$status" != 0 ]; then
    faults+=("$name (all of its output: $log)")
  fi
}

unit_tests() {
  local packages
  say "unit tests with the race detector"
  mapfile -t packages < <(go list ./... | grep -v '/e2e')
  # A connector's own tests use a real server where there is one.
  [ ! -x "$run/bin/versitygw" ] || export WEIR_TEST_S3=$run/bin/versitygw
  CGO_ENABLED=1 go_tests unit -race -timeout 15m "${packages[@]}"
  # These have one goroutine, so the race detector gets a few runs of them only, and none of their mutations.
  say "simulations of clusters"
  go_tests simulations -timeout 15m -run 'Cluster|Mutations' ./core/coretest ./core/meta
}

# services_up starts the services that all scenarios share.
services_up() {
  "$here/services/postgres.sh" start "$pg_port" "$dir/postgres" &&
    "$here/services/s3.sh" start "$s3_port" "$dir/s3" &&
    "$here/services/opensearch.sh" start "$search_port" "$dir/opensearch" &&
    "$here/services/mysql.sh" start "$mysql_port" "$dir/mysql" &&
    "$here/services/mariadb.sh" start "$mariadb_port" "$dir/mariadb"
}

services_down() {
  DEMO_DIR=$dir DEMO_PORT=$base "$here/demo/demo.sh" stop >"$dir/stop.log" 2>&1 || true
  "$here/services/mysql.sh" stop "$dir/mysql" >>"$dir/stop.log" 2>&1 || true
  "$here/services/mariadb.sh" stop "$dir/mariadb" >>"$dir/stop.log" 2>&1 || true
}

# scenarios ARGS... runs those of go test's arguments on the services.
scenarios() {
  say "scenarios on real services"
  WEIR_E2E_BIN=$root/bin/weir WEIR_E2E_POSTGRES=127.0.0.1:$pg_port \
    WEIR_E2E_S3=http://127.0.0.1:$s3_port WEIR_E2E_S3_DIR=$dir/s3/objects \
    WEIR_E2E_SEARCH=http://127.0.0.1:$search_port \
    WEIR_E2E_MYSQL=127.0.0.1:$mysql_port WEIR_E2E_MARIADB=127.0.0.1:$mariadb_port \
    go_tests e2e -count=1 -timeout 15m "$@"
}

# step NAME COMMAND... counts a script as one test.
step() {
  local name=$1 started=$SECONDS
  shift
  say "$name"
  if "$@"; then
    passed=$((passed + 1))
    say "$name: passed ($((SECONDS - started)) s)"
  else
    failed=$((failed + 1))
    faults+=("$name")
    say "$name: FAILED"
  fi
}

# chaos_slice SECONDS breaks three nodes in network namespaces for so long; it counts as one test, a skipped one where namespaces can't be made.
chaos_slice() {
  local status=0 log=$dir/chaos.log
  say "three nodes in network namespaces, broken at random for $1 s"
  CHAOS_DIR=$dir/chaos "$here/chaos/chaos.sh" random "$1" >"$log" 2>&1 || status=$?
  case $status in
    0) passed=$((passed + 1)) && tail -n 1 "$log" ;;
    3) skipped=$((skipped + 1)) && echo "SKIPPED chaos: $(grep 'not run' "$log")" ;;
    *) failed=$((failed + 1)) && faults+=("chaos ($log)") && cat "$log" ;;
  esac
}

# prepare builds the binary, installs what is missing and starts the services.
prepare() {
  local building
  trap services_down EXIT
  mkdir -p bin
  say "building bin/weir, and installing what is missing"
  CGO_ENABLED=0 go build -o bin/weir ./cmd/weir &
  building=$!
  "$here/services/install.sh" test
  services_up >"$dir/services.log" 2>&1 &
  local services=$!
  wait "$building" || die "bin/weir does not build"
  wait "$services" || { cat "$dir/services.log" >&2; die "the services did not start"; }
}

all() {
  prepare
  export WEIR_TEST_MYSQL=127.0.0.1:$mysql_port WEIR_TEST_MARIADB=127.0.0.1:$mariadb_port
  WEIR_TEST_OPENSEARCH=http://127.0.0.1:$search_port unit_tests

  step "format, vet and lint" make -s -C "$root" lint
  scenarios ./e2e ./e2e/chaos
  chaos_slice 20
  step "the checker finds faults" "$here/demo/check_test.sh"
  KILLS=2 DEMO_DIR=$dir DEMO_PORT=$base DEMO_PACKAGES=${DEMO_PACKAGES:-15000} DEMO_SECONDS=${DEMO_SECONDS:-20} \
    step "the demo with two kills" "$here/demo/demo.sh" run
}

closing() {
  local fault
  for fault in "${faults[@]}"; do
    echo "FAILED: $fault"
  done
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" = 0 ] && [ "${#faults[@]}" = 0 ] && [ "$passed" -gt 0 ]
}

mkdir -p "$dir"
started=$SECONDS
case "${1:-}" in
  '') all ;;
  unit) unit_tests ;;
  e2e) prepare && scenarios -run "${2:-.}" ./e2e ;;
  chaos) chaos_slice "${2:-20}" ;;
  *) die "usage: test.sh [unit | e2e [RE] | chaos [SECONDS]]" ;;
esac
say "took $((SECONDS - started)) s"
closing
