# Shell functions shared by the service scripts and the demo. Sourced, never run.
#
# Every service lives in one folder of its own under .run/ and is started by
# this repository's scripts only: the folder holds its data, its log and the
# process id of the server. Nothing here touches a service that the machine
# already runs: ports are given by the caller, folders are ours, and only the
# process whose id we wrote down is ever signalled.

set -euo pipefail

say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }

die() {
  printf '%s error: %s\n' "$(date +%H:%M:%S)" "$*" >&2
  exit 1
}

# repo_root prints the folder of the checkout.
repo_root() { cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd; }

# run_dir prints the folder for everything that the scripts make at run time.
# It is .run in the checkout. Servers run under users of their own, so where
# those could not reach the checkout (a clone below /root, say), .run is a link
# to a folder below /var/tmp named after the checkout.
run_dir() {
  local root link target
  root=$(repo_root)
  link=$root/.run
  if [ ! -e "$link" ]; then
    if as_user nobody test -x "$root"; then
      mkdir -p "$link"
    else
      target=/var/tmp/weir-$(printf '%s' "$root" | cksum | cut -d' ' -f1)
      mkdir -p "$target"
      chmod 755 "$target"
      ln -sfn "$target" "$link"
    fi
  fi
  cd "$link" && pwd -P
}

# as_user USER COMMAND... runs a command as another user without a login shell,
# in place when this is already that user.
as_user() {
  local user=$1
  shift
  if [ "$(id -un)" = "$user" ]; then
    "$@"
  elif [ "$(id -u)" = 0 ]; then
    setpriv --reuid="$user" --regid="$(id -gn "$user")" --clear-groups -- "$@"
  else
    die "this needs root, to run $1 as user $user"
  fi
}

# ensure_user NAME makes a system user without a login unless it exists.
ensure_user() {
  id -u "$1" >/dev/null 2>&1 || useradd --system --no-create-home --shell /usr/sbin/nologin "$1"
}

# one_at_a_time FOLDER COMMAND... runs an installation that nobody else runs meanwhile: two
# that fill the same folder leave a broken one. COMMAND must leave no server running,
# which would inherit the lock.
one_at_a_time() {
  local folder=$1 fd
  shift
  mkdir -p "$(dirname "$folder")"
  exec {fd}>"$folder.lock"
  flock "$fd"
  "$@"
  exec {fd}>&-
}

# port_taken PORT says whether something accepts connections there.
port_taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# refuse_taken PORT WHAT stops when the port belongs to someone else.
refuse_taken() {
  if port_taken "$1"; then
    die "port $1 for $2 is already in use; stop what listens there or choose another port"
  fi
}

# alive DIR says whether the server whose id is in DIR/pid still runs. A killed one
# whose parent has not looked yet (a zombie) is dead when its last thread is gone:
# until then it holds its ports and files.
alive() {
  local pid
  pid=$(cat "$1/pid" 2>/dev/null) || return 1
  [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null || return 1
  ! grep -q '^State:[[:space:]]*Z' "/proc/$pid/status" 2>/dev/null ||
    [ "$(ls "/proc/$pid/task" 2>/dev/null | wc -l)" -gt 1 ]
}

# launch DIR USER COMMAND... starts a server in the background, detached from
# the terminal, its output in DIR/log and its process id in DIR/pid.
launch() {
  local dir=$1 user=$2
  shift 2
  : >"$dir/log"
  if [ "$(id -un)" = "$user" ]; then
    setsid "$@" >>"$dir/log" 2>&1 </dev/null &
  else
    setsid setpriv --reuid="$user" --regid="$(id -gn "$user")" --clear-groups -- "$@" >>"$dir/log" 2>&1 </dev/null &
  fi
  echo $! >"$dir/pid"
  disown
}

# await WHAT SECONDS DIR COMMAND... repeats a command until it succeeds. It
# fails with the end of DIR/log when time is up or the server has died.
await() {
  local what=$1 limit=$2 dir=$3 deadline
  shift 3
  deadline=$((SECONDS + limit))
  until "$@" >/dev/null 2>&1; do
    if [ -e "$dir/pid" ] && ! alive "$dir"; then
      tail -n 40 "$dir/log" >&2 || true
      die "$what stopped while starting; its log is $dir/log"
    fi
    if [ "$SECONDS" -ge "$deadline" ]; then
      tail -n 40 "$dir/log" >&2 || true
      die "$what was not ready after $limit s; its log is $dir/log"
    fi
    sleep 0.2
  done
}

# kill_now DIR ends the server of DIR by SIGKILL and returns when it is gone, its
# ports and files with it.
kill_now() {
  kill -KILL "$(cat "$1/pid")" 2>/dev/null || return 1
  while alive "$1"; do sleep 0.02; done
}

# halt WHAT DIR SECONDS ends the server of DIR: TERM, then KILL when it is still
# there after the limit. A folder without a live server is no error.
halt() {
  local what=$1 dir=$2 limit=${3:-20} pid deadline
  if ! alive "$dir"; then
    rm -f "$dir/pid"
    return 0
  fi
  pid=$(cat "$dir/pid")
  deadline=$((SECONDS + limit))
  kill -TERM "$pid" 2>/dev/null || true
  while alive "$dir"; do
    if [ "$SECONDS" -ge "$deadline" ]; then
      say "$what did not stop within $limit s, killing it"
      kill -KILL "$pid" 2>/dev/null || true
      limit=$((limit + 5))
      deadline=$((SECONDS + 5))
    fi
    sleep 0.1
  done
  rm -f "$dir/pid"
}
