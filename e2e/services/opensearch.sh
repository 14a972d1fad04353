#!/bin/bash
# OpenSearch as a process of its own: one node, loopback only, no security plugin.
#
#   opensearch.sh install             the jars and the compiled launcher, into .run/opensearch-lib
#   opensearch.sh start PORT DIR      starts it, waits until it answers, prints its address
#   opensearch.sh stop DIR
#   opensearch.sh status DIR
#
# It needs a JDK 17 and Maven (see install.sh) and runs as the user weir-search.
# HEAP sets the heap of the server in MB (default 640).

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/opensearch" && pwd)
lib=$(run_dir)/opensearch-lib
user=weir-search

# jdk prints the folder of a JDK 17. A newer Java can't run OpenSearch 2.
jdk() {
  local home
  for home in /usr/lib/jvm/java-17-openjdk-* ${JAVA_HOME:+"$JAVA_HOME"}; do
    if [ -x "$home/bin/javac" ] && "$home/bin/javac" -version 2>&1 | grep -q ' 17\.'; then
      echo "$home"
      return
    fi
  done
  die "no JDK 17 found; run e2e/services/install.sh, or apt-get install openjdk-17-jdk-headless"
}

install() {
  local java stamp
  java=$(jdk)
  stamp=$(cat "$here/pom.xml" "$here/Launcher.java" | sha256sum | cut -d' ' -f1)
  [ "$(cat "$lib/stamp" 2>/dev/null)" = "$stamp" ] && return
  rm -rf "$lib.new"
  mkdir -p "$lib.new/classes"
  if ! JAVA_HOME=$java mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies \
    -DoutputDirectory="$lib.new/jars" >"$lib.log" 2>&1; then
    tail -n 20 "$lib.log" >&2
    die "could not get OpenSearch's jars by Maven"
  fi
  "$java/bin/javac" -proc:none -cp "$lib.new/jars/*" -d "$lib.new/classes" "$here/Launcher.java"
  echo "$stamp" >"$lib.new/stamp"
  chmod -R a+rX "$lib.new"
  rm -rf "$lib"
  mv "$lib.new" "$lib"
}

start() {
  local port=$1 dir=$2 heap=${HEAP:-640}
  if alive "$dir"; then
    echo "http://127.0.0.1:$port"
    return
  fi
  refuse_taken "$port" opensearch
  install
  ensure_user "$user"
  mkdir -p "$dir/home/config" "$dir/home/logs" "$dir/home/data" "$dir/tmp"
  chown -R "$user" "$dir/home" "$dir/tmp"
  launch "$dir" "$user" "$(jdk)/bin/java" "-Xms${heap}m" "-Xmx${heap}m" -XX:+UseSerialGC \
    -Djava.io.tmpdir="$dir/tmp" -Djava.security.egd=file:/dev/urandom -Dlog4j2.disable.jmx=true \
    -Dopensearch.networkaddress.cache.ttl=60 \
    -cp "$lib/classes:$lib/jars/*" Launcher "$port" "$((port + 1))" "$dir/home"
  await opensearch 120 "$dir" curl -fsS -m 5 \
    "http://127.0.0.1:$port/_cluster/health?wait_for_status=yellow&timeout=1s"
  echo "http://127.0.0.1:$port"
}

case "${1:-}" in
  install) install ;;
  start) start "$2" "$3" ;;
  stop) halt opensearch "$2" 30 ;;
  status) alive "$2" && echo running || { echo stopped; exit 1; } ;;
  *) die "usage: opensearch.sh install | start PORT DIR | stop DIR | status DIR" ;;
esac
