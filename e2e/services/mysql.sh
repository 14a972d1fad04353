#!/bin/bash
# The real MySQL as a process of its own: loopback only, with a row-based binlog and GTIDs.
#
#   mysql.sh install                       Debian sid's server in a folder of its own, .run/mysql-root, by debootstrap
#   mysql.sh start PORT DIR [OPTION…]      makes the data folder once, starts it, waits, prints its address
#   mysql.sh sql DIR [DATABASE]            runs the SQL of its standard input
#   mysql.sh tool NAME ARGS…     one of its programs, such as mysqlbinlog
#   mysql.sh stop DIR
#   mysql.sh status DIR
#
# User "weir", password "weir", all rights. Debian stable has no MySQL, so the server
# and its libraries come from sid and run by that folder's own loader, without chroot.
# It runs as the user weir-mysql.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

user=weir-mysql
root=$(run_dir)/mysql-root

# mirror prints the address that apt already uses for Debian.
mirror() {
  sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)\?\([^ ]*\).* main.*/\2/p' \
    /etc/apt/sources.list /etc/apt/sources.list.d/debian*.sources /etc/apt/sources.list.d/debian*.list 2>/dev/null |
    grep -m1 'debian/*$' || true
}

install() { one_at_a_time "$root" install_once; }

install_once() {
  local from
  [ -x "$root/usr/sbin/mysqld" ] && return
  [ "$(id -u)" = 0 ] || die "MySQL needs root to be installed"
  command -v debootstrap >/dev/null || die "debootstrap is not installed; run e2e/services/install.sh test"
  from=$(mirror)
  [ -n "$from" ] || die "apt names no Debian mirror to take MySQL from"
  rm -rf "$root.new"
  say "getting MySQL from Debian sid"
  timeout 500 debootstrap --variant=minbase --include=mysql-server-core,mysql-client-core sid "$root.new" "$from" \
    >"$root.log" 2>&1 || die "debootstrap of sid with MySQL failed: $(tail -n 1 "$root.log")"
  chmod -R a+rX "$root.new/usr" || true
  mv "$root.new" "$root"
}

# program NAME ARGS… runs a program of that folder with its own libraries.
program() {
  local name=$1 libs=$root/usr/lib/x86_64-linux-gnu
  shift
  command=("$libs/ld-linux-x86-64.so.2" --library-path "$libs" "$root/usr/$name" "$@")
}

make_data() {
  local dir=$1
  rm -rf "$dir/data.new"
  chown "$user" "$dir"
  program sbin/mysqld --no-defaults --initialize-insecure --basedir="$root/usr" --datadir="$dir/data.new" --log-error-verbosity=2
  as_user "$user" "${command[@]}" >"$dir/init.log" 2>&1 || { tail -n 20 "$dir/init.log" >&2; die "mysqld --initialize-insecure failed"; }
  mv "$dir/data.new" "$dir/data"
}

sql() {
  program bin/mysql --no-defaults --socket="$1/socket" --user=root ${2:+"$2"}
  "${command[@]}"
}

start() {
  local port=$1 dir=$2
  shift 2
  if alive "$dir"; then
    echo "127.0.0.1:$port"
    return
  fi
  refuse_taken "$port" mysql
  install
  ensure_user "$user"
  mkdir -p "$dir"
  [ -d "$dir/data" ] || make_data "$dir"
  rm -f "$dir/socket.lock" # of a server that was killed: mysqld takes its number for alive until init has reaped it
  program sbin/mysqld --no-defaults --basedir="$root/usr" --datadir="$dir/data" --port="$port" --bind-address=127.0.0.1 \
    --socket="$dir/socket" --pid-file="$dir/data/mysqld.pid" --mysqlx=OFF --secure-file-priv= --server-id=1 \
    --gtid-mode=ON --enforce-gtid-consistency=ON --binlog-row-metadata=FULL \
    --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=2 --sync-binlog=0 "$@"
  launch "$dir" "$user" "${command[@]}"
  await mysql 90 "$dir" sql "$dir" <<<"select 1"
  sql "$dir" <<<"create user if not exists weir@'%' identified by 'weir'; grant all on *.* to weir@'%' with grant option;"
  echo "127.0.0.1:$port"
}

case "${1:-}" in
  install) install ;;
  start) [ $# -ge 3 ] || die "start needs PORT DIR"; shift; start "$@" ;;
  sql) sql "$2" "${3:-}" ;;
  tool) program "bin/$2" --no-defaults "${@:3}" && exec "${command[@]}" ;;
  stop) halt mysql "$2" 60 ;;
  status) alive "$2" && echo running || { echo stopped; exit 1; } ;;
  *) die "usage: mysql.sh install | start PORT DIR [OPTION…] | sql DIR [DATABASE] | tool NAME ARGS… | stop DIR | status DIR" ;;
esac
