# Reads a bucket's lines in order, each object's preceded by {"object_ms": its time},
# and writes for each event, tab-separated: key, operation, the row after it, and the
# milliseconds from the source's commit to the object (empty for snapshot rows).
# check.sh puts the table's programs in place of ROW and KEY.
def row: ROW;
def key: KEY;
foreach inputs as $line (null;
  if $line | has("object_ms") then $line.object_ms else . end;
  . as $ms | $line | select(has("object_ms") | not)
  | [ ((.after // .before) | key | tojson),
      .op,
      (if .after == null then "" else .after | row | tojson end),
      (if .op == "r" or $ms == null then "" else $ms - .source.ts_ms | tostring end) ]
  | join("\t"))
