#!/bin/bash
# Makes a table of the cells of a run: report.sh CELLS EXPECT OUT [TITLE].
#
# CELLS has a line for each try: client, feature, status, note. Where a cell was tried
# twice (written by a client, then looked at by another) the worse one counts. EXPECT
# names those that may fail. Writes OUT.md and OUT.json, prints OUT.md, and ends with
# status 1 when a cell failed that should not have.

set -euo pipefail
cells=$1 expect=$2 out=$3 title=${4:-Interop}

jq -Rn --rawfile expect "$expect" --arg title "$title" --arg date "$(date -u +%Y-%m-%dT%H:%M:%SZ)" '
  def rows: split("\n") | map(select(. != "" and (startswith("#") | not)) | split("\t"));
  ([$expect | rows[] | {key: (.[0] + "\t" + .[1]), value: .[2]}] | from_entries) as $known
  | [inputs | split("\t") | {client: .[0], feature: .[1], status: .[2], note: (.[3] // "")}]
  | group_by([.client, .feature])
  | map((map(select(.status == "fail"))[0] // map(select(.status == "skip"))[0] // .[0])
      | $known[.client + "\t" + .feature] as $reason
      | if .status == "fail" and $reason then .status = "expected" | .reason = $reason
        elif .status == "pass" and $reason then .status = "better" | .reason = $reason else . end)
  | {title: $title, date: $date, cells: .}' <"$cells" >"$out.json"

jq -r '
  def mark: {pass: "✓", fail: "✗", expected: "n/a", skip: "–", better: "✓ (listed as n/a)"}[.status];
  ["produce", "consume", "gzip", "snappy", "lz4", "zstd", "group", "members", "admin", "delete-records", "idempotent",
   "headers", "times", "transactions", "kip-848"] as $features
  | .cells as $cells
  | ([$cells[] | select(.feature == "produce") | .client] | unique) as $clients
  | "# \(.title)\n\n\(.date). ✓ passes, ✗ fails, n/a is not expected yet, – was not run, blank is not tried.\n",
    "| client | \($features | join(" | ")) |", "|---|\($features | map(":-:") | join("|"))|",
    ($clients[] as $c | "| \($c) | " + ([$features[] as $f | ($cells | map(select(.client == $c and .feature == $f)) | if . == [] then "" else .[0] | mark end)] | join(" | ")) + " |"),
    "\n| program | what | result |\n|---|---|:-:|",
    ($cells[] | select([.client] | inside($clients) | not) | "| \(.client) | \(.feature) | \(mark) |"),
    "\n",
    ($cells[] | select(.status != "pass") | "- \(.client), \(.feature): \(.status). \(.reason // .note)\(if .reason and .note != "" then " — " + .note else "" end)"),
    "\n\([$cells[] | select(.status == "pass" or .status == "better")] | length) passed, \([$cells[] | select(.status == "fail")] | length) failed, \([$cells[] | select(.status == "skip" or .status == "expected")] | length) skipped"
' "$out.json" >"$out.md"
cat "$out.md"
jq -e '[.cells[] | select(.status == "fail")] == [] and (.cells | length > 0)' "$out.json" >/dev/null
