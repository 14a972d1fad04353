#!/bin/bash
# MariaDB as a process of its own: loopback only, with a row-based binlog.
#
#   mariadb.sh start PORT DIR [OPTION…]    makes the data folder once, starts it, waits, prints its address
#   mariadb.sh sql DIR [DATABASE]          runs the SQL of its standard input
#   mariadb.sh tool NAME ARGS…     one of its programs, such as mariadb-binlog
#   mariadb.sh stop DIR
#   mariadb.sh status DIR
#
# User "weir", password "weir", all rights. It runs as the user weir-mysql.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

user=weir-mysql

make_data() {
  local dir=$1
  rm -rf "$dir/data.new"
  mkdir -p "$dir/data.new"
  chown "$user" "$dir" "$dir/data.new"
  as_user "$user" mariadb-install-db --no-defaults --datadir="$dir/data.new" --auth-root-authentication-method=normal \
    --skip-test-db >"$dir/init.log" 2>&1 || { tail -n 20 "$dir/init.log" >&2; die "mariadb-install-db failed"; }
  mv "$dir/data.new" "$dir/data"
}

sql() { mariadb --no-defaults --socket="$1/socket" --user=root ${2:+"$2"}; }

start() {
  local port=$1 dir=$2
  shift 2
  if alive "$dir"; then
    echo "127.0.0.1:$port"
    return
  fi
  refuse_taken "$port" mariadb
  command -v mariadbd >/dev/null || die "MariaDB is not installed; run e2e/services/install.sh test"
  ensure_user "$user"
  mkdir -p "$dir"
  [ -d "$dir/data" ] || make_data "$dir"
  launch "$dir" "$user" mariadbd --no-defaults --datadir="$dir/data" --port="$port" --bind-address=127.0.0.1 \
    --socket="$dir/socket" --pid-file="$dir/data/mariadbd.pid" --server-id=1 --log-bin=binlog --binlog-format=ROW \
    --binlog-row-image=FULL --binlog-row-metadata=FULL --skip-log-error \
    --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=2 "$@"
  await mariadb 60 "$dir" sql "$dir" <<<"select 1"
  sql "$dir" <<<"create user if not exists weir@'%' identified by 'weir'; grant all on *.* to weir@'%' with grant option;"
  echo "127.0.0.1:$port"
}

case "${1:-}" in
  start) [ $# -ge 3 ] || die "start needs PORT DIR"; shift; start "$@" ;;
  sql) sql "$2" "${3:-}" ;;
  tool) exec "$2" --no-defaults "${@:3}" ;;
  stop) halt mariadb "$2" 30 ;;
  status) alive "$2" && echo running || { echo stopped; exit 1; } ;;
  *) die "usage: mariadb.sh start PORT DIR [OPTION…] | sql DIR [DATABASE] | tool NAME ARGS… | stop DIR | status DIR" ;;
esac
