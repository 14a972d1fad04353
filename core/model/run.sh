#!/bin/bash
# Checks the models beside it by spin: each as it is, then each with one rule broken, which must be found. `make model` calls it.
#
#   run.sh            everything, two at a time, in less than two minutes on a quiet machine
#   run.sh trace FILE.pml -DMUT_X...    the steps to the first fault
#
# A line of the lists is a file and its bounds; the files tell what they mean. MODEL_SECONDS (15) is for the random walk through what is too large.

source "$(dirname "${BASH_SOURCE[0]}")/../../e2e/services/lib.sh"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# Sound: searched whole.
sound=(
  'handover.pml'
  'replication.pml -DN=3 -DATONCE -DL=1 -DV=1 -DE=2 -DC=1 -DF=0'
  'replication.pml -DN=2 -DL=2 -DV=2 -DE=3 -DC=2 -DF=1'
  'replication.pml -DN=2 -DLATE -DL=1 -DV=1 -DE=4 -DC=2 -DF=1'
)

# Too large to be searched whole: random walks, as far as they come.
large='replication.pml -DN=3 -DLATE -DL=2 -DV=3 -DE=4 -DC=2 -DF=2'

broken=(
  'handover.pml -DMUT_ACK_EARLY'
  'handover.pml -DMUT_SKIP_DIRECT_SYNC'
  'handover.pml -DMUT_TRUST_DIRECT'
  'handover.pml -DMUT_CAPTURE_UNSYNCED'
  'handover.pml -DMUT_COVER_LATER'
  'handover.pml -DMUT_SKIP_SEGMENT_SYNC'
  'handover.pml -DMUT_RECYCLE_EARLY'
  'handover.pml -DMUT_ANY_GENERATION'
  'handover.pml -DMUT_SAME_GENERATION'
  'handover.pml -DMUT_SKIP_SETTLE_SYNC'
  'replication.pml -DN=2 -DMUT_ACK_AT_END'
  'replication.pml -DN=2 -DMUT_COUNT_ENDS'
  'replication.pml -DN=2 -DMUT_SERVE_AT_END'
  'replication.pml -DN=2 -DMUT_SKIP_DIVERGENCE'
  'replication.pml -DN=2 -DMUT_CUT_TO_HW'
  'replication.pml -DN=2 -DMUT_FORGET_EPOCH'
  'replication.pml -DN=2 -DMUT_UNCLEAN'
  'replication.pml -DN=2 -DMUT_JOIN_EARLY'
  'replication.pml -DN=2 -DMUT_TRUST_OLD_ISR'
  'replication.pml -DN=2 -DMUT_WITHDRAW'
  'replication.pml -DN=2 -DMUT_IGNORE_PARTITION_EPOCH'
  'replication.pml -DN=2 -DMUT_KEEP_OS'
  'replication.pml -DN=3 -DATONCE -DL=1 -DV=1 -DE=3 -DC=0 -DF=0 -DMUT_JOIN_BELOW_START'
)

install_spin() {
  local pair packages=()
  for pair in spin=spin gcc=gcc; do command -v "${pair%%=*}" >/dev/null || packages+=("${pair#*=}"); done
  [ -e /usr/include/stdlib.h ] || packages+=(libc6-dev)
  [ "${#packages[@]}" -gt 0 ] || return 0
  [ "$(id -u)" = 0 ] || die "needs root to install: ${packages[*]}"
  say "installing ${packages[*]}"
  apt-get update -qq >"$dir/apt.log" 2>&1 &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${packages[@]}" >>"$dir/apt.log" 2>&1 ||
    { tail -n 20 "$dir/apt.log" >&2; die "apt-get failed"; }
}

# compile WHERE GCC-FLAGS FILE BOUNDS... makes WHERE/pan.
compile() {
  local where=$1 flags=$2 file=$3
  shift 3
  mkdir -p "$where"
  cd "$where"
  # shellcheck disable=SC2086
  { spin "$@" -a "$here/$file" && gcc -O1 -DSAFETY -DMEMLIM=6000 $flags -o pan pan.c; } >compile.log 2>&1 ||
    { cat compile.log >&2; die "$file $*: does not compile"; }
}

