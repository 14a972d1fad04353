#!/bin/bash
# Measures the way from a commit in PostgreSQL to a search that finds the row: one
# row after the other, each looked for every 50 ms. Prints milliseconds, one a line,
# until it is ended by TERM; a row not found within 60 s ends it with an error.
#
#   probe.sh HOST PORT DATABASE INDEX_URL

source "$(dirname "${BASH_SOURCE[0]}")/../services/lib.sh"

export PGHOST=$1 PGPORT=$2 PGUSER=postgres PGDATABASE=$3
index=$4

now() { local t=${EPOCHREALTIME/[.,]/}; echo "${t%???}"; }

found() {
  curl -fsS -m 5 "$index/_count?q=id:$1&ignore_unavailable=true&filter_path=count" 2>/dev/null | grep -q '"count":1'
}

number=0
while :; do
  number=$((number + 1))
  sent=$(psql -X -q -At -c "INSERT INTO apt.probes VALUES ($number, clock_timestamp())
    RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
  until found "$number"; do
    [ $(($(now) - sent)) -lt 60000 ] || die "probe $number was not found in the index within 60 s"
    sleep 0.05
  done
  echo $(($(now) - sent))
  sleep 0.1
done
