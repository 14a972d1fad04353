#!/bin/bash
# PostgreSQL as a process of its own: a cluster below DIR, loopback only, ready
# for logical decoding.
#
#   postgres.sh start PORT DIR     makes the cluster once, starts it, waits, prints its address
#   postgres.sh stop DIR
#   postgres.sh status DIR
#
# It uses the newest server that Debian's packages installed (see install.sh), or the
# one in the folder PG_BIN, and runs as the user postgres. Superuser postgres, password "weir" (by TCP).

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

user=postgres

# bindir prints the folder of the newest installed server's programs.
bindir() {
  local found
  found=${PG_BIN:-$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)}
  [ -x "$found/initdb" ] || die "no PostgreSQL server found; run e2e/services/install.sh, or apt-get install postgresql"
  echo "$found"
}

make_cluster() {
  local port=$1 dir=$2 bin=$3
  rm -rf "$dir/data.new"
  printf 'weir' >"$dir/password"
  chown "$user" "$dir" "$dir/password"
  as_user "$user" "$bin/initdb" --pgdata="$dir/data.new" --username=postgres --pwfile="$dir/password" \
    --auth-local=trust --auth-host=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8 >"$dir/initdb.log" 2>&1 || {
    tail -n 20 "$dir/initdb.log" >&2
    die "initdb failed"
  }
  rm -f "$dir/password"
  mv "$dir/data.new" "$dir/data"
}

start() {
  local port=$1 dir=$2 bin ready
  if alive "$dir"; then
    echo "127.0.0.1:$port"
    return
  fi
  refuse_taken "$port" postgres
  bin=$(bindir)
  mkdir -p "$dir"
  [ -d "$dir/data" ] || make_cluster "$port" "$dir" "$bin"
  chown "$user" "$dir"
  # A KILL of the whole machine leaves this behind; no live server of ours holds it.
  rm -f "$dir/data/postmaster.pid"
  launch "$dir" "$user" "$bin/postgres" -D "$dir/data" -p "$port" \
    -c listen_addresses=127.0.0.1 -c "unix_socket_directories=$dir" \
    -c wal_level=logical -c max_replication_slots=20 -c max_wal_senders=20 \
    -c max_connections=100 -c shared_buffers=128MB -c max_wal_size=2GB -c log_line_prefix='%m [%p] '
  ready=$bin/pg_isready
  [ -x "$ready" ] || ready=pg_isready
  await postgres 60 "$dir" "$ready" -q -h 127.0.0.1 -p "$port" -d postgres
  echo "127.0.0.1:$port"
}

# stop asks for a fast shutdown (INT): TERM would wait for every client to leave.
stop() {
  local dir=$1
  if alive "$dir"; then
    kill -INT "$(cat "$dir/pid")" 2>/dev/null || true
  fi
  halt postgres "$dir" 30
}

case "${1:-}" in
  start) start "$2" "$3" ;;
  stop) stop "$2" ;;
  status) alive "$2" && echo running || { echo stopped; exit 1; } ;;
  *) die "usage: postgres.sh start PORT DIR | stop DIR | status DIR" ;;
esac
