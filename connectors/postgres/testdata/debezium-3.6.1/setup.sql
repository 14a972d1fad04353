CREATE TYPE mood AS ENUM ('sad','ok'); CREATE DOMAIN price AS numeric(10,2); CREATE EXTENSION hstore; CREATE EXTENSION citext; CREATE EXTENSION ltree;
CREATE TABLE t (id int PRIMARY KEY, b bool, i2 smallint, i8 bigint, o oid, f4 real, f8 float8, f8b float8, n numeric(10,2), n38 numeric(38,0), vn numeric, vn2 numeric, mo money, tx text, vc varchar(10), ch char(5), ct citext, lt ltree,
by bytea, js json, jb jsonb, x xml, u uuid, ip inet, ci cidr, ma macaddr, r4 int4range, tv tsvector, md mood, pr price, b1 bit(1), b10 bit(10), vb varbit, pt point, hs hstore,
d date, d2 date, d3 date, t0 time, t3 time(3), ttz timetz, ts timestamp, ts3 timestamp(3), ts0 timestamp(0), tinf timestamp, tz timestamptz, tz3 timestamptz(3), tzs timestamptz, tzinf timestamptz, tzbc timestamptz, iv interval, iv2 interval,
ia int[], ta text[], na numeric(6,2)[], ba bool[], fa float8[], tza timestamptz[], da date[], ua uuid[], ja jsonb[], bya bytea[], ma2 mood[], ia2 int[],
df text DEFAULT 'it''s', dn int NOT NULL DEFAULT 5, dts timestamptz DEFAULT now());
CREATE TABLE dd (id int PRIMARY KEY, n int NOT NULL, s text NOT NULL, v text, ts timestamptz NOT NULL DEFAULT '2020-01-01 00:00:00+00', dt date NOT NULL DEFAULT '2020-01-01', nm numeric(10,2) NOT NULL DEFAULT 1.5);
CREATE TABLE nk (v text);
CREATE TABLE ful (id int PRIMARY KEY, v text); ALTER TABLE ful REPLICA IDENTITY FULL;
