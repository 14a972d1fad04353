-- For each captured table one line: its name, "keyed" or "set", the SELECT that
-- gives its rows in canonical form, and jq programs that give the same form of an
-- event's row and of its key. Tab-separated.
--
-- The canonical form of a row is a JSON array: the number of columns, then the
-- values in the table's order, each written as the connector's default (decimals
-- as strings) writes it. Fractions of a timestamptz always have six digits.
WITH columns AS (
  SELECT c.oid, n.nspname, c.relname, a.attname, a.attnum, a.atttypid::regtype::text AS type,
         array_position(i.indkey::smallint[], a.attnum) AS key_position
  FROM pg_class AS c
  JOIN pg_namespace AS n ON n.oid = c.relnamespace
  JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_index AS i ON i.indrelid = c.oid AND i.indisprimary
  WHERE c.relkind = 'r' AND n.nspname || '.' || c.relname ~ :'tables'
), forms AS (
  SELECT *,
    CASE type
      WHEN 'date' THEN format('%I - date %L', attname, '1970-01-01')
      WHEN 'timestamp without time zone' THEN format('(extract(epoch FROM %I) * 1000000)::bigint', attname)
      WHEN 'time without time zone' THEN format('(extract(epoch FROM %I) * 1000000)::bigint', attname)
      WHEN 'timestamp with time zone'
        THEN format('to_char(%I AT TIME ZONE %L, %L)', attname, 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
      WHEN 'numeric' THEN format('%I::text', attname)
      WHEN 'uuid' THEN format('%I::text', attname)
      WHEN 'jsonb' THEN format('%I::text', attname)
      WHEN 'json' THEN format('%I::text', attname)
      WHEN 'bytea' THEN format('replace(encode(%I, %L), E''\n'', %L)', attname, 'base64', '')
      ELSE format('%I', attname)
    END AS in_sql,
    CASE type WHEN 'timestamp with time zone' THEN format('(.[%s]|micros)', to_json(attname)) ELSE format('.[%s]', to_json(attname)) END AS in_jq
  FROM columns
)
SELECT nspname || '.' || relname,
       CASE WHEN bool_or(key_position IS NOT NULL) THEN 'keyed' ELSE 'set' END,
       format('SELECT json_build_array(%s, %s) FROM %I.%I', count(*), string_agg(in_sql, ', ' ORDER BY attnum), nspname, relname),
       format('[length, %s]', string_agg(in_jq, ', ' ORDER BY attnum)),
       coalesce(format('[%s]', string_agg(in_jq, ', ' ORDER BY key_position) FILTER (WHERE key_position IS NOT NULL)), 'null')
FROM forms
GROUP BY nspname, relname
ORDER BY 1;