# verdict FILE prints the number of faults and of states that a search has written, or fails: a search that ended early says nothing.
verdict() {
  awk '/, errors: / { e = $NF } /states, stored/ { s = $1 } /max search depth too small|out of memory|memory limit/ { bad = 1 }
    END { if (e == "" || bad) exit 1; printf "%d %.0f\n", e, s }' "$1"
}

# search sound|broken NAME FILE BOUNDS... checks one line; its say goes to standard error, its status is the finding.
search() {
  local want=$1 where=$dir/$2 began=$SECONDS faults states
  shift 2
  (compile "$where" -DCOLLAPSE "$@")
  (cd "$where" && ./pan -E -m200000 -w24 >pan.out 2>&1) || true
  read -r faults states < <(verdict "$where/pan.out") || { tail -n 20 "$where/pan.out" >&2; say "FAILED: $*: the search ended early"; return 1; }
  case "$want$faults" in
    sound0) say "sound: $* ($states states, $((SECONDS - began)) s)" ;;
    sound*) say "FAILED: $*: $(grep -m1 violated "$where/pan.out")"; return 1 ;;
    broken0) say "FAILED: $*: the broken rule was not found in $states states"; return 1 ;;
    broken*) say "found: $* ($states states, $((SECONDS - began)) s)" ;;
  esac
}

# walk seeds random searches of what is too large, for so many seconds.
walk() {
  local where=$dir/walk seconds=${MODEL_SECONDS:-15} seed began states=0 n=0 faults got
  # shellcheck disable=SC2086
  (compile "$where" "-DBITSTATE -DRANDOMIZE=1 -DP_RAND -DT_RAND" $large)
  cd "$where"
  began=$SECONDS
  while [ $((SECONDS - began)) -lt "$seconds" ]; do
    seed=$((RANDOM * 32768 + RANDOM))
    timeout -s INT "$seconds" ./pan -E -m4000 -w26 "-RS$seed" "-Q0.1" >pan.out 2>&1 || true
    faults=$(awk '/, errors: / { print $NF }' pan.out)
    got=$(awk '/states, stored/ { printf "%.0f", $1 }' pan.out)
    [ "${faults:-0}" = 0 ] || { say "FAILED: $large, seed $seed: $(grep -m1 violated pan.out)"; return 1; }
    states=$((states + ${got:-0}))
    n=$((n + 1))
  done
  [ "$states" -gt 0 ] || { tail -n 20 pan.out >&2; say "FAILED: the random walks saw nothing"; return 1; }
  say "sound as far as seen: $large ($n random walks, $states states, $((SECONDS - began)) s)"
}

# all runs every line, two at a time.
all() {
  local line i=0 failed=0 jobs=()
  for line in "${sound[@]/#/sound }" walk "${broken[@]/#/broken }"; do
    i=$((i + 1))
    # shellcheck disable=SC2086
    if [ "$line" = walk ]; then walk & else set -- $line; search "$1" "$i" "${@:2}" & fi
    jobs+=($!)
    while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n || failed=$((failed + 1)); done
  done
  for i in "${jobs[@]}"; do wait "$i" || faults+=("$i"); done
  echo "${#jobs[@]} runs, $((${#faults[@]})) failed"
  [ "${#faults[@]}" = 0 ]
}

dir=$(run_dir)/model
rm -rf "$dir"
mkdir -p "$dir"
faults=()
install_spin
case "${1:-}" in
  '') all ;;
  trace)
    (compile "$dir/trace" "-DREACH" "${@:2}")
    cd "$dir/trace"
    ./pan -E -m200000 -i >pan.out 2>&1 || true
    spin -t -p -g "${@:3}" "$here/$2" | tail -n 200
    ;;
  *) die "usage: run.sh [trace FILE BOUNDS...]" ;;
esac
