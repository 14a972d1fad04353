# Turns `apt-cache dumpavail` into tab-separated files for PostgreSQL's COPY:
#   packages.tsv      one line per package (the first version seen of each name)
#   dependencies.tsv  package, position, the dependency as written
#
#   awk -v out=DIR -v limit=N -v depth=N -f packages.awk
#
# limit 0 takes every package; depth is how many dependencies of each are kept.
# Plain POSIX awk: Debian's default is mawk.

# copy quotes a value for COPY's text format; an absent one is NULL.
function copy(key,    text) {
  if (!(key in field)) return "\\N"
  text = field[key]
  gsub(/\\/, "\\\\", text)
  gsub(/\t/, "\\t", text)
  gsub(/\r/, "\\r", text)
  gsub(/\n/, "\\n", text)
  return text
}

function finish(    line, i, n, parts, dependency, key) {
  if (!("Package" in field) || field["Package"] in seen) return
  if (limit > 0 && count >= limit) return
  seen[field["Package"]] = 1
  count++
  line = copy("Package")
  for (i = 2; i <= columns; i++) line = line "\t" copy(column[i])
  print line > (out "/packages.tsv")
  n = split(field["Depends"], parts, /, */)
  for (i = 1; i <= n && i <= depth; i++) {
    dependency = parts[i]
    gsub(/\\/, "\\\\", dependency)
    gsub(/\n/, " ", dependency)
    gsub(/\t/, " ", dependency)
    if (dependency != "") printf "%s\t%d\t%s\n", copy("Package"), i, dependency > (out "/dependencies.tsv")
  }
}

function reset(    key) {
  for (key in field) delete field[key]
  current = ""
}

BEGIN {
  columns = split("Package Version Source Maintainer Section Priority Essential Multi-Arch " \
    "Installed-Size Size Homepage Tag Description Depends Recommends Suggests Provides " \
    "Conflicts Replaces Breaks Built-Using SHA256 Filename", column, " ")
}

/^$/ { finish(); reset(); next }

/^[ \t]/ {
  if (current != "") field[current] = field[current] "\n" substr($0, 2)
  next
}

{
  colon = index($0, ":")
  current = substr($0, 1, colon - 1)
  value = substr($0, colon + 1)
  sub(/^ +/, "", value)
  field[current] = value
}

END { finish(); close(out "/packages.tsv"); close(out "/dependencies.tsv") }
