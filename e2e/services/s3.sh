#!/bin/bash
# An S3 server as a process of its own: versitygw over a plain folder, loopback only.
#
#   s3.sh install             the server, into .run/bin
#   s3.sh start PORT DIR      starts it, waits until it answers, prints its address
#   s3.sh bucket DIR NAME     makes a bucket
#   s3.sh stop DIR
#   s3.sh status DIR
#
# Bucket B is the folder DIR/objects/B and an object's key its path there, so a
# checker may read what was stored without any S3 client. Access key "weir",
# secret key "weir-secret". It runs as the user weir-s3.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

user=weir-s3
version=v1.8.0
bin=$(run_dir)/bin

install() {
  [ -x "$bin/versitygw" ] && return
  mkdir -p "$bin"
  GOBIN=$bin CGO_ENABLED=0 GOFLAGS=-mod=mod go install "github.com/versity/versitygw/cmd/versitygw@$version" \
    >"$bin/versitygw.log" 2>&1 || {
    tail -n 20 "$bin/versitygw.log" >&2
    die "could not build versitygw"
  }
}

# answers says whether the server speaks HTTP yet: any status will do.
answers() { curl -sS -m 2 -o /dev/null "http://127.0.0.1:$1/"; }

start() {
  local port=$1 dir=$2
  if alive "$dir"; then
    echo "http://127.0.0.1:$port"
    return
  fi
  refuse_taken "$port" s3
  install
  ensure_user "$user"
  mkdir -p "$dir/objects"
  chown "$user" "$dir/objects"
  ROOT_ACCESS_KEY=weir ROOT_SECRET_KEY=weir-secret launch "$dir" "$user" \
    "$bin/versitygw" --port "127.0.0.1:$port" --region us-east-1 posix "$dir/objects"
  await s3 30 "$dir" answers "$port"
  echo "http://127.0.0.1:$port"
}

bucket() {
  mkdir -p "$1/objects/$2"
  chown "$user" "$1/objects/$2"
}

case "${1:-}" in
  install) install ;;
  start) start "$2" "$3" ;;
  bucket) bucket "$2" "$3" ;;
  stop) halt s3 "$2" 10 ;;
  status) alive "$2" && echo running || { echo stopped; exit 1; } ;;
  *) die "usage: s3.sh install | start PORT DIR | bucket DIR NAME | stop DIR | status DIR" ;;
esac
