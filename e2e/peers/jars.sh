# What the Java peers share: the JDK, the jars that Maven brings and how a class of
# theirs is run. Sourced by the scripts of this folder, never run.
#
# Each subfolder with a pom.xml is one set of jars, kept in .run/peers/lib-NAME. What
# can't be had is told in one line, "not run: why", and ends with status 3, so that
# whoever compares us with a peer can say so instead of counting a win.

source "$(dirname "${BASH_SOURCE[0]}")/../services/lib.sh"

peers=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
peers_run=$(run_dir)/peers
kafka_user=weir-kafka

# not_run WHY... says why a peer isn't there.
not_run() {
  printf 'not run: %s\n' "$*" >&2
  exit 3
}

# jdk prints the folder of a JDK 17 or newer.
jdk() {
  local home
  for home in ${JAVA_HOME:+"$JAVA_HOME"} /usr/lib/jvm/java-17-openjdk-* /usr/lib/jvm/*; do
    if [ -x "$home/bin/javac" ] && [ "$("$home/bin/javac" -version 2>&1 | sed 's/^javac \([0-9]*\).*/\1/')" -ge 17 ]; then
      echo "$home"
      return
    fi
  done
  not_run "no JDK 17 or newer was found; run e2e/services/install.sh"
}

lib_dir() { echo "$peers_run/lib-$1"; }

# get_jars NAME copies the jars of NAME/pom.xml to lib_dir NAME unless they are there.
get_jars() { one_at_a_time "$(lib_dir "$1")" copy_jars "$1"; }

copy_jars() {
  local name=$1 lib stamp java
  lib=$(lib_dir "$name")
  stamp=$(sha256sum <"$peers/$name/pom.xml" | cut -d' ' -f1)
  [ "$(cat "$lib/stamp" 2>/dev/null)" = "$stamp" ] && return
  command -v mvn >/dev/null || not_run "Maven is not installed; run e2e/services/install.sh"
  java=$(jdk)
  mkdir -p "$peers_run"
  rm -rf "$lib.new"
  say "getting the jars of $name by Maven"
  if ! JAVA_HOME=$java timeout 600 mvn -q -B -f "$peers/$name/pom.xml" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$lib.new" >"$lib.log" 2>&1; then
    not_run "Maven could not get the jars of $name: $(grep -m1 -o 'Could not.*' "$lib.log" | sed 's/ in [a-z]* (.*//')"
  fi
  echo "$stamp" >"$lib.new/stamp"
  chmod -R a+rX "$lib.new"
  rm -rf "$lib"
  mv "$lib.new" "$lib"
}

# kafka_java HEAP_MB sets the array java to the command that all Kafka programs share:
# the flags of Kafka's own start scripts, the jars, logs to the standard error stream.
kafka_java() {
  java=("$(jdk)/bin/java" "-Xms$1m" "-Xmx$1m" -server -XX:+UseG1GC -XX:MaxGCPauseMillis=20
    -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true
    "-Dlog4j2.configurationFile=$peers/kafka/log4j2.properties"
    -cp "$(lib_dir kafka)/*${kafka_classpath:+:$kafka_classpath}")
}

# own_folder DIR makes a folder for the user that the Java peers run as.
own_folder() {
  ensure_user "$kafka_user"
  mkdir -p "$1"
  chown "$kafka_user" "$1"
}
