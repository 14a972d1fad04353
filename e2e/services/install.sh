#!/bin/bash
# Installs what the tests and the demo need on a Debian machine that has Go, make
# and root: Debian's packages first, then the S3 server and OpenSearch beside each
# other. What is there already is left as it is, and a second run takes a second.
#
#   install.sh [demo|test]      test adds MySQL, MariaDB and the C compiler of the race detector

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
what=${1:-demo}

# program=package pairs: the package is installed when the program is missing.
wanted=(curl=curl jq=jq kcat=kcat mvn=maven)
[ "$what" = test ] && wanted+=(gcc=gcc debootstrap=debootstrap mariadbd=mariadb-server-core mariadb-binlog=mariadb-client sysbench=sysbench ip=iproute2)

missing() {
  local pair
  for pair in "${wanted[@]}"; do
    command -v "${pair%%=*}" >/dev/null || echo "${pair#*=}"
  done
  ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || echo postgresql
  command -v pgbench >/dev/null || ls /usr/lib/postgresql/*/bin/pgbench >/dev/null 2>&1 || echo postgresql-contrib
  ls -d /usr/lib/jvm/java-17-openjdk-*/bin/javac >/dev/null 2>&1 || echo openjdk-17-jdk-headless
  # The C library's headers, without which gcc alone can't link a race build.
  [ "$what" != test ] || [ -e /usr/include/stdlib.h ] || echo libc6-dev
}

# index_fresh says whether apt knows packages at all; the demo's data is that index.
index_fresh() { [ "$(apt-cache stats 2>/dev/null | awk '/Normal packages/ {print $3; exit}')" -gt 1000 ] 2>/dev/null; }

install_packages() {
  local packages
  mapfile -t packages < <(missing)
  if [ "${#packages[@]}" -gt 0 ] || ! index_fresh; then
    [ "$(id -u)" = 0 ] || die "needs root to install: ${packages[*]:-the package index}"
    say "apt-get update"
    apt-get update -qq >"$run/apt.log" 2>&1 || { tail -n 20 "$run/apt.log" >&2; die "apt-get update failed"; }
  fi
  [ "${#packages[@]}" -gt 0 ] || return 0
  say "installing ${packages[*]}"
  # Debian would start a server on port 5432 with the package; ours is started by
  # postgres.sh only. Where PostgreSQL is installed already nothing is changed.
  if printf '%s\n' "${packages[@]}" | grep -qx postgresql && [ ! -e /etc/postgresql-common/createcluster.conf ]; then
    mkdir -p /etc/postgresql-common
    echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
  fi
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
    -o Dpkg::Options::=--force-confold "${packages[@]}" >>"$run/apt.log" 2>&1 ||
    { tail -n 30 "$run/apt.log" >&2; die "apt-get install failed"; }
}

run=$(run_dir)
started=$SECONDS
"$here/s3.sh" install &
s3=$!
install_packages
"$here/opensearch.sh" install &
search=$!
mysql=
[ "$what" != test ] || { "$here/mysql.sh" install & mysql=$!; }
wait "$s3" || die "the S3 server could not be installed"
wait "$search" || die "OpenSearch could not be installed"
[ -z "$mysql" ] || wait "$mysql" || die "MySQL could not be installed"
say "everything is installed ($((SECONDS - started)) s)"
