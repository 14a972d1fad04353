create extension if not exists hstore;
create schema s;
create type s.mood as enum ('sad', 'it''s ok', 'happy');
create domain s.price as numeric(12, 2) check (value >= 0);
create type s.pair as (a int, b text);
create table s.types (
  id int primary key, b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric, n0 numeric(10, 0), n2 numeric(12, 3),
  m money, c char(5), vc varchar(20), t text, ba bytea, bi bit(1), bi5 bit(5), vb varbit(10), d date, ti time, ti0 time(0), ti3 time(3), tz timetz,
  ts timestamp, ts0 timestamp(0), ts3 timestamp(3), tstz timestamptz, iv interval, u uuid, j json, jb jsonb, x xml, h hstore, e s.mood,
  dom s.price, ip inet, cd cidr, mac macaddr, mac8 macaddr8, pt point, ln line, r int4range, nr numrange, tr tsrange, tzr tstzrange, dr daterange,
  ia int[], ta text[], na numeric(6, 2)[], da date[], tsa timestamptz[], ea s.mood[], ua uuid[], oi oid, tsv tsvector, co s.pair
);
create table s.defaults (
  id serial primary key, a int not null default 7, b text default 'plain', c timestamp default now(), d numeric(5, 2) not null default 1.50,
  e s.mood not null default 'sad', f date not null default '2020-02-29', g bool not null default true
);
create table s.toast (id int primary key, small int, big text, other text);
alter table s.toast alter column big set storage external, alter column other set storage external;
create table s.toast_full (id int primary key, small int, big text);
alter table s.toast_full alter column big set storage external;
alter table s.toast_full replica identity full;
create table s.keyless (a int, b text);
alter table s.keyless replica identity full;
create table s.composite (a int, b text, c text, primary key (b, a));
create table s.by_index (a int not null, b int not null, c text);
create unique index by_index_ab on s.by_index (a, b);
alter table s.by_index replica identity using index by_index_ab;
create table s.parted (id int, region text, v text, primary key (id, region)) partition by list (region);
create table s.parted_eu partition of s.parted for values in ('eu');
create table s.parted_us partition of s.parted for values in ('us');
create table s."Mixed Case" ("Id" int primary key, "a col" text, "ünï" text, "1st" int);
create table s.secret (id int primary key, pin text, mail text, note text, gone text);
create table s.generated (id int primary key, a int, twice int generated always as (a * 2) stored);
