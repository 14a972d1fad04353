-- The demo's tables: Debian's package index in relational form, with varied types
-- and foreign keys. Made from the staging tables that load.sh has filled.

CREATE SCHEMA apt;

CREATE TABLE apt.sections (
  id       smallint PRIMARY KEY,
  name     varchar(64) NOT NULL UNIQUE,
  packages integer NOT NULL
);

CREATE TABLE apt.maintainers (
  id    integer PRIMARY KEY,
  name  text NOT NULL,
  email text,
  team  boolean NOT NULL,
  since date NOT NULL
);

CREATE TABLE apt.packages (
  name          text PRIMARY KEY,
  version       varchar(200) NOT NULL,
  source        text,
  maintainer_id integer NOT NULL REFERENCES apt.maintainers,
  section_id    smallint NOT NULL REFERENCES apt.sections,
  priority      char(10) NOT NULL,
  essential     boolean NOT NULL,
  multi_arch    varchar(16),
  installed_kib integer,
  size_bytes    bigint NOT NULL,
  expansion     numeric(14,4),
  weight        real NOT NULL,
  score         double precision NOT NULL,
  homepage      text,
  tags          text[],
  summary       text NOT NULL,
  details       text NOT NULL,
  relations     jsonb NOT NULL,
  sha256        bytea NOT NULL,
  uid           uuid NOT NULL,
  built_on      date NOT NULL,
  built_at      timestamptz NOT NULL,
  checked_at    timestamp,
  daily_at      time NOT NULL
);
-- Long texts are stored out of line; only the full identity makes an update that
-- leaves them alone carry them all the same.
ALTER TABLE apt.packages REPLICA IDENTITY FULL;

CREATE TABLE apt.dependencies (
  package      text NOT NULL REFERENCES apt.packages ON UPDATE CASCADE ON DELETE CASCADE,
  position     smallint NOT NULL,
  target       text NOT NULL,
  version_rule varchar(200),
  alternatives integer NOT NULL,
  PRIMARY KEY (package, position)
);

-- Insert-only and without a key: it goes to the bucket alone, compared as a set.
CREATE TABLE apt.events (
  id      uuid NOT NULL DEFAULT gen_random_uuid(),
  at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  kind    varchar(32) NOT NULL,
  subject text,
  detail  jsonb
);

-- One row per measurement of the way from commit to the index.
CREATE TABLE apt.probes (
  id      bigint PRIMARY KEY,
  sent_at timestamptz NOT NULL
);

INSERT INTO apt.sections
SELECT row_number() OVER (ORDER BY section), section, count(*)
FROM staging.packages GROUP BY section;

INSERT INTO apt.maintainers
SELECT row_number() OVER (ORDER BY maintainer),
       coalesce(nullif(trim(split_part(maintainer, '<', 1)), ''), maintainer),
       nullif(trim(trailing '>' FROM split_part(maintainer, '<', 2)), ''),
       maintainer ~* '(team|group|maintainers|packagers)',
       date '1993-08-16' + abs(hashtext(maintainer)) % 11000
FROM (SELECT DISTINCT maintainer FROM staging.packages) AS m;

INSERT INTO apt.packages
SELECT p.package, p.version, p.source, m.id, s.id, p.priority, p.essential IS NOT NULL AND p.essential = 'yes',
       p.multi_arch, p.installed_size::integer, coalesce(p.size::bigint, 0),
       round(p.installed_size::numeric * 1024 / nullif(p.size::numeric, 0), 4),
       (abs(hashtext(p.package)) % 100000) / 7.0,
       (abs(hashtext(p.version)) % 1000000007) / 1e3,
       p.homepage, string_to_array(regexp_replace(p.tag, E'\\s+', '', 'g'), ','),
       split_part(p.description, E'\n', 1),
       concat_ws(E'\n\n', nullif(substr(p.description, length(split_part(p.description, E'\n', 1)) + 2), ''),
                 'Depends: ' || p.depends, 'Recommends: ' || p.recommends, 'Suggests: ' || p.suggests,
                 'Provides: ' || p.provides, 'Built-Using: ' || p.built_using, 'File: ' || p.filename),
       jsonb_strip_nulls(jsonb_build_object('conflicts', p.conflicts, 'replaces', p.replaces, 'breaks', p.breaks,
                                            'quoted', '"' || p.package || E'"\t\\', 'count', length(p.depends))),
       coalesce(decode(p.sha256, 'hex'), ''), md5(p.package)::uuid,
       date '2015-01-01' + abs(hashtext(p.package)) % 4000,
       timestamptz '2015-01-01 00:00:00+00' + make_interval(secs => (abs(hashtext(p.version)::bigint) % 300000000) / 7.0),
       CASE WHEN p.homepage IS NULL THEN NULL
            ELSE timestamp '1999-12-31 23:59:59.5' + make_interval(secs => abs(hashtext(p.homepage)::bigint) % 800000000) END,
       time '00:00' + make_interval(secs => (abs(hashtext(p.package)::bigint) % 86400) * 0.999999)
FROM staging.packages AS p
JOIN apt.sections AS s ON s.name = p.section
JOIN (SELECT DISTINCT ON (maintainer) maintainer, dense_rank() OVER (ORDER BY maintainer) AS id FROM staging.packages) AS m
  USING (maintainer);

INSERT INTO apt.dependencies
SELECT d.package, d.position, trim(regexp_replace(split_part(d.written, '|', 1), E'[(:].*$', '')),
       substring(d.written FROM E'\\(([^)]*)\\)'),
       array_length(string_to_array(d.written, '|'), 1)
FROM staging.dependencies AS d;

INSERT INTO apt.events (kind, subject, detail)
SELECT 'loaded', name, jsonb_build_object('packages', packages) FROM apt.sections;

DROP SCHEMA staging CASCADE;
