# What the tries in shell share: one line on the standard output for each cell, which
# is client, feature, status (pass, fail or skip) and why, with tabs between. Sourced,
# never run.

source "$(dirname "${BASH_SOURCE[0]}")/../services/lib.sh"

interop=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
peers=$interop/../peers

# report CLIENT FEATURE STATUS WHY...
report() {
  local client=$1 feature=$2 status=$3
  shift 3
  printf '%s\t%s\t%s\t%s\n' "$client" "$feature" "$status" "$(tr -s '[:space:]' ' ' <<<"$*" | sed 's, $,,' | cut -c1-400)"
}

# cell CLIENT FEATURE SECONDS FUNCTION ARGS... runs a function of the calling script in
# a shell of its own. It passes with status 0; status 3 (not run) is a skip; the last
# line that it wrote to its standard error is the reason.
cell() {
  local client=$1 feature=$2 limit=$3 log status=0 pid end
  shift 3
  log=$(mktemp)
  (
    set -e
    trap - EXIT
    "$@"
  ) >/dev/null 2>"$log" </dev/null &
  pid=$!
  end=$((SECONDS + limit))
  while kill -0 "$pid" 2>/dev/null; do
    [ "$SECONDS" -lt "$end" ] || { kill -TERM "$pid" 2>/dev/null || true; break; }
    sleep 0.05
  done
  wait "$pid" 2>/dev/null || status=$?
  cat "$log" >&2
  case $status in
    0) report "$client" "$feature" pass ;;
    3) report "$client" "$feature" skip "$(tail -n 1 "$log")" ;;
    143) report "$client" "$feature" fail "no end after $limit s; $(grep -v '^\s*at ' "$log" | tail -n 1)" ;;
    *) report "$client" "$feature" fail "$(reason "$log")" ;;
  esac
  rm -f "$log"
}

# reason FILE finds the line that says most: a Java cause, an error, or the last one.
reason() {
  grep -m1 -oE 'Caused by: .*' "$1" || grep -m1 -iE 'error|exception|want' "$1" || tail -n 1 "$1"
}

# same GOT WANT WHAT
same() {
  [ "$1" = "$2" ] || { echo "$3: got ${1:0:150}, want ${2:0:150}" >&2; return 1; }
}

count=300
values() { awk -v n="$count" 'BEGIN { for (i = 0; i < n; i++) { s = ""; for (j = 0; j < 20; j++) s = s "value " i " "; print s } }'; }
digest() { sha256sum | cut -d' ' -f1; }
